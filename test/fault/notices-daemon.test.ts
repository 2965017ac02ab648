/**
 * The real daemon and the receivers of its operator: a webhook on loopback, and a program (contract §11).
 */

import { createHmac } from "node:crypto";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import path from "node:path";
import { describe, expect, it } from "vitest";

import { startReceiver } from "../notify/receiver.ts";
import { callShown, waitUntilEnded } from "../support/answers.ts";
import { startDaemonProcess } from "../support/daemon-process.ts";
import { eventually } from "../support/processes.ts";
import { createTempDirectory } from "../support/test-store.ts";

const SECRET = "a secret of sixteen letters or more";
const script = (...steps: readonly object[]): string => JSON.stringify(steps);

/** A program that adds what it is told to a file, a line each. */
function hookIn(folder: string): { readonly command: readonly string[]; lines(): readonly string[] } {
  const program = path.join(folder, "hook.mjs");
  const kept = path.join(folder, "told");
  const source = `
    import { appendFileSync, readFileSync } from "node:fs";
    const { DELEGATE_NOTICE_ID: id, TASKS_HOOK_SECRET: secret = "none" } = process.env;
    appendFileSync(process.argv[2], JSON.stringify({ id, secret, body: readFileSync(0, "utf8") }) + "\\n");
  `;
  writeFileSync(program, source);
  return {
    command: [process.execPath, program, kept],
    lines: () => (existsSync(kept) ? readFileSync(kept, "utf8").trimEnd().split("\n") : []),
  };
}

describe("the receivers of an operator", () => {
  it("are told of a settlement by webhook and program, also after a crash, with nothing of the child's (P17)", async () => {
    using directory = createTempDirectory();
    let status = 503;
    await using receiver = await startReceiver((response) => void response.writeHead(status).end());
    const hook = hookIn(directory.path);
    const notify = [{ webhook: `${receiver.url}/tasks`, secretEnv: "TASKS_HOOK_SECRET" }, { command: hook.command }];
    const options = {
      settings: { DELEGATE_MCP_NOTIFY: JSON.stringify(notify) },
      env: { TASKS_HOOK_SECRET: SECRET },
    };
    await using daemon = await startDaemonProcess(options);
    const client = await daemon.client();
    const work = { clientRequestId: "notices-all-1", title: "zebra title", access: "read", mode: "wait" };
    const { taskId, childThreadId, nodeId } = await callShown(client, "delegate_task", {
      ...work,
      task: script({ print: "zebra result" }),
    });
    await waitUntilEnded(client, taskId);

    await eventually("the program was told", () => hook.lines().length > 0, 10_000);
    await eventually("the webhook was tried", () => receiver.received.length > 0, 10_000);
    await daemon.kill();
    status = 200;
    const tries = receiver.received.length;
    await using second = await daemon.restart();
    await eventually("the webhook was told", () => receiver.received.length > tries, 20_000);

    const data = { taskId, childThreadId, nodeId, settlement: 1, status: "completed", url: second.origin };
    for (const { method, url, headers, body } of receiver.received) {
      expect([method, url]).toEqual(["POST", "/hook/tasks"]);
      expect(JSON.parse(body)).toMatchObject({ type: "task.settled", data });
      const signed = `${headers["webhook-id"]}.${headers["webhook-timestamp"]}.${body}`;
      const signature = createHmac("sha256", SECRET).update(signed).digest("base64");
      expect(headers["webhook-signature"]).toBe(`v1,${signature}`);
      expect(body).not.toContain("zebra");
    }
    expect(new Set(receiver.received.map(({ headers }) => headers["webhook-id"])).size).toBe(1);
    const [told = ""] = hook.lines();
    expect(JSON.parse(told)).toMatchObject({ secret: "none" });
    expect(JSON.parse(JSON.parse(told).body)).toMatchObject({ type: "task.settled", data });
  });
});
