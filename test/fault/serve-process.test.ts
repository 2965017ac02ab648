/**
 * `serve` as a process of its own: found by the other commands, and never with the marks of a child.
 */

import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { command } from "../cli/command-process.ts";
import { until } from "../cli/cli-world.ts";
import { type Scratch, scratch } from "../tooling/scratch.ts";

async function daemonIn(folder: Scratch, env: Readonly<Record<string, string>> = {}) {
  const daemon = command(folder, ["serve", "--port", "0", "--json", "--data-dir", "data"], env);
  for (let round = 0; !daemon.stdout().includes("\n") && round < 4; round++) {
    await until(() => daemon.stdout().includes("\n") || daemon.child.exitCode !== null, "the ready line").catch(
      () => undefined,
    );
  }
  const ready: Record<string, unknown> = JSON.parse(daemon.stdout().split("\n")[0] ?? "");
  return { daemon, ready };
}

describe("serve as a process", () => {
  it("is found by the other commands of the same user, and ends with 0", async () => {
    using folder = scratch();
    const { daemon, ready } = await daemonIn(folder);
    using _daemon = daemon;
    expect(ready).toMatchObject({ event: "ready", pid: daemon.child.pid, contractVersion: 1 });
    using list = command(folder, ["list", "--data-dir", "data", "--json"]);
    expect(await list.ended()).toBe(0);
    expect(JSON.parse(list.stdout())).toMatchObject({ tasks: [] });
    daemon.child.kill("SIGTERM");
    expect(await daemon.ended()).toBe(0);
    using late = command(folder, ["list", "--data-dir", "data"]);
    expect(await late.ended()).toBe(5);
  });

  it.runIf(process.platform === "linux")(
    "runs without the marks of the child that started it, as the same process (P12)",
    async () => {
      using folder = scratch();
      const marks = { DELEGATE_CHILD_MARK: "dm_1.dt_1.a1", DELEGATE_CHILD_TOKEN: "x" };
      const { daemon, ready } = await daemonIn(folder, marks);
      using _daemon = daemon;
      expect(ready["pid"]).toBe(daemon.child.pid);
      expect(readFileSync(`/proc/${daemon.child.pid}/environ`, "utf8")).not.toContain("DELEGATE_CHILD_");
      daemon.child.kill("SIGINT");
      expect(await daemon.ended()).toBe(0);
    },
  );
});
