/**
 * `task_cancel` in every phase, repeated, too late, and in a race with the child's own end (P5, P12).
 */

import { describe, expect, it } from "vitest";
import { at, textAt } from "../support/json.ts";
import { BOB, startTestEngine, type TestAnswer, type TestEngine } from "../support/test-engine.ts";

const OPEN = [
  { do: "progress", steps: 3 },
  { do: "say", text: "half of it" },
  { do: "waitFor", name: "go" },
  { do: "say", text: ", and the rest" },
];
const KEY = "review-auth-1";

/** How long a child that goes on after its processes are gone is waited for. */
const LAST_WORD_MS = 1_000;

async function cancel(test: TestEngine, taskId: string, forMs = LAST_WORD_MS): Promise<TestAnswer> {
  const cancelling = test.call("task_cancel", { taskId });
  await test.clock.advanceAndSettle(forMs);
  return cancelling;
}

type Phase = readonly [phase: string, steps: readonly object[], prepare: (test: TestEngine) => Promise<unknown>];

const settled = (test: TestEngine): Promise<void> => test.settle();

const PHASES: readonly Phase[] = [
  ["starting", [{ do: "waitFor", name: "go" }], settled],
  ["running", OPEN, settled],
  ["awaiting_answer", [{ do: "ask", prompt: "which?", optionIds: ["a"] }], settled],
  ["healing", [{ do: "fault", times: 99, fault: { httpStatus: 503 } }], settled],
  ["paused", [{ do: "fault", times: 99, fault: { httpStatus: 429, retryAfterMs: 3_600_000 } }], settled],
  ["stalled", OPEN, (test) => test.clock.advanceAndSettle(301_000)],
];

describe("a cancel", () => {
  it.each(PHASES)(
    "of a task that is %s answers once its child is proven gone (P5, P12)",
    async (phase, steps, prepare) => {
      await using test = await startTestEngine();
      const { taskId } = await test.delegate(KEY, steps);
      await prepare(test);
      expect((await test.status(taskId)).structured["phase"]).toBe(phase);
      const waiting = test.call("task_wait", { taskIds: [taskId], after: "abcde:" });
      const cancelled = await cancel(test, taskId);
      expect(cancelled.structured).toMatchObject({
        status: "cancelled",
        phase: "settled",
        settlement: 1,
        outcome: { by: { kind: "caller", name: "alice" } },
        stop: { proof: "marker+tree" },
      });
      expect(cancelled.say).toMatch(/^CANCELLED: /);
      expect((await waiting).structured["taskId"]).toBe(taskId);
      // Nothing comes back to life.
      await test.clock.advanceAndSettle(4 * 3_600_000);
      expect((await test.status(taskId)).structured).toMatchObject({ status: "cancelled", settlement: 1 });
    },
  );

  it("of a queued task ends it without a process ever having been started (F23)", async () => {
    await using test = await startTestEngine({ limits: { concurrentChildren: 1 } });
    await test.delegate("review-auth-0", OPEN);
    const { taskId } = await test.delegate(KEY, OPEN);
    await test.settle();
    const stops = test.children.stops.length;
    const cancelled = await cancel(test, taskId);
    expect(cancelled.structured).toMatchObject({ status: "cancelled", stop: { proof: "none_started" } });
    expect(cancelled.structured["outcome"]).toMatchObject({ sideEffects: false });
    expect(test.children.stops).toHaveLength(stops);
  });

  it("of a task that was lost and is being reaped keeps the proof of the reap (P14, R3)", async () => {
    await using first = await startTestEngine();
    const { taskId } = await first.delegate(KEY, OPEN);
    await first.settle();
    await using test = await first.restart();
    const stops = test.children.holdStops();
    await test.settle();
    expect((await test.status(taskId)).structured["phase"]).toBe("recovering");
    const cancelling = test.call("task_cancel", { taskId });
    await test.settle();
    stops();
    await test.settle();
    expect((await cancelling).structured).toMatchObject({ status: "cancelled", stop: { proof: "marker+tree" } });
    expect((await cancel(test, taskId)).structured).toMatchObject({ status: "cancelled", meta: { replayed: true } });
  });

  it("keeps what the child had written, marked as partial (W5)", async () => {
    await using test = await startTestEngine();
    const { taskId } = await test.delegate(KEY, OPEN);
    await test.settle();
    const stops = test.children.holdStops();
    const cancelling = test.call("task_cancel", { taskId });
    await test.settle();
    // It still says something while it is being stopped.
    test.driver.release("go");
    await test.settle();
    stops();
    await test.settle();
    const cancelled = await cancelling;
    expect(cancelled.structured).toMatchObject({
      status: "cancelled",
      outcome: { partial: true },
      fromChild: { result: { text: "half of it, and the rest" } },
    });
    expect(cancelled.say).toContain("marked partial");
    expect(cancelled.text).toContain("what it had written when it ended");
  });

  it("of a task that is still stopping says so after some seconds, and can be repeated (P12, F24)", async () => {
    await using test = await startTestEngine();
    const { taskId } = await test.delegate(KEY, OPEN);
    await test.settle();
    const stops = test.children.holdStops();
    const early = await cancel(test, taskId, 8_000);
    expect(early.structured).toMatchObject({ status: "working", phase: "stopping" });
    expect(early.say).toMatch(/^WORKING, stopping: /);
    expect(early.structured["stop"]).toBeUndefined();
    const again = test.call("task_cancel", { taskId });
    await test.settle();
    stops();
    await test.clock.advanceAndSettle(LAST_WORD_MS);
    expect((await again).structured).toMatchObject({ status: "cancelled", settlement: 1 });
  });

  it("of a task that has ended is success with its final state, again and again (F23)", async () => {
    await using test = await startTestEngine();
    const { taskId } = await test.delegate(KEY, [{ do: "say", text: "fine" }]);
    await test.settle();
    for (let time = 0; time < 3; time += 1) {
      const answer = await cancel(test, taskId);
      expect(answer.structured).toMatchObject({ status: "completed", settlement: 1, meta: { replayed: true } });
      expect(answer.say).toContain("That had been done before; nothing changed.");
      expect(at(answer.structured, "fromChild", "result", "text")).toBe("fine");
    }
  });

  it("that comes after the child has ended well leaves it completed (F25)", async () => {
    await using test = await startTestEngine();
    const { taskId } = await test.delegate(KEY, OPEN);
    const stops = test.children.holdStops();
    test.driver.release("go");
    await test.settle();
    expect((await test.status(taskId)).structured["phase"]).toBe("stopping");
    const cancelling = test.call("task_cancel", { taskId });
    await test.settle();
    stops();
    await test.settle();
    expect((await cancelling).structured).toMatchObject({ status: "completed", settlement: 1 });
  });

  it("in the same moment as the child's end has one winner, and both hear the same (F25)", async () => {
    for (const order of ["cancel first", "end first"]) {
      await using test = await startTestEngine();
      const { taskId } = await test.delegate(KEY, OPEN);
      await test.settle();
      const waiting = test.call("task_wait", { taskIds: [taskId] });
      if (order === "end first") test.driver.release("go");
      const cancelling = test.call("task_cancel", { taskId });
      if (order === "cancel first") test.driver.release("go");
      await test.clock.advanceAndSettle(LAST_WORD_MS);
      const told = [await waiting, await cancelling, await test.status(taskId)].map(
        ({ structured }) => structured["status"],
      );
      expect(new Set(told).size, order).toBe(1);
      expect(["completed", "cancelled"]).toContain(told[0]);
    }
  });

  it("drops messages that waited behind the run (F23)", async () => {
    await using test = await startTestEngine();
    const { taskId } = await test.delegate(KEY, OPEN);
    await test.settle();
    await test.call("task_continue", { taskId, message: "more", clientRequestId: "continue-1" });
    await cancel(test, taskId);
    await test.clock.advanceAndSettle(60_000);
    expect((await test.status(taskId)).structured).toMatchObject({ status: "cancelled", settlement: 1 });
  });

  it("leaves other tasks and other callers' tasks alone (P12, P16)", async () => {
    await using test = await startTestEngine();
    const mine = await test.delegate(KEY, OPEN);
    const other = await test.delegate("review-auth-2", OPEN);
    const foreign = await test.delegate(KEY, OPEN, {}, { caller: BOB });
    await test.settle();
    await cancel(test, mine.taskId);
    const missed = await cancel(test, foreign.taskId);
    expect([missed.isError, textAt(missed.structured, "error", "code")]).toEqual([true, "unknown_task"]);
    expect((await test.status(other.taskId)).structured["status"]).toBe("working");
    expect((await test.status(foreign.taskId, { caller: BOB })).structured["status"]).toBe("working");
  });

  it("gives the slot and the directory free (E4)", async () => {
    await using test = await startTestEngine({ limits: { concurrentChildren: 1 } });
    const write = { role: "implementation", cwd: "/shop/a" };
    const first = await test.delegate(KEY, OPEN, write);
    const waiting = await test.delegate("review-auth-2", OPEN);
    await test.settle();
    expect((await test.status(waiting.taskId)).structured["queue"]).toEqual({ position: 1, reason: "slots" });
    await cancel(test, first.taskId);
    await test.settle();
    expect((await test.status(waiting.taskId)).structured["phase"]).toBe("running");
    expect((await test.delegate("review-auth-3", OPEN, write)).structured["created"]).toBe("new");
  });
});
