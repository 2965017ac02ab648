/**
 * A store that cannot be written, or not even read (contract §12): nothing new is started, nothing that happened is lost, and
 * no answer loses its handle (P1, F10).
 */

import { describe, expect, it } from "vitest";
import { at, textAt } from "../support/json.ts";
import { startTestEngine, type TestAnswer, type TestEngine } from "../support/test-engine.ts";

const KEY = "review-auth-1";
const say = (text: string): object => ({ do: "say", text });
const gate = (name: string): object => ({ do: "waitFor", name });
const OPEN = [{ do: "progress" }, gate("go"), say("fine")];

const codeOf = ({ structured }: TestAnswer): string => textAt(structured, "error", "code");

async function start(test: TestEngine, key = KEY, steps: readonly object[] = OPEN): Promise<TestAnswer> {
  const answer = await test.delegate(key, steps);
  await test.settle();
  return answer;
}

describe("while nothing can be written", () => {
  it("a new delegation is refused by name, nothing is started, and its key stays free (F10, E5)", async () => {
    await using test = await startTestEngine();
    test.trouble.begin("disk_full");
    const refused = await test.delegate(KEY, OPEN);
    expect([codeOf(refused), refused.isError, refused.structured["created"]]).toEqual([
      "storage_unavailable",
      true,
      "none",
    ]);
    expect(refused.say).toContain("(disk_full)");
    expect(at(refused.structured, "next")).toEqual({ kind: "repeat_same_call", tool: "delegate_task" });
    test.trouble.end();
    await test.settle();
    expect((await test.delegate(KEY, OPEN)).structured["created"]).toBe("new");
  });

  it("a repeat still gets its task (P3, F5)", async () => {
    await using test = await startTestEngine();
    const { taskId } = await start(test);
    test.trouble.begin("read_only");
    const again = await test.delegate(KEY, OPEN);
    expect([again.taskId, again.structured["created"]]).toEqual([taskId, "replayed"]);
    const other = await test.delegate(KEY, [say("other")]);
    expect(codeOf(other)).toBe("idempotency_conflict");
    test.trouble.end();
  });

  it("a running child's outcome is kept and written as soon as that is possible (F10)", async () => {
    await using test = await startTestEngine();
    const { taskId } = await start(test);
    const waiting = test.call("task_wait", { taskIds: [taskId] });
    await test.settle();
    test.trouble.begin("disk_full");
    test.driver.release("go");
    await test.settle();
    const told = await waiting;
    expect(told.structured).toMatchObject({
      taskId,
      status: "working",
      error: { code: "storage_unavailable", retryable: true },
      next: { kind: "wait", arguments: { taskIds: [taskId] } },
    });
    expect(told.say).toContain("The server cannot write its data at present: tell your user.");
    expect(test.store.healthy()).toBe(false);
    await test.clock.advanceAndSettle(10 * 60_000);
    expect((await test.status(taskId)).structured["status"]).toBe("working");
    test.trouble.end();
    await test.clock.advanceAndSettle(10_000);
    const ended = await test.status(taskId);
    expect(ended.structured).toMatchObject({
      status: "completed",
      settlement: 1,
      fromChild: { result: { text: "fine" } },
    });
    expect([ended.isError, test.store.healthy()]).toEqual([false, true]);
    // One run did it all: nothing was lost and done again.
    expect(at(ended.structured, "meta", "attempt")).toBe(1);
  });

  it("every other call about a task answers with its handle (P1)", async () => {
    await using test = await startTestEngine();
    const { taskId } = await start(test);
    const ended = await start(test, "review-auth-2", [say("done")]);
    test.trouble.begin("io_error");
    // Something has to fail before anybody knows of the trouble.
    await test.delegate("review-auth-3", OPEN);
    const calls: readonly (readonly [string, object])[] = [
      ["task_status", { taskId }],
      ["task_cancel", { taskId }],
      ["task_ack", { taskId: ended.taskId, settlement: 1 }],
      ["task_continue", { taskId, message: "more", clientRequestId: "continue-1" }],
      ["task_wait", { taskIds: [taskId], waitMs: 0 }],
    ];
    for (const [tool, args] of calls) {
      const answer = await test.call(tool, { ...args });
      expect([answer.taskId, codeOf(answer)], tool).toEqual([
        tool === "task_ack" ? ended.taskId : taskId,
        "storage_unavailable",
      ]);
    }
    const cancelled = await test.call("task_cancel", { taskId });
    expect(cancelled.say).toMatch(/^NOT DONE \(storage_unavailable\): .*"Review the auth diff" goes on\.$/);
    test.trouble.end();
    await test.clock.advanceAndSettle(10_000);
    expect((await test.status(taskId)).structured["status"]).toBe("working");
  });

  it("results can be read, and a wait that confirms one by the way goes on (P9)", async () => {
    await using test = await startTestEngine();
    const ended = await start(test, "review-auth-2", [say("done")]);
    const open = await start(test);
    const told = await test.call("task_wait", { taskIds: [ended.taskId, open.taskId] });
    test.trouble.begin("disk_full");
    const waiting = test.call("task_wait", Object(at(told.structured, "next", "arguments")));
    await test.clock.advanceAndSettle(25_000);
    expect((await waiting).structured).toMatchObject({ waitEnded: "slice", counts: { completed: 1, working: 1 } });
    expect(textAt((await test.status(ended.taskId)).structured, "fromChild", "result", "text")).toBe("done");
    test.trouble.end();
  });

  it("an announcement that cannot be counted does not cost the answer that it rides on (L5, P1)", async () => {
    await using test = await startTestEngine();
    await start(test, "review-auth-2", [say("done")]);
    const { taskId } = await start(test);
    test.trouble.begin("disk_full");
    expect((await test.status(taskId)).taskId).toBe(taskId);
    test.trouble.end();
    // And it comes when it can be counted.
    const { structured } = await test.status(taskId);
    expect(at(structured, "pendingCompletions", 0, "title")).toBe("Review the auth diff");
  });
});

describe("a store that cannot be read after a task was accepted", () => {
  it("costs no answer its handle, and never makes it say that nothing was created (F10, P1)", async () => {
    for (const read of ["tasks", "text", "pending"] as const) {
      await using test = await startTestEngine();
      await start(test, "review-auth-0", [say("done")]);
      test.trouble.failReads(read, 5);
      const delegating = test.delegate(KEY, OPEN, { mode: "wait" });
      await test.clock.advanceAndSettle(25_000);
      const { structured } = await delegating;
      expect(structured, read).toMatchObject({ created: "new", status: "working" });
      expect(structured["taskId"]).toMatch(/^dt_/);
      test.trouble.end();
    }
  });

  it("when its child is about to be started costs no attempt, not even one that may not be repeated (F10, P14)", async () => {
    await using test = await startTestEngine();
    test.trouble.failReads("text", 3);
    const { taskId } = await test.delegate(KEY, [say("done")], { agent: "fragile" });
    await test.clock.advanceAndSettle(60_000);
    expect((await test.status(taskId)).structured).toMatchObject({ status: "completed", meta: { attempt: 1 } });
  });

  it("costs a wait only what it cannot know (F10)", async () => {
    await using test = await startTestEngine();
    const { taskId } = await start(test, KEY, [say("done")]);
    test.trouble.failReads("text", 1);
    const answer = await test.call("task_wait", { taskIds: [taskId] });
    expect(answer.structured).toMatchObject({
      taskId,
      status: "completed",
      waitEnded: "news",
      stop: { proof: "marker+tree" },
      error: { code: "storage_unavailable" },
    });
    expect(answer.structured["fromChild"]).toBeUndefined();
    const again = await test.call("task_wait", { taskIds: [taskId] });
    expect(textAt(again.structured, "fromChild", "result", "text")).toBe("done");
  });

  it("costs a wait for several only what it cannot know (F10, P1)", async () => {
    await using test = await startTestEngine();
    const one = await start(test, KEY, [say("done")]);
    const other = await start(test, `${KEY}-2`, [say("done too")]);
    test.trouble.failReads("text", 1);
    const answer = await test.call("task_wait", { taskIds: [one.taskId, other.taskId], until: "all" });
    expect(answer.structured).toMatchObject({
      error: { code: "storage_unavailable" },
      tasks: [
        { taskId: one.taskId, status: "completed" },
        { taskId: other.taskId, status: "completed" },
      ],
    });
  });

  it("at all is told by name, with the same call as next step (P1)", async () => {
    await using test = await startTestEngine();
    const { taskId } = await start(test);
    test.trouble.begin("gone", { reads: true });
    for (const [tool, args] of [
      ["task_wait", { taskIds: [taskId] }],
      ["task_status", { taskId }],
      ["task_list", {}],
      ["task_cancel", { taskId }],
      ["delegate_task", { clientRequestId: KEY, task: "x" }],
    ] as const) {
      const answer = await test.call(tool, args);
      expect([codeOf(answer), at(answer.structured, "next")], tool).toEqual([
        "storage_unavailable",
        { kind: "repeat_same_call", tool },
      ]);
    }
    test.trouble.end();
  });
});
