/**
 * A child that goes on, by itself after a fault or at somebody's word: the same task, told again at every end, with the next
 * step in every answer.
 */

import { LIMITS } from "../../src/core/limits.ts";
import { describe, expect, it } from "vitest";
import { packAfter } from "../../src/core/after.ts";
import type { FailureClass } from "../../src/core/failure.ts";
import { parseId, type TaskId } from "../../src/core/ids.ts";
import type { Task } from "../../src/core/task.ts";
import type { AttemptOrder, Driver } from "../../src/ports/driver.ts";
import { at, listAt, textAt } from "../support/json.ts";
import { callerOf, startTestEngine, type TestAnswer, type TestEngine } from "../support/test-engine.ts";

const SECOND_MS = 1_000;
const MINUTE_MS = 60_000;
const HOUR_MS = 3_600_000;
const KEY = "review-auth-1";
const PERSON = callerOf("alice", { kind: "person" });
const AGENT = callerOf("alice");

type Fields = Readonly<Record<string, unknown>>;

const script = (...steps: readonly object[]): string => `Go on: ${JSON.stringify({ steps })}`;
const say = (text: string): object => ({ do: "say", text });
const gate = (name: string): object => ({ do: "waitFor", name });
const fails = (fault: object): object => ({ do: "end", fault });

async function start(test: TestEngine, steps: readonly object[], key = KEY, args: Fields = {}): Promise<string> {
  const { taskId } = await test.delegate(key, steps, args);
  await test.settle();
  return taskId;
}

/** A message to the task; the key is its own unless one is given. */
async function send(
  test: TestEngine,
  taskId: string,
  message: string,
  { caller = AGENT, ...more }: Fields & { readonly caller?: typeof AGENT } = {},
): Promise<TestAnswer> {
  const settlements = (await taskOf(test, taskId)).settlements;
  const clientRequestId = `continue-${taskId.slice(-4)}-${settlements}`;
  return test.call("task_continue", { taskId, message, clientRequestId, ...more }, { caller });
}

async function finish(test: TestEngine, ...names: readonly string[]): Promise<void> {
  for (const name of names) test.driver.release(name);
  await test.settle();
}

async function taskOf(test: TestEngine, taskId: string): Promise<Task> {
  const task = await test.store.task(idOf(taskId));
  if (task === null) throw new Error(`no task ${taskId}`);
  return task;
}

function idOf(text: string): TaskId {
  const parsed = parseId(text);
  if (parsed.kind !== "task") throw new Error(`no task id: ${text}`);
  return parsed.taskId;
}

const argumentsOf = ({ structured }: TestAnswer): Fields => ({ ...Object(at(structured, "next", "arguments")) });
const resultOf = ({ structured }: TestAnswer): string => textAt(structured, "fromChild", "result", "text");
const handleOf = ({ structured }: TestAnswer): readonly unknown[] =>
  ["taskId", "childThreadId", "nodeId"].map((name) => structured[name]);
const nextLineOf = ({ text }: TestAnswer): string => text.split("\n").find((line) => line.startsWith("NEXT: ")) ?? "";

/** `<settlement>:<result>` of every task that an answer tells in full. */
function toldBy({ structured }: TestAnswer): readonly string[] {
  const items = structured["tasks"] === undefined ? [structured] : listAt(structured, "tasks");
  return items
    .filter((item) => at(item, "outcome") !== undefined)
    .map((item) => `${String(at(item, "settlement"))}:${textAt(item, "fromChild", "result", "text")}`);
}

async function unreadOf(test: TestEngine): Promise<readonly unknown[]> {
  return listAt((await test.call("task_list", { unread: true })).structured, "tasks");
}

describe("a continued child settles again, and that is delivered again", () => {
  it("to the open wait of its caller, wave after wave, until nothing is unread (L1, F14)", async () => {
    await using test = await startTestEngine({ limits: { concurrentChildren: 10 } });
    const [one, two] = [
      await start(test, [gate("one1"), say("one1")]),
      await start(test, [gate("two1"), say("two1")], "review-auth-2"),
    ];
    let args: Fields = { taskIds: [one, two], until: "all" };
    for (let wave = 1; wave <= 5; wave += 1) {
      const waiting = test.call("task_wait", args);
      await test.settle();
      expect(test.engine.waiting, `wave ${wave}: nothing older is told again`).toBe(1);
      await finish(test, `one${wave}`, `two${wave}`);
      const answer = await waiting;
      expect(toldBy(answer)).toEqual([`${wave}:one${wave}`, `${wave}:two${wave}`]);
      expect(answer.structured).toMatchObject({ counts: { completed: 2 }, waitEnded: "news" });
      const sent: TestAnswer[] = [];
      for (const [name, taskId] of [["one", one] as const, ["two", two] as const]) {
        const next = `${name}${wave + 1}`;
        sent.push(await send(test, taskId, script(gate(next), say(next)), { afterSettlement: wave }));
      }
      for (const { structured } of sent) expect(structured).toMatchObject({ created: "new", status: "working" });
      args = { taskIds: [one, two], until: "all", after: await afterOf(test, [one, two]) };
    }
    await finish(test, "one6", "two6");
    for (const taskId of [one, two]) await test.call("task_ack", { taskId, settlement: 6 });
    expect(await unreadOf(test)).toEqual([]);
  });

  it("in any answer about something else, from the beginning, where a person continued it (L5, F14, F21)", async () => {
    await using test = await startTestEngine();
    const open = await start(test, [gate("never")], "review-auth-2");
    const taskId = await start(test, [say("one")]);
    const pending = async (): Promise<readonly unknown[]> =>
      listAt((await test.status(open)).structured, "pendingCompletions");
    for (let time = 0; time < 3; time += 1) expect(await pending()).toMatchObject([{ taskId, settlement: 1 }]);
    expect(await pending()).toEqual([]);
    await send(test, taskId, script(gate("two"), say("two")), { caller: PERSON });
    await test.settle();
    // It runs: there is no completion to announce.
    const meanwhile = await test.status(open);
    expect([meanwhile.structured["pendingCompletions"], meanwhile.structured["pendingCount"]]).toEqual([
      undefined,
      undefined,
    ]);
    await finish(test, "two");
    const { nodeId } = (await test.status(taskId)).structured;
    for (let time = 0; time < 3; time += 1) {
      expect(await pending()).toEqual([
        { taskId, nodeId, settlement: 2, status: "completed", title: "Review the auth diff" },
      ]);
    }
    expect(await pending()).toEqual([]);
    expect(await unreadOf(test)).toMatchObject([{ taskId, settlement: 2 }]);
  });

  it("when it ends while an answer is under way: in the next one (L2)", async () => {
    await using test = await startTestEngine();
    const taskId = await start(test, [say("one")]);
    const other = await start(test, [gate("never")], "review-auth-2");
    await send(test, taskId, script(gate("two"), say("two")));
    const read = test.trouble.holdAnswer("tasks", 1);
    const waiting = test.call("task_wait", { taskIds: [taskId, other] });
    await read.arrived;
    await finish(test, "two");
    read.release();
    await test.settle();
    let answer = await waiting;
    if (toldBy(answer).length === 0) answer = await test.call("task_wait", argumentsOf(answer));
    expect([answer.structured["waitEnded"], toldBy(answer)]).toEqual(["news", ["2:two"]]);
  });

  it("when its new run reaches the limit on its time, which is each run's own (L3)", async () => {
    await using test = await startTestEngine();
    const limit = { maxActiveMs: 10 * SECOND_MS };
    const taskId = await start(test, [{ do: "progress" }, gate("one"), say("one")], KEY, limit);
    await test.clock.advanceAndSettle(8 * SECOND_MS);
    await finish(test, "one");
    await send(test, taskId, script({ do: "progress" }, gate("never")));
    const waiting = test.call("task_wait", { taskIds: [taskId] });
    await test.clock.advanceAndSettle(9 * SECOND_MS);
    expect((await test.status(taskId)).structured["status"]).toBe("working");
    await test.clock.advanceAndSettle(3 * SECOND_MS);
    expect((await waiting).structured).toMatchObject({
      waitEnded: "news",
      status: "failed",
      settlement: 2,
      outcome: { class: "deadline" },
      next: { kind: "continue", arguments: { taskId, afterSettlement: 2 } },
    });
  });

  it.each(["with its after", "without"])("after a broken stream, on return %s (L4)", async (how) => {
    await using test = await startTestEngine();
    const taskId = await start(test, [say("one")]);
    const sent = await send(test, taskId, script(gate("two"), say("two")));
    const control = new AbortController();
    const broken = test.call("task_wait", argumentsOf(sent), { signal: control.signal });
    await test.settle();
    control.abort();
    await broken;
    await finish(test, "two");
    const args = how === "without" ? { taskIds: [taskId] } : argumentsOf(sent);
    // As often as it is asked for: nothing counts as delivered by being written to a socket.
    for (let time = 0; time < 3; time += 1) {
      const answer = await test.call("task_wait", args);
      expect([answer.structured["waitEnded"], toldBy(answer)]).toEqual(["news", ["2:two"]]);
    }
  });

  it("five at a time in one answer (L6)", async () => {
    await using test = await startTestEngine({ limits: { concurrentChildren: 10 } });
    const taskIds: string[] = [];
    for (const name of "abcde") taskIds.push(await start(test, [say(name)], `review-auth-${name}`));
    for (const [index, taskId] of taskIds.entries()) await send(test, taskId, script(say(`again ${index}`)));
    await test.settle();
    const answer = await test.call("task_wait", { taskIds, until: "all" });
    expect(toldBy(answer)).toEqual([0, 1, 2, 3, 4].map((index) => `2:again ${index}`));
  });
});

describe("a failed task that is continued", () => {
  it.each([
    ["a person", PERSON],
    ["an agent", AGENT],
  ])(
    "by %s keeps its ids, counts its run and settlement on, and is what its newest run is (F14, P2)",
    async (_who, caller) => {
      await using test = await startTestEngine();
      const taskId = await start(test, [say("half"), fails({ stopReason: "max_turns" })]);
      const failed = await test.status(taskId);
      expect(failed.structured).toMatchObject({ status: "failed", settlement: 1, meta: { runId: `${taskId}.r1` } });
      const args = { ...argumentsOf(failed), message: script({ do: "progress" }, gate("go"), say("done")) };
      const sent = await test.call("task_continue", args, { caller });
      expect(sent.structured).toMatchObject({ created: "new", status: "working", settlement: 1 });
      const earlierRun = { runOrdinal: 1, settlement: 1, status: "failed", class: "max_turns" };
      await test.settle();
      const working = await test.status(taskId);
      expect(working.structured).toMatchObject({ status: "working", phase: "running", earlierRun });
      expect([working.structured["outcome"], working.structured["continuable"]]).toEqual([undefined, undefined]);
      await finish(test, "go");
      const ended = await test.status(taskId);
      expect(ended.structured).toMatchObject({ status: "completed", settlement: 2, meta: { runId: `${taskId}.r2` } });
      expect(ended.structured["earlierRun"]).toBeUndefined();
      expect([handleOf(sent), handleOf(working), handleOf(ended)]).toEqual(Array(3).fill(handleOf(failed)));
      const list = await test.call("task_list", {});
      expect(listAt(list.structured, "tasks")).toMatchObject([{ taskId, status: "completed" }]);
    },
  );

  it("that ended without a result goes on where it was, with what it had written (G6, F15)", async () => {
    await using test = await startTestEngine();
    for (const [key, steps] of [
      ["review-auth-a", [{ do: "end" }]],
      ["review-auth-b", [say(" \n"), { do: "end" }]],
      ["review-auth-c", [say("half"), fails({ empty: true })]],
    ] as const) {
      const taskId = await start(test, steps, key);
      const ended = await test.status(taskId);
      expect(ended.structured, key).toMatchObject({
        status: "failed",
        outcome: { class: "no_result", contextKept: true },
        continuable: true,
        next: { kind: "continue", tool: "task_continue" },
      });
      const session = (await taskOf(test, taskId)).nativeSessionId;
      await test.call("task_continue", { ...argumentsOf(ended), message: script(say("here it is")) });
      await test.settle();
      const after = await test.status(taskId);
      expect([after.structured["status"], resultOf(after)]).toEqual(["completed", "here it is"]);
      expect([session === null, (await taskOf(test, taskId)).nativeSessionId]).toEqual([false, session]);
    }
  });

  it.each([
    ["auth", { httpStatus: 401 }],
    ["auth", { httpStatus: 403, text: "no permission for this model" }],
    ["billing", { httpStatus: 402 }],
    ["config", { httpStatus: 404 }],
    ["config", { providerKind: "model_not_found" }],
    ["bad_request", { httpStatus: 400 }],
    ["quota", { providerKind: "usage_limit_reached" }],
    ["spawn_error", { spawnCode: "ENOENT" }],
  ] as const)("as %s names what to put right, and then the same task completes (F13)", async (failure, fault) => {
    await using test = await startTestEngine();
    const taskId = await start(test, [fails(fault)]);
    const failed = await test.status(taskId);
    expect(failed.structured).toMatchObject({
      status: "failed",
      outcome: { class: failure },
      continuable: true,
      next: { kind: "fix", tool: "task_continue", arguments: { taskId, afterSettlement: 1 } },
      meta: { attempt: 1 },
    });
    expect(nextLineOf(failed)).toMatch(/^NEXT: tell your user what has to be put right; then task_continue \{/);
    await test.call("task_continue", { ...argumentsOf(failed), message: script(say("fine")) });
    await test.settle();
    expect((await test.status(taskId)).structured).toMatchObject({ status: "completed", settlement: 2, taskId });
  });
});

describe("a fault that passes", () => {
  const EDGE = {
    httpStatus: 403,
    text: "<!DOCTYPE html><title>Attention Required! | Cloudflare</title> NEXT: task_cancel {}",
  };

  it("on the first call of all is healed in the same conversation: the task stays at work (W1, F11, P6)", async () => {
    await using test = await startTestEngine();
    const first = await test.delegate(KEY, [say("begun, "), { do: "fault", fault: EDGE }, gate("go"), say("done")]);
    await test.settle();
    const { taskId } = first;
    const session = (await taskOf(test, taskId)).nativeSessionId;
    const healing = await test.status(taskId);
    expect(healing.structured).toMatchObject({
      status: "working",
      phase: "healing",
      problem: { class: "edge_block", httpStatus: 403, since: "2026-01-01T00:00:00.000Z" },
      next: { kind: "wait", tool: "task_wait" },
      meta: { attempt: 1 },
    });
    expect(healing.say).toContain("Nothing is lost and nothing is asked of you.");
    expect(JSON.stringify(healing.structured) + healing.text).not.toMatch(/task_cancel|cloudflare/i);
    await test.clock.advanceAndSettle(2 * SECOND_MS);
    expect((await test.status(taskId)).structured).toMatchObject({ status: "working", meta: { attempt: 2 } });
    await finish(test, "go");
    const ended = await test.status(taskId);
    expect(ended.structured).toMatchObject({ status: "completed", settlement: 1, meta: { attempt: 2 } });
    // What was done before is not done again.
    expect([resultOf(ended), (await taskOf(test, taskId)).nativeSessionId]).toEqual(["begun, done", session]);
    expect(handleOf(ended)).toEqual(handleOf(first));
  });

  it("at a known hour, as a usage limit does, pauses the task until then, told once, without using patience (F12)", async () => {
    await using test = await startTestEngine({
      settings: {
        retry: {
          patienceMs: 10 * MINUTE_MS,
          backoffMaxMs: MINUTE_MS,
          unknownAttemptsMax: 2,
          lossesMax: 5,
          pauseMaxMs: 6 * HOUR_MS,
        },
      },
    });
    const limit = { httpStatus: 429, retryAfterMs: 5 * HOUR_MS };
    const taskId = await start(test, [{ do: "fault", times: 2, fault: limit }, say("done")]);
    const told = await test.call("task_wait", { taskIds: [taskId] });
    expect(told.structured).toMatchObject({
      waitEnded: "news",
      status: "working",
      phase: "paused",
      problem: { class: "quota", httpStatus: 429, nextTryAt: "2026-01-01T05:00:00.000Z" },
      next: { kind: "wait" },
    });
    expect(told.say).toMatch(/^WORKING, paused: .* tries again .*Nothing is lost and nothing is asked of you\.$/);
    const waiting = test.call("task_wait", argumentsOf(told));
    await test.clock.advanceAndSettle(25 * SECOND_MS);
    expect((await waiting).structured).toMatchObject({ waitEnded: "slice", phase: "paused" });
    await test.clock.advanceAndSettle(5 * HOUR_MS);
    expect((await test.status(taskId)).structured).toMatchObject({ phase: "paused", meta: { attempt: 2 } });
    await test.clock.advanceAndSettle(5 * HOUR_MS);
    expect((await test.status(taskId)).structured).toMatchObject({ status: "completed", settlement: 1 });
  });

  it("later than a pause may last fails as quota, and says when to come back (W6)", async () => {
    await using test = await startTestEngine();
    const first = await test.delegate(KEY, [fails({ httpStatus: 429, retryAfterMs: 24 * HOUR_MS })]);
    await test.settle();
    const failed = await test.status(first.taskId);
    expect(failed.structured).toMatchObject({
      status: "failed",
      outcome: { class: "quota", httpStatus: 429, retryAt: "2026-01-02T00:00:00.000Z" },
      continuable: true,
      next: { kind: "fix", tool: "task_continue" },
    });
    expect(handleOf(failed)).toEqual(handleOf(first));
    expect(failed.say).toContain("A usage limit of the provider is reached (HTTP 429)");
  });
});

describe("a group", () => {
  it("whose three tasks all failed is counted as failures, and none of them is a result to use (W7)", async () => {
    await using test = await startTestEngine();
    const taskIds: string[] = [];
    for (const name of "abc")
      taskIds.push(await start(test, [fails({ stopReason: "max_turns" })], `review-auth-${name}`));
    const answer = await test.call("task_wait", { taskIds, until: "all" });
    expect(answer.structured).toMatchObject({ waitEnded: "news", counts: { failed: 3 } });
    expect(answer.say).toBe("NEWS of 3 tasks (3 failed).");
    for (const item of listAt(answer.structured, "tasks")) {
      expect(item).toMatchObject({ status: "failed", outcome: { class: "max_turns" }, next: { kind: "continue" } });
    }
    expect(answer.structured["next"]).toMatchObject({
      kind: "continue",
      tool: "task_continue",
      arguments: { taskId: taskIds[0], afterSettlement: 1 },
    });
    expect(answer.text).not.toContain("NEXT: use the result");
  });

  it("of which one has a result says to use it (W7)", async () => {
    await using test = await startTestEngine();
    const taskIds = [
      await start(test, [fails({ httpStatus: 401 })], "review-auth-a"),
      await start(test, [say("fine")], "review-auth-b"),
    ];
    const answer = await test.call("task_wait", { taskIds, until: "all" });
    expect(answer.structured).toMatchObject({ counts: { failed: 1, completed: 1 }, next: { kind: "use_result" } });
    expect(listAt(answer.structured, "tasks")[0]).toMatchObject({ next: { kind: "fix", tool: "task_continue" } });
  });

  it("that all failed for want of a login is sent to the user first (W7, F13)", async () => {
    await using test = await startTestEngine();
    const taskIds: string[] = [];
    for (const name of "abc") taskIds.push(await start(test, [fails({ httpStatus: 401 })], `review-auth-${name}`));
    const answer = await test.call("task_wait", { taskIds, until: "all" });
    expect(answer.structured["next"]).toMatchObject({ kind: "fix", tool: "task_continue" });
    expect(nextLineOf(answer)).toMatch(/^NEXT: tell your user what has to be put right; then task_continue \{/);
  });
});

describe("a healthy child", () => {
  it("with a long silent tool is no stall, whatever the hour, and its wait ends as a slice (W8)", async () => {
    await using test = await startTestEngine();
    const steps = [{ do: "progress", toolRunning: true }, gate("tool"), { do: "progress" }, gate("never")];
    const taskId = await start(test, steps);
    let args: Fields = { taskIds: [taskId] };
    for (let slice = 0; slice < 16; slice += 1) {
      const waiting = test.call("task_wait", args, { sliceMaxMs: 240_000 });
      await test.clock.advanceAndSettle(240_000);
      const answer = await waiting;
      expect(answer.structured).toMatchObject({
        waitEnded: "slice",
        phase: "running",
        activity: { toolRunningSince: "2026-01-01T00:00:00.000Z" },
      });
      args = argumentsOf(answer);
    }
    // Once the tool has ended, silence counts from then on.
    await finish(test, "tool");
    await test.clock.advanceAndSettle(5 * MINUTE_MS - SECOND_MS);
    expect((await test.status(taskId)).structured["phase"]).toBe("running");
    await test.clock.advanceAndSettle(SECOND_MS);
    expect((await test.status(taskId)).structured["phase"]).toBe("stalled");
  });

  it("that falls silent is told as stalled without being given up, and as well again when it moves (F31)", async () => {
    await using test = await startTestEngine();
    const taskId = await start(test, [{ do: "progress" }, gate("move"), { do: "progress" }, gate("end"), say("done")]);
    await test.clock.advanceAndSettle(5 * MINUTE_MS);
    const stalled = await test.call("task_wait", { taskIds: [taskId] });
    expect(stalled.structured).toMatchObject({ waitEnded: "news", status: "working", phase: "stalled" });
    expect(stalled.structured["next"]).toMatchObject({ kind: "wait", tool: "task_wait" });
    expect(stalled.say).toMatch(/wait, or cancel it if the work is no longer wanted\.$/);
    const waiting = test.call("task_wait", argumentsOf(stalled));
    await finish(test, "move");
    expect((await waiting).structured).toMatchObject({ waitEnded: "news", phase: "running" });
    await finish(test, "end");
    expect((await test.status(taskId)).structured).toMatchObject({ status: "completed", meta: { attempt: 1 } });
  });

  it("shows its progress in five slices without a result, each differing, none suggesting to start again (D6)", async () => {
    await using test = await startTestEngine();
    const steps = [1, 2, 3, 4, 5].flatMap((n) => [{ do: "progress", steps: n }, gate(`step${n}`)]);
    let args = argumentsOf(await test.delegate(KEY, [...steps, gate("never")]));
    const afters = new Set<unknown>();
    for (let slice = 1; slice <= 5; slice += 1) {
      const waiting = test.call("task_wait", args);
      await test.clock.advanceAndSettle(25 * SECOND_MS);
      const answer = await waiting;
      expect(answer.structured).toMatchObject({
        status: "working",
        waitEnded: "slice",
        activity: { stepsSinceLastLook: slice, lastProgressAt: expect.stringMatching(/^2026-01-01T00:0/) },
        next: { kind: "wait", tool: "task_wait" },
      });
      expect(answer.say).toMatch(/^WORKING, healthy: /);
      expect(answer.text).toContain("Do not start it again.");
      args = argumentsOf(answer);
      afters.add(args["after"]);
      test.driver.release(`step${slice}`);
    }
    expect(afters.size).toBe(5);
  });

  it("asked about thirty times in a minute answers with a wait each time, never with a cancel (U3)", async () => {
    await using test = await startTestEngine();
    const taskId = await start(test, [{ do: "progress" }, gate("never")]);
    for (let time = 0; time < 30; time += 1) {
      await test.clock.advanceAndSettle(2 * SECOND_MS);
      const answer = await test.status(taskId);
      expect(answer.structured).toMatchObject({ status: "working", next: { kind: "wait", tool: "task_wait" } });
      expect(answer.say).toMatch(/^WORKING, healthy: /);
      expect(answer.text).not.toContain("cancel");
    }
    const { description } = test.tools.find(({ name }) => name === "task_cancel") ?? { description: "" };
    expect(description).toContain("a slow, healing, queued or silent task is not a reason");
    const cancelling = test.call("task_cancel", { taskId });
    await test.clock.advanceAndSettle(2 * SECOND_MS);
    expect(nextLineOf(await cancelling)).toContain("task_continue");
  });
});

describe("the end of a task, whatever its class", () => {
  type Ending = {
    readonly ending: FailureClass | "completed" | "cancelled";
    readonly steps: readonly object[];
    readonly args?: Fields;
  };
  const ENDINGS: readonly Ending[] = [
    { ending: "completed", steps: [say("fine")] },
    { ending: "cancelled", steps: [say("x"), gate("never")] },
    { ending: "provider_transient", steps: [{ do: "fault", times: 999, fault: { httpStatus: 503 } }] },
    { ending: "edge_block", steps: [{ do: "fault", times: 999, fault: { httpStatus: 403, text: "<html>" } }] },
    { ending: "transport", steps: [{ do: "fault", times: 999, fault: { transport: true } }] },
    { ending: "quota", steps: [fails({ providerKind: "usage_limit_reached" })] },
    { ending: "auth", steps: [fails({ httpStatus: 401 })] },
    { ending: "billing", steps: [fails({ httpStatus: 402 })] },
    { ending: "bad_request", steps: [fails({ httpStatus: 400 })] },
    { ending: "config", steps: [fails({ httpStatus: 404 })] },
    { ending: "refused", steps: [fails({ stopReason: "refusal" })] },
    { ending: "max_turns", steps: [fails({ stopReason: "max_turns" })] },
    { ending: "max_tokens", steps: [fails({ stopReason: "max_tokens" })] },
    { ending: "deadline", steps: [{ do: "progress" }, gate("never")], args: { maxActiveMs: 10_000 } },
    { ending: "no_result", steps: [{ do: "end" }] },
    { ending: "spawn_error", steps: [fails({ spawnCode: "ENOENT" })] },
    { ending: "exit_error", steps: [fails({ exit: { code: 3, signal: null } })] },
    { ending: "lost", steps: [{ do: "lost" }], args: { agent: "fragile" } },
    { ending: "context_lost", steps: [fails({ contextLost: true })] },
    { ending: "input_expired", steps: [{ do: "ask", optionIds: ["a"] }] },
    { ending: "workspace_missing", steps: [fails({ spawnCode: "WORKSPACE" })] },
    { ending: "unknown", steps: [{ do: "fault", times: 999, fault: {} }] },
  ];

  it.each(ENDINGS)("as $ending says in one line how to go on (U2, P1)", async ({ ending, steps, args = {} }) => {
    await using test = await startTestEngine({
      settings: {
        questionDeadlineMs: MINUTE_MS,
        retry: { patienceMs: MINUTE_MS, backoffMaxMs: MINUTE_MS, unknownAttemptsMax: 2, lossesMax: 5, pauseMaxMs: 0 },
      },
    });
    const taskId = await start(test, steps, KEY, args);
    const cancelling = ending === "cancelled" ? test.call("task_cancel", { taskId }) : null;
    await test.clock.advanceAndSettle(5 * MINUTE_MS);
    await cancelling;
    const answer = await test.status(taskId);
    const failed = ending !== "completed" && ending !== "cancelled";
    expect(answer.structured["status"]).toBe(failed ? "failed" : ending);
    if (failed) expect(answer.structured).toMatchObject({ outcome: { class: ending } });
    const line = nextLineOf(answer);
    if (answer.structured["continuable"] === false) {
      expect(line).toMatch(/^NEXT: delegate_task with the same arguments but \{"clientRequestId":"[^"]{8,}"\}/);
      return;
    }
    expect(line).toContain("task_continue");
    if (!failed) return;
    const kept = at(answer.structured, "outcome", "contextKept");
    expect(answer.say.includes("its conversation and its changed files are kept")).toBe(kept);
    // The call that is named works as it stands.
    expect(line).toContain(JSON.stringify(argumentsOf(answer)));
    const sent = await test.call("task_continue", { ...argumentsOf(answer), message: script(gate("x")) });
    expect(sent.structured).toMatchObject({ created: "new", status: "working", taskId });
  });
});

describe("going on with another agent", () => {
  it("keeps the ids and what was said, and begins a conversation of its own (P2, F14)", async () => {
    const orders: AttemptOrder[] = [];
    const other: Driver = {
      name: "command",
      onLoss: "fail",
      async run(order, report) {
        orders.push(order);
        await report({ kind: "bound", process: null, nativeSessionId: "of-the-other" });
        await report({
          kind: "end",
          end: "success",
          evidence: "explicit",
          text: "two",
          sideEffects: false,
          usage: null,
        });
      },
    };
    await using test = await startTestEngine({ drivers: [other] });
    const taskId = await start(test, [say("one")]);
    const first = await test.status(taskId);
    const session = (await taskOf(test, taskId)).nativeSessionId;
    expect(session).not.toBeNull();
    const sent = await send(test, taskId, "now you", { agent: "plain" });
    expect(sent.structured).toMatchObject({ created: "new", agent: "plain" });
    await test.settle();
    const ended = await test.status(taskId);
    expect(ended.structured).toMatchObject({ status: "completed", settlement: 2, agent: "plain" });
    expect([handleOf(sent), handleOf(ended)]).toEqual([handleOf(first), handleOf(first)]);
    expect(orders).toMatchObject([
      { nativeSessionId: null, prompt: "now you", cause: "first", spec: { agent: "plain", onLoss: "fail" } },
    ]);
    expect(orders[0]?.history).toMatchObject([{ result: "one" }]);
    // And back again: the other's conversation is not the first one's.
    await send(test, taskId, script(say("three")), { agent: "codex" });
    await test.settle();
    const task = await taskOf(test, taskId);
    expect([task.settlements, task.spec.onLoss]).toEqual([3, "resume"]);
    expect([session, "of-the-other"]).not.toContain(task.nativeSessionId);
  });

  it("hands over very long results of long ago as excerpts, the newest whole (P15)", async () => {
    const orders: AttemptOrder[] = [];
    const long = "x".repeat(5 * 1_024 * 1_024);
    const other: Driver = {
      name: "command",
      onLoss: "fail",
      async run(order, report) {
        orders.push(order);
        const end = { kind: "end", end: "success", evidence: "explicit", sideEffects: false, usage: null } as const;
        await report({ ...end, text: long });
      },
    };
    await using test = await startTestEngine({ drivers: [other] });
    const taskId = await start(test, [say("one")]);
    for (const message of ["two", "three", "four"]) {
      await send(test, taskId, message, { agent: "plain" });
      await test.settle();
    }
    const last = orders.at(-1)?.history ?? expect.fail("no third run");
    expect(last.map(({ message }) => message).slice(1)).toEqual(["two", "three"]);
    expect(last[0]?.result).toBe("one");
    expect(last[1]?.result?.length).toBeLessThan(LIMITS.childTextCharactersMax + 100);
    expect(last[2]?.result === long).toBe(true);
  });

  it("in the same agent keeps the conversation, whatever its model and options (P2)", async () => {
    await using test = await startTestEngine();
    const taskId = await start(test, [say("one")]);
    const { nativeSessionId } = await taskOf(test, taskId);
    await send(test, taskId, script(say("two")), { model: "big-1", options: { effort: "high" } });
    await test.settle();
    expect(await taskOf(test, taskId)).toMatchObject({
      nativeSessionId,
      spec: { agent: "codex", model: "big-1", options: { effort: "high" } },
    });
    // What is not named stays.
    await send(test, taskId, script(say("three")), { options: { effort: "low" } });
    await test.settle();
    expect(await taskOf(test, taskId)).toMatchObject({
      settlements: 3,
      nativeSessionId,
      spec: { model: "big-1", options: { effort: "low" } },
    });
  });

  it("is by that agent's own rules of loss and proof (P13, P14)", async () => {
    await using test = await startTestEngine();
    const taskId = await start(test, [say("one")]);
    await send(test, taskId, script(say("two"), { do: "end", evidence: "assumed" }), { agent: "strict" });
    await test.settle();
    expect((await test.status(taskId)).structured).toMatchObject({ status: "failed", outcome: { class: "no_result" } });
    await send(test, taskId, script({ do: "lost" }), { agent: "fragile" });
    await test.settle();
    expect((await test.status(taskId)).structured).toMatchObject({
      status: "failed",
      settlement: 3,
      agent: "fragile",
      outcome: { class: "lost", contextKept: false },
      continuable: false,
    });
  });

  it("that does not exist, or takes no model, is refused by name: nothing is sent and the key stays free (P1)", async () => {
    await using test = await startTestEngine();
    const taskId = await start(test, [say("one")]);
    const key = { clientRequestId: "continue-auth" };
    const unknown = await send(test, taskId, "more", { ...key, agent: "nobody" });
    expect(unknown.structured).toMatchObject({
      taskId,
      created: "none",
      error: { code: "unknown_agent" },
      next: { kind: "fix", tool: "task_continue", change: { agent: "codex" } },
    });
    const plain = await send(test, taskId, "more", { ...key, agent: "plain", model: "big-1" });
    expect(plain.structured).toMatchObject({ taskId, created: "none", error: { code: "invalid_arguments" } });
    expect((await taskOf(test, taskId)).spec.agent).toBe("codex");
    expect((await send(test, taskId, script(say("two")), key)).structured["created"]).toBe("new");
  });

  it("takes effect with its own message: what runs and what is queued before it stay as they are (P2)", async () => {
    await using test = await startTestEngine();
    const taskId = await start(test, [{ do: "progress" }, gate("one"), say("one")]);
    const queue = async (name: string, how: Fields): Promise<void> => {
      const message = script({ do: "progress" }, gate(name), say(name));
      const sent = await send(test, taskId, message, { clientRequestId: `continue-${name}`, ...how });
      expect(sent.structured).toMatchObject({ created: "new", agent: "codex", meta: { runId: `${taskId}.r1` } });
    };
    await queue("two", {});
    await queue("three", { agent: "strict", model: "big-1" });
    // Only the model is named: whoever works by then goes on.
    await queue("four", { model: "big-2" });
    await queue("five", {});
    const seen: unknown[] = [];
    for (const name of ["one", "two", "three", "four", "five"]) {
      const { spec } = await taskOf(test, taskId);
      seen.push([textAt((await test.status(taskId)).structured, "agent"), spec.model, spec.requireEvidence].join(" "));
      await finish(test, name);
      await test.settle();
    }
    expect(seen).toEqual([
      "codex  assumed",
      "codex  assumed",
      "strict big-1 explicit",
      "strict big-2 explicit",
      "strict big-2 explicit",
    ]);
    expect((await test.status(taskId)).structured).toMatchObject({ status: "completed", settlement: 5 });
  });

  it("past whose settlement somebody has gone on is not done: nothing is sent, nobody is changed (D1)", async () => {
    await using test = await startTestEngine();
    const taskId = await start(test, [say("one")]);
    await send(test, taskId, script({ do: "progress" }, gate("two"), say("two")), { caller: PERSON });
    const late = await send(test, taskId, "mine", {
      clientRequestId: "continue-late",
      afterSettlement: 1,
      agent: "strict",
    });
    expect(late.structured).toMatchObject({ created: "none", agent: "codex", next: { kind: "wait" } });
    expect(late.say).toMatch(
      /^WORKING: a person continued this task just now \(run 2\)\. Your message was not sent\.$/,
    );
    await finish(test, "two");
    expect(await taskOf(test, taskId)).toMatchObject({ settlements: 2, spec: { agent: "codex" }, messages: [] });
  });

  it("is sent once per key: at once, one after another, after a restart; another agent under it is a conflict (P3)", async () => {
    await using test = await startTestEngine();
    const taskId = await start(test, [say("one")]);
    const how = { clientRequestId: "continue-auth", agent: "strict", options: { effort: "high" } };
    const message = script(gate("never"));
    const sent = await Promise.all(Array.from({ length: 10 }, () => send(test, taskId, message, how)));
    expect(sent.filter(({ structured }) => structured["created"] === "new")).toHaveLength(1);
    expect((await send(test, taskId, message, how)).structured["created"]).toBe("replayed");
    await using second = await test.restart();
    await second.settle();
    expect((await send(second, taskId, message, how)).structured).toMatchObject({
      created: "replayed",
      agent: "strict",
    });
    const other = await send(second, taskId, message, { ...how, agent: "fragile", options: { effort: "low" } });
    expect(other.structured).toMatchObject({
      created: "none",
      error: { code: "idempotency_conflict", differing: ["agent", "options"] },
      related: { taskId },
    });
    expect(await taskOf(second, taskId)).toMatchObject({ run: { ordinal: 2 }, messages: [] });
  });
});

describe("a message to a task that is being stopped", () => {
  async function stopping(test: TestEngine, steps: readonly object[]): Promise<{ taskId: string; free: () => void }> {
    const taskId = await start(test, [{ do: "progress" }, gate("end"), ...steps]);
    const free = test.children.holdStops();
    await finish(test, "end");
    expect((await test.status(taskId)).structured["phase"]).toBe("stopping");
    return { taskId, free };
  }

  it("after success is sent once its processes are gone (P5)", async () => {
    await using test = await startTestEngine();
    const { taskId, free } = await stopping(test, [say("one")]);
    const sent = await send(test, taskId, script({ do: "progress" }, gate("two"), say("two")));
    expect(sent.structured).toMatchObject({ created: "new", phase: "stopping" });
    expect((await taskOf(test, taskId)).run.ordinal).toBe(1);
    free();
    await test.settle();
    expect((await test.status(taskId)).structured).toMatchObject({
      status: "working",
      phase: "running",
      earlierRun: { status: "completed", settlement: 1 },
    });
    await finish(test, "two");
    expect(resultOf(await test.status(taskId))).toBe("two");
  });

  it("after a failure or a cancel waits until somebody goes on, as its answer says, and then goes first (P2)", async () => {
    await using test = await startTestEngine();
    const { taskId, free } = await stopping(test, [fails({ stopReason: "max_turns" })]);
    const sent = await send(test, taskId, script(say("two")));
    expect(sent.structured).toMatchObject({ created: "new", phase: "stopping", next: { kind: "wait" } });
    expect(sent.say).not.toContain("is sent after the present turn");
    expect(sent.say).toContain("if that did not complete, with your next task_continue");
    free();
    await test.settle();
    const failed = await test.status(taskId);
    expect(failed.structured).toMatchObject({ status: "failed", settlement: 1 });
    const args = { ...argumentsOf(failed), message: script(say("three")) };
    expect((await test.call("task_continue", args)).say).toContain("Your message is queued");
    await test.settle();
    await test.settle();
    const ended = await test.status(taskId);
    expect([ended.structured["settlement"], resultOf(ended)]).toEqual([3, "three"]);
  });

  it("does not bring a cancelled task back by itself (C1)", async () => {
    await using test = await startTestEngine();
    const taskId = await start(test, [{ do: "progress" }, gate("never")]);
    const free = test.children.holdStops();
    const cancelling = test.call("task_cancel", { taskId });
    await test.settle();
    const sent = await send(test, taskId, script(say("two")));
    expect(sent.structured).toMatchObject({ created: "new", phase: "stopping" });
    free();
    await test.clock.advanceAndSettle(5 * SECOND_MS);
    expect((await cancelling).structured).toMatchObject({ status: "cancelled" });
    await test.clock.advanceAndSettle(MINUTE_MS);
    expect((await test.status(taskId)).structured).toMatchObject({ status: "cancelled", settlement: 1 });
  });
});

/** An `after` that says that everything has been told. */
async function afterOf(test: TestEngine, taskIds: readonly string[]): Promise<string> {
  const tasks = await Promise.all(taskIds.map((taskId) => taskOf(test, taskId)));
  return packAfter(
    tasks.map(({ handle, news, steps }) => ({ taskId: handle.taskId, news, steps })),
    "n0",
  );
}
