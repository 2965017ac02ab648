/**
 * The real daemon with the real Codex as its child, which delegates in its turn: by the daemon's own tools alone, though its
 * user has set up a way of theirs; healed after an edge page, gone on with after the daemon was killed.
 */

import path from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";

import { callShown, waitUntilEnded } from "../support/answers.ts";
import { type DaemonProcess, startDaemonProcess } from "../support/daemon-process.ts";
import { INSTALL_TEST_MS, installHarness } from "../support/harness/install.ts";
import { type HarnessExecutable, makeHarness } from "../support/harness.ts";
import { listAt, textAt } from "../support/json.ts";
import { type Models, startModels } from "../support/models.ts";
import { contents, eventually } from "../support/processes.ts";

const TEST_MAX_MS = 120_000;

let models: Models;
beforeAll(async () => {
  models = await startModels();
  await installHarness("codex");
}, INSTALL_TEST_MS);
afterAll(() => models[Symbol.asyncDispose]());

/** A Codex whose user has a server `delegate` of their own, and a daemon that has it as an agent. */
async function startScene(): Promise<{ readonly codex: HarnessExecutable; readonly daemon: DaemonProcess }> {
  const harness = await makeHarness("codex", {
    models: models.url,
    mcp: { url: "http://127.0.0.1:9/mcp", token: "of-the-user" },
  });
  const codex = harness.executable();
  const agents = {
    codex: { driver: "codex", command: codex.command, default: true },
    worker: { driver: "command", command: ["/bin/sh", "-c", "cat > /dev/null; echo the result"] },
  };
  const settings = { DELEGATE_MCP_LIMITS_DEPTH_MAX: "2", DELEGATE_MCP_PERMISSIONS_MAX: "full" };
  return { codex, daemon: await startDaemonProcess({ agents, settings }) };
}

describe("codex as a child of the daemon", () => {
  it(
    "delegates by the tools that it was given, with no secret in its arguments (P2, P16, X2)",
    async () => {
      const scene = await startScene();
      await using daemon = scene.daemon;
      const client = await daemon.client();
      const args = { clientRequestId: "below-codex-1", task: "Do a part.", agent: "worker", access: "read" };
      const plan = {
        id: "codex-delegates",
        server: "delegate_child",
        steps: [
          { mcp: "delegate_task", args },
          { mcp: "task_wait", args: { taskIds: ["$taskId"] }, follow: true, until: "settled", gapMs: 200 },
          { text: "passed on" },
        ],
      };
      const request = { clientRequestId: "codex-top-1", task: `Do it. ${models.add(plan)}`, access: "read" };
      const { taskId } = await callShown(client, "delegate_task", request);
      const ended = await waitUntilEnded(client, taskId);
      expect(ended, ended.say).toMatchObject({ status: "completed", text: "passed on" });
      const { shown, tools } = models.seen(plan.id);
      expect(shown.at(-1)).toContain("the result");
      expect(tools).toContain("mcp__delegate_child.delegate_task");
      expect(tools.filter((name) => name.startsWith("mcp__delegate."))).toEqual([]);
      const below = await callShown(client, "task_list", { parentTaskId: taskId });
      expect(listAt(below.raw, "tasks").map((task) => textAt(task, "agent"))).toEqual(["worker"]);
      expect(scene.codex.starts().map((start) => start.args)).toEqual(["app-server"]);
    },
    TEST_MAX_MS,
  );

  it(
    "is one task with one thread though its provider blocks it and the daemon is killed, and repeats nothing (W1, P3, P6, P14, F11)",
    async () => {
      const { daemon: first, codex } = await startScene();
      const made = path.join(first.work, "once.txt");
      const plan = {
        id: "codex-daemon",
        steps: [{ shell: `echo once >> ${made}` }, { text: "all done", delayMs: 1_500 }],
        faults: [{ kind: "cf403" as const, step: 1, first: 6 }],
      };
      const client = await first.client();
      const request = { clientRequestId: "codex-top-2", task: `Do it. ${models.add(plan)}`, permissions: "full" };
      const { taskId } = await callShown(client, "delegate_task", request);
      await eventually("it was blocked to the end", () => models.of(plan.id).length > 7, 60_000);
      expect((await callShown(client, "task_status", { taskId })).status).toBe("working");
      await first.kill();
      await using second = await first.restart();
      const ended = await waitUntilEnded(await second.client(), taskId);
      expect(ended, ended.say).toMatchObject({ status: "completed", text: "all done" });
      expect(contents(made)).toBe("once\n");
      expect(models.sessions(plan.id)).toHaveLength(1);
      expect(codex.starts().length).toBeGreaterThan(1);
    },
    TEST_MAX_MS,
  );
});
