/**
 * How runs end: evidence of success, cancel, races between the two, survivors, a person who gives them up.
 */

import { describe, expect, it } from "vitest";
import type { Actor } from "../../src/core/caller.ts";
import type { Command } from "../../src/core/command.ts";
import { describe as viewOf } from "../../src/core/describe.ts";
import { LIMITS } from "../../src/core/limits.ts";
import { isUnfinished, plan } from "../../src/core/plan.ts";
import {
  AUTH,
  abandoned,
  aStop,
  aText,
  answered,
  asked,
  bound,
  byEpoch,
  CALLER,
  CHILD,
  cancelled,
  continued,
  DAEMON,
  EXPIRE_ACTIVE,
  failed,
  finished,
  type Given,
  given,
  gone,
  HOUR,
  LEFTOVER,
  lost,
  PERSON,
  POLICY,
  progressed,
  SECOND,
  START,
  slept,
  survived,
} from "../support/given.ts";

const atWork = given().and(START).and(bound());
const CANCELLED_WITH_TREE: Command = { kind: "CancelTask", reason: null, by: CALLER, below: true };
const patient = LIMITS.survivorsAfterMs;

describe("a success", () => {
  it("is completed with its evidence and its text (P13)", () => {
    const { task, nowMs } = atWork.and(finished({ evidence: "assumed" })).and(gone());
    expect(task.lastSettlement?.verdict).toMatchObject({
      status: "completed",
      class: null,
      evidence: "assumed",
      result: { name: "result" },
      partial: false,
    });
    expect(viewOf(task, nowMs).next).toEqual({ kind: "use_result" });
  });

  it.each([null, aText("result", 0)])(
    "without a word is no_result and never completed (P13, F15, W2, G6)",
    (result) => {
      for (const evidence of ["explicit", "assumed"] as const) {
        const { task } = atWork.and(finished({ result, evidence })).and(gone());
        expect(task.lastSettlement?.verdict).toMatchObject({
          status: "failed",
          class: "no_result",
          evidence: null,
          partial: false,
          continuable: true,
        });
      }
    },
  );

  it("that is only assumed is refused where the operator asks for more, and its text is kept as partial (P13)", () => {
    const strict = given({ spec: { requireEvidence: "explicit" } }).and(START);
    const weak = strict.and(finished({ evidence: "assumed" })).and(gone());
    expect(weak.task.lastSettlement?.verdict).toMatchObject({
      status: "failed",
      class: "no_result",
      result: { name: "result" },
      partial: true,
    });
    const strong = strict.and(finished({ evidence: "explicit" })).and(gone());
    expect(strong.task.lastSettlement?.verdict).toMatchObject({ status: "completed", evidence: "explicit" });
  });

  it("is said once: a doubled report changes nothing", () => {
    const once = atWork.and(finished());
    once.when(finished({ result: aText("other") })).thenIgnored("stale_epoch");
    once.when(failed(AUTH)).thenIgnored("stale_epoch");
  });
});

describe("a cancel", () => {
  it("of a task that was never started settles at once: no process was ever there (P12)", () => {
    const { task, nowMs } = given().when(cancelled(PERSON)).thenEvents("CancelRequested", "TaskSettled");
    expect(viewOf(task, nowMs)).toMatchObject({ status: "cancelled", phase: "settled" });
    expect(task.lastSettlement).toMatchObject({
      verdict: { by: PERSON, sideEffects: false, class: null },
      stop: { proof: "none_started" },
    });
  });

  it("of a task that waits for its next try settles at once by the proof of the last (P5)", () => {
    const healing = atWork.and(failed()).and(gone(aStop("cgroup")));
    const { task } = healing.when(cancelled()).thenEvents("CancelRequested", "TaskSettled");
    expect(task.lastSettlement).toMatchObject({ verdict: { sideEffects: true }, stop: { proof: "cgroup" } });
  });

  it("of a task whose last attempt is not proven gone waits for that proof (P5, P12, R3)", () => {
    const recovering = atWork.and(lost());
    const stopping = recovering.when(cancelled()).thenEvents("CancelRequested");
    expect(viewOf(stopping.task, stopping.nowMs)).toMatchObject({ status: "working", phase: "stopping" });
    stopping.later(HOUR).when(START).thenIgnored("not_startable");
    const settled = stopping.when(gone()).thenEvents("AttemptStopped", "TaskSettled");
    expect(viewOf(settled.task, settled.nowMs).status).toBe("cancelled");
  });

  it("of a task without a process waits for what was delegated from it, and keeps the proof of its own (C1, P5, P12)", () => {
    const healing = atWork.and(failed()).and(gone(aStop("cgroup")));
    const stopping = healing.when(CANCELLED_WITH_TREE).thenEvents("CancelRequested");
    expect(viewOf(stopping.task, stopping.nowMs)).toMatchObject({ status: "working", phase: "stopping" });
    expect(plan(stopping.task, stopping.nowMs, false).intent).toEqual({ kind: "awaitBelow", epoch: 1 });
    stopping.when(byEpoch(2, gone())).thenIgnored("stale_epoch");
    stopping.when(CANCELLED_WITH_TREE).thenNothing();
    const { task } = stopping.when(gone()).thenEvents("TaskSettled");
    expect(task.lastSettlement).toMatchObject({ verdict: { status: "cancelled" }, stop: { proof: "cgroup" } });
    expect(isUnfinished(task)).toBe(false);
  });

  it("of such a task names what cannot be ended below it, and a person can give that up (C1, F37)", () => {
    const stopping = atWork.and(failed()).and(gone()).and(CANCELLED_WITH_TREE);
    stopping
      .later(patient - 1)
      .when(survived())
      .thenNothing();
    const named = stopping.later(patient).when(survived()).thenEvents("SurvivorsFound");
    const { task } = named.when(abandoned()).thenEvents("TaskSettled");
    expect(task.lastSettlement?.stop).toEqual({ proof: "abandoned", survivors: [LEFTOVER], kept: [], by: PERSON });
    expect(isUnfinished(task)).toBe(false);
  });

  it.each(Object.entries({ running: atWork, "awaiting an answer": atWork.and(asked()) }))(
    "of a task that is %s is said after the proof (P5, P12, C1)",
    (_state, story) => {
      const stopping = story.when(cancelled()).thenEvents("CancelRequested");
      expect(viewOf(stopping.task, stopping.nowMs).status).toBe("working");
      const settled = stopping.and(gone());
      expect(viewOf(settled.task, settled.nowMs).status).toBe("cancelled");
    },
  );

  it("said twice, or of a task that has ended, is success again and changes nothing (F23)", () => {
    atWork.and(cancelled()).when(cancelled()).thenNothing();
    atWork.and(cancelled()).and(gone()).when(cancelled()).thenNothing();
    atWork.and(finished()).and(gone()).when(cancelled()).thenNothing();
  });

  it("drops what was queued behind the run", () => {
    const { task } = atWork.and(continued("more")).and(cancelled()).and(gone());
    expect(task.messages).toEqual([]);
    expect(viewOf(task, 0).status).toBe("cancelled");
  });

  it("is possible in every state that has not ended, and then ends (P12, F32)", () => {
    const states: readonly Given[] = [
      given(),
      atWork,
      atWork.and(asked()),
      atWork.and(failed()),
      atWork.and(failed()).and(gone()),
      atWork.and(lost()),
      atWork.and(lost()).later(patient).and(survived()),
    ];
    for (const story of states) {
      const asked = story.and(cancelled());
      const settled = asked.task.state.kind === "settled" ? asked : asked.and(gone());
      expect(viewOf(settled.task, settled.nowMs).status).toBe("cancelled");
    }
  });
});

describe("a cancel that races the end", () => {
  it("loses where the run had ended: the result stays (F25)", () => {
    const ended = atWork.and(finished());
    ended.when(cancelled()).thenNothing();
    const { task } = ended.and(gone());
    expect(task.lastSettlement?.verdict).toMatchObject({ status: "completed", result: { name: "result" } });
  });

  it("stops at least what was queued behind that run, and never lets it start (P12)", () => {
    const ended = atWork.and(continued("more")).and(finished());
    const asked = ended.when(cancelled()).thenEvents("CancelRequested");
    asked.when(cancelled()).thenNothing();
    const settled = asked.when(gone()).thenEvents("AttemptStopped", "TaskSettled");
    expect(viewOf(settled.task, settled.nowMs)).toMatchObject({ status: "completed", queuedMessages: 0 });
  });

  it("leaves the clock and the names of survivors alone where the run had ended (F37)", () => {
    const stuck = atWork.and(continued("more")).and(finished()).later(patient).and(survived());
    const { task, nowMs } = stuck.later(SECOND).and(cancelled());
    expect(task.state).toEqual(stuck.task.state);
    expect(viewOf(task, nowMs).survivors).toEqual([LEFTOVER]);
  });

  it("wins where it came first, and what the child still says is kept as partial (F25, W5)", () => {
    const late = atWork.and(cancelled()).when(finished()).thenEvents("LateResultKept");
    const { task } = late.and(gone());
    expect(task.lastSettlement?.verdict).toMatchObject({
      status: "cancelled",
      evidence: null,
      result: { name: "result" },
      partial: true,
    });
  });

  it("keeps the last words of a child that failed or was lost by it (W5)", () => {
    const stopping = atWork.and(cancelled());
    for (const last of [failed(AUTH, aText("half")), lost({ partial: aText("half") })]) {
      const { task } = stopping.when(last).thenEvents("LateResultKept").and(gone());
      expect(task.lastSettlement?.verdict).toMatchObject({
        status: "cancelled",
        result: { name: "half" },
        partial: true,
      });
    }
  });

  it("keeps nothing where the child says nothing", () => {
    atWork
      .and(cancelled())
      .when(finished({ result: null }))
      .thenIgnored("stale_epoch");
    atWork.and(cancelled()).when(lost()).thenIgnored("not_lost");
  });

  it("takes no late word once it is settled", () => {
    atWork.and(cancelled()).and(gone()).when(finished()).thenIgnored("stale_epoch");
  });
});

describe("survivors", () => {
  const stopping = atWork.and(finished());

  it("are named once stopping has lasted half a minute, and not before (P12, F24, F37)", () => {
    stopping
      .later(patient - 1)
      .when(survived())
      .thenNothing();
    const named = stopping.later(patient).when(survived()).thenEvents("SurvivorsFound");
    expect(viewOf(named.task, named.nowMs)).toMatchObject({
      status: "working",
      phase: "stopping",
      survivors: [LEFTOVER],
      next: { kind: "wait" },
    });
    named.later(HOUR).when(survived()).thenNothing();
  });

  it("are forgotten when they go, and the task settles as it would have (P5)", () => {
    const { task, nowMs } = stopping.later(patient).and(survived()).and(gone());
    expect(viewOf(task, nowMs)).toMatchObject({ status: "completed", survivors: [] });
    expect(task.lastSettlement?.stop.survivors).toEqual([]);
  });

  it("that keep a lost or healing task from its next attempt are named as well: nobody waits for nothing (P12, P14, F37)", () => {
    for (const story of [atWork.and(lost()), atWork.and(failed())]) {
      story
        .later(patient - 1)
        .when(survived())
        .thenNothing();
      const named = story.later(patient).when(survived()).thenEvents("SurvivorsFound");
      expect(viewOf(named.task, named.nowMs)).toMatchObject({ phase: "stopping", survivors: [LEFTOVER] });
      const freed = named.when(gone()).thenEvents("AttemptStopped");
      expect(viewOf(freed.task, freed.nowMs)).toMatchObject({ status: "working", survivors: [] });
      freed.later(HOUR).when(START).thenEvents("AttemptStarted");
    }
  });
});

describe("survivors that a person gives up", () => {
  const stuck = atWork.and(finished()).later(patient).and(survived());

  it("settle the task over their names, and stay its residue (P5, F37)", () => {
    const { task } = stuck.when(abandoned()).thenEvents("TaskSettled");
    expect(task.lastSettlement).toMatchObject({
      verdict: { status: "completed" },
      stop: { proof: "abandoned", survivors: [LEFTOVER], by: PERSON },
    });
    expect(task.residue?.epoch).toBe(1);
    expect(isUnfinished(task)).toBe(true);
  });

  it("free the task, without a second settlement, when they are gone at last", () => {
    const { task } = stuck.and(abandoned()).when(gone()).thenEvents("AttemptStopped");
    expect(task).toMatchObject({ residue: null, settlements: 1 });
    expect(isUnfinished(task)).toBe(false);
  });

  it("end a task that could not go on beside them as failed, continuable (F37)", () => {
    const recovering = atWork.and(lost()).later(patient).and(survived());
    const { task } = recovering.when(abandoned()).thenEvents("TaskSettled");
    expect(task.lastSettlement).toMatchObject({
      verdict: { status: "failed", class: "survivors", continuable: true },
      stop: { proof: "abandoned", survivors: [LEFTOVER], by: PERSON },
    });
  });

  it.each<Actor>([CALLER, CHILD, DAEMON])("can be given up by nobody but a person: not by $kind (P5, P18)", (by) => {
    stuck.when(abandoned(by)).thenRefused("not_allowed", "ask_user");
  });

  it("cannot be given up before they are named, nor twice", () => {
    atWork.and(finished()).later(HOUR).when(abandoned()).thenRefused("not_pending", "wait");
    atWork.when(abandoned()).thenRefused("not_pending", "wait");
    stuck.and(abandoned()).when(abandoned()).thenRefused("not_pending", "wait");
  });

  it("are named again after machine sleep only when they still hold things up half a minute later (F35)", () => {
    const woken = atWork
      .and(finished())
      .later(8 * HOUR)
      .and(slept(8 * HOUR));
    woken
      .later(patient - 1)
      .when(survived())
      .thenNothing();
    woken.later(patient).when(survived()).thenEvents("SurvivorsFound");
  });
});

describe("the limit on running time", () => {
  it("fails the task as deadline, continuable, after the stop proof (P5, L3)", () => {
    const over = atWork.later(POLICY.maxActiveMs);
    over.later(-1).when(EXPIRE_ACTIVE).thenIgnored("stale_epoch");
    const { task, nowMs } = over.when(EXPIRE_ACTIVE).thenEvents("AttemptFailed").and(gone());
    expect(task.lastSettlement?.verdict).toMatchObject({ status: "failed", class: "deadline", continuable: true });
    expect(viewOf(task, nowMs).next.kind).toBe("continue");
  });

  it("counts all attempts of a run and not the time between them (L3)", () => {
    const short = given({ spec: { policy: { maxActiveMs: HOUR } } }).and(START);
    const healed = short
      .later(HOUR / 2)
      .and(failed())
      .and(gone())
      .later(10 * HOUR)
      .and(START);
    expect(healed.task.activeMs).toBe(HOUR / 2);
    const recovered = healed
      .later(HOUR / 4)
      .and(lost())
      .and(gone())
      .later(10 * HOUR)
      .and(START);
    expect(recovered.task.activeMs).toBe((3 * HOUR) / 4);
    recovered
      .later(HOUR / 4 - 1)
      .when(EXPIRE_ACTIVE)
      .thenIgnored("stale_epoch");
    recovered
      .later(HOUR / 4)
      .when(EXPIRE_ACTIVE)
      .thenEvents("AttemptFailed");
  });

  it("leaves out the time for which no daemon was there to see the child (P14, R1)", () => {
    const worked = atWork
      .later(HOUR)
      .and(progressed())
      .later(10 * HOUR);
    expect(worked.and(lost({ unseen: true })).task.activeMs).toBe(HOUR);
    expect(worked.and(lost()).task.activeMs).toBe(11 * HOUR);
    const silent = atWork.later(10 * HOUR).and(lost({ unseen: true }));
    expect(silent.task.activeMs).toBe(0);
    const answeredLate = atWork.later(HOUR).and(asked()).later(HOUR).and(answered()).later(HOUR);
    expect(answeredLate.and(lost({ unseen: true })).task.activeMs).toBe(HOUR);
  });

  it("starts anew with the next run", () => {
    const { task } = atWork.later(HOUR).and(finished()).and(gone()).and(continued("more"));
    expect(task.activeMs).toBe(0);
  });
});
