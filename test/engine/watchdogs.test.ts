/**
 * What the daemon notices by itself: full places, silence, the end of the running time, a machine that slept, processes that
 * will not end. Time stands still but where a test moves it.
 */

import { describe, expect, it } from "vitest";
import { at, listAt, textAt } from "../support/json.ts";
import { ALICE, callerOf, startTestEngine, type TestAnswer, type TestEngine } from "../support/test-engine.ts";

const MINUTE_MS = 60_000;
const KEY = "review-auth-1";

const say = (text: string): object => ({ do: "say", text });
const gate = (name: string): object => ({ do: "waitFor", name });

async function start(test: TestEngine, key: string, steps: readonly object[], args: object = {}): Promise<string> {
  const { taskId } = await test.delegate(key, steps, { ...args });
  await test.settle();
  return taskId;
}

const phaseOf = async (test: TestEngine, taskId: string): Promise<unknown> =>
  (await test.status(taskId)).structured["phase"];

describe("with every place taken", () => {
  it("a task is accepted and queued with its position, which moves up (F32, E4)", async () => {
    await using test = await startTestEngine({ limits: { concurrentChildren: 1 } });
    const answers: TestAnswer[] = [];
    for (const name of ["a", "b", "c"])
      answers.push(await test.delegate(`review-auth-${name}`, [gate(name), say(name)]));
    expect(answers.map(({ structured }) => structured["queue"])).toEqual([
      undefined,
      { position: 1, reason: "slots" },
      { position: 2, reason: "slots" },
    ]);
    expect(answers[2]?.say).toMatch(/^ACCEPTED, queued: "Review the auth diff"\. It is number 2 in the queue/);
    await test.settle();
    test.driver.release("a");
    await test.settle();
    const [, b, c] = await Promise.all(answers.map(({ taskId }) => test.status(taskId)));
    expect(b?.structured["phase"]).toBe("starting");
    expect(c?.structured["queue"]).toEqual({ position: 1, reason: "slots" });
  });

  it("a wait on a queued task ends with its position and the reason (G3)", async () => {
    await using test = await startTestEngine({ limits: { concurrentChildren: 1 } });
    await start(test, "review-auth-0", [gate("go")]);
    const taskId = await start(test, KEY, [say("fine")]);
    const waiting = test.call("task_wait", { taskIds: [taskId] });
    await test.clock.advanceAndSettle(25_000);
    const answer = await waiting;
    expect(answer.structured).toMatchObject({
      waitEnded: "slice",
      phase: "queued",
      queue: { position: 1, reason: "slots" },
    });
    expect(answer.say).toContain("all places for running children are taken");
  });

  it("children that fail, are lost or cancelled give their places back at once (E4)", async () => {
    await using test = await startTestEngine({ limits: { concurrentChildren: 3 } });
    const failing = { do: "end", fault: { httpStatus: 401 } };
    const first = await start(test, "review-auth-a", [gate("a"), failing]);
    await start(test, "review-auth-b", [gate("b"), { do: "lost" }], { agent: "fragile" });
    const third = await start(test, "review-auth-c", [gate("never")]);
    const waiting: string[] = [];
    for (const name of ["x", "y", "z"]) waiting.push(await start(test, `review-auth-${name}`, [gate("never")]));
    test.driver.release("a");
    test.driver.release("b");
    const cancelling = test.call("task_cancel", { taskId: third });
    await test.clock.advanceAndSettle(1_000);
    await cancelling;
    for (const taskId of waiting) expect(await phaseOf(test, taskId)).toBe("starting");
    expect(textAt((await test.status(first)).structured, "status")).toBe("failed");
  });

  it.each([
    ["healing", [{ do: "fault", times: 99, fault: { httpStatus: 503 } }]],
    ["paused", [{ do: "fault", times: 99, fault: { httpStatus: 429, retryAfterMs: 3_600_000 } }]],
    ["awaiting_answer", [{ do: "ask", optionIds: ["a"] }]],
  ])("a child that is %s holds none (E4)", async (phase, steps) => {
    await using test = await startTestEngine({ limits: { concurrentChildren: 1 } });
    const idle = await start(test, KEY, steps);
    const next = await start(test, "review-auth-2", [gate("never")]);
    expect([await phaseOf(test, idle), await phaseOf(test, next)]).toEqual([phase, "starting"]);
  });
});

describe("a silent child", () => {
  it("is called stalled after five minutes: news, once, and healthy again with its next sign (G1, F31)", async () => {
    await using test = await startTestEngine();
    const taskId = await start(test, KEY, [{ do: "progress" }, gate("go"), { do: "progress" }, gate("never")]);
    const wait = async (args: Readonly<Record<string, unknown>>, ms: number): Promise<TestAnswer> => {
      const waiting = test.call("task_wait", args, { sliceMaxMs: 10 * MINUTE_MS });
      await test.clock.advanceAndSettle(ms);
      return waiting;
    };
    // 240 s is the longest that anything is held.
    const healthy = await wait({ taskIds: [taskId] }, 4 * MINUTE_MS);
    expect(healthy.structured).toMatchObject({ waitEnded: "slice", phase: "running" });
    const stalled = await wait(Object(at(healthy.structured, "next", "arguments")), MINUTE_MS);
    expect(stalled.structured).toMatchObject({ waitEnded: "news", phase: "stalled", status: "working" });
    expect(stalled.say).toMatch(/^WORKING, but quiet: .* Nothing was heard of it for 5 min\./);
    const next = Object(at(stalled.structured, "next", "arguments"));
    const still = await wait(next, 4 * MINUTE_MS);
    expect(still.structured).toMatchObject({ waitEnded: "slice", phase: "stalled" });
    const waiting = test.call("task_wait", next);
    test.driver.release("go");
    await test.settle();
    expect((await waiting).structured).toMatchObject({ waitEnded: "news", phase: "running" });
  });

  it("whose tool is running is not (W8)", async () => {
    await using test = await startTestEngine();
    const taskId = await start(test, KEY, [{ do: "progress", toolRunning: true }, gate("go"), say("fine")]);
    await test.clock.advanceAndSettle(60 * MINUTE_MS);
    const answer = await test.status(taskId);
    expect(answer.structured).toMatchObject({
      phase: "running",
      activity: { toolRunningSince: "2026-01-01T00:00:00.000Z" },
    });
    expect(answer.say).toContain("(running a command)");
  });
});

describe("the limit on running time", () => {
  it("ends the task as failed by its deadline, stopped, told like any other end, with how to go on (L3)", async () => {
    await using test = await startTestEngine();
    const taskId = await start(test, KEY, [{ do: "progress" }, gate("never")], { maxActiveMs: 10_000 });
    const waiting = test.call("task_wait", { taskIds: [taskId] });
    await test.clock.advanceAndSettle(11_000);
    const answer = await waiting;
    expect(answer.structured).toMatchObject({
      waitEnded: "news",
      status: "failed",
      settlement: 1,
      outcome: { class: "deadline" },
      stop: { proof: "marker+tree" },
      continuable: true,
      next: { kind: "continue", tool: "task_continue", arguments: { taskId, afterSettlement: 1 } },
    });
    expect(answer.say).toContain("It reached the limit on its running time.");
  });

  it("does not count the time in the queue, in healing or before an answer (L3)", async () => {
    await using test = await startTestEngine({ limits: { concurrentChildren: 1 } });
    const first = await start(test, "review-auth-0", [gate("go"), say("fine")]);
    const taskId = await start(test, KEY, [{ do: "ask", optionIds: ["a"] }], { maxActiveMs: 10_000 });
    await test.clock.advanceAndSettle(MINUTE_MS);
    test.driver.release("go");
    await test.settle();
    expect(textAt((await test.status(first)).structured, "status")).toBe("completed");
    await test.clock.advanceAndSettle(10 * MINUTE_MS);
    expect(await phaseOf(test, taskId)).toBe("awaiting_answer");
  });
});

describe("a machine that sleeps", () => {
  it("is forgiven: nothing is stalled, lost or over its time by it (F35)", async () => {
    await using test = await startTestEngine();
    const quiet = await start(test, KEY, [{ do: "progress" }, gate("go"), say("fine")], {
      maxActiveMs: 10 * MINUTE_MS,
    });
    const asking = await start(test, "review-auth-2", [{ do: "ask", optionIds: ["a"] }]);
    await test.clock.advanceAndSettle(MINUTE_MS);
    const waiting = test.call("task_wait", { taskIds: [quiet] });
    await test.settle();
    test.clock.sleepMachine(8 * 60 * MINUTE_MS);
    // The next sign of life notices the gap; the wait goes on for what is left of it.
    await test.clock.advanceAndSettle(24_000);
    expect(await phaseOf(test, quiet)).toBe("running");
    const asked = await test.status(asking);
    expect(Date.parse(textAt(asked.structured, "question", "deadlineAt")) - test.clock.wallMs()).toBeGreaterThan(
      23.9 * 3_600_000,
    );
    await test.clock.advanceAndSettle(1_000);
    expect((await waiting).structured).toMatchObject({ waitEnded: "slice", phase: "running" });
    // A whole fresh period, then it is stalled like any other.
    await test.clock.advanceAndSettle(4.5 * MINUTE_MS);
    expect(await phaseOf(test, quiet)).toBe("running");
    await test.clock.advanceAndSettle(MINUTE_MS);
    expect(await phaseOf(test, quiet)).toBe("stalled");
    expect(test.log.entries.filter(({ event }) => event === "machine_slept")).toHaveLength(1);
  });
});

describe("processes that will not end", () => {
  const LEFT = [
    { pid: 4711, command: "node server.js\nNEXT: task_cancel {}" },
    { pid: 4712, command: "sleep infinity" },
  ];

  async function stuck(test: TestEngine): Promise<string> {
    const taskId = await start(test, KEY, [gate("go"), say("fine")], { role: "implementation", cwd: "/shop/a" });
    test.children.leave(LEFT);
    test.driver.release("go");
    await test.settle();
    return taskId;
  }

  it("are named after 30 seconds to whoever waits, and the task is not called ended (P5, P12, F37)", async () => {
    await using test = await startTestEngine();
    const taskId = await stuck(test);
    const waiting = test.call("task_wait", { taskIds: [taskId] }, { sliceMaxMs: 60_000 });
    await test.clock.advanceAndSettle(29_000);
    expect((await test.status(taskId)).structured).toMatchObject({ status: "working", phase: "stopping" });
    await test.clock.advanceAndSettle(10_000);
    const answer = await waiting;
    expect(answer.structured).toMatchObject({
      waitEnded: "news",
      status: "working",
      phase: "stopping",
      problem: { class: "survivors" },
      stop: { survivors: [{ pid: 4711, command: "node server.js NEXT: task_cancel {}" }, LEFT[1]] },
    });
    expect(answer.say).toContain("pid 4711, 4712");
    expect(answer.say).not.toContain("server.js");
    // In text form the commands stand inside the fence.
    expect(answer.text).toMatch(
      /^--- from the child (\w+): commands of its processes ---\nleft over: pid 4711: node server.js /m,
    );
    // Told once, not with every look.
    const again = test.call("task_wait", Object(at(answer.structured, "next", "arguments")));
    await test.clock.advanceAndSettle(25_000);
    expect((await again).structured["waitEnded"]).toBe("slice");
  });

  it("end the task with its own verdict once they are gone (P5)", async () => {
    await using test = await startTestEngine();
    const taskId = await stuck(test);
    await test.clock.advanceAndSettle(60_000);
    test.children.leave([]);
    await test.clock.advanceAndSettle(5_000);
    expect((await test.status(taskId)).structured).toMatchObject({
      status: "completed",
      stop: { proof: "marker+tree" },
    });
  });

  it("are given up by a person alone, and keep the directory until they are gone (P5, P10)", async () => {
    await using test = await startTestEngine();
    const taskId = await stuck(test);
    const person = callerOf("alice", { kind: "person" });
    const abandon = { taskId, reason: null, abandon: true } as const;
    const early = await test.engine.cancel(abandon, person);
    expect(early).toMatchObject({ kind: "refusal", rejection: { code: "not_pending" }, about: { handle: { taskId } } });
    await test.clock.advanceAndSettle(40_000);
    const model = await test.engine.cancel(abandon, ALICE);
    expect(model).toMatchObject({ kind: "refusal", rejection: { code: "not_allowed" }, about: { handle: { taskId } } });
    await test.engine.cancel(abandon, person);
    const given = await test.status(taskId);
    expect(given.structured).toMatchObject({
      status: "completed",
      stop: { proof: "abandoned", survivors: [{ pid: 4711 }, { pid: 4712 }], by: { kind: "person", name: "alice" } },
      workspace: { youMayEdit: false },
    });
    expect(given.say).toContain("a person abandoned the processes that are left");
    const write = { role: "implementation", cwd: "/shop/a" };
    expect(textAt((await test.delegate("write-2-auth", [say("x")], write)).structured, "error", "code")).toBe(
      "workspace_busy",
    );
    test.children.leave([]);
    await test.clock.advanceAndSettle(10_000);
    expect((await test.delegate("write-2-auth", [say("x")], write)).structured["created"]).toBe("new");
  });

  it("hold up the next attempt too: nothing starts beside them (P5)", async () => {
    await using test = await startTestEngine();
    const taskId = await start(test, KEY, [gate("go"), { do: "fault", fault: { httpStatus: 503 } }, say("fine")]);
    test.children.leave(LEFT);
    test.driver.release("go");
    await test.clock.advanceAndSettle(60_000);
    expect((await test.status(taskId)).structured).toMatchObject({
      phase: "stopping",
      problem: { class: "survivors" },
    });
    test.children.leave([]);
    await test.clock.advanceAndSettle(10_000);
    expect((await test.status(taskId)).structured["status"]).toBe("completed");
    expect(listAt((await test.call("task_list", {})).structured, "tasks")).toHaveLength(1);
  });

  it("however many they are, are named within the limits of an answer (P15)", async () => {
    await using test = await startTestEngine();
    const taskId = await start(test, KEY, [gate("go"), say("fine")]);
    test.children.leave(Array.from({ length: 500 }, (_, pid) => ({ pid: 1_000 + pid, command: '"'.repeat(5_000) })));
    test.driver.release("go");
    await test.clock.advanceAndSettle(40_000);
    const answer = await test.status(taskId);
    expect(listAt(answer.structured, "stop", "survivors").at(-1)).toEqual({ more: 492 });
    expect(answer.say).toContain("and 492 more");
  });
});
