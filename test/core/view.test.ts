/**
 * What a caller is told of a task: always a handle and exactly one next step (P1), and what counts as news.
 */

import { describe, expect, it } from "vitest";
import { describe as viewOf, isNews, isQuiet, type TaskView } from "../../src/core/describe.ts";
import { LIMITS } from "../../src/core/limits.ts";
import type { NextStep } from "../../src/core/next-step.ts";
import {
  AUTH,
  aFault,
  aHandle,
  abandoned,
  acked,
  answered,
  asked,
  bound,
  cancelled,
  continued,
  failed,
  finished,
  type Given,
  given,
  gone,
  HOUR,
  lost,
  PERSON,
  POLICY,
  progressed,
  questionExpired,
  SECOND,
  STALLED,
  START,
  survived,
  T0,
} from "../support/given.ts";

const atWork = given().and(START).and(bound());
const QUOTA = aFault({ class: "quota", httpStatus: 429, retryAfterMs: HOUR });
const patient = LIMITS.survivorsAfterMs;

type Shown = Pick<TaskView, "status" | "phase"> & { readonly next: NextStep["kind"] };

const ROWS: readonly (readonly [string, Given, Shown])[] = [
  ["queued", given(), { status: "working", phase: "queued", next: "wait" }],
  ["starting", given().and(START), { status: "working", phase: "starting", next: "wait" }],
  [
    "started without a process of its own",
    given().and(START).and(progressed()),
    { status: "working", phase: "running", next: "wait" },
  ],
  ["running", atWork, { status: "working", phase: "running", next: "wait" }],
  ["stalled", atWork.later(POLICY.stallAfterMs).and(STALLED), { status: "working", phase: "stalled", next: "wait" }],
  ["awaiting an answer", atWork.and(asked()), { status: "input_required", phase: "awaiting_answer", next: "answer" }],
  ["answered", atWork.and(asked()).and(answered()), { status: "working", phase: "running", next: "wait" }],
  ["healing", atWork.and(failed()), { status: "working", phase: "healing", next: "wait" }],
  ["paused", atWork.and(failed(QUOTA)), { status: "working", phase: "paused", next: "wait" }],
  ["recovering", atWork.and(lost()), { status: "working", phase: "recovering", next: "wait" }],
  [
    "recovering beside survivors",
    atWork.and(lost()).later(patient).and(survived()),
    { status: "working", phase: "stopping", next: "wait" },
  ],
  ["stopping", atWork.and(finished()), { status: "working", phase: "stopping", next: "wait" }],
  [
    "stopping beside survivors",
    atWork.and(finished()).later(patient).and(survived()),
    { status: "working", phase: "stopping", next: "wait" },
  ],
  ["completed", atWork.and(finished()).and(gone()), { status: "completed", phase: "settled", next: "use_result" }],
  [
    "failed for want of a fix",
    atWork.and(failed(AUTH)).and(gone()),
    { status: "failed", phase: "settled", next: "fix" },
  ],
  [
    "failed",
    atWork.and(finished({ result: null })).and(gone()),
    { status: "failed", phase: "settled", next: "continue" },
  ],
  [
    "failed for good",
    given({ spec: { onLoss: "fail" } })
      .and(START)
      .and(lost())
      .and(gone()),
    { status: "failed", phase: "settled", next: "choose_key" },
  ],
  ["cancelled", given().and(cancelled()), { status: "cancelled", phase: "settled", next: "use_result" }],
  [
    "given up over survivors",
    atWork.and(lost()).later(patient).and(survived()).and(abandoned()),
    { status: "failed", phase: "settled", next: "continue" },
  ],
  [
    "continued",
    atWork.and(finished()).and(gone()).and(continued("more")),
    { status: "working", phase: "queued", next: "wait" },
  ],
];

describe("a view", () => {
  it.each(ROWS)("of a task that is %s has its handle, its status and its next step (P1, P2)", (_what, story, shown) => {
    const view = viewOf(story.task, story.nowMs);
    expect(view.handle).toEqual(aHandle());
    expect({ status: view.status, phase: view.phase, next: view.next.kind }).toEqual(shown);
  });

  it("asks to wait from where the caller has now been told (P7)", () => {
    const { task } = atWork.and(progressed(3)).and(asked()).and(answered());
    expect(viewOf(task, T0).next).toEqual({
      kind: "wait",
      seen: [{ taskId: task.handle.taskId, news: task.news, steps: 3 }],
    });
  });

  it("asks to continue past the settlement that it tells (D1, F14)", () => {
    const again = atWork
      .and(finished())
      .and(gone())
      .and(continued("more"))
      .and(START)
      .and(finished({ result: null }));
    const { task } = again.and(gone());
    expect(viewOf(task, T0).next).toEqual({ kind: "continue", taskId: task.handle.taskId, afterSettlement: 2 });
  });

  it("tells the outcome of a settled task and the earlier run of one that goes on, never both (F14)", () => {
    const settled = atWork.and(finished()).and(gone());
    expect(viewOf(settled.task, T0)).toMatchObject({ outcome: settled.task.lastSettlement, earlierRun: null });
    const reopened = settled.and(continued("more"));
    expect(viewOf(reopened.task, T0)).toMatchObject({ outcome: null, earlierRun: settled.task.lastSettlement });
    expect(viewOf(atWork.task, T0)).toMatchObject({ outcome: null, earlierRun: null });
  });

  it("tells age, attempt, run and since when a child has been running", () => {
    const story = given()
      .later(SECOND)
      .and(START)
      .later(2 * SECOND);
    expect(viewOf(story.task, story.nowMs)).toMatchObject({
      ageMs: 3 * SECOND,
      attempt: 1,
      runOrdinal: 1,
      runningSinceMs: T0 + SECOND,
      queuedSinceMs: null,
      key: "fix-migration-7f3k9q",
    });
    expect(viewOf(given().task, T0)).toMatchObject({ runningSinceMs: null, queuedSinceMs: T0, activity: null });
  });

  it("is continuable only where it says how (P1)", () => {
    const views = ROWS.map(([, { task, nowMs }]) => viewOf(task, nowMs));
    const continuable = (kind: NextStep["kind"]): readonly boolean[] =>
      views.filter(({ next }) => next.kind === kind).map((view) => view.continuable);
    expect(new Set(continuable("continue"))).toEqual(new Set([true]));
    expect(new Set(continuable("choose_key"))).toEqual(new Set([false]));
  });
});

describe("the key for new work in place of a task that cannot be continued", () => {
  const keyFor = (clientRequestId: string): string => {
    const story = given({ spec: { onLoss: "fail" }, origin: { clientRequestId } })
      .and(START)
      .and(lost())
      .and(gone());
    const { next } = viewOf(story.task, story.nowMs);
    if (next.kind !== "choose_key") throw new Error(next.kind);
    return next.clientRequestId;
  };

  it("is another one, recognisably of the same work (P1)", () => {
    expect(keyFor("review-auth")).toBe("review-auth-2");
  });

  it("is never longer than a key may be, nor torn within a character (P15)", () => {
    const long = "k".repeat(LIMITS.keyCharactersMax);
    expect(keyFor(long)).toBe(`${"k".repeat(LIMITS.keyCharactersMax - 2)}-2`);
    const emoji = "😀".repeat(LIMITS.keyCharactersMax / 2);
    expect(keyFor(emoji)).toBe(`${"😀".repeat(LIMITS.keyCharactersMax / 2 - 1)}-2`);
    expect(keyFor(`a${"😀".repeat(127)}b`).isWellFormed()).toBe(true);
  });
});

describe("news", () => {
  const stalled = atWork.later(POLICY.stallAfterMs).and(STALLED);
  const steps: readonly (readonly [string, Given, Given, number])[] = [
    ["an acceptance", given(), given(), 0],
    ["a start", given(), given().and(START), 0],
    ["a bound child", given().and(START), atWork, 0],
    ["progress", atWork, atWork.and(progressed()), 0],
    ["a question", atWork, atWork.and(asked()), 1],
    ["an answer", atWork.and(asked()), atWork.and(asked()).and(answered()), 1],
    [
      "an expired question",
      atWork.and(asked()),
      atWork.and(asked()).later(POLICY.questionDeadlineMs).and(questionExpired()),
      1,
    ],
    ["a question closed by a fault", atWork.and(asked()), atWork.and(asked()).and(failed()), 1],
    ["a question closed by a loss, and recovering", atWork.and(asked()), atWork.and(asked()).and(lost()), 2],
    ["a stall", atWork, stalled, 1],
    ["a stall ended by progress", stalled, stalled.and(progressed()), 1],
    ["a stall ended by a question, and the question", stalled, stalled.and(asked()), 2],
    ["a stall ended by a fault", stalled, stalled.and(failed()), 1],
    ["a stall ended by success", stalled, stalled.and(finished()), 1],
    ["healing", atWork, atWork.and(failed()), 0],
    ["a pause", atWork, atWork.and(failed(QUOTA)), 1],
    ["recovering", atWork, atWork.and(lost()), 1],
    ["an end that is not proven", atWork, atWork.and(finished()), 0],
    ["a settlement", atWork.and(finished()), atWork.and(finished()).and(gone()), 1],
    [
      "a settlement that the next message follows",
      atWork.and(continued("x")).and(finished()),
      atWork.and(continued("x")).and(finished()).and(gone()),
      1,
    ],
    ["a proof that settles nothing", atWork.and(failed()), atWork.and(failed()).and(gone()), 0],
    ["survivors", atWork.and(finished()).later(patient), atWork.and(finished()).later(patient).and(survived()), 1],
    [
      "survivors beside a recovering task",
      atWork.and(lost()).later(patient),
      atWork.and(lost()).later(patient).and(survived()),
      1,
    ],
    ["a queued message", atWork, atWork.and(continued("x")), 0],
    ["a continuation", atWork.and(finished()).and(gone()), atWork.and(finished()).and(gone()).and(continued("x")), 0],
    ["a cancel that waits for its proof", atWork, atWork.and(cancelled()), 0],
    ["a cancel that settles", given(), given().and(cancelled()), 1],
    ["a late word", atWork.and(cancelled()), atWork.and(cancelled()).and(finished()), 0],
    ["an acknowledgement", atWork.and(finished()).and(gone()), atWork.and(finished()).and(gone()).and(acked(1)), 0],
  ];

  it.each(steps)(
    "of %s raises the counter by as much as the contract calls news (L2, F16)",
    (_what, before, after, count) => {
      expect(after.task.news - before.task.news).toBe(count);
    },
  );

  it("of a settlement carries the counter that acknowledges it (P9)", () => {
    const { task } = atWork.and(asked()).and(answered()).and(finished()).and(gone());
    expect(task.lastSettlement?.news).toBe(task.news);
  });

  it("is whatever happened past what was told (L2, L4)", () => {
    const { task } = atWork.and(asked()).and(answered());
    expect([null, 0, 1, 2, 3].map((told) => isNews(task, told))).toEqual([false, true, true, false, false]);
  });

  it.each<readonly [string, Given, boolean]>([
    ["queued", given(), false],
    ["running", atWork, false],
    ["stalled", stalled, true],
    ["awaiting an answer", atWork.and(asked()), true],
    ["answered", atWork.and(asked()).and(answered()), false],
    ["healing", atWork.and(failed()), false],
    ["paused", atWork.and(failed(QUOTA)), true],
    ["recovering", atWork.and(lost()), true],
    ["started again", atWork.and(lost()).and(gone()).and(START), false],
    ["stopping", atWork.and(finished()), false],
    ["stopping beside survivors", atWork.and(finished()).later(patient).and(survived()), true],
    ["healing beside survivors", atWork.and(failed()).later(patient).and(survived()), true],
    ["settled and unread", atWork.and(finished()).and(gone()), true],
    ["settled and read", atWork.and(finished()).and(gone()).and(acked(1)), false],
    [
      "settled again after it was read",
      atWork.and(finished()).and(gone()).and(continued("x")).and(START).and(finished()).and(gone()),
      true,
    ],
  ])("for somebody who was told nothing is what needs him: %s (P8, R6)", (_what, { task }, news) => {
    expect(isNews(task, null)).toBe(news);
  });
});

describe("a wait that can bring no more", () => {
  const settled = atWork.and(finished()).and(gone());

  it.each<readonly [string, Given, number | null, boolean]>([
    ["a running task", atWork, null, false],
    ["a running task, all told", atWork, 99, false],
    ["a settled task, unread", settled, null, false],
    ["a settled task, told less", settled, settled.task.news - 1, false],
    ["a settled task, told all", settled, settled.task.news, true],
    ["a settled task, read", settled.and(acked(1)), null, true],
    ["a settled task, read, told less", settled.and(acked(1)), 0, true],
    ["a task continued after it was read", settled.and(acked(1)).and(continued("x", { by: PERSON })), 99, false],
    ["a stopping task", atWork.and(finished()), 99, false],
  ])("is one for %s (P8)", (_what, { task }, told, quiet) => {
    expect(isQuiet(task, told)).toBe(quiet);
  });
});
