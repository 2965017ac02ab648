/**
 * A real daemon with real children is killed, frozen, stopped and started again.
 */

import { readFileSync } from "node:fs";
import path from "node:path";
import { describe, expect, it } from "vitest";

import { callShown, expectHandleOrNext, record, shown, waitUntilEnded } from "../support/answers.ts";
import { startDaemonProcess } from "../support/daemon-process.ts";
import { eventually, isAlive } from "../support/processes.ts";

/** A child that writes its pid and the time again and again until a file tells it to end. */
function writer(log: string, gate: string): string {
  return JSON.stringify([{ append: log, everyMs: 10 }, { waitFile: gate }, { print: "done" }]);
}

type Beat = { readonly pid: number; readonly atMs: number };

function beatsIn(file: string): readonly Beat[] {
  const lines = readFileSync(file, { encoding: "utf8", flag: "a+" })
    .split("\n")
    .filter((line) => line.includes(" "));
  return lines.map((line) => {
    const [pid = "0", atMs = "0"] = line.split(" ");
    return { pid: Number(pid), atMs: Number(atMs) };
  });
}

/** Never two: once a second process has written, the first one writes no more. */
function expectNeverTwo(file: string, children: number): void {
  const pids = beatsIn(file).map(({ pid }) => pid);
  const order = pids.filter((pid, at) => pid !== pids[at - 1]);
  expect(order, "each process writes in one stretch").toHaveLength(children);
  expect(new Set(order).size).toBe(children);
}

describe("a daemon that is killed with children at work", () => {
  it("goes on with all three tasks under their ids, and never has two children for one (P2, P5, P14, R1, R2, F18, F38)", async () => {
    const first = await startDaemonProcess();
    const gate = path.join(first.work, "gate");
    const logs = ["a", "b", "c"].map((name) => path.join(first.work, `${name}.log`));
    const client = await first.client();
    const accepted = await Promise.all(
      logs.map((log, index) =>
        callShown(client, "delegate_task", {
          clientRequestId: `crash-key-${index}`,
          task: writer(log, gate),
          access: "read",
        }),
      ),
    );
    for (const log of logs) await eventually("the child writes", () => beatsIn(log).length > 3);
    await first.kill();

    await using second = await first.restart();
    const again = await second.client();
    for (const log of logs)
      await eventually("a second child writes", () => new Set(beatsIn(log).map(({ pid }) => pid)).size === 2);
    for (const { taskId } of accepted) {
      const now = await callShown(again, "task_status", { taskId });
      expect(now.status).toBe("working");
    }
    await callShown(again, "delegate_task", {
      clientRequestId: "gate-key-1",
      task: JSON.stringify([{ write: gate }, { print: "open" }]),
      access: "read",
    });
    for (const [index, before] of accepted.entries()) {
      const ended = await waitUntilEnded(again, before.taskId);
      expect(ended).toMatchObject({
        status: "completed",
        childThreadId: before.childThreadId,
        nodeId: before.nodeId,
        text: "done",
      });
      expectNeverTwo(logs[index] ?? "", 2);
    }
  });

  it("tells a caller in mid-wait nothing false: the wait breaks, the next one has the task and its result (P7, P9, F20, R6)", async () => {
    const first = await startDaemonProcess();
    const gate = path.join(first.work, "gate");
    const client = await first.client();
    const accepted = await callShown(client, "delegate_task", {
      clientRequestId: "midwait-1",
      task: JSON.stringify([{ waitFile: gate }, { print: "late" }]),
      access: "read",
    });
    const wait = client.call("task_wait", { taskIds: [accepted.taskId] }, { timeoutMs: 3_000 }).then(
      () => "answered",
      () => "broken",
    );
    await first.kill();
    await using second = await first.restart();
    const again = await second.client();
    const repeated = await callShown(again, "delegate_task", {
      clientRequestId: "midwait-1",
      task: JSON.stringify([{ waitFile: gate }, { print: "late" }]),
      access: "read",
    });
    expect(repeated).toMatchObject({ created: "replayed", taskId: accepted.taskId });
    await callShown(again, "delegate_task", {
      clientRequestId: "midwait-gate",
      task: JSON.stringify([{ write: gate }, { print: "open" }]),
      access: "read",
    });
    expect(await waitUntilEnded(again, accepted.taskId)).toMatchObject({ status: "completed", text: "late" });
    // The broken wait either resumed by itself on the returning daemon or ended; both are fine, a hang is not.
    expect(["answered", "broken"]).toContain(await wait);
  });

  it("lets a new session cancel a task whose child is gone, at once and again (R3, F23)", async () => {
    const first = await startDaemonProcess({ settings: { DELEGATE_MCP_LIMITS_CONCURRENT_CHILDREN: "1" } });
    const client = await first.client();
    const { taskId } = await callShown(client, "delegate_task", {
      clientRequestId: "cancel-after-1",
      task: JSON.stringify([{ hang: true }]),
      access: "read",
    });
    await eventually("it runs", async () => (await callShown(client, "task_status", { taskId })).phase === "running");
    await first.kill();
    await using second = await first.restart();
    const again = await second.client();
    expect((await callShown(again, "task_cancel", { taskId })).status).toBe("cancelled");
    expect((await callShown(again, "task_cancel", { taskId })).status).toBe("cancelled");
    const next = await callShown(again, "delegate_task", {
      clientRequestId: "cancel-after-2",
      task: "echo this",
      access: "read",
    });
    expect((await waitUntilEnded(again, next.taskId)).status).toBe("completed");
  });

  it("fails a child that must not be run twice as lost, with a way on (R1, F18)", async () => {
    const { AGENT_COMMAND } = await import("../support/processes.ts");
    const first = await startDaemonProcess({ agents: { once: { driver: "command", command: AGENT_COMMAND } } });
    const client = await first.client();
    const { taskId } = await callShown(client, "delegate_task", {
      clientRequestId: "lost-once-1",
      task: JSON.stringify([{ hang: true }]),
      access: "read",
    });
    await eventually("it runs", async () => (await callShown(client, "task_status", { taskId })).phase === "running");
    await first.kill();
    await using second = await first.restart();
    const ended = await waitUntilEnded(await second.client(), taskId);
    expect(ended.status).toBe("failed");
    expect(record(ended.raw["outcome"])["class"]).toBe("lost");
    expect(ended.raw["continuable"]).toBe(false);
    expect(ended.next["kind"]).toBe("choose_key");
  });
});

describe("a daemon that is frozen", () => {
  it("finds its child stopped by the guard when it thaws, and runs it again, never two (F38)", async () => {
    await using daemon = await startDaemonProcess({ settings: { DELEGATE_MCP_GUARD_LEASE_MS: "1500" } });
    const gate = path.join(daemon.work, "gate");
    const log = path.join(daemon.work, "w.log");
    const client = await daemon.client();
    const { taskId } = await callShown(client, "delegate_task", {
      clientRequestId: "frozen-key-1",
      task: writer(log, gate),
      access: "read",
    });
    await eventually("the child writes", () => beatsIn(log).length > 3);
    const pid = beatsIn(log)[0]?.pid ?? 0;
    daemon.signal("SIGSTOP");
    await eventually("the guard stops the child", () => !isAlive(pid), 8_000);
    daemon.signal("SIGCONT");
    await eventually("a second child writes", () => new Set(beatsIn(log).map((beat) => beat.pid)).size === 2, 15_000);
    await callShown(client, "delegate_task", {
      clientRequestId: "frozen-gate-1",
      task: JSON.stringify([{ write: gate }, { print: "open" }]),
      access: "read",
    });
    expect((await waitUntilEnded(client, taskId)).status).toBe("completed");
    expectNeverTwo(log, 2);
  });
});

describe("a daemon that is told to stop", () => {
  it.each(["SIGTERM", "SIGINT"] as const)(
    "ends an open wait with the handle, its children with proof, itself with 0, and goes on later: %s (P14, F20)",
    async (signal) => {
      const first = await startDaemonProcess();
      const gate = path.join(first.work, "gate");
      const log = path.join(first.work, "w.log");
      const client = await first.client();
      const { taskId } = await callShown(client, "delegate_task", {
        clientRequestId: "orderly-key-1",
        task: writer(log, gate),
        access: "read",
      });
      await eventually("the child writes", () => beatsIn(log).length > 3);
      const pid = beatsIn(log)[0]?.pid ?? 0;
      const wait = client.call("task_wait", { taskIds: [taskId] });
      first.signal(signal);
      const answer = shown(await wait);
      expectHandleOrNext(answer);
      expect(answer).toMatchObject({ taskId, waitEnded: "shutdown", status: "working" });
      expect(answer.say).toMatch(/^RESTARTING/);
      expect(await first.ended()).toBe(0);
      expect(isAlive(pid)).toBe(false);

      await using second = await first.restart();
      const again = await second.client();
      await eventually("a second child writes", () => new Set(beatsIn(log).map((beat) => beat.pid)).size === 2);
      await callShown(again, "delegate_task", {
        clientRequestId: "orderly-gate",
        task: JSON.stringify([{ write: gate }, { print: "open" }]),
        access: "read",
      });
      expect((await waitUntilEnded(again, taskId)).status).toBe("completed");
      expectNeverTwo(log, 2);
    },
  );
});
