/**
 * Questions of children: asked, answered, expired, closed by the child's own end.
 */

import { describe, expect, it } from "vitest";
import { describe as viewOf } from "../../src/core/describe.ts";
import type { Choice, Question, Task } from "../../src/core/task.ts";
import {
  ADOPT,
  ALLOWED,
  answered,
  asked,
  aText,
  bound,
  cancelled,
  failed,
  finished,
  given,
  gone,
  HOUR,
  lost,
  MINUTE,
  PERMISSION,
  PERSON,
  POLICY,
  progressed,
  questionExpired,
  SECOND,
  STALLED,
  START,
  T0,
} from "../support/given.ts";

const atWork = given().and(START).and(bound());

describe("a child's question", () => {
  it("shows as input_required with what is asked, the options, a deadline and the tool that answers (P1, F16, G4)", () => {
    const { task, nowMs } = atWork.later(SECOND).and(asked());
    expect(viewOf(task, nowMs)).toMatchObject({
      status: "input_required",
      phase: "awaiting_answer",
      next: { kind: "answer", taskId: task.handle.taskId, questionId: "q_1" },
      question: {
        questionId: "q_1",
        kind: "permission",
        optionIds: ["allow_once", "reject"],
        action: PERMISSION.action,
        askedAtMs: T0 + SECOND,
        deadlineAtMs: T0 + SECOND + POLICY.questionDeadlineMs,
      },
    });
  });

  it("has a number of its own, also in later attempts and runs", () => {
    const second = atWork.and(asked()).and(answered()).and(asked());
    expect(question(second.task).questionId).toBe("q_2");
    const third = second.and(lost()).and(gone()).and(START).and(asked());
    expect(question(third.task).questionId).toBe("q_3");
  });

  it("is no stall: it ends one that had begun, and nobody calls the child stalled while it waits (G1)", () => {
    const stalled = atWork.later(POLICY.stallAfterMs).and(STALLED);
    const waiting = stalled.when(asked()).thenEvents("StallEnded", "InputRequested");
    waiting.later(HOUR).when(STALLED).thenIgnored("stale_epoch");
    const back = waiting.later(HOUR).and(answered());
    expect(viewOf(back.task, back.nowMs).phase).toBe("running");
    back
      .later(POLICY.stallAfterMs - 1)
      .when(STALLED)
      .thenIgnored("stale_epoch");
    back.later(POLICY.stallAfterMs).when(STALLED).thenEvents("StallBegan");
  });

  it("of a child that waits already is not taken, because it could not be shown", () => {
    atWork.and(asked()).when(asked()).thenIgnored("stale_epoch");
  });

  it("stays open while the child is adopted or shows signs of life (F19)", () => {
    const waiting = atWork.and(asked());
    expect(viewOf(waiting.and(ADOPT).task, T0).status).toBe("input_required");
    expect(viewOf(waiting.and(progressed()).task, T0).status).toBe("input_required");
  });
});

describe("an answer", () => {
  it("lets the child go on (F16)", () => {
    const { task, nowMs } = atWork.and(asked()).later(HOUR).when(answered(1, PERSON)).thenEvents("InputAnswered");
    expect(viewOf(task, nowMs)).toMatchObject({ status: "working", phase: "running", question: null });
  });

  it("is recorded with who gave it", () => {
    const { events } = atWork.and(asked()).and(answered(1, PERSON));
    expect(events.at(-1)).toMatchObject({ kind: "InputAnswered", choice: ALLOWED, by: PERSON });
  });

  it("to a question that is not open is refused, with a wait that claims nothing was told (P1, P9)", () => {
    const closed = atWork.and(asked()).and(answered());
    const again = closed.when(answered(1)).thenRefused("not_pending", "wait");
    expect(again.detail).toEqual({ questionId: "q_1" });
    expect(again.next).toEqual({ kind: "wait", seen: [{ taskId: closed.task.handle.taskId, news: 0, steps: 0 }] });
    atWork.and(asked()).when(answered(2)).thenRefused("not_pending", "wait");
  });

  it("is one of the offered options where it is an option, and never free text where a permission is asked (P18)", () => {
    const waiting = atWork.and(asked());
    const option = (optionId: string): Choice => ({ kind: "option", optionId });
    const text: Choice = { kind: "text", text: aText("answer") };
    waiting.when(answered(1, PERSON, option("allow_for_ever"))).thenRefused("invalid_arguments", "fix");
    waiting.when(answered(1, PERSON, text)).thenRefused("invalid_arguments", "fix");
    const open = atWork.and(asked({ ...PERMISSION, kind: "question", optionIds: [] }));
    open.when(answered(1, PERSON, text)).thenEvents("InputAnswered");
    open.when(answered(1, PERSON, option("allow_once"))).thenRefused("invalid_arguments", "fix");
  });

  it("stays with the task, so that whoever runs the child can hand it over (P14)", () => {
    const { task } = atWork.and(asked()).and(answered(1, PERSON));
    expect(task.lastAnswer).toEqual({ questionId: "q_1", choice: ALLOWED, by: PERSON });
    const later = atWork.and(asked()).and(answered(1, PERSON)).and(asked()).and(lost()).and(gone());
    expect(later.task.lastAnswer?.questionId).toBe("q_1");
  });

  it("counts as long as the question has not been called expired", () => {
    atWork.and(asked()).later(POLICY.questionDeadlineMs).when(answered()).thenEvents("InputAnswered");
  });
});

describe("an expired question", () => {
  const over = atWork.and(asked()).later(POLICY.questionDeadlineMs);

  it("fails the task as input_expired, continuable: an expiry is not a denial (F16)", () => {
    const { task, nowMs } = over.and(questionExpired()).and(gone());
    expect(task.lastSettlement?.verdict).toMatchObject({
      status: "failed",
      class: "input_expired",
      continuable: true,
      by: null,
    });
    expect(viewOf(task, nowMs).next.kind).toBe("continue");
  });

  it("does so only after the stop proof (P5)", () => {
    const { task, nowMs } = over.and(questionExpired());
    expect(viewOf(task, nowMs)).toMatchObject({ status: "working", phase: "stopping" });
  });

  it("does not expire before its deadline, nor once it is answered", () => {
    atWork
      .and(asked())
      .later(POLICY.questionDeadlineMs - 1)
      .when(questionExpired())
      .thenIgnored("stale_epoch");
    over.and(answered()).when(questionExpired(1)).thenIgnored("stale_epoch");
    over.and(answered()).and(asked()).when(questionExpired(1)).thenIgnored("stale_epoch");
  });

  it("takes no answer any more", () => {
    over.and(questionExpired()).when(answered(1)).thenRefused("not_pending", "wait");
  });
});

describe("a question is closed", () => {
  const waiting = atWork.and(asked());
  const ways = {
    "the child finishing": waiting.and(finished()),
    "a passing fault": waiting.and(failed()),
    "the child being lost": waiting.and(lost({ partial: aText("half") })),
    "a cancel": waiting.and(cancelled()),
  };

  it.each(Object.entries(ways))("by %s, which those who wait are told (L2)", (_way, { task, nowMs }) => {
    expect(viewOf(task, nowMs)).toMatchObject({ status: "working", question: null });
    expect(task.news).toBeGreaterThan(waiting.task.news);
  });

  it("and a fault during it heals like any other (P6)", () => {
    const { task, nowMs } = ways["a passing fault"].and(gone());
    expect(viewOf(task, nowMs).phase).toBe("healing");
  });
});

describe("the time that a child waits for an answer", () => {
  it("is no running time, so a limit on that never strikes meanwhile (L3)", () => {
    const short = given({ spec: { policy: { maxActiveMs: HOUR } } }).and(START);
    const back = short
      .later(30 * MINUTE)
      .and(asked())
      .later(20 * HOUR)
      .and(answered());
    expect(back.task.activeMs).toBe(30 * MINUTE);
    back
      .later(30 * MINUTE - 1)
      .when({ kind: "ExpireActive", epoch: 1 })
      .thenIgnored("stale_epoch");
    back
      .later(30 * MINUTE)
      .when({ kind: "ExpireActive", epoch: 1 })
      .thenEvents("AttemptFailed");
  });
});

function question({ state }: Task): Question {
  if (state.kind !== "awaiting_answer") throw new Error(`no question while ${state.kind}`);
  return state.question;
}
