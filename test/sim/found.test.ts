/**
 * What seeded worlds have found, told one by one: each test failed before its fault was mended.
 *
 * Seeds move when the simulator changes, these do not.
 */

import { describe, expect, it } from "vitest";
import { at, textAt } from "../support/json.ts";
import { ALICE, callerOf, startTestEngine } from "../support/test-engine.ts";

const say = (text: string): object => ({ do: "say", text });
const gate = (name: string): object => ({ do: "waitFor", name });
const HANGING = [{ do: "progress" }, gate("never")];
const WRITER = { role: "implementation", cwd: "/shop/a" };
const HOUR = 3_600_000;
const WEEKEND = 60 * HOUR;

describe("machine sleep", () => {
  it("is forgiven before anything is decided, whatever looks at the clock first (F35, L3)", async () => {
    await using test = await startTestEngine();
    const { taskId } = await test.delegate("long-work-1", HANGING);
    await test.settle();
    test.clock.sleepMachine(WEEKEND);
    // The first thing that happens is not the daemon's own look at its clocks.
    await test.call("task_continue", { taskId, message: "And then this.", clientRequestId: "more-work-1" });
    await test.settle();
    expect((await test.status(taskId)).structured).toMatchObject({ status: "working", phase: "running" });
  });

  it("between a command and its commit does not count either (F35, P6)", async () => {
    await using test = await startTestEngine();
    const down = { do: "fault", times: 1, fault: { httpStatus: 529 } };
    const { taskId } = await test.delegate("long-work-2", [down, gate("go"), down, gate("never")]);
    await test.clock.advanceAndSettle(2_000);
    // The second fault is decided on while its report waits for the store; the machine sleeps meanwhile.
    const release = test.faults.hold("before_commit");
    const stands = test.faults.reached("before_commit");
    test.driver.release("go");
    await stands;
    test.clock.sleepMachine(WEEKEND);
    release();
    await test.clock.advanceAndSettle(120_000);
    expect((await test.status(taskId)).structured).toMatchObject({ status: "working" });
  });
});

describe("the time without a daemon", () => {
  it("is not the running time of what it left running (L3, P14)", async () => {
    await using killed = await startTestEngine();
    const { taskId } = await killed.delegate("long-work-3", HANGING);
    await killed.settle();
    killed.clock.sleepMachine(WEEKEND);
    await using test = await killed.restart();
    await test.clock.advanceAndSettle(10_000);
    const { structured } = await test.status(taskId);
    expect(structured).toMatchObject({ status: "working" });
    expect(at(structured, "meta", "attempt")).toBe(2);
  });
});

describe("a directory", () => {
  it("is not claimed by a start that a cancel has overtaken (P10, F25)", async () => {
    await using test = await startTestEngine();
    const looked = test.trouble.holdAnswer("task");
    const { taskId } = await test.delegate("write-early-1", HANGING, { ...WRITER, onBusy: "queue" });
    await looked.arrived;
    const cancelled = await test.call("task_cancel", { taskId });
    expect(cancelled.structured).toMatchObject({ status: "cancelled" });
    looked.release();
    await test.settle();
    const next = await test.delegate("write-later-1", HANGING, WRITER);
    expect(next.structured["created"]).toBe("new");
  });
});

describe("a wait without after", () => {
  it("hears of a settlement although the next message goes on at once (P7, L2)", async () => {
    await using test = await startTestEngine();
    const { taskId } = await test.delegate("two-runs-1", [gate("one"), say("fine")]);
    await test.settle();
    const message = JSON.stringify({ steps: HANGING });
    const queued = await test.call("task_continue", { taskId, message, clientRequestId: "two-runs-2" });
    expect(queued.structured).toMatchObject({ created: "new" });
    const waiting = test.call("task_wait", { taskIds: [taskId] });
    await test.settle();
    test.driver.release("one");
    await test.settle();
    const told = await waiting;
    expect(told.structured).toMatchObject({ waitEnded: "news", status: "working", settlement: 1 });
    expect(at(told.structured, "earlierRun", "status")).toBe("completed");
  });
});

describe("processes that will not end", () => {
  it("are all named before a person can give them up, also those that show up later (P5, F37)", async () => {
    await using test = await startTestEngine();
    const { taskId } = await test.delegate("stuck-work-1", [gate("go"), say("fine")]);
    await test.settle();
    const [first, second] = [
      { pid: 4711, command: "node a.js" },
      { pid: 4712, command: "node b.js" },
    ] as const;
    test.children.leave([first]);
    test.driver.release("go");
    await test.clock.advanceAndSettle(40_000);
    test.children.leave([first, second]);
    await test.clock.advanceAndSettle(10_000);
    await test.engine.cancel({ taskId, reason: null, abandon: true }, callerOf(ALICE.name, { kind: "person" }));
    const { structured } = await test.status(taskId);
    expect(textAt(structured, "stop", "proof")).toBe("abandoned");
    expect(at(structured, "stop", "survivors")).toMatchObject([{ pid: 4711 }, { pid: 4712 }]);
  });
});
