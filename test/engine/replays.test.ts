/**
 * One task per key, whatever happens to the call (contract §3): repeats, conflicts, old and purged keys.
 */

import { describe, expect, it } from "vitest";
import { at, listAt, textAt } from "../support/json.ts";
import { callerOf, startTestEngine, type TestAnswer, type TestEngine } from "../support/test-engine.ts";
import { NO_GIT } from "../support/engine-parts.ts";

const HOUR_MS = 3_600_000;
const KEY = "review-auth-7f3k9q";
const DONE = [{ do: "say", text: "fine" }];
const OPEN = [{ do: "waitFor", name: "go" }, ...DONE];

const createdOf = ({ structured }: TestAnswer): unknown => structured["created"];
const codeOf = ({ structured }: TestAnswer): string => textAt(structured, "error", "code");

async function purge(test: TestEngine, answer: TestAnswer): Promise<void> {
  const [task] = (await test.store.list({ ...EVERYTHING, idPrefix: answer.taskId })).tasks;
  if (task === undefined) throw new Error("nothing to purge");
  await test.store.write((tx) => tx.purge(task.handle.taskId));
}

const EVERYTHING = {
  caller: null,
  below: null,
  open: false,
  unread: false,
  conversation: null,
  status: null,
  parentTaskId: null,
  limit: 100,
  before: null,
} as const;

async function tasksOf(test: TestEngine): Promise<number> {
  return (await test.store.list({ ...EVERYTHING, idPrefix: null })).tasks.length;
}

describe("the same key with the same fields", () => {
  it("gives one task and nineteen replays with its handle and its present state, also after a restart (P3, D2, F3, F4)", async () => {
    await using first = await startTestEngine();
    const answers = [await first.delegate(KEY, OPEN)];
    for (let time = 0; time < 9; time += 1) answers.push(await first.delegate(KEY, OPEN));
    await first.clock.advanceAndSettle(60_000);
    await using second = await first.restart();
    for (let time = 0; time < 9; time += 1) answers.push(await second.delegate(KEY, OPEN));
    second.driver.release("go");
    await second.settle();
    answers.push(await second.delegate(KEY, OPEN));
    expect(answers.map(createdOf)).toEqual(["new", ...Array(19).fill("replayed")]);
    for (const id of ["taskId", "childThreadId", "nodeId"]) {
      expect(new Set(answers.map(({ structured }) => structured[id])).size).toBe(1);
    }
    expect(answers.at(-1)?.structured).toMatchObject({
      status: "completed",
      replayedAgeMs: 60_000,
      meta: { replayed: true },
    });
    expect(answers.at(-1)?.say).toContain("This repeats the call accepted 60 s ago; nothing new was started.");
    expect(await tasksOf(second)).toBe(1);
  });

  it("fifty times at once starts one child, and everybody gets its handle (P3, D3, F7)", async () => {
    await using test = await startTestEngine();
    const answers = await Promise.all(Array.from({ length: 50 }, () => test.delegate(KEY, OPEN)));
    await test.settle();
    expect(answers.filter((answer) => createdOf(answer) === "new")).toHaveLength(1);
    expect(answers.filter((answer) => createdOf(answer) === "replayed")).toHaveLength(49);
    expect(new Set(answers.map(({ taskId }) => taskId)).size).toBe(1);
    expect(await tasksOf(test)).toBe(1);
    expect(test.log.entries.filter(({ level }) => level === "error")).toEqual([]);
  });

  it("is the same call from another conversation, and another one from another caller (P3, P16)", async () => {
    await using test = await startTestEngine();
    const first = await test.delegate(KEY, OPEN, {}, { caller: callerOf("alice", { conversation: "one" }) });
    const again = await test.delegate(KEY, OPEN, {}, { caller: callerOf("alice", { conversation: "two" }) });
    const foreign = await test.delegate(KEY, OPEN, {}, { caller: callerOf("bob") });
    expect([createdOf(again), again.taskId]).toEqual(["replayed", first.taskId]);
    expect(again.structured["thisConversation"]).toBe(false);
    expect(createdOf(foreign)).toBe("new");
    expect(foreign.taskId).not.toBe(first.taskId);
  });

  it("gives a finished task's result (D4)", async () => {
    await using test = await startTestEngine();
    const first = await test.delegate(KEY, DONE);
    await test.settle();
    const again = await test.delegate(KEY, DONE, { mode: "wait" });
    expect(again.structured).toMatchObject({
      taskId: first.taskId,
      status: "completed",
      created: "replayed",
      waitEnded: "news",
      fromChild: { result: { text: "fine" } },
    });
  });

  it("is still the same call with another mode, wait, title, labels or limit on running time (P3)", async () => {
    await using test = await startTestEngine();
    const first = await test.delegate(KEY, OPEN);
    const change = {
      title: "Other",
      labels: ["x"],
      maxActiveMs: 5_000,
      waitMs: 0,
      onBusy: "queue",
      onDuplicate: "join",
    };
    const again = await test.delegate(KEY, OPEN, change);
    expect([createdOf(again), again.taskId]).toEqual(["replayed", first.taskId]);
  });

  it("is recognised although the agent, the directory and the limits have changed since (P3, F5)", async () => {
    await using first = await startTestEngine();
    const { taskId } = await first.delegate(KEY, OPEN, { agent: "strict", cwd: "/shop/a" });
    const nowhere = {
      ...NO_GIT,
      roots: ["/other"],
      resolve: async () => ({ kind: "refused", code: "workspace_failed", reason: "missing" }) as const,
    };
    await using test = await first.restart({
      workspace: nowhere,
      settings: { agents: new Map() },
      limits: { depthMax: 0, delegationsPerMinute: 0, queueMax: 0 },
    });
    const again = await test.delegate(KEY, OPEN, { agent: "strict", cwd: "/shop/a" });
    expect([createdOf(again), again.taskId]).toEqual(["replayed", taskId]);
    const fresh = await test.delegate("review-auth-other", OPEN, { agent: "strict" });
    expect([createdOf(fresh), codeOf(fresh)]).toEqual(["none", "unknown_agent"]);
  });
});

describe("the same key with other fields", () => {
  it("is a conflict that names the first task and what differs, and starts nothing (D5, F6)", async () => {
    await using test = await startTestEngine();
    const first = await test.delegate(KEY, OPEN);
    await test.clock.advanceAndSettle(20 * 60_000);
    const other = await test.delegate(KEY, DONE, { cwd: "/shop/pay", agent: "strict" });
    expect([other.isError, createdOf(other), codeOf(other)]).toEqual([false, "none", "idempotency_conflict"]);
    expect(at(other.structured, "error", "differing")).toEqual(["agent", "cwd", "task"]);
    expect(other.structured["related"]).toMatchObject({
      taskId: first.taskId,
      childThreadId: first.structured["childThreadId"],
      nodeId: first.structured["nodeId"],
      status: "working",
      ageMs: 20 * 60_000,
      mine: true,
    });
    expect(at(other.structured, "next")).toMatchObject({ kind: "choose_key", tool: "delegate_task" });
    expect(other.say).toContain("accepted 20 min ago");
    // The key that it suggests is one that can be used.
    const suggested = textAt(other.structured, "next", "change", "clientRequestId");
    expect(createdOf(await test.delegate(suggested, DONE, { cwd: "/shop/pay", agent: "strict" }))).toBe("new");
    expect(await tasksOf(test)).toBe(2);
  });

  it("is a conflict and not a mistake where the fields are not valid any more (F6)", async () => {
    await using test = await startTestEngine();
    await test.delegate(KEY, OPEN);
    for (const change of [
      { agent: "--flag" },
      { access: "everything" },
      { unheardOf: 1 },
      { task: "" },
      { cwd: "/other" },
    ]) {
      const answer = await test.delegate(KEY, OPEN, change);
      expect([codeOf(answer), createdOf(answer)], JSON.stringify(change)).toEqual(["idempotency_conflict", "none"]);
      expect(at(answer.structured, "error", "differing")).toEqual(Object.keys(change));
    }
  });

  it("names at most some of the fields, however many and long they are (P15)", async () => {
    await using test = await startTestEngine();
    await test.delegate(KEY, OPEN);
    const many = Object.fromEntries(Array.from({ length: 500 }, (_, index) => [`${"x".repeat(200)}${index}`, index]));
    expect(codeOf(await test.delegate(KEY, OPEN, many))).toBe("idempotency_conflict");
  });
});

describe("an old key", () => {
  it("of a task that ended, was read and is older than an hour is no new run, and says how to get one (P3)", async () => {
    await using test = await startTestEngine();
    const { taskId } = await test.delegate(KEY, DONE);
    await test.settle();
    await test.clock.advanceAndSettle(HOUR_MS + 1);
    // Not read yet: the result is what the caller is after.
    expect((await test.delegate(KEY, DONE)).say).toMatch(/^COMPLETED/);
    await test.call("task_ack", { taskId, settlement: 1 });
    const stale = await test.delegate(KEY, DONE);
    expect(stale.say).toMatch(/^NOT A NEW RUN: this key was used 60 min ago/);
    expect(stale.structured).toMatchObject({ taskId, created: "replayed", next: { kind: "choose_key" } });
    const suggested = textAt(stale.structured, "next", "change", "clientRequestId");
    expect(createdOf(await test.delegate(suggested, DONE))).toBe("new");
  });

  it("of a message that was sent and read long ago is no new message (P3)", async () => {
    await using test = await startTestEngine();
    const { taskId } = await test.delegate(KEY, DONE);
    await test.settle();
    const message = { taskId, message: "more", clientRequestId: "continue-1-auth", afterSettlement: 1 };
    await test.call("task_continue", message);
    await test.settle();
    await test.call("task_ack", { taskId, settlement: 2 });
    expect((await test.call("task_continue", message)).say).toMatch(/^COMPLETED/);
    await test.clock.advanceAndSettle(HOUR_MS + 1);
    const stale = await test.call("task_continue", message);
    expect(stale.say).toMatch(/^NOT A NEW RUN/);
    expect(at(stale.structured, "next")).toMatchObject({ kind: "choose_key", tool: "task_continue" });
  });

  it("younger than an hour still gives the result that was read (P9)", async () => {
    await using test = await startTestEngine();
    const { taskId } = await test.delegate(KEY, DONE);
    await test.settle();
    await test.call("task_ack", { taskId, settlement: 1 });
    await test.clock.advanceAndSettle(HOUR_MS - 1);
    expect((await test.delegate(KEY, DONE)).say).toMatch(/^COMPLETED/);
  });

  it("of a purged task starts nothing, by whatever call it comes (D5)", async () => {
    await using test = await startTestEngine();
    const first = await test.delegate(KEY, DONE);
    await test.settle();
    const message = { taskId: first.taskId, message: "more", clientRequestId: "continue-1-auth" };
    await test.call("task_continue", message);
    await test.settle();
    await purge(test, first);
    for (const answer of [
      await test.delegate(KEY, DONE),
      await test.delegate(KEY, [{ do: "say", text: "other" }]),
      await test.call("task_continue", message),
      await test.call("task_status", { clientRequestId: KEY }),
    ]) {
      expect([codeOf(answer), answer.isError]).toEqual(["expired_receipt", false]);
      expect(answer.say).toContain(first.taskId);
      expect(at(answer.structured, "next", "kind")).toBe("choose_key");
    }
    expect(await tasksOf(test)).toBe(0);
  });
});

describe("a key", () => {
  it("that is missing or malformed is asked for, with one that is ready (F8)", async () => {
    await using test = await startTestEngine();
    for (const clientRequestId of [undefined, null, "short", "x".repeat(257), 12_345_678, ["review-auth-1"]]) {
      for (const title of ["Fix it", "a", "", "ÄÖ", undefined]) {
        const answer = await test.call("delegate_task", { clientRequestId, title, task: "say it", role: "review" });
        expect([codeOf(answer), answer.isError, createdOf(answer)]).toEqual([
          "missing_client_request_id",
          true,
          "none",
        ]);
        const ready = textAt(answer.structured, "next", "change", "clientRequestId");
        expect(ready.length, ready).toBeGreaterThanOrEqual(8);
        expect(ready.length).toBeLessThanOrEqual(256);
      }
    }
    expect(await tasksOf(test)).toBe(0);
  });

  it("of a refused call is free: the same key can be sent again (F34)", async () => {
    await using test = await startTestEngine();
    const refused = await test.delegate(KEY, DONE, { agent: "nobody" });
    expect([codeOf(refused), createdOf(refused), refused.isError]).toEqual(["unknown_agent", "none", true]);
    expect(await tasksOf(test)).toBe(0);
    expect(createdOf(await test.delegate(KEY, DONE))).toBe("new");
  });

  it("asked for by task_status tells the task, or that nothing was accepted and what to send (F29, P1)", async () => {
    await using test = await startTestEngine();
    const nothing = await test.call("task_status", { clientRequestId: KEY });
    expect([codeOf(nothing), nothing.isError]).toEqual(["unknown_task", true]);
    expect(nothing.say).toBe(
      `NO SUCH TASK among yours: nothing was accepted under key ${KEY}. delegate_task can be sent with it.`,
    );
    expect(at(nothing.structured, "next")).toEqual({ kind: "repeat_same_call", tool: "delegate_task" });
    const { taskId } = await test.delegate(KEY, OPEN);
    expect((await test.call("task_status", { clientRequestId: KEY })).taskId).toBe(taskId);
    const foreign = await test.call("task_status", { clientRequestId: KEY }, { caller: callerOf("bob") });
    expect(foreign.structured).toEqual(nothing.structured);
  });

  it("that is as long as a key may be gets a suggestion that is one too (P15)", async () => {
    await using test = await startTestEngine();
    const long = "🔑".repeat(128);
    await test.delegate(long, OPEN);
    const conflict = await test.delegate(long, DONE);
    const suggested = textAt(conflict.structured, "next", "change", "clientRequestId");
    expect(suggested.isWellFormed()).toBe(true);
    expect(createdOf(await test.delegate(suggested, DONE))).toBe("new");
    expect(listAt((await test.call("task_list", {})).structured, "tasks")).toHaveLength(2);
  });
});
