/**
 * Stalls and machine sleep.
 */

import { describe, expect, it } from "vitest";
import { describe as viewOf } from "../../src/core/describe.ts";
import { attemptOf } from "../../src/core/evolve.ts";
import { plan } from "../../src/core/plan.ts";
import {
  asked,
  bound,
  byEpoch,
  EXPIRE_ACTIVE,
  failed,
  finished,
  type Given,
  given,
  gone,
  HOUR,
  lost,
  MINUTE,
  POLICY,
  progressed,
  questionExpired,
  SECOND,
  STALLED,
  START,
  slept,
  T0,
} from "../support/given.ts";

const atWork = given().and(START).and(bound());
const quiet = atWork.later(POLICY.stallAfterMs);

describe("a child without progress", () => {
  it("is called stalled after the limit and not before (G1, F31)", () => {
    quiet.later(-1).when(STALLED).thenIgnored("stale_epoch");
    const stalled = quiet.when(STALLED).thenEvents("StallBegan");
    expect(viewOf(stalled.task, stalled.nowMs)).toMatchObject({ status: "working", phase: "stalled" });
  });

  it("is called so once (G1)", () => {
    quiet.and(STALLED).later(HOUR).when(STALLED).thenIgnored("stale_epoch");
  });

  it("is measured from its last progress", () => {
    const later = atWork.later(4 * MINUTE).and(progressed());
    later
      .later(POLICY.stallAfterMs - 1)
      .when(STALLED)
      .thenIgnored("stale_epoch");
    later.later(POLICY.stallAfterMs).when(STALLED).thenEvents("StallBegan");
  });

  it("is back with its next progress, and may stall again (G1)", () => {
    const back = quiet.and(STALLED).later(MINUTE).when(progressed()).thenEvents("StallEnded", "ProgressRecorded");
    expect(viewOf(back.task, back.nowMs).phase).toBe("running");
    back.later(POLICY.stallAfterMs).when(STALLED).thenEvents("StallBegan");
  });

  it("is no longer stalled as another attempt", () => {
    const { task, nowMs } = quiet.and(STALLED).and(failed()).and(gone()).later(MINUTE).and(START);
    expect(viewOf(task, nowMs).phase).toBe("starting");
  });
});

describe("a running tool", () => {
  it("is no stall, however long it is silent (G1, W8)", () => {
    const running = atWork.and(progressed(1, T0)).later(20 * HOUR);
    running.when(STALLED).thenIgnored("stale_epoch");
    expect(viewOf(running.task, running.nowMs).activity).toEqual({ lastProgressAtMs: T0, toolRunningSinceMs: T0 });
  });

  it("counts as running time all the same (L3)", () => {
    atWork.and(progressed(1, T0)).later(POLICY.maxActiveMs).when(EXPIRE_ACTIVE).thenEvents("AttemptFailed");
  });

  it("leaves the full silence to what comes after it", () => {
    const done = atWork.and(progressed(1, T0)).later(HOUR).and(progressed(0, null));
    done
      .later(POLICY.stallAfterMs - 1)
      .when(STALLED)
      .thenIgnored("stale_epoch");
    done.later(POLICY.stallAfterMs).when(STALLED).thenEvents("StallBegan");
  });
});

describe("machine sleep", () => {
  const night = 8 * HOUR;

  it("gives a child a fresh period before it is called stalled (F35)", () => {
    const woken = atWork
      .later(4 * MINUTE)
      .later(night)
      .and(slept(night));
    woken
      .later(POLICY.stallAfterMs - 1)
      .when(STALLED)
      .thenIgnored("stale_epoch");
    woken.later(POLICY.stallAfterMs).when(STALLED).thenEvents("StallBegan");
  });

  it("is no running time (L3, F35)", () => {
    const limit = given({ spec: { policy: { maxActiveMs: HOUR, stallAfterMs: 24 * HOUR } } }).and(START);
    const woken = limit
      .later(30 * MINUTE)
      .later(night)
      .and(slept(night));
    woken
      .later(30 * MINUTE - 1)
      .when(EXPIRE_ACTIVE)
      .thenIgnored("stale_epoch");
    woken
      .later(30 * MINUTE)
      .when(EXPIRE_ACTIVE)
      .thenEvents("AttemptFailed");
  });

  it("of long ago gives nothing to a child that was started after it (F35)", () => {
    const fresh = given().later(night).and(START).later(SECOND).and(slept(night));
    const attempt = attemptOf(fresh.task.state);
    expect(attempt?.activeSinceMs).toBeLessThanOrEqual(fresh.nowMs);
    expect(attempt?.lastProgressAtMs).toBeLessThanOrEqual(fresh.nowMs);
    fresh.later(POLICY.stallAfterMs).when(STALLED).thenEvents("StallBegan");
  });

  it("counts no loss (F35)", () => {
    expect(atWork.later(night).and(slept(night)).task.losses).toBe(0);
  });

  it("moves a question's deadline: nobody could answer meanwhile (F16, F35)", () => {
    const woken = atWork.and(asked()).later(POLICY.questionDeadlineMs).and(slept(night));
    woken.when(questionExpired()).thenIgnored("stale_epoch");
    woken.later(night).when(questionExpired()).thenEvents("InputExpired");
  });

  it("uses no patience: the first fault after it heals (P6, F35)", () => {
    const healing = atWork.and(failed()).and(gone()).later(night).and(slept(night));
    expect(viewOf(healing.task, healing.nowMs).problem?.retriesUntilMs).toBe(T0 + POLICY.patienceMs + night);
    const again = healing.and(START).when(failed()).thenEvents("AttemptFailed", "RetryScheduled");
    expect(viewOf(again.task, again.nowMs).problem?.retriesUntilMs).toBe(T0 + POLICY.patienceMs + night);
    const running = atWork.and(failed()).and(gone()).later(MINUTE).and(START);
    const slumber = running.later(night).and(slept(night));
    slumber.when(failed()).thenEvents("AttemptFailed", "RetryScheduled");
  });

  it("does not hide the end of patience that was used awake (P6)", () => {
    const healing = atWork
      .and(failed())
      .and(gone())
      .later(POLICY.patienceMs + night)
      .and(slept(night));
    healing.and(START).when(failed()).thenEvents("AttemptFailed");
  });

  it.each<[string, Given]>([
    ["a healthy queued task", given()],
    ["a settled task", atWork.and(finished()).and(gone())],
    [
      "a task that failed after faults",
      given({ spec: { policy: { patienceMs: 1 } } })
        .and(START)
        .and(failed())
        .and(gone())
        .later(SECOND)
        .and(START)
        .and(failed())
        .and(gone()),
    ],
  ])("changes nothing for %s", (_what, story) => {
    story.when(slept(night)).thenNothing();
  });
});

describe("a supervisor", () => {
  it("looks again exactly when a stall, a limit or a deadline strikes", () => {
    expect(plan(atWork.task, T0, true)).toEqual({ intent: null, lookAgainAtMs: T0 + POLICY.stallAfterMs });
    const tool = atWork.and(progressed(1, T0));
    expect(plan(tool.task, T0, true).lookAgainAtMs).toBe(T0 + POLICY.maxActiveMs);
    const stalled = quiet.and(STALLED);
    expect(plan(stalled.task, stalled.nowMs, true).lookAgainAtMs).toBe(T0 + POLICY.maxActiveMs);
    const waiting = atWork.and(asked());
    expect(plan(waiting.task, T0, true).lookAgainAtMs).toBe(T0 + POLICY.questionDeadlineMs);
    const healing = atWork.and(failed()).and(gone());
    const problem = viewOf(healing.task, T0).problem;
    expect(plan(healing.task, T0, false).lookAgainAtMs).toBe(problem?.nextTryAtMs);
  });

  it("wants what is due, reap before start (P5, P14, F19)", () => {
    const rows: readonly [Given, boolean, string | undefined][] = [
      [given(), false, "start"],
      [atWork, false, "lose"],
      [atWork.and(asked()), false, "lose"],
      [quiet, true, "markStalled"],
      [atWork.later(POLICY.maxActiveMs), true, "expireActive"],
      [atWork.and(asked()).later(POLICY.questionDeadlineMs), true, "expireInput"],
      [atWork.and(failed()).later(HOUR), false, "reap"],
      [atWork.and(failed()).and(gone()).later(HOUR), false, "start"],
      [atWork.and(lost()), false, "reap"],
      [atWork.and(finished()), false, "reap"],
      [atWork.and(finished()), true, "reap"],
      [atWork.and(finished()).and(gone()), false, undefined],
    ];
    for (const [story, held, wanted] of rows) expect(plan(story.task, story.nowMs, held).intent?.kind).toBe(wanted);
  });

  it("reaps the attempt whose processes are not proven gone, by its own mark (F18)", () => {
    const { task, nowMs } = atWork.and(lost());
    expect(plan(task, nowMs, false).intent).toMatchObject({
      kind: "reap",
      attempt: { epoch: 1, mark: task.residue?.mark },
    });
  });

  it("never marks an attempt that is not the newest", () => {
    const second = atWork.and(lost()).and(gone()).and(START).later(POLICY.stallAfterMs);
    second.when(byEpoch(1, STALLED)).thenIgnored("stale_epoch");
  });
});
