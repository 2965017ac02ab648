/**
 * The operator's list as notifiers, and the checks of the configuration that come before.
 */

import { describe, expect, it } from "vitest";
import { createNotifiers, type NotifyTarget } from "../../src/notify/create-notifiers.ts";
import type { Notifier } from "../../src/ports/notifier.ts";
import { thisProcess } from "../../src/system/this-process.ts";
import { contents, createTestFolder } from "../support/processes.ts";
import { createStepClock } from "../support/step-clock.ts";
import { NOTICE, startReceiver } from "./receiver.ts";

function notifiersOf(
  targets: readonly NotifyTarget[],
  environment: Record<string, string> = {},
  commandEnv: Record<string, string> = {},
): readonly Notifier[] {
  const { killGroup } = thisProcess;
  return createNotifiers({ targets, environment, commandEnv, clock: createStepClock(), killGroup });
}

describe("notifiers", () => {
  // The expected digests come from `sha256sum`.
  it("are there in the order of the list, each with a name of its own that outlives a restart", () => {
    const targets: readonly NotifyTarget[] = [
      { webhook: "https://example.org/hook", secretEnv: "HOOK" },
      { command: ["tell", "me"] },
    ];
    const names = notifiersOf(targets, { HOOK: "0123456789abcdef" }).map(({ name }) => name);
    expect(names).toEqual(["webhook-554ec998", "command-b695b232"]);
  });

  it("are none for an empty list", () => {
    expect(notifiersOf([])).toEqual([]);
  });

  it("sign with the variable that each names, and hand programs theirs alone", async () => {
    using folder = createTestFolder();
    const signatures: unknown[] = [];
    await using receiver = await startReceiver((response, request) => {
      signatures.push(request.headers["webhook-signature"]);
      response.end();
    });
    const file = folder.file("env");
    const targets: readonly NotifyTarget[] = [
      { webhook: receiver.url, secretEnv: "ONE" },
      { webhook: `${receiver.url}2`, secretEnv: "TWO" },
      { command: ["/bin/sh", "-c", `env > ${file}`] },
    ];
    const environment = { ONE: "the first secret ", TWO: "the second secret" };
    for (const notifier of notifiersOf(targets, environment, { PATH: process.env["PATH"] ?? "" })) {
      expect(await notifier.deliver(NOTICE)).toEqual({ kind: "delivered" });
    }
    expect(new Set(signatures).size).toBe(2);
    expect(contents(file)).toContain(`DELEGATE_NOTICE_ID=${NOTICE.id}`);
    expect(contents(file)).not.toContain("secret");
  });

  it("are never made with an empty secret", () => {
    const targets: readonly NotifyTarget[] = [{ webhook: "https://example.org/hook", secretEnv: "HOOK" }];
    expect(() => notifiersOf(targets, { HOOK: "" })).toThrow("HOOK");
    expect(() => notifiersOf(targets)).toThrow("HOOK");
  });
});
