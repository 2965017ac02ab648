/**
 * `task_wait` over the real engine with a clock that stands still: what ends a wait, what it tells, and that it leaves
 * nothing behind.
 */

import { describe, expect, it } from "vitest";
import { at, listAt, textAt } from "../support/json.ts";
import { ALICE, callerOf, startTestEngine, type TestAnswer, type TestEngine } from "../support/test-engine.ts";

const SLICE_MS = 25_000;
const gate = (name: string): object => ({ do: "waitFor", name });
const say = (text: string): object => ({ do: "say", text });

/** The promise's value once it is there, or null. */
function watched<Value>(promise: Promise<Value>): { readonly value: () => Value | null } {
  let value: Value | null = null;
  promise.then((settled) => (value = settled)).catch(() => undefined);
  return { value: () => value };
}

async function running(test: TestEngine, key: string, name = key): Promise<string> {
  const { taskId } = await test.delegate(key, [{ do: "progress" }, gate(name), say(`done ${key}`)]);
  await test.settle();
  return taskId;
}

function nextArguments({ structured }: TestAnswer): Readonly<Record<string, unknown>> {
  const found = at(structured, "next", "arguments");
  return typeof found === "object" && found !== null ? { ...found } : {};
}

const statusOf = ({ structured }: TestAnswer): string => textAt(structured, "status");
const endOf = ({ structured }: TestAnswer): string => textAt(structured, "waitEnded");
const resultOf = ({ structured }: TestAnswer): string => textAt(structured, "fromChild", "result", "text");

describe("a held wait", () => {
  it("is answered by a settlement that comes meanwhile, under the ids of the first answer (P2, P7)", async () => {
    await using test = await startTestEngine();
    const first = await test.delegate("review-auth-1", [gate("go"), say("fine")]);
    const waiting = test.call("task_wait", nextArguments(first));
    await test.clock.advanceAndSettle(3_000);
    test.driver.release("go");
    await test.settle();
    const answer = await waiting;
    expect([statusOf(answer), endOf(answer), resultOf(answer)]).toEqual(["completed", "news", "fine"]);
    for (const id of ["taskId", "childThreadId", "nodeId"]) expect(answer.structured[id]).toBe(first.structured[id]);
  });

  it("that brings nothing ends with its slice, as a normal answer that names the next call (H6, F17, F1)", async () => {
    await using test = await startTestEngine();
    const taskId = await running(test, "review-auth-1");
    const waiting = test.call("task_wait", { taskIds: [taskId] });
    const seen = watched(waiting);
    await test.clock.advanceAndSettle(SLICE_MS - 1);
    expect(seen.value()).toBeNull();
    await test.clock.advanceAndSettle(1);
    const answer = await waiting;
    expect([answer.isError, statusOf(answer), endOf(answer)]).toEqual([false, "working", "slice"]);
    expect(answer.say).toMatch(/^WORKING, healthy/);
    expect(at(answer.structured, "next")).toMatchObject({ kind: "wait", tool: "task_wait" });
  });

  it("takes timeoutMs for waitMs, and 0 does not wait (H6)", async () => {
    await using test = await startTestEngine();
    const taskId = await running(test, "review-auth-1");
    expect(endOf(await test.call("task_wait", { taskIds: [taskId], waitMs: 0 }))).toBe("slice");
    const waiting = test.call("task_wait", { taskIds: [taskId], timeoutMs: 500 });
    await test.clock.advanceAndSettle(500);
    expect(endOf(await waiting)).toBe("slice");
  });

  it("tells at its end what is true then, with the steps since the last look (D6)", async () => {
    await using test = await startTestEngine();
    const steps = [{ do: "progress", steps: 2 }, gate("more"), { do: "progress", steps: 5 }, gate("end")];
    const first = await test.delegate("review-auth-1", steps);
    const slice = async (args: Readonly<Record<string, unknown>>): Promise<TestAnswer> => {
      const waiting = test.call("task_wait", args);
      await test.clock.advanceAndSettle(SLICE_MS);
      return waiting;
    };
    const second = await slice(nextArguments(first));
    expect(second.structured["phase"]).toBe("running");
    expect(at(second.structured, "activity", "stepsSinceLastLook")).toBe(2);
    test.driver.release("more");
    const third = await slice(nextArguments(second));
    expect(at(third.structured, "activity", "stepsSinceLastLook")).toBe(5);
    expect(third.say).toContain("5 steps since your last look");
    const fourth = await slice(nextArguments(third));
    expect(at(fourth.structured, "activity", "stepsSinceLastLook")).toBe(0);
  });

  it("misses nothing that happens between its reading and its sleeping (P7)", async () => {
    await using test = await startTestEngine();
    const taskId = await running(test, "review-auth-1");
    // The first read finds the task, the second one is the wait's own.
    const read = test.trouble.holdAnswer("tasks", 1);
    const seen = watched(test.call("task_wait", { taskIds: [taskId] }));
    await read.arrived;
    // What the wait has read is older than what happens now.
    test.driver.release("review-auth-1");
    await test.settle();
    expect(statusOf(await test.status(taskId))).toBe("completed");
    read.release();
    await test.settle();
    expect(seen.value()).toMatchObject({ structured: { status: "completed", waitEnded: "news" } });
  });

  it("ends with the daemon, and says that the task does not (F20)", async () => {
    await using test = await startTestEngine();
    const taskId = await running(test, "review-auth-1");
    const other = await running(test, "review-auth-2");
    const one = test.call("task_wait", { taskIds: [taskId] });
    const several = test.call("task_wait", { taskIds: [taskId, other] });
    await test.settle();
    await test.engine.drain("stop");
    for (const answer of [await one, await several]) {
      expect([endOf(answer), answer.isError]).toEqual(["shutdown", false]);
      expect(answer.say).toMatch(/^RESTARTING: the wait has ended, the tasks? ha(s|ve) not/);
      expect(nextArguments(answer)["taskIds"]).toContain(taskId);
    }
    // The children are stopped by now, and the task says so.
    expect((await test.call("task_wait", { taskIds: [taskId] })).say).toMatch(/^WORKING, recovering/);
  });

  it("that comes while the daemon stops is not held (F20)", async () => {
    await using test = await startTestEngine();
    const taskId = await running(test, "review-auth-1");
    const stopped = test.children.holdStops();
    const draining = test.engine.drain("stop");
    await test.settle();
    expect(endOf(await test.call("task_wait", { taskIds: [taskId] }))).toBe("shutdown");
    stopped();
    await draining;
  });

  it("whose caller has gone leaves no timer, no waiter and the task as it was (P7, C5)", async () => {
    await using test = await startTestEngine();
    const taskId = await running(test, "review-auth-1");
    const timers = test.clock.timers();
    const controls = Array.from({ length: 200 }, () => new AbortController());
    const waits = controls.map(({ signal }) => test.call("task_wait", { taskIds: [taskId] }, { signal }));
    await test.settle();
    expect(test.engine.waiting).toBe(200);
    for (const control of controls) control.abort();
    await Promise.all(waits);
    expect([test.engine.waiting, test.clock.timers()]).toEqual([0, timers]);
    expect(statusOf(await test.status(taskId))).toBe("working");
    const again = test.call("task_wait", { taskIds: [taskId] });
    test.driver.release("review-auth-1");
    await test.settle();
    expect(statusOf(await again)).toBe("completed");
  });

  it("names the whole handle in its first progress message (P1)", async () => {
    await using test = await startTestEngine();
    const first = await test.delegate("review-auth-1", [gate("go")]);
    const told: string[] = [];
    const progress = (message: string): void => void told.push(message);
    const waiting = test.call("task_wait", { taskIds: [first.taskId] }, { progress });
    const delegating = test.call(
      "delegate_task",
      { clientRequestId: "review-auth-2", task: "say this", mode: "wait", role: "review" },
      { progress },
    );
    await test.clock.advanceAndSettle(SLICE_MS);
    const second = await delegating;
    await waiting;
    expect(told).toHaveLength(2);
    for (const [index, { structured }] of [first, second].entries()) {
      for (const id of ["taskId", "childThreadId", "nodeId"]) expect(told[index]).toContain(textAt(structured, id));
    }
  });
});

describe("without after", () => {
  const NEWS = [
    ["a result that nobody has confirmed", [say("fine")], "completed", "settled"],
    ["a question", [{ do: "ask", prompt: "which?", optionIds: ["a", "b"] }], "input_required", "awaiting_answer"],
    ["a pause", [{ do: "fault", times: 9, fault: { httpStatus: 429, retryAfterMs: 3_600_000 } }], "working", "paused"],
  ] as const;

  it.each(NEWS)("%s is news at once (P7)", async (_what, steps, status, phase) => {
    await using test = await startTestEngine();
    const { taskId } = await test.delegate("review-auth-1", steps);
    await test.settle();
    const answer = await test.call("task_wait", { taskIds: [taskId] });
    expect([statusOf(answer), answer.structured["phase"], endOf(answer)]).toEqual([status, phase, "news"]);
  });

  it("a child that was lost and is taken up again is news at once (R6)", async () => {
    await using first = await startTestEngine();
    const taskId = await running(first, "review-auth-1");
    await using test = await first.restart();
    const held = test.children.holdStops();
    await test.settle();
    const answer = await test.call("task_wait", { taskIds: [taskId] });
    expect([statusOf(answer), answer.structured["phase"], endOf(answer)]).toEqual(["working", "recovering", "news"]);
    held();
  });

  it("a healthy task is waited for, also after it was lost and found (P6, P14)", async () => {
    await using first = await startTestEngine();
    const taskId = await running(first, "review-auth-1");
    await using test = await first.restart();
    await test.settle();
    const answer = watched(test.call("task_wait", { taskIds: [taskId] }));
    await test.clock.advanceAndSettle(SLICE_MS - 1);
    expect(answer.value()).toBeNull();
    await test.clock.advanceAndSettle(1);
    expect(answer.value()).toMatchObject({ structured: { waitEnded: "slice" } });
  });

  it("a confirmed result is quiet: it is told at once and is no news (P9)", async () => {
    await using test = await startTestEngine();
    const { taskId } = await test.delegate("review-auth-1", [say("fine")]);
    await test.settle();
    await test.call("task_ack", { taskId, settlement: 1 });
    const answer = await test.call("task_wait", { taskIds: [taskId] });
    expect([statusOf(answer), endOf(answer), resultOf(answer)]).toEqual(["completed", "slice", "fine"]);
  });
});

describe("with after", () => {
  it("what has been told is no news, and what comes next is (P9)", async () => {
    await using first = await startTestEngine();
    const taskId = await running(first, "review-auth-1", "go");
    await using test = await first.restart();
    const held = test.children.holdStops();
    await test.settle();
    const told = await test.call("task_wait", { taskIds: [taskId] });
    expect(told.structured["phase"]).toBe("recovering");
    const waiting = watched(test.call("task_wait", nextArguments(told)));
    held();
    await test.settle();
    expect(waiting.value()).toBeNull();
    test.driver.release("go");
    await test.settle();
    expect(waiting.value()).toMatchObject({ structured: { status: "completed", waitEnded: "news" } });
  });

  it("past a settlement confirms it, and a task that was confirmed so is quiet (P9, L1)", async () => {
    await using test = await startTestEngine();
    const ended = await test.delegate("review-auth-1", [say("fine")]);
    const open = await running(test, "review-auth-2");
    await test.settle();
    const told = await test.call("task_wait", { taskIds: [ended.taskId, open] });
    expect(listAt((await test.call("task_list", { unread: true })).structured, "tasks")).toHaveLength(1);
    const again = watched(test.call("task_wait", nextArguments(told)));
    await test.settle();
    expect(again.value()).toBeNull();
    expect(listAt((await test.call("task_list", { unread: true })).structured, "tasks")).toHaveLength(0);
    await test.clock.advanceAndSettle(SLICE_MS);
  });

  it("differs in every answer, also where nothing has changed (P7)", async () => {
    await using test = await startTestEngine();
    const taskId = await running(test, "review-auth-1");
    const afters = new Set<unknown>();
    for (let time = 0; time < 20; time += 1) afters.add(nextArguments(await test.peek({ taskIds: [taskId] }))["after"]);
    expect(afters.size).toBe(20);
  });

  it("leaves out of the next answers what never changes, while the task works, and never the handle (P1, P7)", async () => {
    await using test = await startTestEngine();
    const first = await test.delegate("review-auth-1", [gate("go"), say("fine")]);
    const still = ["title", "agent", "workspace", "createdAt", "meta"];
    expect(Object.keys(first.structured)).toEqual(expect.arrayContaining(still));
    const waiting = test.call("task_wait", nextArguments(first));
    await test.clock.advanceAndSettle(SLICE_MS);
    const slice = await waiting;
    for (const name of still) expect(slice.structured, name).not.toHaveProperty(name);
    const { taskId, childThreadId, nodeId } = first.structured;
    expect(slice.structured).toMatchObject({ taskId, childThreadId, nodeId, status: "working", waitEnded: "slice" });
    // Whoever was told nothing is told all of it, as whoever asks and whoever gets the result.
    const whole = [test.peek({ taskIds: [first.taskId] }), test.status(first.taskId)];
    test.driver.release("go");
    const ended = await test.call("task_wait", nextArguments(slice));
    for (const answer of [...(await Promise.all(whole)), ended])
      expect(Object.keys(answer.structured)).toEqual(expect.arrayContaining(still));
  });

  it("counts the waits without news, which from the fifth on say that the turn may end; news begins anew (P7)", async () => {
    await using test = await startTestEngine();
    const END = "You may end your turn; the result is kept.";
    const slice = async (args: object): Promise<TestAnswer> => {
      const waiting = test.call("task_wait", { ...args });
      await test.clock.advanceAndSettle(SLICE_MS);
      return waiting;
    };
    let answer = await test.delegate("review-auth-1", [gate("go"), { do: "progress" }, { do: "hang" }]);
    for (let count = 1; count <= 11; count += 1) {
      answer = await slice(nextArguments(answer));
      expect(endOf(answer)).toBe("slice");
      expect(answer.say.endsWith(END), `wait ${count}`).toBe(count >= 5);
    }
    answer = await slice(nextArguments(answer));
    expect([endOf(answer), answer.structured["phase"]]).toEqual(["news", "stalled"]);
    expect(answer.say).not.toContain(END);
    answer = await slice(nextArguments(answer));
    expect([endOf(answer), answer.say.includes(END)]).toEqual(["slice", false]);
  });

  it("that is not ours counts as none (P7)", async () => {
    await using test = await startTestEngine();
    const { taskId } = await test.delegate("review-auth-1", [say("fine")]);
    await test.settle();
    for (const after of ["14", "", "ab:cd", "x".repeat(4_000)]) {
      const answer = await test.peek({ taskIds: [taskId], after });
      expect([statusOf(answer), endOf(answer)]).toEqual(["completed", "news"]);
    }
  });
});

describe("a wait for several tasks", () => {
  it("until any ends with the first news (L2)", async () => {
    await using test = await startTestEngine();
    const taskIds = [await running(test, "review-auth-1"), await running(test, "review-auth-2")];
    const waiting = test.call("task_wait", { taskIds });
    await test.settle();
    test.driver.release("review-auth-2");
    await test.settle();
    const { structured } = await waiting;
    expect(listAt(structured, "tasks")).toMatchObject([
      { status: "working", phase: "running", taskId: taskIds[0] },
      { status: "completed", fromChild: { result: { text: "done review-auth-2" } } },
    ]);
    expect(structured["counts"]).toEqual({ working: 1, completed: 1 });
    expect(structured["taskId"]).toBeUndefined();
  });

  it("until all ends when every task has, with all results, also of those that ended before it began (L6)", async () => {
    await using test = await startTestEngine();
    const early = await running(test, "review-auth-1");
    const late = await running(test, "review-auth-2");
    test.driver.release("review-auth-1");
    await test.settle();
    const waiting = test.call("task_wait", { taskIds: [early, late], until: "all" });
    const seen = watched(waiting);
    await test.clock.advanceAndSettle(1_000);
    expect(seen.value()).toBeNull();
    test.driver.release("review-auth-2");
    await test.settle();
    const { structured } = await waiting;
    expect(listAt(structured, "tasks").map((task) => textAt(task, "fromChild", "result", "text"))).toEqual([
      "done review-auth-1",
      "done review-auth-2",
    ]);
    expect(at(structured, "next")).toEqual({ kind: "use_result" });
  });

  it("until all ends earlier if one needs somebody, and the next call waits for all again (P7)", async () => {
    await using test = await startTestEngine();
    const open = await running(test, "review-auth-1");
    const { taskId } = await test.delegate("review-auth-2", [gate("ask"), { do: "ask", optionIds: ["a"] }]);
    const waiting = test.call("task_wait", { taskIds: [open, taskId], until: "all" });
    await test.settle();
    test.driver.release("ask");
    await test.settle();
    expect(listAt((await waiting).structured, "tasks")).toMatchObject([
      { status: "working" },
      { status: "input_required" },
    ]);
    const slice = test.call("task_wait", { taskIds: [open, await running(test, "review-auth-3")], until: "all" });
    await test.clock.advanceAndSettle(SLICE_MS);
    expect(nextArguments(await slice)["until"]).toBe("all");
  });

  it("names an unknown id in an item and ends; with nothing but unknown ids it is an error (F28, P16)", async () => {
    await using test = await startTestEngine();
    const taskId = await running(test, "review-auth-1");
    const mixed = await test.call("task_wait", { taskIds: [taskId, "4711"] });
    expect([mixed.isError, endOf(mixed)]).toEqual([false, "news"]);
    expect(listAt(mixed.structured, "tasks")).toMatchObject([
      { taskId: "4711", error: { code: "unknown_task" } },
      { status: "working", taskId },
    ]);
    const lost = await test.call("task_wait", { taskIds: ["4711", "4712"] });
    expect([lost.isError, textAt(lost.structured, "error", "code")]).toEqual([true, "unknown_task"]);
    expect(at(lost.structured, "next")).toEqual({ kind: "fix", tool: "task_list", arguments: {} });
  });

  it("says that nothing runs where all has ended and was told (P9)", async () => {
    await using test = await startTestEngine();
    const taskIds: string[] = [];
    for (const key of ["review-auth-1", "review-auth-2"]) {
      const { taskId } = await test.delegate(key, [say("fine")]);
      await test.settle();
      await test.call("task_ack", { taskId, settlement: 1 });
      taskIds.push(taskId);
    }
    const answer = await test.call("task_wait", { taskIds });
    expect(answer.say).toMatch(/^NOTHING NEW: these tasks have ended/);
    expect(endOf(answer)).toBe("slice");
  });

  it("takes any of a task's ids, and one task named twice is one task (P2)", async () => {
    await using test = await startTestEngine();
    const first = await test.delegate("review-auth-1", [say("fine")]);
    await test.settle();
    const { childThreadId, nodeId } = first.structured;
    const answer = await test.call("task_wait", { taskIds: [nodeId, childThreadId, first.taskId] });
    expect(answer.taskId).toBe(first.taskId);
  });
});

describe("a wait that names no task", () => {
  const here = { caller: callerOf("alice", { conversation: "here" }) };
  const there = { caller: callerOf("alice", { conversation: "there" }) };

  it("is for the open and unread tasks of its conversation, else of its caller (L5)", async () => {
    await using test = await startTestEngine();
    const mine = await test.delegate("review-auth-1", [gate("a"), say("fine")], {}, here);
    const foreign = await test.delegate("review-auth-2", [gate("b")], {}, there);
    await test.settle();
    expect((await test.peek({}, here)).taskId).toBe(mine.taskId);
    expect((await test.peek({}, there)).taskId).toBe(foreign.taskId);
    const elsewhere = await test.peek({}, { caller: callerOf("alice", { conversation: "third" }) });
    expect(listAt(elsewhere.structured, "tasks")).toHaveLength(2);
    test.driver.release("a");
    await test.settle();
    // Ended and unread counts; ended and confirmed does not.
    expect(statusOf(await test.peek({}, here))).toBe("completed");
    await test.call("task_ack", { taskId: mine.taskId, settlement: 1 }, here);
    expect((await test.peek({}, here)).taskId).toBe(foreign.taskId);
  });

  it("answers at once where there is none (F29)", async () => {
    await using test = await startTestEngine();
    await test.delegate("review-auth-1", [gate("a")], {}, { caller: callerOf("bob") });
    for (const args of [{}, { taskIds: [] }, { taskIds: null }, { taskIds: "[]" }]) {
      const answer = await test.call("task_wait", args, { caller: ALICE });
      expect(answer.say).toMatch(/^NOTHING TO WAIT FOR/);
      expect(at(answer.structured, "next")).toEqual({ kind: "fix", tool: "task_list", arguments: {} });
    }
  });
});

describe("past the limit of held calls", () => {
  it("a wait is refused with the same wait as next step, which claims nothing that was not told (P15, P9)", async () => {
    await using test = await startTestEngine({ limits: { waitsMax: 1 } });
    const open = await running(test, "review-auth-1");
    const { taskId } = await test.delegate("review-auth-2", [say("fine")]);
    await test.settle();
    const holding = test.call("task_wait", { taskIds: [open] });
    await test.settle();
    const full = await test.call("task_wait", { taskIds: [taskId] });
    expect([full.isError, textAt(full.structured, "error", "code")]).toEqual([false, "capacity_full"]);
    expect(full.say).toMatch(/^NOT DONE \(capacity_full\)/);
    expect(nextArguments(full)["taskIds"]).toEqual([taskId]);
    await test.clock.advanceAndSettle(SLICE_MS);
    await holding;
    // The result was never shown: the call that the refusal names brings it.
    const answer = await test.call("task_wait", nextArguments(full));
    expect([statusOf(answer), endOf(answer), resultOf(answer)]).toEqual(["completed", "news", "fine"]);
  });

  it("a peek is still answered, and a delegation is accepted without being held (P15, P1)", async () => {
    await using test = await startTestEngine({ limits: { waitsMax: 1 } });
    const open = await running(test, "review-auth-1");
    const holding = test.call("task_wait", { taskIds: [open] });
    await test.settle();
    expect(statusOf(await test.peek({ taskIds: [open] }))).toBe("working");
    const accepted = await test.delegate("review-auth-2", [gate("b")], { mode: "wait" });
    expect(accepted.structured["created"]).toBe("new");
    expect(test.engine.waiting).toBe(1);
    await test.clock.advanceAndSettle(SLICE_MS);
    await holding;
  });
});
