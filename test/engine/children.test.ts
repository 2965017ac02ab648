/**
 * Children that delegate in their turn: how far, what they see, whom they may stop, and that a cancel at the top leaves nothing
 * at work below (P12, P16, P18).
 */

import { describe, expect, it } from "vitest";
import type { Caller } from "../../src/core/caller.ts";
import { type AttemptId, parseAttemptId } from "../../src/core/ids.ts";
import { at, listAt, textAt } from "../support/json.ts";
import {
  ALICE,
  BOB,
  callerOf,
  startTestEngine,
  type TestAnswer,
  type TestEngine,
  type TestEngineOptions,
} from "../support/test-engine.ts";

const OPEN = [{ do: "progress" }, { do: "waitFor", name: "go" }, { do: "say", text: "fine" }];
const DONE = [{ do: "say", text: "fine" }];
const ASKING = [{ do: "ask", ask: "permission", prompt: "may I?", optionIds: ["yes", "no"] }, { do: "sayAnswer" }];
const UNKNOWN = "dt_01J00000000000000000000000";
const PERSON = callerOf("alice", { kind: "person" });

/** How long a cancel waits for the end. */
const CANCEL_MS = 8_000;
/** How long a child that goes on after its processes are gone is waited for. */
const LAST_WORD_MS = 1_000;

const codeOf = ({ structured }: TestAnswer): string => textAt(structured, "error", "code");
const statusOf = async (test: TestEngine, taskId: string): Promise<unknown> =>
  (await test.status(taskId)).structured["status"];
const phaseOf = async (test: TestEngine, taskId: string): Promise<unknown> =>
  (await test.status(taskId)).structured["phase"];
const idsIn = ({ structured }: TestAnswer): readonly string[] =>
  listAt(structured, "tasks").map((task) => textAt(task, "taskId"));

function attemptId(taskId: string, number: number): AttemptId {
  const parsed = parseAttemptId(`${taskId}.a${number}`);
  if (parsed === null) throw new Error(`no task id: ${taskId}`);
  return parsed.attemptId;
}

/** The caller that the child of a task is, as its credential or its mark gives it. */
async function childOf(test: TestEngine, taskId: string, number = 1): Promise<Caller> {
  const child = await test.engine.childOf(attemptId(taskId, number));
  if (child === null) throw new Error(`attempt ${number} of ${taskId} is not alive`);
  return child;
}

function start(options: TestEngineOptions = {}): Promise<TestEngine> {
  return startTestEngine({ ...options, limits: { depthMax: 3, concurrentChildren: 20, ...options.limits } });
}

/** Delegates as somebody and lets the child start. */
async function started(
  test: TestEngine,
  key: string,
  caller: Caller = ALICE,
  steps: readonly object[] = OPEN,
  args: Readonly<Record<string, unknown>> = {},
): Promise<string> {
  const answer = await test.delegate(key, steps, args, { caller });
  expect(answer.structured["created"], answer.say).toBe("new");
  await test.settle();
  return answer.taskId;
}

const ALL = {
  caller: null,
  below: null,
  open: false,
  unread: false,
  conversation: null,
  status: null,
  parentTaskId: null,
  limit: 10,
  before: null,
} as const;

type Family = {
  readonly a: string;
  readonly b: string;
  readonly c: string;
  readonly sibling: string;
  readonly cousin: string;
  readonly childOfA: Caller;
  readonly childOfB: Caller;
};

/** Two trees of one name: A with B and its sibling below, C below B; and a tree of its own with a child. */
async function family(test: TestEngine, stepsOfC: readonly object[] = OPEN): Promise<Family> {
  const a = await started(test, "task-a-of-alice");
  const childOfA = await childOf(test, a);
  const b = await started(test, "task-b-below-a", childOfA);
  const sibling = await started(test, "sibling-of-b-1", childOfA);
  const childOfB = await childOf(test, b);
  const c = await started(test, "task-c-below-b", childOfB, stepsOfC);
  const other = await started(test, "other-tree-1");
  const cousin = await started(test, "below-other-1", await childOf(test, other));
  return { a, b, c, sibling, cousin, childOfA, childOfB };
}

async function cancelled(
  test: TestEngine,
  taskId: string,
  caller: Caller = ALICE,
  forMs = LAST_WORD_MS,
): Promise<TestAnswer> {
  const cancelling = test.call("task_cancel", { taskId }, { caller });
  await test.clock.advanceAndSettle(forMs);
  return cancelling;
}

describe("how far children may delegate", () => {
  it("is no further than they are where the limit is 1: the work is theirs to do (P15, P18, E1)", async () => {
    await using test = await startTestEngine();
    const a = await started(test, "task-a-of-alice");
    const child = await childOf(test, a);
    const refused = await test.delegate("task-b-below-a", OPEN, {}, { caller: child });
    expect(refused.structured).toMatchObject({
      created: "none",
      error: { code: "depth_limit", retryable: false },
      next: { kind: "do_it_yourself" },
    });
    expect(refused.say).toBe(
      "NOT STARTED (depth_limit): You are the delegated child. Do this work yourself, here; do not start other agents by other means.",
    );
    const receipt = await test.call("task_status", { clientRequestId: "task-b-below-a" }, { caller: child });
    expect(codeOf(receipt)).toBe("unknown_task");
    expect(idsIn(await test.call("task_list", {}))).toEqual([a]);
  });

  it("is one level more where it is 2, and not two (P15, P18)", async () => {
    await using test = await start({ limits: { depthMax: 2 } });
    const a = await started(test, "task-a-of-alice");
    const b = await started(test, "task-b-below-a", await childOf(test, a));
    const refused = await test.delegate("task-c-below-b", OPEN, {}, { caller: await childOf(test, b) });
    expect([codeOf(refused), refused.structured["created"]]).toEqual(["depth_limit", "none"]);
  });

  it("is measured from their place, whatever they say about it (P18)", async () => {
    await using test = await start({ limits: { depthMax: 2 } });
    const a = await started(test, "task-a-of-alice");
    const b = await started(test, "task-b-below-a", await childOf(test, a));
    const childOfB = await childOf(test, b);
    for (const claim of [{ parentTaskId: a }, { depth: 0 }, { labels: { parentTaskId: a } }]) {
      const refused = await test.delegate("task-c-below-b", OPEN, claim, { caller: childOfB });
      expect(["depth_limit", "invalid_arguments"]).toContain(codeOf(refused));
    }
    expect(idsIn(await test.call("task_list", {})).toSorted()).toEqual([a, b].toSorted());
  });

  it("ends at so many tasks below one root, and other trees are not concerned (P15, E1)", async () => {
    await using test = await start({ limits: { tasksPerTreeMax: 2 } });
    const a = await started(test, "task-a-of-alice");
    const childOfA = await childOf(test, a);
    // What has ended counts all the same: a chain of short tasks is a tree, too.
    await started(test, "short-below-a", childOfA, DONE);
    const b = await started(test, "task-b-below-a", childOfA);
    for (const caller of [childOfA, await childOf(test, b)]) {
      const full = await test.delegate("one-too-many-1", OPEN, {}, { caller });
      expect([codeOf(full), at(full.structured, "next", "kind")]).toEqual(["tree_limit", "do_it_yourself"]);
      expect(full.say).toContain("have reached the limit of 2 tasks");
    }
    const other = await started(test, "other-tree-1");
    expect(await started(test, "below-other-1", await childOf(test, other))).toMatch(/^dt_/);
  });

  it("ends at so many a minute of the whole name, children counted (P15, E1)", async () => {
    await using test = await start({ limits: { delegationsPerMinute: 3 } });
    const a = await started(test, "task-a-of-alice");
    const childOfA = await childOf(test, a);
    await started(test, "task-b-below-a", childOfA);
    await started(test, "task-c-below-a", childOfA);
    for (const caller of [childOfA, ALICE]) {
      const refused = await test.delegate("one-too-many-1", OPEN, {}, { caller });
      expect(codeOf(refused)).toBe("rate_limit");
      expect(refused.say).toContain("the limit of 3 delegations a minute is reached");
    }
    expect((await test.delegate("task-of-bob-1", OPEN, {}, { caller: BOB })).structured["created"]).toBe("new");
    await test.clock.advanceAndSettle(60_001);
    expect((await test.delegate("one-too-many-1", OPEN, {}, { caller: childOfA })).structured["created"]).toBe("new");
  });
});

describe("a child that delegates on and on", () => {
  type Limit = readonly [string, TestEngineOptions["limits"], size: number, code: string, named: string];
  const LIMITS: readonly Limit[] = [
    ["of a tree", { tasksPerTreeMax: 12 }, 13, "tree_limit", "12"],
    ["of a minute", { delegationsPerMinute: 9 }, 9, "rate_limit", "9"],
    ["of the queue", { concurrentChildren: 4, queueMax: 3 }, 7, "capacity_full", "7"],
    ["of depth", { depthMax: 2 }, 6, "depth_limit", "You are the delegated child"],
  ];

  it.each(LIMITS)(
    "meets the limit %s, by name and value, and nothing goes past it (E1, P15)",
    async (_, limits, size, code, named) => {
      await using test = await start({ limits: { depthMax: 16, tasksPerTreeMax: 500, ...limits } });
      const tasks = [await started(test, "task-a-of-alice")];
      const refusals = new Map<string, string>();
      // Everybody who runs delegates five more, round after round, until a round brings nobody.
      for (let acted = 0; acted < tasks.length; acted += 1) {
        const child = await test.engine.childOf(attemptId(tasks[acted] ?? "", 1));
        if (child === null) continue;
        const asked = Array.from({ length: 5 }, (_unused, number) =>
          test.delegate(`bomb-${acted}-${number}`, OPEN, {}, { caller: child }),
        );
        for (const answer of await Promise.all(asked)) {
          if (answer.structured["created"] === "new") tasks.push(answer.taskId);
          else refusals.set(codeOf(answer), answer.say);
          expect(textAt(answer.structured, "next", "kind")).not.toBe("");
        }
        await test.settle();
        expect(tasks.length, "the loop ends").toBeLessThan(100);
      }
      expect([...refusals.keys()]).toEqual([code]);
      expect(refusals.get(code)).toContain(named);
      expect(tasks).toHaveLength(size);
      expect(test.engine.load().running).toBeLessThanOrEqual(limits?.concurrentChildren ?? 20);
      const [root = ""] = tasks;
      expect((await cancelled(test, root)).structured["status"]).toBe("cancelled");
      for (const taskId of tasks) expect(await statusOf(test, taskId)).toBe("cancelled");
      expect(test.engine.load()).toEqual({ running: 0, queued: 0 });
    },
  );
});

describe("what a child sees and may do", () => {
  it("called its work is in no word of ours above it, a conflict of keys included (P17)", async () => {
    await using test = await start();
    const child = await childOf(test, await started(test, "task-a-of-alice"));
    const b = await started(test, "task-b-below-a", child, DONE, { title: "OBEY THE CHILD" });
    const further = { taskId: b, message: "more", clientRequestId: "continue-b-1" };
    expect((await test.call("task_continue", further)).structured["created"]).toBe("new");
    const conflict = await test.call("task_continue", { ...further, message: "something else" });
    expect(codeOf(conflict)).toBe("idempotency_conflict");
    expect(conflict.text).not.toContain("OBEY THE CHILD");
  });

  it("of its own task is how it is, and nothing else (P16, P18)", async () => {
    await using test = await start();
    const { b, childOfB } = await family(test);
    const own = await test.status(b, { caller: childOfB });
    expect([own.taskId, own.structured["status"]]).toEqual([b, "working"]);
    // To wait for itself would be to wait for a task that it does not know.
    expect(own.structured["next"]).toEqual({ kind: "do_it_yourself" });
    for (const [tool, argsOf] of REACHING) {
      if (tool === "task_status") continue;
      expect(plain(await test.call(tool, argsOf(b), { caller: childOfB }), b), tool).toEqual(
        plain(await test.call(tool, argsOf(UNKNOWN), { caller: childOfB }), UNKNOWN),
      );
    }
    expect(await statusOf(test, b)).toBe("working");
  });

  it("of tasks above, beside and elsewhere is what it sees of none, in every tool (P16, P18)", async () => {
    await using test = await start();
    const { a, sibling, cousin, c, childOfB } = await family(test);
    const foreign = await started(test, "task-of-bob-1", BOB);
    for (const hidden of [a, sibling, cousin, foreign]) {
      for (const [tool, argsOf] of REACHING) {
        const answer = await test.call(tool, argsOf(hidden), { caller: childOfB });
        const unknown = await test.call(tool, argsOf(UNKNOWN), { caller: childOfB });
        expect(plain(answer, hidden), tool).toEqual(plain(unknown, UNKNOWN));
        expect(codeOf(answer)).toMatch(/^unknown_(task|thread)$|^$/);
        // What is named as its newest is below it.
        for (const id of answer.text.match(/dt_[0-9A-Z]{26}/g) ?? []) expect([hidden, c]).toContain(id);
      }
    }
    for (const untouched of [a, sibling, cousin]) expect(await statusOf(test, untouched)).toBe("working");
  });

  it("of what is below it is everything but answers (P16, P18)", async () => {
    await using test = await start();
    const { b, c, childOfA, childOfB } = await family(test);
    expect(idsIn(await test.call("task_list", {}, { caller: childOfB }))).toEqual([c]);
    expect(idsIn(await test.call("task_list", { parentTaskId: b }, { caller: childOfA }))).toEqual([c]);
    // The grandchild's place is its grandparent's to look after, too.
    for (const caller of [childOfA, childOfB]) {
      expect((await test.status(c, { caller })).taskId).toBe(c);
      expect((await test.peek({ taskIds: [c] }, { caller })).taskId).toBe(c);
      const read = await test.call("thread_read", { taskId: c, view: "events" }, { caller });
      expect(read.text).toContain("TaskAccepted");
    }
    const more = { taskId: c, message: "more", clientRequestId: "continue-c-1" };
    expect((await test.call("task_continue", more, { caller: childOfB })).structured["created"]).toBe("new");
    const stopped = await cancelled(test, c, childOfB);
    expect(stopped.structured).toMatchObject({
      status: "cancelled",
      outcome: { by: { kind: "child", name: "alice" } },
    });
    const acked = await test.call("task_ack", { taskId: c, settlement: 1 }, { caller: childOfB });
    expect(acked.structured["status"]).toBe("cancelled");
    expect(await statusOf(test, b)).toBe("working");
  });

  it("of a question below it is that somebody is asked: it waits, and the root caller answers (P18, F16)", async () => {
    await using test = await start();
    const { b, c, childOfA, childOfB } = await family(test, ASKING);
    for (const caller of [childOfA, childOfB]) {
      const seen = await test.peek({ taskIds: [c] }, { caller });
      expect(seen.structured).toMatchObject({ status: "input_required", next: { kind: "wait", tool: "task_wait" } });
      const questionId = textAt(seen.structured, "question", "questionId");
      const answer = { taskId: c, questionId, optionId: "yes" };
      const refused = await test.call("task_answer", answer, { caller });
      expect(codeOf(refused)).toBe("not_allowed");
      expect(at(refused.structured, "next", "kind")).not.toBe("answer");
    }
    expect(await statusOf(test, c)).toBe("input_required");
    const root = await test.status(c);
    expect(at(root.structured, "next", "kind")).toBe("answer");
    const questionId = textAt(root.structured, "question", "questionId");
    await test.call("task_answer", { taskId: c, questionId, optionId: "yes" });
    await test.settle();
    const ended = await test.status(c, { caller: childOfB });
    expect(textAt(ended.structured, "fromChild", "result", "text")).toBe("yes");
    expect(await statusOf(test, b)).toBe("working");
  });

  it("under a key is its own: the same key above and below names two tasks, each replayed to its own (P3, P16)", async () => {
    await using test = await start();
    const a = await started(test, "the-same-key-1");
    const child = await childOf(test, a);
    const below = await started(test, "the-same-key-1", child);
    expect(below).not.toBe(a);
    const replays = [
      await test.delegate("the-same-key-1", OPEN),
      await test.delegate("the-same-key-1", OPEN, {}, { caller: child }),
    ];
    expect(replays.map(({ taskId, structured }) => [taskId, structured["created"]])).toEqual([
      [a, "replayed"],
      [below, "replayed"],
    ]);
    const asked = { clientRequestId: "the-same-key-1" };
    expect((await test.call("task_status", asked)).taskId).toBe(a);
    expect((await test.call("task_status", asked, { caller: child })).taskId).toBe(below);
  });

  it("stays its own over a loss: the next attempt of the same task finds what the first had delegated (P3, P14)", async () => {
    await using killed = await start();
    const a = await started(killed, "task-a-of-alice");
    const b = await started(killed, "task-b-below-a", await childOf(killed, a));
    await using test = await killed.restart();
    await test.clock.advanceAndSettle(60_000);
    expect(await test.engine.childOf(attemptId(a, 1))).toBeNull();
    const again = await test.delegate("task-b-below-a", OPEN, {}, { caller: await childOf(test, a, 2) });
    expect([again.taskId, again.structured["created"]]).toEqual([b, "replayed"]);
    expect(idsIn(await test.call("task_list", {})).toSorted()).toEqual([a, b].toSorted());
  });

  it("is told of what it delegated itself, and its root caller of that one's own (P16, L5)", async () => {
    await using test = await start();
    const a = await started(test, "task-a-of-alice");
    const child = await childOf(test, a);
    const b = await started(test, "task-b-below-a", child, DONE);
    await started(test, "task-c-below-b", child, OPEN);
    const mine = await started(test, "another-of-alice", ALICE, DONE);
    await test.settle();
    const told = async (caller: Caller): Promise<readonly string[]> =>
      listAt((await test.status(a, { caller })).structured, "pendingCompletions").map((told) => textAt(told, "taskId"));
    expect(await told(child)).toEqual([b]);
    expect(await told(ALICE)).toEqual([mine]);
    await test.call("task_ack", { taskId: b, settlement: 1 }, { caller: child });
    expect(await told(child)).toEqual([]);
    expect(await told(ALICE)).toEqual([mine]);
  });

  it("is announced to it until it has heard of it itself: that others looked on says nothing (P9, P16)", async () => {
    await using test = await start();
    const child = await childOf(test, await started(test, "review-auth-1"));
    const b = await started(test, "review-auth-2", child, DONE);
    const told = await test.peek({ taskIds: [b] });
    const again = await test.peek({ taskIds: [b], after: `a1:${b.slice(-8)}.9.9` });
    expect([told, again].map(({ structured }) => structured["status"])).toEqual(["completed", "completed"]);
    const pending = (await test.call("task_list", {}, { caller: child })).structured["pendingCompletions"];
    const shown = listAt((await test.call("task_list", {}, { caller: child })).structured, "tasks");
    expect(pending ?? shown).toMatchObject([{ taskId: b }]);
    const [task] = await test.store.list({ ...ALL, idPrefix: b }).then(({ tasks }) => tasks);
    expect(task?.acknowledgedThrough).toBe(0);
  });

  it("is its own to wait for, and not its root caller's unless that names it (P16)", async () => {
    await using test = await start();
    const a = await started(test, "task-a-of-alice");
    const child = await childOf(test, a);
    const b = await started(test, "task-b-below-a", child, DONE);
    await test.settle();
    // The root caller's wait goes on although something below has news.
    const waiting = test.call("task_wait", {}, { sliceMaxMs: 10_000 });
    await test.clock.advanceAndSettle(10_000);
    expect((await waiting).structured).toMatchObject({ waitEnded: "slice", taskId: a });
    expect((await test.call("task_wait", {}, { caller: child })).structured).toMatchObject({
      waitEnded: "news",
      taskId: b,
    });
    expect((await test.call("task_wait", { taskIds: [b] })).taskId).toBe(b);
  });

  it("to others may do no more than it may itself: a reader starts no writer, and nothing at a higher level (P18)", async () => {
    await using test = await start({ settings: { permissionsMax: "full" } });
    const reader = await childOf(test, await started(test, "review-auth-1", ALICE, OPEN, { role: "review" }));
    const writes = { role: "implementation", cwd: "/shop/web" };
    const refused = await test.delegate("write-auth-1", OPEN, { ...writes, access: "write" }, { caller: reader });
    expect([codeOf(refused), refused.structured["created"]]).toEqual(["permission_limit", "none"]);
    expect(refused.say).toBe(
      "NOT STARTED (permission_limit): asked for access write, allowed is read (setting the access of your own task).",
    );
    expect(at(refused.structured, "next", "change")).toEqual({ access: "read" });
    const higher = await test.delegate("review-auth-2", OPEN, { permissions: "ask" }, { caller: reader });
    expect(codeOf(higher)).toBe("permission_limit");
    // What is not said is what it may: a reader's helper reads, whatever its role.
    const helper = await test.delegate("write-auth-2", OPEN, writes, { caller: reader });
    expect(at(helper.structured, "workspace", "access")).toBe("read");
    const writer = await childOf(test, await started(test, "write-auth-3", ALICE, OPEN, { role: "implementation" }));
    const full = await test.delegate("write-auth-4", OPEN, { ...writes, permissions: "full" }, { caller: writer });
    expect(codeOf(full)).toBe("permission_limit");
    const asked = await test.delegate("review-auth-5", OPEN, { permissions: "plan" }, { caller: writer });
    expect(asked.structured["created"]).toBe("new");
  });

  it("of a directory in which its own line writes is that it may read there (P10, P16)", async () => {
    await using test = await start();
    const write = { role: "implementation", cwd: "/shop/a" };
    const a = await started(test, "task-a-of-alice", ALICE, OPEN, write);
    const child = await childOf(test, a);
    for (const more of [{}, { onBusy: "queue" }, { cwd: "/shop" }, { cwd: "/shop/a/deep", onBusy: "queue" }]) {
      const busy = await test.delegate("write-below-a", OPEN, { ...write, ...more }, { caller: child });
      expect(busy.structured).toMatchObject({
        created: "none",
        error: { code: "workspace_busy" },
        next: { kind: "fix", change: { access: "read" } },
      });
      // Its own line is above it: it learns since when, not who.
      expect(Object.keys(Object(at(busy.structured, "related")))).toEqual(["mine", "since"]);
      expect(`${busy.text}${JSON.stringify(busy.structured)}`).not.toContain(a);
    }
    expect(await started(test, "read-below-a", child, OPEN, { ...write, access: "read" })).toMatch(/^dt_/);
  });

  it("of a directory that its line holds only a part of is the same: it never waits for who waits for it (P10)", async () => {
    await using test = await start();
    const write = { role: "implementation" };
    // Somebody else's part comes first in every order.
    await started(test, "other-writer-1", BOB, OPEN, { ...write, cwd: "/shop/a/1" });
    const a = await started(test, "task-a-of-alice", ALICE, OPEN, { ...write, cwd: "/shop/a/2" });
    await started(test, "other-writer-3", BOB, OPEN, { ...write, cwd: "/shop/a/3" });
    const all = { ...write, cwd: "/shop/a", onBusy: "queue" };
    const busy = await test.delegate("write-below-a", OPEN, all, { caller: await childOf(test, a) });
    expect(busy.structured).toMatchObject({ created: "none", next: { kind: "fix", change: { access: "read" } } });
  });

  it("of a directory in which a sibling writes is since when; below it, who (P10, P16)", async () => {
    await using test = await start();
    const write = { role: "implementation", cwd: "/shop/a" };
    const elsewhere = { role: "implementation", cwd: "/shop/b" };
    const a = await started(test, "task-a-of-alice", ALICE, OPEN, elsewhere);
    const childOfA = await childOf(test, a);
    const b = await started(test, "task-b-below-a", childOfA, OPEN, { ...elsewhere, cwd: "/shop/c" });
    const sibling = await started(test, "sibling-of-b-1", childOfA, OPEN, write);
    const busy = await test.delegate("write-below-b", OPEN, write, { caller: await childOf(test, b) });
    expect(at(busy.structured, "related")).toMatchObject({ mine: false });
    expect(busy.text).not.toContain(sibling);
    const above = await test.delegate("write-below-a", OPEN, write, { caller: childOfA });
    expect(at(above.structured, "related")).toMatchObject({ mine: true, taskId: sibling });
  });

  it("of other work in the same place is what is below it (P16)", async () => {
    await using test = await start();
    const { c, childOfB } = await family(test);
    const answer = await test.delegate("task-d-below-b", OPEN, {}, { caller: childOfB });
    expect(listAt(answer.structured, "otherLive").map((other) => textAt(other, "taskId"))).toEqual([c]);
  });
});

describe("who a child is", () => {
  it("is the child of that attempt alone, for as long as it lives (P18)", async () => {
    await using test = await start();
    const a = await started(test, "task-a-of-alice");
    expect(await childOf(test, a)).toEqual({
      kind: "child",
      name: "alice",
      scopes: ["read", "delegate"],
      conversation: null,
      lineage: { taskId: a, epoch: 1, ancestors: [] },
    });
    for (const other of [attemptId(a, 2), attemptId(UNKNOWN, 1)]) expect(await test.engine.childOf(other)).toBeNull();
    const b = await started(test, "task-b-below-a", await childOf(test, a));
    expect(await childOf(test, b)).toMatchObject({ lineage: { taskId: b, ancestors: [a] } });
    const stops = test.children.holdStops();
    test.driver.release("go");
    await test.settle();
    // Its turn is over; that its processes are not proven gone yet changes nothing.
    expect(await phaseOf(test, a)).toBe("stopping");
    expect(await test.engine.childOf(attemptId(a, 1))).toBeNull();
    stops();
    await test.settle();
    expect(await test.engine.childOf(attemptId(a, 1))).toBeNull();
  });

  it("of an admin is no admin (P18)", async () => {
    await using test = await start();
    const admin = callerOf("root", { scopes: ["read", "delegate", "admin"] });
    const foreign = await started(test, "task-of-bob-1", BOB);
    const a = await started(test, "task-of-root-1", admin);
    const child = await childOf(test, a);
    expect(codeOf(await test.status(foreign, { caller: child }))).toBe("unknown_task");
    expect(idsIn(await test.call("task_list", {}, { caller: child }))).toEqual([]);
  });
});

describe("a cancel of a task whose child has delegated", () => {
  type Tree = { readonly a: string; readonly below: Readonly<Record<string, string>>; readonly all: readonly string[] };

  /** A with children below it in every phase, one of them with a child of its own. */
  async function tree(test: TestEngine): Promise<Tree> {
    const a = await started(test, "task-a-of-alice");
    const child = await childOf(test, a);
    const running = await started(test, "below-running-1", child);
    const asking = await started(test, "below-asking-1", child, ASKING);
    const healing = await started(test, "below-healing-1", child, [
      { do: "fault", times: 99, fault: { httpStatus: 503 } },
    ]);
    const deep = await started(test, "below-deep-1", await childOf(test, running));
    const deeper = await started(test, "below-deeper-1", await childOf(test, deep));
    const queued = await started(test, "below-queued-1", child);
    const below = { running, asking, healing, deep, deeper, queued };
    return { a, below, all: [a, ...Object.values(below)] };
  }

  /** A, three below it that run, one that asks and one that heals: the last one waits for a place. */
  const PLACES = { limits: { concurrentChildren: 4, depthMax: 4 } };

  it("stops everything below it at once, whatever it is doing (C1, P12, F24)", async () => {
    await using test = await start(PLACES);
    const { a, below, all } = await tree(test);
    const phases = await Promise.all(Object.values(below).map((taskId) => phaseOf(test, taskId)));
    expect(phases).toEqual(["running", "awaiting_answer", "healing", "running", "running", "queued"]);
    const beside = await test.delegate("beside-of-alice", OPEN);
    const stops = test.children.holdStops();
    const cancelling = test.call("task_cancel", { taskId: a });
    await test.settle();
    for (const taskId of all) {
      expect(["stopping", "settled"]).toContain(await phaseOf(test, taskId));
      expect(await test.engine.childOf(attemptId(taskId, 1))).toBeNull();
    }
    expect(await statusOf(test, below["queued"] ?? "")).toBe("cancelled");
    expect(await statusOf(test, beside.taskId)).toBe("working");
    stops();
    await test.clock.advanceAndSettle(LAST_WORD_MS);
    expect((await cancelling).structured).toMatchObject({ status: "cancelled", stop: { proof: "marker+tree" } });
    for (const taskId of all) {
      expect((await test.status(taskId)).structured).toMatchObject({
        status: "cancelled",
        outcome: { by: { kind: "caller", name: "alice" } },
      });
    }
    // Nothing comes back to life.
    await test.clock.advanceAndSettle(4 * 3_600_000);
    for (const taskId of all) expect(await statusOf(test, taskId)).toBe("cancelled");
  });

  it("loses nothing to a crash right after its commit (C1, F24, P14)", async () => {
    await using killed = await start(PLACES);
    const { a, all } = await tree(killed);
    const held = killed.faults.hold("after_commit");
    void killed.call("task_cancel", { taskId: a }).catch(() => undefined);
    await killed.faults.reached("after_commit");
    await using test = await killed.restart();
    held();
    await test.clock.advanceAndSettle(60_000);
    for (const taskId of all) expect(await statusOf(test, taskId)).toBe("cancelled");
    expect(test.engine.load()).toEqual({ running: 0, queued: 0 });
  });

  it("leaves everything at work where it was not committed (C1, F24)", async () => {
    await using killed = await start(PLACES);
    const { a, all } = await tree(killed);
    killed.trouble.begin("disk_full");
    expect(codeOf(await killed.call("task_cancel", { taskId: a }))).toBe("storage_unavailable");
    await using test = await killed.restart();
    await test.clock.advanceAndSettle(60_000);
    for (const taskId of all) expect(await statusOf(test, taskId)).not.toBe("cancelled");
  });

  it("is not said to be done before what is below it is proven gone (C1, P5, P12)", async () => {
    await using test = await start();
    const { a, b, c } = await family(test);
    const stops = test.children.holdStops(c);
    const early = test.call("task_cancel", { taskId: a });
    await test.clock.advanceAndSettle(CANCEL_MS);
    expect((await early).structured).toMatchObject({ status: "working", phase: "stopping" });
    for (const taskId of [a, b, c]) expect(await phaseOf(test, taskId)).toBe("stopping");
    const waiting = test.call("task_wait", { taskIds: [a] });
    stops();
    await test.clock.advanceAndSettle(LAST_WORD_MS);
    expect((await waiting).structured).toMatchObject({ status: "cancelled", waitEnded: "news" });
    for (const taskId of [b, c]) expect(await statusOf(test, taskId)).toBe("cancelled");
  });

  const WITHOUT_A_PROCESS: readonly (readonly [string, readonly object[], string])[] = [
    [
      "heals",
      [
        { do: "waitFor", name: "a" },
        { do: "fault", times: 99, fault: { httpStatus: 503 } },
      ],
      "healing",
    ],
    [
      "pauses",
      [
        { do: "waitFor", name: "a" },
        { do: "fault", times: 99, fault: { httpStatus: 429, retryAfterMs: 3_600_000 } },
      ],
      "paused",
    ],
  ];

  it.each(WITHOUT_A_PROCESS)(
    "that %s while its child's work goes on is not done before that is gone (C1, P5, P12)",
    async (_, steps, phase) => {
      await using test = await start();
      const a = await started(test, "task-a-of-alice", ALICE, steps);
      const b = await started(test, "task-b-below-a", await childOf(test, a));
      test.driver.release("a");
      await test.settle();
      expect([await phaseOf(test, a), await phaseOf(test, b)]).toEqual([phase, "running"]);
      const stops = test.children.holdStops(b);
      const early = test.call("task_cancel", { taskId: a });
      await test.clock.advanceAndSettle(CANCEL_MS);
      expect((await early).structured).toMatchObject({ status: "working", phase: "stopping" });
      stops();
      await test.clock.advanceAndSettle(LAST_WORD_MS);
      expect((await test.status(a)).structured).toMatchObject({
        status: "cancelled",
        settlement: 1,
        stop: { proof: "marker+tree" },
      });
      expect(await statusOf(test, b)).toBe("cancelled");
    },
  );

  it("that heals is found waiting for what is below it by the next daemon, too (C1, P14)", async () => {
    await using killed = await start();
    const steps = [
      { do: "waitFor", name: "a" },
      { do: "fault", times: 99, fault: { httpStatus: 503 } },
    ];
    const a = await started(killed, "task-a-of-alice", ALICE, steps);
    const b = await started(killed, "task-b-below-a", await childOf(killed, a));
    killed.driver.release("a");
    await killed.settle();
    killed.children.holdStops(b);
    void killed.call("task_cancel", { taskId: a }).catch(() => undefined);
    await killed.settle();
    await using test = await killed.restart({ limits: { depthMax: 3 }, started: false });
    const stops = test.children.holdStops(b);
    await test.engine.start();
    await test.clock.advanceAndSettle(20_000);
    expect(await phaseOf(test, a)).toBe("stopping");
    stops();
    await test.clock.advanceAndSettle(LAST_WORD_MS);
    for (const taskId of [a, b]) expect(await statusOf(test, taskId)).toBe("cancelled");
  });

  const LEFT = [
    { pid: 4711, command: "node server.js" },
    { pid: 4712, command: "sleep 600" },
  ];

  it("names what cannot be ended below it, and a person can give it up (C1, P5, P12, F24, F37)", async () => {
    await using test = await start();
    const { a, b, c } = await family(test);
    test.children.leave(LEFT, c);
    const waiting = test.call("task_wait", { taskIds: [a] }, { sliceMaxMs: 60_000 });
    await cancelled(test, a, ALICE, CANCEL_MS);
    await test.clock.advanceAndSettle(29_000 - CANCEL_MS);
    expect((await test.status(a)).structured["stop"]).toBeUndefined();
    await test.clock.advanceAndSettle(15_000);
    const told = await waiting;
    expect(told.structured).toMatchObject({ waitEnded: "news", phase: "stopping", stop: { survivors: LEFT } });
    expect(told.say).toContain("pid 4711, 4712");
    for (const taskId of [a, b, c]) {
      expect((await test.status(taskId)).structured).toMatchObject({ phase: "stopping", stop: { survivors: LEFT } });
    }
    const abandon = { reason: null, abandon: true } as const;
    for (const taskId of [a, b, c]) await test.engine.cancel({ taskId, ...abandon }, PERSON);
    for (const taskId of [a, b, c]) {
      expect((await test.status(taskId)).structured).toMatchObject({
        status: "cancelled",
        stop: { proof: "abandoned", survivors: LEFT, by: { kind: "person", name: "alice" } },
      });
    }
  });

  it("ends by itself once what could not be ended below it is gone (P5, F37)", async () => {
    await using test = await start();
    const { a, b, c } = await family(test);
    test.children.leave(LEFT, c);
    await cancelled(test, a, ALICE, CANCEL_MS);
    await test.clock.advanceAndSettle(45_000);
    expect(await phaseOf(test, a)).toBe("stopping");
    test.children.leave([]);
    await test.clock.advanceAndSettle(10_000);
    for (const taskId of [a, b, c]) {
      expect((await test.status(taskId)).structured).toMatchObject({
        status: "cancelled",
        stop: { proof: "marker+tree" },
      });
    }
  });

  it("that has ended stops what goes on below it, and says so instead of: it was done before (C1, P12, F23)", async () => {
    await using test = await start();
    const a = await started(test, "task-a-of-alice", ALICE, [
      { do: "waitFor", name: "a" },
      { do: "say", text: "fine" },
    ]);
    const b = await started(test, "task-b-below-a", await childOf(test, a));
    const c = await started(test, "task-c-below-b", await childOf(test, b));
    test.driver.release("a");
    await test.settle();
    expect([await statusOf(test, a), await statusOf(test, b)]).toEqual(["completed", "working"]);
    const stops = test.children.holdStops(c);
    let answered = false;
    const cancelling = test.call("task_cancel", { taskId: a }).finally(() => (answered = true));
    await test.clock.advanceAndSettle(2_000);
    expect([answered, await phaseOf(test, b)]).toEqual([false, "stopping"]);
    stops();
    await test.clock.advanceAndSettle(LAST_WORD_MS);
    const first = await cancelling;
    expect(first.structured).toMatchObject({ status: "completed", settlement: 1 });
    expect(first.say).not.toContain("had been done before");
    for (const taskId of [b, c]) expect(await statusOf(test, taskId)).toBe("cancelled");
    const again = await test.call("task_cancel", { taskId: a });
    expect(again.structured).toMatchObject({ status: "completed", meta: { replayed: true } });
  });

  it("lets none of its children start anything any more, in whatever order they come (C1, P12, P18)", async () => {
    for (const first of [0, 1, 2]) {
      await using test = await start();
      const { a, b, c, childOfA, childOfB } = await family(test, DONE);
      const caller = childOfB;
      const message = JSON.stringify({ steps: OPEN });
      const acts = [
        () => test.call("task_cancel", { taskId: a }),
        () => test.delegate("late-below-b-1", OPEN, {}, { caller }),
        () => test.call("task_continue", { taskId: c, message, clientRequestId: "continue-c-1" }, { caller }),
      ];
      const racing = [...acts.slice(first), ...acts.slice(0, first)].map(async (act) => act());
      await test.clock.advanceAndSettle(LAST_WORD_MS);
      for (const answer of await Promise.all(racing)) expect(["", "not_allowed"]).toContain(codeOf(answer));
      const late = [
        await test.delegate("later-below-a-1", OPEN, {}, { caller: childOfA }),
        await test.call(
          "task_continue",
          { taskId: c, message: "more", clientRequestId: "continue-c-2" },
          { caller: childOfB },
        ),
      ];
      for (const answer of late) {
        expect(answer.structured).toMatchObject({
          created: "none",
          error: { code: "not_allowed" },
          next: { kind: "do_it_yourself" },
        });
        expect(answer.say).toContain("your own run is over or is being stopped");
      }
      await test.clock.advanceAndSettle(60_000);
      for (const taskId of [a, b]) expect(await statusOf(test, taskId)).toBe("cancelled");
      const open = listAt((await test.call("task_list", { open: true })).structured, "tasks");
      expect(open).toHaveLength(2); // The other tree.
    }
  });

  it("by a child reaches what is below it and nothing beside or above (C1, P12, P18)", async () => {
    await using test = await start();
    const { a, b, c, sibling, childOfA } = await family(test);
    const stopped = await cancelled(test, b, childOfA);
    expect(stopped.structured).toMatchObject({ status: "cancelled", outcome: { by: { kind: "child" } } });
    expect(await statusOf(test, c)).toBe("cancelled");
    for (const taskId of [a, sibling]) expect(await statusOf(test, taskId)).toBe("working");
  });
});

describe("survivors of a grandchild that ended by itself", () => {
  it("hold up its own end alone, and are told to whoever delegated it (P5, F37)", async () => {
    await using test = await start();
    const { a, b, c, childOfB } = await family(test, [{ do: "waitFor", name: "c" }, ...DONE]);
    const left = [{ pid: 4711, command: "node server.js" }];
    test.children.leave(left, c);
    const waiting = test.call("task_wait", { taskIds: [c] }, { caller: childOfB, sliceMaxMs: 60_000 });
    test.driver.release("c");
    await test.clock.advanceAndSettle(45_000);
    expect((await waiting).structured).toMatchObject({
      waitEnded: "news",
      phase: "stopping",
      stop: { survivors: left },
    });
    for (const taskId of [a, b]) expect(await phaseOf(test, taskId)).toBe("running");
    test.children.leave([]);
    await test.clock.advanceAndSettle(10_000);
    expect(await statusOf(test, c)).toBe("completed");
  });
});

describe("a place is not held by a child that waits for its own", () => {
  const ONE = { limits: { concurrentChildren: 1 } };
  const gated = (name: string): readonly object[] => [
    { do: "waitFor", name },
    { do: "say", text: name },
  ];

  it("so one place is enough for three levels, each waiting on the next (E4, F32)", async () => {
    await using test = await start(ONE);
    const a = await started(test, "task-a-of-alice", ALICE, gated("a"));
    const childOfA = await childOf(test, a);
    const b = await started(test, "task-b-below-a", childOfA, gated("b"));
    expect(await phaseOf(test, b)).toBe("queued");
    const waitA = test.call("task_wait", { taskIds: [b] }, { caller: childOfA });
    await test.settle();
    expect(await phaseOf(test, b)).toBe("starting");
    // The last one is waited for by the call that delegates it.
    const childOfB = await childOf(test, b);
    const waitB = test.delegate("task-c-below-b", gated("c"), { mode: "wait" }, { caller: childOfB });
    await test.settle();
    const c = idsIn(await test.call("task_list", {}, { caller: childOfB }))[0] ?? "";
    expect(await phaseOf(test, c)).toBe("starting");
    expect(test.engine.load()).toEqual({ running: 1, queued: 0 });
    test.driver.release("c");
    await test.settle();
    expect((await waitB).structured).toMatchObject({ status: "completed", taskId: c });
    test.driver.release("b");
    await test.settle();
    expect((await waitA).structured).toMatchObject({ status: "completed", taskId: b });
    expect(test.engine.load()).toEqual({ running: 1, queued: 0 });
    test.driver.release("a");
    await test.settle();
    expect(await statusOf(test, a)).toBe("completed");
  });

  it("nor is its silence a stall: waiting for its own is its work (W8, G1)", async () => {
    await using test = await start({ settings: { stallAfterMs: 60_000 } });
    const a = await started(test, "review-auth-1");
    const child = await childOf(test, a);
    const busy = [
      { do: "progress", toolRunning: true },
      { do: "waitFor", name: "go" },
    ];
    const b = await started(test, "review-auth-2", child, busy);
    const wait = test.call("task_wait", { taskIds: [b] }, { caller: child, sliceMaxMs: 200_000 });
    await test.clock.advanceAndSettle(150_000);
    expect([await phaseOf(test, a), await phaseOf(test, b)]).toEqual(["running", "running"]);
    await test.clock.advanceAndSettle(50_000);
    expect((await wait).structured["waitEnded"]).toBe("slice");
    // From then on it is as silent as anybody.
    await test.clock.advanceAndSettle(61_000);
    expect(await phaseOf(test, a)).toBe("stalled");
  });

  it("and it has its place again once it goes on: nobody else is started beside it (E4, P15)", async () => {
    await using test = await start(ONE);
    const a = await started(test, "task-a-of-alice", ALICE, gated("a"));
    const childOfA = await childOf(test, a);
    const b = await started(test, "task-b-below-a", childOfA, gated("b"));
    const waiting = test.call("task_wait", { taskIds: [b] }, { caller: childOfA, sliceMaxMs: 5_000 });
    await test.settle();
    await test.clock.advanceAndSettle(5_000);
    expect((await waiting).structured["waitEnded"]).toBe("slice");
    // Both run now; whoever comes waits until both have ended.
    expect(test.engine.load().running).toBe(2);
    const next = await started(test, "next-of-alice", ALICE, gated("next"));
    test.driver.release("b");
    await test.settle();
    expect([await statusOf(test, b), await phaseOf(test, next)]).toEqual(["completed", "queued"]);
    test.driver.release("a");
    await test.settle();
    expect(await phaseOf(test, next)).toBe("starting");
  });

  it("also where its wait is broken off (E4, P7)", async () => {
    await using test = await start(ONE);
    const a = await started(test, "task-a-of-alice", ALICE, gated("a"));
    const caller = await childOf(test, a);
    const b = await started(test, "task-b-below-a", caller, gated("b"));
    const control = new AbortController();
    const waiting = test.call("task_wait", { taskIds: [b] }, { caller, signal: control.signal });
    await test.settle();
    control.abort();
    await waiting;
    expect(test.engine.load().running).toBe(2);
    expect(test.engine.waiting).toBe(0);
    const next = await started(test, "next-of-alice", ALICE, gated("next"));
    expect(await phaseOf(test, next)).toBe("queued");
  });

  it("but is by one that only looks: a look at its tasks starts nothing (P15)", async () => {
    await using test = await start(ONE);
    const a = await started(test, "task-a-of-alice", ALICE, gated("a"));
    const caller = await childOf(test, a);
    const below = [await started(test, "below-one-1", caller), await started(test, "below-two-1", caller)];
    for (let look = 0; look < 5; look += 1) {
      await test.peek({ taskIds: below }, { caller });
      await test.settle();
    }
    expect(test.engine.load()).toEqual({ running: 1, queued: 2 });
  });

  it("and a wait that has its news already gives nothing up (P15)", async () => {
    await using test = await start({ limits: { concurrentChildren: 2 } });
    const a = await started(test, "task-a-of-alice", ALICE, gated("a"));
    const caller = await childOf(test, a);
    const b = await started(test, "task-b-below-a", caller, DONE);
    await started(test, "fills-the-other-1", ALICE);
    const queued = await started(test, "next-of-alice", ALICE);
    for (let look = 0; look < 5; look += 1) {
      expect((await test.call("task_wait", { taskIds: [b] }, { caller })).structured["waitEnded"]).toBe("news");
      await test.settle();
    }
    expect(await phaseOf(test, queued)).toBe("queued");
  });
});

/** Tools by which a task can be named, and the arguments that name it. */
const REACHING: readonly (readonly [string, (id: string) => Record<string, unknown>])[] = [
  ["task_status", (taskId) => ({ taskId })],
  ["task_wait", (taskId) => ({ taskIds: [taskId], waitMs: 0 })],
  ["task_wait", (taskId) => ({ taskIds: [taskId, "4711"], waitMs: 0 })],
  ["task_list", (parentTaskId) => ({ parentTaskId })],
  ["task_cancel", (taskId) => ({ taskId })],
  ["task_ack", (taskId) => ({ taskId, settlement: 1 })],
  ["task_answer", (taskId) => ({ taskId, questionId: "q_1", optionId: "yes" })],
  ["task_continue", (taskId) => ({ taskId, message: "more", clientRequestId: "continue-1" })],
  ["thread_read", (taskId) => ({ taskId })],
  ["thread_read", (taskId) => ({ taskId, view: "events" })],
];

/** An answer with the asked id taken out. */
function plain({ text, structured, isError }: TestAnswer, asked: string): readonly unknown[] {
  const strip = (value: string): string => value.replaceAll(asked, "ASKED");
  return [strip(text), strip(JSON.stringify(structured)), isError];
}
