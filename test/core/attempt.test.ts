/**
 * One attempt from its start to the proof of its end: fencing, reap before start, loss and adoption.
 */

import { describe, expect, it } from "vitest";
import { describe as viewOf } from "../../src/core/describe.ts";
import { attemptOf } from "../../src/core/evolve.ts";
import { attemptIdOf } from "../../src/core/ids.ts";
import type { OnLoss, Task } from "../../src/core/task.ts";
import {
  aChoice,
  ADOPT,
  aHandle,
  type Asking,
  aStop,
  aText,
  bound,
  byEpoch,
  continued,
  failed,
  finished,
  given,
  type Given,
  gone,
  HOUR,
  LEFTOVER,
  lost,
  PROCESS,
  progressed,
  SECOND,
  START,
  survived,
  T0,
} from "../support/given.ts";

describe("the start of an attempt", () => {
  it("fixes epoch, id and mark before anything is spawned (P5)", () => {
    const { task } = given().and(START);
    expect(attempt(task)).toMatchObject({
      epoch: 1,
      attemptId: `${aHandle().taskId}.a1`,
      mark: `d1.${aHandle().taskId}.a1`,
      process: null,
    });
    expect(task.epoch).toBe(1);
  });

  it("waits until the task is due (P6)", () => {
    const healing = given().and(START).and(failed()).and(gone());
    const dueInMs = queued(healing.task).dueAtMs - healing.nowMs;
    healing
      .later(dueInMs - 1)
      .when(START)
      .thenIgnored("not_startable");
    healing.later(dueInMs).when(START).thenEvents("AttemptStarted");
  });

  it("waits for the proof that the attempt before it is gone: reap before start (P5, P10, F19, F38)", () => {
    const lostOne = given().and(START).and(bound()).and(lost());
    lostOne.later(HOUR).when(START).thenIgnored("not_startable");
    const next = lostOne.later(HOUR).and(gone()).and(START);
    expect(attempt(next.task).epoch).toBe(2);
  });

  it("waits for it also where survivors are named, and where a person gave them up (P5, F37)", () => {
    const stuck = given()
      .and(START)
      .and(lost())
      .later(30 * SECOND)
      .and(survived());
    stuck.when(START).thenIgnored("not_startable");
    const givenUp = stuck.and({ kind: "AbandonSurvivors", by: { kind: "person", name: "ada" } });
    const reopened = givenUp.and(continued("again"));
    reopened.when(START).thenIgnored("not_startable");
    reopened.and(gone()).when(START).thenEvents("AttemptStarted");
  });
});

describe("a bound child", () => {
  it("is known by pid, start time and boot, and by its own session (R2, C3)", () => {
    const { task } = given().and(START).and(bound());
    expect(attempt(task).process).toEqual(PROCESS);
    expect(task.nativeSessionId).toBe("s-1");
  });

  it("keeps its process when the session becomes known later, and its session when the process does (P5, P12)", () => {
    const first = given().and(START).and(bound(PROCESS, null)).and(bound(null, "s-1"));
    expect(attempt(first.task)).toMatchObject({ process: PROCESS, nativeSessionId: "s-1" });
    const second = given().and(START).and(bound(null, "s-1")).and(bound(PROCESS, null));
    expect(attempt(second.task)).toMatchObject({ process: PROCESS, nativeSessionId: "s-1" });
  });

  it("leaves its session to the attempt after it, which goes on in it (P6, P14)", () => {
    const { task } = given().and(START).and(bound()).and(lost()).and(gone()).and(START);
    expect(task.nativeSessionId).toBe("s-1");
    expect(attempt(task)).toMatchObject({ process: null, nativeSessionId: null });
  });

  it("remembers the commit that the directory stood at when the task first started (P2)", () => {
    const first = given().and({ ...START, head: "c0ffee" });
    expect(first.task.startHead).toBe("c0ffee");
    const second = first
      .and(bound())
      .and(lost())
      .and(gone())
      .and({ ...START, head: "another" });
    expect(second.task.startHead).toBe("c0ffee");
    expect(given().and(START).task.startHead).toBeNull();
  });

  it("leaves no session to another agent (F14)", () => {
    const settled = given().and(START).and(bound()).and(finished()).and(gone());
    expect(settled.and(continued("more")).task.nativeSessionId).toBe("s-1");
    expect(
      settled.and(continued("more", { choice: { ...aChoice(), agent: "codex", driver: "codex" } })).task
        .nativeSessionId,
    ).toBeNull();
    expect(settled.and(continued("more", { choice: { ...aChoice(), model: "small" } })).task.nativeSessionId).toBe(
      "s-1",
    );
  });
});

describe("progress", () => {
  it("counts steps of the attempt and of the run (D6)", () => {
    const first = given().and(START).and(progressed(2)).later(SECOND).and(progressed(3));
    expect(attempt(first.task)).toMatchObject({ steps: 5, lastProgressAtMs: T0 + SECOND });
    const second = first.and(failed()).and(gone()).later(SECOND).and(START).and(progressed());
    expect(attempt(second.task).steps).toBe(1);
    expect(second.task.steps).toBe(6);
  });

  it("starts from nothing with the next run", () => {
    const { task } = given().and(START).and(progressed(4)).and(finished()).and(gone()).and(continued("more"));
    expect(task.steps).toBe(0);
  });
});

describe("a late word of an older attempt", () => {
  const second = given().and(START).and(bound()).and(lost()).and(gone()).and(START);

  it("changes nothing, whatever it says (P5, D1)", () => {
    for (const late of [finished(), failed(), lost(), progressed(9), bound(), gone()]) {
      expect(second.when(byEpoch(1, late)).task).toBe(second.task);
    }
  });

  it("does not settle the run that a newer attempt is doing", () => {
    second.when(byEpoch(1, finished())).thenIgnored("stale_epoch");
    second.when(byEpoch(1, gone())).thenIgnored("stale_epoch");
    second.when(finished()).thenEvents("AttemptSucceeded");
  });
});

describe("a lost child", () => {
  it("is recovered at once, in its own session, and counted (P14, F18, R1)", () => {
    const { task, nowMs } = given().and(START).and(bound()).and(lost());
    expect(viewOf(task, nowMs)).toMatchObject({ status: "working", phase: "recovering" });
    expect(queued(task)).toMatchObject({ reason: "recovering", dueAtMs: nowMs, problem: null });
    expect(task.losses).toBe(1);
  });

  it("ends the run only past the number of losses that were allowed, and can be continued (F18)", () => {
    const allowed = losses(given(), 5, lost());
    expect(allowed.task.losses).toBe(5);
    const over = allowed.and(START).when(lost()).thenEvents("AttemptLost").and(gone());
    expect(over.task.lastSettlement?.verdict).toMatchObject({ status: "failed", class: "lost", continuable: true });
  });

  it("ends the run with the first loss where none is allowed", () => {
    const { task } = given({ spec: { policy: { lossesMax: 0 } } }).and(START);
    expect(task.losses).toBe(0);
    given({ spec: { policy: { lossesMax: 0 } } })
      .and(START)
      .when(lost())
      .thenEvents("AttemptLost");
  });

  it("is not counted where the daemon itself stopped it in order, however often (F20, F35)", () => {
    const often = losses(given(), 20, lost({ orderly: true }));
    expect(often.task.losses).toBe(0);
    expect(viewOf(often.task, often.nowMs).phase).toBe("recovering");
    losses(given(), 5, lost())
      .and(START)
      .when(lost({ orderly: true }))
      .thenEvents("AttemptLost", "RetryScheduled");
  });

  it("starts a new count with every run", () => {
    const { task } = losses(given(), 1, lost()).and(START).and(finished()).and(gone()).and(continued("more"));
    expect(task.losses).toBe(0);
  });

  const meanings: readonly { onLoss: OnLoss; events: readonly string[]; continuable: boolean; contextKept: boolean }[] =
    [
      { onLoss: "resume", events: ["AttemptLost", "RetryScheduled"], continuable: true, contextKept: true },
      { onLoss: "rerun", events: ["AttemptLost", "RetryScheduled"], continuable: true, contextKept: false },
      { onLoss: "fail", events: ["AttemptLost"], continuable: false, contextKept: false },
    ];

  it.each(meanings)(
    "means $onLoss for an agent that is set so (P7, R1)",
    ({ onLoss, events, continuable, contextKept }) => {
      const { decision } = given({ spec: { onLoss } }).and(START).when(lost());
      if (decision.kind !== "accepted") throw new Error(decision.kind);
      expect(decision.events.map(({ kind }) => kind)).toEqual(events);
      const verdict = decision.events.find((event) => event.kind === "AttemptLost")?.verdict;
      expect(verdict).toMatchObject({ status: "failed", class: "lost", continuable, contextKept });
    },
  );

  it("fails for good only after the stop proof, and then asks for a new key (P1, P5)", () => {
    const unproven = given({ spec: { onLoss: "fail" } })
      .and(START)
      .and(lost());
    expect(viewOf(unproven.task, unproven.nowMs)).toMatchObject({ status: "working", phase: "stopping" });
    const { task, nowMs } = unproven.and(gone());
    expect(viewOf(task, nowMs)).toMatchObject({ status: "failed", continuable: false, next: { kind: "choose_key" } });
  });

  it("keeps what it had written as partial", () => {
    const { task } = given({ spec: { onLoss: "fail" } })
      .and(START)
      .and(lost({ partial: aText("half") }))
      .and(gone());
    expect(task.lastSettlement?.verdict).toMatchObject({ result: { name: "half" }, partial: true });
  });
});

describe("an adopted attempt", () => {
  it("is the same attempt under a new epoch, however often it is adopted (F19)", () => {
    const started = given().and(START).and(bound()).and(progressed(3));
    const adopted = started.and(ADOPT).and(ADOPT).and(ADOPT);
    const { epoch, ...before } = attempt(started.task);
    expect(attempt(adopted.task)).toEqual({ ...before, epoch: epoch + 3 });
    expect(adopted.task.epoch).toBe(4);
  });

  it("is fenced against the daemon that ran it before (P5)", () => {
    const adopted = given().and(START).and(ADOPT);
    adopted.when(byEpoch(1, finished())).thenIgnored("stale_epoch");
    adopted.when(byEpoch(2, finished())).thenEvents("AttemptSucceeded");
  });

  it("never shares its id with a later attempt", () => {
    const later = given().and(START).and(ADOPT).and(ADOPT).and(lost()).and(gone()).and(START);
    expect(attempt(later.task)).toMatchObject({ epoch: 4, attemptId: attemptIdOf(aHandle().taskId, 4) });
  });
});

describe("the stop proof", () => {
  it("is what a terminal word waits for (P5, P12)", () => {
    const ended = given().and(START).and(bound()).and(finished());
    expect(viewOf(ended.task, ended.nowMs)).toMatchObject({ status: "working", phase: "stopping", outcome: null });
    const settled = ended.and(gone(aStop("cgroup")));
    expect(viewOf(settled.task, settled.nowMs)).toMatchObject({ status: "completed", phase: "settled" });
    expect(settled.task.lastSettlement?.stop).toEqual(aStop("cgroup"));
  });

  it("frees a healing task for its next attempt without settling it (P6)", () => {
    const healing = given().and(START).and(failed()).and(gone());
    expect(healing.task).toMatchObject({ residue: null, settlements: 0 });
    expect(viewOf(healing.task, healing.nowMs).phase).toBe("healing");
  });

  it("lists what was kept on purpose (C4)", () => {
    const kept = aStop("marker+tree", { kept: [LEFTOVER] });
    const { task } = given({ spec: { background: "keep" } })
      .and(START)
      .and(finished())
      .and(gone(kept));
    expect(task.lastSettlement?.stop.kept).toEqual([LEFTOVER]);
  });

  it("is said once: a second one changes nothing", () => {
    given().and(START).and(finished()).and(gone()).when(gone()).thenIgnored("stale_epoch");
  });
});

function attempt(task: Task) {
  const found = attemptOf(task.state);
  if (found === null) throw new Error(`no attempt while ${task.state.kind}`);
  return found;
}

function queued(task: Task) {
  if (task.state.kind !== "queued") throw new Error(`not queued but ${task.state.kind}`);
  return task.state;
}

function losses(story: Given, number: number, loss: Asking): Given {
  return Array.from({ length: number }).reduce<Given>((soFar) => soFar.and(START).and(loss).and(gone()), story);
}
