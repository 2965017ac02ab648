/**
 * `task_continue`: the same child and ids, one message per key, and nothing sent past what the caller knows (P2, P3).
 */

import { describe, expect, it } from "vitest";
import { at, listAt, textAt } from "../support/json.ts";
import { BOB, callerOf, startTestEngine, type TestAnswer, type TestEngine } from "../support/test-engine.ts";

const KEY = "review-auth-1";

const script = (...steps: readonly object[]): string => `Do it: ${JSON.stringify({ steps })}`;
const say = (text: string): object => ({ do: "say", text });
const gate = (name: string): object => ({ do: "waitFor", name });

async function send(
  test: TestEngine,
  taskId: string,
  key: string,
  message: string,
  more: Readonly<Record<string, unknown>> = {},
  caller = callerOf("alice"),
): Promise<TestAnswer> {
  return test.call("task_continue", { taskId, clientRequestId: key, message, ...more }, { caller });
}

async function ended(test: TestEngine, steps: readonly object[] = [say("one")]): Promise<TestAnswer> {
  const { taskId } = await test.delegate(KEY, steps);
  await test.settle();
  return test.status(taskId);
}

const resultOf = ({ structured }: TestAnswer): string => textAt(structured, "fromChild", "result", "text");

describe("a message to a settled task", () => {
  it("starts the next run of the same child under the same ids, with the next settlement (P2, F14)", async () => {
    await using test = await startTestEngine();
    const first = await ended(test, [{ do: "end", fault: { httpStatus: 401 } }]);
    expect(first.structured).toMatchObject({ status: "failed", settlement: 1, outcome: { class: "auth" } });
    const sent = await send(test, first.taskId, "continue-1", script(gate("go"), say("two")), { afterSettlement: 1 });
    expect(sent.structured).toMatchObject({ created: "new", status: "working", taskId: first.taskId });
    expect(sent.say).toContain("Your message started run 2.");
    expect(sent.structured["earlierRun"]).toEqual({ runOrdinal: 1, settlement: 1, status: "failed", class: "auth" });
    test.driver.release("go");
    await test.settle();
    const second = await test.status(first.taskId);
    expect(second.structured).toMatchObject({
      status: "completed",
      settlement: 2,
      meta: { runId: `${first.taskId}.r2` },
    });
    for (const id of ["taskId", "childThreadId", "nodeId"]) expect(second.structured[id]).toBe(first.structured[id]);
    expect([resultOf(second), second.structured["earlierRun"]]).toEqual(["two", undefined]);
  });

  it("is the caller's word that it has the result (P9)", async () => {
    await using test = await startTestEngine();
    const { taskId } = await ended(test);
    await send(test, taskId, "continue-1", script(gate("never")));
    expect(listAt((await test.call("task_list", { unread: true })).structured, "tasks")).toEqual([]);
  });

  it("of a person is not the caller's word (P9)", async () => {
    await using test = await startTestEngine();
    const { taskId } = await ended(test);
    await send(test, taskId, "continue-1", script(say("two")), {}, callerOf("alice", { kind: "person" }));
    await test.settle();
    const unread = await test.call("task_list", { unread: true });
    expect(listAt(unread.structured, "tasks")).toMatchObject([{ settlement: 2 }]);
  });

  it("is sent once per key, also after a restart, and another text under it is a conflict (P3)", async () => {
    await using test = await startTestEngine();
    const { taskId } = await ended(test);
    const message = script(gate("never"));
    const answers = await Promise.all(Array.from({ length: 20 }, () => send(test, taskId, "continue-1", message)));
    expect(answers.map(({ structured }) => textAt(structured, "created")).toSorted(byText)).toEqual([
      "new",
      ...Array(19).fill("replayed"),
    ]);
    await using second = await test.restart();
    const again = await send(second, taskId, "continue-1", message);
    expect(again.structured).toMatchObject({ created: "replayed", taskId });
    const other = await send(second, taskId, "continue-1", "something else");
    expect(other.structured).toMatchObject({
      created: "none",
      error: { code: "idempotency_conflict", differing: ["message"] },
      related: { taskId },
    });
    expect((await second.status(taskId)).structured).toMatchObject({ meta: { runId: `${taskId}.r2` } });
  });

  it("may have the same key as one to another task: a key belongs to its task (P3)", async () => {
    await using test = await startTestEngine();
    const one = await ended(test);
    const other = await test.delegate("review-auth-2", [say("x")]);
    await test.settle();
    const sent = await Promise.all([one, other].map(({ taskId }) => send(test, taskId, "continue-1", "more")));
    expect(sent.map(({ structured }) => structured["created"])).toEqual(["new", "new"]);
  });

  it("past whose settlement somebody has gone on is not sent, and that is no refusal (D1)", async () => {
    await using test = await startTestEngine();
    const { taskId } = await ended(test);
    await send(test, taskId, "continue-1", script(gate("go"), say("two")), { afterSettlement: 1 });
    const late = await send(test, taskId, "continue-2", "mine", { afterSettlement: 1 });
    expect(late.structured).toMatchObject({ created: "none", status: "working", taskId });
    expect(late.structured["error"]).toBeUndefined();
    expect(late.say).toMatch(/^WORKING: .*\. Your message was not sent\.$/);
    expect(at(late.structured, "next")).toMatchObject({ kind: "wait", tool: "task_wait" });
    test.driver.release("go");
    await test.settle();
    const later = await send(test, taskId, "continue-3", "mine", { afterSettlement: 1 });
    expect(later.say).toMatch(/^COMPLETED: .*\. Your message was not sent\.$/);
    // What was not sent has not used its key up.
    const sent = await send(test, taskId, "continue-3", "mine", { afterSettlement: 2 });
    expect(sent.structured["created"]).toBe("new");
  });

  it("and another at the same moment: one is sent, the other is told so (D1, P3)", async () => {
    await using test = await startTestEngine();
    const { taskId } = await ended(test);
    const answers = await Promise.all(
      ["a", "b", "c"].map((name) =>
        send(test, taskId, `continue-${name}`, script(gate("never")), { afterSettlement: 1 }),
      ),
    );
    expect(answers.map(({ structured }) => textAt(structured, "created")).toSorted(byText)).toEqual([
      "new",
      "none",
      "none",
    ]);
    const losers = answers.filter(({ structured }) => structured["created"] === "none");
    for (const { say: said } of losers) expect(said).toContain("Your message was not sent.");
    expect((await test.status(taskId)).structured).toMatchObject({ meta: { runId: `${taskId}.r2` } });
  });

  it("can be waited for in the same call (P8)", async () => {
    await using test = await startTestEngine();
    const { taskId } = await ended(test);
    const sending = send(test, taskId, "continue-1", script(say("two")), { mode: "wait" });
    await test.settle();
    const answer = await sending;
    expect(answer.structured).toMatchObject({ created: "new", waitEnded: "news", status: "completed", settlement: 2 });
    expect(resultOf(answer)).toBe("two");
  });
});

describe("a message to a task that has not ended", () => {
  it("is queued and sent after the present turn, one run each, in order (P2)", async () => {
    await using test = await startTestEngine();
    const { taskId } = await test.delegate(KEY, [gate("go"), say("one")]);
    await test.settle();
    for (const [key, text] of [
      ["continue-1", "two"],
      ["continue-2", "three"],
    ] as const) {
      const sent = await send(test, taskId, key, script(gate(text), say(text)));
      expect(sent.structured).toMatchObject({ created: "new", status: "working" });
      expect(sent.say).toContain("Your message is queued and is sent after the present turn.");
    }
    test.driver.release("go");
    await test.settle();
    expect((await test.status(taskId)).structured).toMatchObject({
      earlierRun: { runOrdinal: 1 },
      meta: { runId: `${taskId}.r2` },
    });
    test.driver.release("two");
    await test.settle();
    test.driver.release("three");
    await test.settle();
    const last = await test.status(taskId);
    expect(last.structured).toMatchObject({ status: "completed", settlement: 3 });
    expect(resultOf(last)).toBe("three");
  });

  it("waits through a failure until somebody goes on, and then goes first; the answer says so (P2)", async () => {
    await using test = await startTestEngine();
    const { taskId } = await test.delegate(KEY, [gate("go"), { do: "end", fault: { httpStatus: 401 } }]);
    await test.settle();
    await send(test, taskId, "continue-1", script(say("two")));
    test.driver.release("go");
    await test.settle();
    expect((await test.status(taskId)).structured).toMatchObject({ status: "failed", settlement: 1 });
    const sent = await send(test, taskId, "continue-2", script(say("three")), { afterSettlement: 1 });
    // The run that starts is the older message's.
    expect(sent.say).toContain("Your message is queued");
    await test.settle();
    await test.settle();
    const last = await test.status(taskId);
    expect([last.structured["settlement"], resultOf(last)]).toEqual([3, "three"]);
  });

  it.each([
    ["healing", [{ do: "fault", times: 99, fault: { httpStatus: 503 } }]],
    ["paused", [{ do: "fault", times: 99, fault: { httpStatus: 429, retryAfterMs: 3_600_000 } }]],
    ["awaiting_answer", [{ do: "ask", optionIds: ["a"] }]],
  ])("is queued while it is %s (P2)", async (phase, steps) => {
    await using test = await startTestEngine();
    const { taskId } = await test.delegate(KEY, steps);
    await test.settle();
    const sent = await send(test, taskId, "continue-1", "more", { afterSettlement: 0 });
    expect(sent.structured).toMatchObject({ created: "new", phase });
    expect(sent.say).toContain("Your message is queued");
  });
});

describe("a message to nobody", () => {
  it("is an unknown task, alike for a foreign and an unknown id, and nothing is created (P16)", async () => {
    await using test = await startTestEngine();
    const { taskId } = await ended(test);
    const foreign = await send(test, taskId, "continue-1", "more", {}, BOB);
    const unknown = await send(test, "dt_01KDVDNA00YBXHH9WG1E67JZYZ", "continue-1", "more", {}, BOB);
    expect(foreign.structured).toMatchObject({ created: "none", error: { code: "unknown_task" } });
    expect(foreign.isError).toBe(true);
    expect(JSON.stringify(foreign.structured).replaceAll(taskId, "ID")).toBe(
      JSON.stringify(unknown.structured).replaceAll("dt_01KDVDNA00YBXHH9WG1E67JZYZ", "ID"),
    );
  });

  it("without a key gets one that is ready, with the handle of the task (F8, P1)", async () => {
    await using test = await startTestEngine();
    const { taskId } = await ended(test);
    const answer = await test.call("task_continue", { taskId, message: "more" });
    expect(answer.structured).toMatchObject({
      taskId,
      created: "none",
      error: { code: "missing_client_request_id" },
      next: { kind: "choose_key", tool: "task_continue" },
    });
  });
});

function byText(one: string, other: string): number {
  return one.localeCompare(other);
}
