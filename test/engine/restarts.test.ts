/**
 * After a kill and after an orderly stop the same loop finds the same tasks: resumed, recovering or settled, never blocked on
 * something that nothing runs (P14).
 */

import { describe, expect, it } from "vitest";
import { at, listAt, textAt } from "../support/json.ts";
import { startTestEngine, type TestAnswer, type TestEngine } from "../support/test-engine.ts";

const KEY = "review-auth-1";
const say = (text: string): object => ({ do: "say", text });
const gate = (name: string): object => ({ do: "waitFor", name });
const OPEN = [{ do: "progress" }, gate("go"), say("fine")];

async function start(test: TestEngine, key = KEY, args: object = {}): Promise<TestAnswer> {
  const answer = await test.delegate(key, OPEN, { ...args });
  await test.settle();
  return answer;
}

describe("after a kill", () => {
  it("a running task is reaped before it is run again, under the same ids, and a wait learns it at once (R1, R2, R6, F18)", async () => {
    await using killed = await startTestEngine();
    const first = await start(killed);
    await using test = await killed.restart({ started: false });
    const stops = test.children.holdStops();
    await test.engine.start();
    await test.settle();
    const waited = await test.call("task_wait", { taskIds: [first.taskId] });
    expect(waited.structured).toMatchObject({ waitEnded: "news", status: "working", phase: "recovering" });
    expect(waited.say).toContain("under the same ids. Nothing is asked of you.");
    expect(at(waited.structured, "meta", "attempt")).toBe(1);
    stops();
    await test.settle();
    expect(at((await test.status(first.taskId)).structured, "meta", "attempt")).toBe(2);
    test.driver.release("go");
    await test.settle();
    const ended = await test.status(first.taskId);
    expect(ended.structured).toMatchObject({ status: "completed", settlement: 1 });
    for (const id of ["taskId", "childThreadId", "nodeId"]) expect(ended.structured[id]).toBe(first.structured[id]);
  });

  it("a task that may not be run again is settled as lost, with a next step (R2, P14)", async () => {
    await using killed = await startTestEngine();
    const { taskId } = await start(killed, KEY, { agent: "fragile" });
    await using test = await killed.restart();
    await test.settle();
    const waited = await test.call("task_wait", { taskIds: [taskId] });
    expect(waited.structured).toMatchObject({
      waitEnded: "news",
      status: "failed",
      outcome: { class: "lost" },
      next: { kind: "choose_key" },
    });
  });

  it("any such task can be cancelled from a new session, and again (R3, F23)", async () => {
    await using killed = await startTestEngine();
    const { taskId } = await start(killed);
    await using test = await killed.restart({ started: false });
    await test.engine.start();
    const cancelling = test.call("task_cancel", { taskId });
    await test.clock.advanceAndSettle(1_000);
    expect((await cancelling).structured).toMatchObject({ status: "cancelled", stop: { proof: "marker+tree" } });
    expect((await test.call("task_cancel", { taskId })).structured).toMatchObject({
      status: "cancelled",
      settlement: 1,
    });
  });

  it("queued, healing and asking tasks, messages, claims and results are all as they were (P14, F22)", async () => {
    await using killed = await startTestEngine({ limits: { concurrentChildren: 1 } });
    const done = await killed.delegate("review-auth-0", [say("old result")]);
    await killed.settle();
    const running = await start(killed, KEY, { role: "implementation", cwd: "/shop/a" });
    const queued = await start(killed, "review-auth-2");
    await killed.call("task_continue", { taskId: running.taskId, message: "more", clientRequestId: "continue-1" });
    await using test = await killed.restart();
    await test.settle();
    expect(textAt((await test.status(done.taskId)).structured, "fromChild", "result", "text")).toBe("old result");
    const again = { taskId: running.taskId, message: "more", clientRequestId: "continue-1" };
    expect((await test.call("task_continue", again)).structured["created"]).toBe("replayed");
    const busy = await test.delegate("write-auth-9", OPEN, { role: "implementation", cwd: "/shop/a" });
    expect(textAt(busy.structured, "error", "code")).toBe("workspace_busy");
    const phases = [running, queued].map(async ({ taskId }) => (await test.status(taskId)).structured["phase"]);
    // The one that had been running is reaped first; the one place goes to the other meanwhile.
    expect(await Promise.all(phases)).toEqual(["recovering", "running"]);
    // Nobody has to be there: what ends without a caller is found later.
    test.driver.release("go");
    await test.settle();
    await test.settle();
    const list = await test.call("task_list", { unread: true });
    expect(listAt(list.structured, "tasks").map((task) => at(task, "settlement"))).toEqual([1, 2, 1]);
  });

  it("five losses of one run are enough: the task ends as lost (P14)", async () => {
    let test = await startTestEngine();
    const { taskId } = await start(test);
    for (let life = 0; life < 6; life += 1) {
      test = await test.restart();
      await test.settle();
    }
    await using last = test;
    expect((await last.status(taskId)).structured).toMatchObject({ status: "failed", outcome: { class: "lost" } });
  });
});

describe("an orderly stop", () => {
  it("stops the children with proof, counts no loss, and the next start goes on at once (F20, P14)", async () => {
    const stopped = await startTestEngine();
    const { taskId } = await start(stopped);
    await stopped.engine.drain("stop");
    expect(stopped.children.stops).toHaveLength(1);
    expect(stopped.children.released).toEqual(["stop"]);
    expect((await stopped.status(taskId)).structured["phase"]).toBe("recovering");
    await using test = await stopped.restart();
    await test.settle();
    expect((await test.status(taskId)).structured).toMatchObject({ phase: "running", meta: { attempt: 2 } });
    expect(test.children.stops).toHaveLength(0);
    test.driver.release("go");
    await test.settle();
    expect((await test.status(taskId)).structured["status"]).toBe("completed");
  });

  it("refuses what comes meanwhile by name and creates nothing (F34)", async () => {
    await using test = await startTestEngine();
    const { taskId } = await start(test);
    const stops = test.children.holdStops();
    const draining = test.engine.drain("hand_over");
    await test.settle();
    const refused = await test.delegate("review-auth-2", OPEN);
    expect(refused.structured).toMatchObject({ created: "none", error: { code: "stopping", retryable: true } });
    expect(refused.say).toMatch(/^NOT STARTED \(stopping\): the server is restarting/);
    const sent = await test.call("task_continue", { taskId, message: "more", clientRequestId: "continue-1" });
    expect(textAt(sent.structured, "error", "code")).toBe("stopping");
    expect((await test.status(taskId)).taskId).toBe(taskId);
    stops();
    await draining;
    expect(test.children.released).toEqual(["hand_over"]);
    const later = await test.call("task_status", { clientRequestId: "review-auth-2" });
    expect(textAt(later.structured, "error", "code")).toBe("unknown_task");
  });

  it("records nothing that the stop itself makes a child say (P13)", async () => {
    const stopped = await startTestEngine();
    const { taskId } = await start(stopped);
    const stops = stopped.children.holdStops();
    const draining = stopped.engine.drain("stop");
    await stopped.settle();
    stopped.driver.release("go");
    await stopped.settle();
    stops();
    await draining;
    expect((await stopped.status(taskId)).structured).toMatchObject({ status: "working", phase: "recovering" });
  });
});
