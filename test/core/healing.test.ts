/**
 * Faults of providers and programs: what heals, for how long, and what does not.
 */

import { describe, expect, it } from "vitest";
import { describe as viewOf } from "../../src/core/describe.ts";
import type { FailureClass } from "../../src/core/failure.ts";
import type { Problem } from "../../src/core/task.ts";
import {
  AUTH,
  aFault,
  aText,
  bound,
  continued,
  EDGE_BLOCK,
  failed,
  type Given,
  given,
  gone,
  HOUR,
  lost,
  MINUTE,
  POLICY,
  progressed,
  SECOND,
  START,
  T0,
  UNKNOWN,
} from "../support/given.ts";

describe("a passing fault", () => {
  it("leaves the task working and says what it is, when it is tried again and until when (P6, W1, F11)", () => {
    const healing = given().and(START).and(bound()).later(SECOND).and(failed(EDGE_BLOCK));
    const { status, phase, next, settlements } = viewOf(healing.task, healing.nowMs);
    expect({ status, phase, next: next.kind, settlements }).toEqual({
      status: "working",
      phase: "healing",
      next: "wait",
      settlements: 0,
    });
    const problem = problemOf(healing);
    expect(problem).toMatchObject({
      class: "edge_block",
      httpStatus: 403,
      sinceMs: T0 + SECOND,
      retriesUntilMs: T0 + SECOND + POLICY.patienceMs,
    });
    expect(problem.nextTryAtMs).toBeGreaterThan(healing.nowMs);
  });

  it("is tried again in the same conversation (P6)", () => {
    const again = retried(given().and(START).and(bound()), EDGE_BLOCK);
    expect(again.task).toMatchObject({ nativeSessionId: "s-1", epoch: 2, run: { ordinal: 1 } });
  });

  it("backs off further with every fault of a series, never longer than set", () => {
    const delays: number[] = [];
    for (let story = given().and(START), fault = 1; fault <= 12; fault += 1) {
      const healing = story.and(failed());
      delays.push(problemOf(healing).nextTryAtMs - healing.nowMs);
      story = untilDue(healing.and(gone())).and(START);
    }
    for (const [index, delayMs] of delays.entries()) {
      const fullMs = Math.min(POLICY.backoffMaxMs, SECOND * 2 ** index);
      expect(delayMs).toBeGreaterThanOrEqual(fullMs / 2);
      expect(delayMs).toBeLessThanOrEqual(fullMs);
    }
  });

  it("waits at least as long as the provider asks (F11)", () => {
    const healing = given()
      .and(START)
      .and(failed(aFault({ httpStatus: 429, retryAfterMs: 9 * MINUTE })));
    expect(problemOf(healing).nextTryAtMs).toBe(T0 + 9 * MINUTE);
  });

  it("heals again and again for all of the patience, and only its end fails the task (P6, W1, F13)", () => {
    let story = given().and(START).and(failed(EDGE_BLOCK)).and(gone());
    let tries = 1;
    while (story.task.state.kind === "queued") {
      story = untilDue(story).and(START);
      expect(story.nowMs).toBeLessThanOrEqual(T0 + POLICY.patienceMs);
      story = story.and(failed(EDGE_BLOCK, aText("half"))).and(gone());
      tries += 1;
      expect(tries).toBeLessThan(1_000);
    }
    expect(story.nowMs).toBe(T0 + POLICY.patienceMs);
    expect(tries).toBeGreaterThan(100);
    expect(story.task.lastSettlement?.verdict).toMatchObject({
      status: "failed",
      class: "edge_block",
      httpStatus: 403,
      continuable: true,
      contextKept: true,
      partial: true,
    });
    expect(viewOf(story.task, story.nowMs).next).toMatchObject({ kind: "continue", afterSettlement: 1 });
  });

  it("is tried a last time at the end of patience, even where the provider asks for longer (P6)", () => {
    const long = aFault({ httpStatus: 503, retryAfterMs: 5 * HOUR });
    const healing = given().and(START).and(failed(long));
    expect(problemOf(healing).nextTryAtMs).toBe(T0 + POLICY.patienceMs);
    untilDue(healing.and(gone())).and(START).when(failed(long)).thenEvents("AttemptFailed");
  });

  it("ends the task at once where there is no patience", () => {
    given({ spec: { policy: { patienceMs: 0 } } })
      .and(START)
      .when(failed())
      .thenEvents("AttemptFailed");
  });

  it("says failed only after the stop proof (P5)", () => {
    const over = given({ spec: { policy: { patienceMs: 0 } } })
      .and(START)
      .and(failed());
    expect(viewOf(over.task, over.nowMs)).toMatchObject({ status: "working", phase: "stopping" });
    over.when(gone()).thenEvents("AttemptStopped", "TaskSettled");
  });
});

describe("a series of faults", () => {
  const faulted = untilDue(given().and(START).and(failed()).and(gone())).and(START);

  it("goes on while no attempt works in between", () => {
    const idle = faulted.later(2 * HOUR).and(failed());
    expect(problemOf(idle).sinceMs).toBe(T0);
    expect(idle.task.tries).toBe(2);
    const brief = faulted.and(progressed()).later(POLICY.backoffMaxMs).and(failed());
    expect(problemOf(brief).sinceMs).toBe(T0);
  });

  it("is over once an attempt has worked for longer than the longest back-off (P6)", () => {
    const after = faulted
      .and(progressed())
      .later(5 * HOUR)
      .and(failed());
    expect(problemOf(after)).toMatchObject({
      sinceMs: after.nowMs,
      retriesUntilMs: after.nowMs + POLICY.patienceMs,
    });
    expect(after.task.tries).toBe(1);
    expect(problemOf(after).nextTryAtMs - after.nowMs).toBeLessThanOrEqual(SECOND);
  });

  it("is over as well where the healthy attempt was lost, so that the next fault has all of the patience (P6, P14)", () => {
    const restarted = faulted
      .and(progressed())
      .later(5 * HOUR)
      .and(lost())
      .and(gone())
      .and(START);
    const healing = restarted.and(failed());
    expect(viewOf(healing.task, healing.nowMs).phase).toBe("healing");
    expect(problemOf(healing)).toMatchObject({ sinceMs: healing.nowMs });
  });

  it("goes on where an attempt was lost before it had worked", () => {
    const restarted = faulted.and(lost()).and(gone()).and(START).and(failed());
    expect(problemOf(restarted).sinceMs).toBe(T0);
    expect(restarted.task.tries).toBe(2);
  });

  it("starts anew with the next run", () => {
    const next = retried(retried(given().and(START), UNKNOWN), EDGE_BLOCK)
      .later(MINUTE)
      .and(failed(AUTH))
      .and(gone());
    expect(next.task).toMatchObject({ unknowns: 1, tries: 2, faultSinceMs: T0 });
    expect(next.and(continued("more")).task).toMatchObject({
      tries: 0,
      unknowns: 0,
      losses: 0,
      faultSinceMs: null,
      activeMs: 0,
    });
  });
});

describe("a fault of unknown kind", () => {
  it("passes as often as set and then ends the task, continuable and never as completed (P13)", () => {
    const twice = retried(retried(given().and(START), UNKNOWN), UNKNOWN);
    const over = twice.when(failed(UNKNOWN)).thenEvents("AttemptFailed").and(gone());
    expect(over.task.lastSettlement?.verdict).toMatchObject({ status: "failed", class: "unknown", continuable: true });
  });

  it("ends the task the first time where none may pass", () => {
    given({ spec: { policy: { unknownAttemptsMax: 0 } } })
      .and(START)
      .when(failed(UNKNOWN))
      .thenEvents("AttemptFailed");
  });

  it("is not counted together with faults of known kind", () => {
    const mixed = retried(retried(retried(given().and(START), UNKNOWN), EDGE_BLOCK), EDGE_BLOCK);
    mixed.when(failed(UNKNOWN)).thenEvents("AttemptFailed", "RetryScheduled");
  });

  it("is forgotten once an attempt has worked (P6)", () => {
    const twice = retried(retried(given().and(START), UNKNOWN), UNKNOWN);
    const worked = twice.and(progressed()).later(HOUR);
    const again = worked.when(failed(UNKNOWN)).thenEvents("AttemptFailed", "RetryScheduled");
    expect(again.task.unknowns).toBe(1);
    const other = worked.when(failed(EDGE_BLOCK)).thenEvents("AttemptFailed", "RetryScheduled");
    expect(other.task.unknowns).toBe(0);
  });
});

describe("a usage limit", () => {
  const quota = (retryAfterMs: number | null) => aFault({ class: "quota", httpStatus: 429, retryAfterMs });

  it("with a known end pauses until then (F12, W6)", () => {
    const paused = given()
      .and(START)
      .and(bound())
      .and(failed(quota(5 * HOUR)));
    expect(viewOf(paused.task, paused.nowMs)).toMatchObject({ status: "working", phase: "paused" });
    expect(problemOf(paused)).toMatchObject({ class: "quota", httpStatus: 429, nextTryAtMs: T0 + 5 * HOUR });
    paused
      .and(gone())
      .later(5 * HOUR - 1)
      .when(START)
      .thenIgnored("not_startable");
    paused
      .and(gone())
      .later(5 * HOUR)
      .when(START)
      .thenEvents("AttemptStarted");
  });

  it("uses no patience while it is waited for (P6, F12)", () => {
    const after = untilDue(
      given()
        .and(START)
        .and(failed(quota(5 * HOUR)))
        .and(gone()),
    ).and(START);
    const healing = after.later(SECOND).when(failed(EDGE_BLOCK)).thenEvents("AttemptFailed", "RetryScheduled");
    expect(problemOf(healing).retriesUntilMs).toBe(T0 + 5 * HOUR + POLICY.patienceMs);
  });

  it("leaves of the patience what was left before it", () => {
    const hour = retried(given().and(START), EDGE_BLOCK).later(HOUR);
    const began = problemOf(hour.and(failed())).sinceMs;
    const paused = untilDue(hour.and(failed(quota(5 * HOUR))).and(gone())).and(START);
    expect(problemOf(paused.and(failed())).retriesUntilMs).toBe(began + 5 * HOUR + POLICY.patienceMs);
  });

  it("is waited for up to the longest pause and not beyond (F13, W6)", () => {
    given()
      .and(START)
      .when(failed(quota(POLICY.pauseMaxMs)))
      .thenEvents("AttemptFailed", "RetryScheduled");
    const over = given()
      .and(START)
      .when(failed(quota(POLICY.pauseMaxMs + 1)))
      .thenEvents("AttemptFailed")
      .and(gone());
    expect(over.task.lastSettlement?.verdict).toMatchObject({
      class: "quota",
      retryAtMs: T0 + POLICY.pauseMaxMs + 1,
      continuable: true,
    });
  });

  it("without a known end is for somebody to fix (F13)", () => {
    const { task, nowMs } = given()
      .and(START)
      .when(failed(quota(null)))
      .thenEvents("AttemptFailed")
      .and(gone());
    expect(viewOf(task, nowMs)).toMatchObject({ status: "failed", continuable: true, next: { kind: "fix" } });
  });
});

describe("a definitive fault", () => {
  const classes: readonly { class: FailureClass; next: "fix" | "continue" }[] = [
    { class: "auth", next: "fix" },
    { class: "billing", next: "fix" },
    { class: "bad_request", next: "fix" },
    { class: "config", next: "fix" },
    { class: "quota", next: "fix" },
    { class: "spawn_error", next: "fix" },
    { class: "workspace_missing", next: "fix" },
    { class: "refused", next: "continue" },
    { class: "max_turns", next: "continue" },
    { class: "max_tokens", next: "continue" },
    { class: "no_result", next: "continue" },
    { class: "exit_error", next: "continue" },
    { class: "context_lost", next: "continue" },
    { class: "continued_elsewhere", next: "continue" },
  ];

  it.each(classes)(
    "of class $class fails the task under its own name, with $next as the way on (P13, F13, W4, U2)",
    (row) => {
      const fault = aFault({ class: row.class, nature: "definitive", httpStatus: null, stopReason: "why" });
      const ended = given()
        .and(START)
        .when(failed(fault, aText("half")))
        .thenEvents("AttemptFailed")
        .and(gone());
      expect(ended.task.lastSettlement?.verdict).toMatchObject({
        status: "failed",
        class: row.class,
        stopReason: "why",
        continuable: true,
        contextKept: row.class !== "context_lost",
        result: { name: "half" },
        partial: true,
        evidence: null,
      });
      expect(viewOf(ended.task, ended.nowMs).next.kind).toBe(row.next);
    },
  );
});

function problemOf({ task }: Given): Problem {
  if (task.state.kind !== "queued" || task.state.problem === null) throw new Error(`no problem: ${task.state.kind}`);
  return task.state.problem;
}

function untilDue(story: Given): Given {
  if (story.task.state.kind !== "queued") throw new Error(`not queued but ${story.task.state.kind}`);
  return story.later(story.task.state.dueAtMs - story.nowMs);
}

/** A fault, its proof and the start of the next attempt as soon as that is due. */
function retried(story: Given, fault: Parameters<typeof failed>[0]): Given {
  return untilDue(story.and(failed(fault)).and(gone())).and(START);
}
