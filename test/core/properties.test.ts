/**
 * What holds of every task, whatever is asked of it, in whatever order, however late and however often.
 *
 * A failing property prints the life that broke it and the seed that finds it again.
 */

import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { describe as viewOf, isNews, isQuiet, phaseOf } from "../../src/core/describe.ts";
import type { TaskEvent } from "../../src/core/event.ts";
import { attemptOf, evolve, replay } from "../../src/core/evolve.ts";
import { LIMITS } from "../../src/core/limits.ts";
import { type Intent, isUnfinished, plan } from "../../src/core/plan.ts";
import type { Task } from "../../src/core/task.ts";
import { decodeEvent, decodeTask, encodeEvent, encodeTask } from "../../src/store/codec.ts";
import { carryOut, type Life, lives, type Step, stepOf } from "../support/arbitrary.ts";
import { finished, HOUR } from "../support/given.ts";

/** Lives per property; more on demand: `CORE_LIVES=5000 npx vitest run test/core/properties.test.ts`. */
const RUNS = { numRuns: Number(process.env["CORE_LIVES"] ?? 100) };

function everyLife(check: (life: Life) => void): void {
  fc.assert(fc.property(lives, check), RUNS);
}

function everyStep(check: (step: Step) => void): void {
  everyLife((life) => {
    for (const step of life.steps) check(step);
  });
}

/** Every event with the task before and after it. */
function everyEvent(check: (before: Task, event: TaskEvent, after: Task) => void): void {
  everyStep(({ before, events }) => {
    events.reduce((task, event) => {
      const after = evolve(task, event);
      check(task, event, after);
      return after;
    }, before);
  });
}

/** Every task as a caller can meet it, with the time. */
function everyTask(check: (task: Task, nowMs: number) => void): void {
  everyLife(({ first, steps }) => {
    check(first, first.createdAtMs);
    for (const { after, nowMs } of steps) check(after, nowMs);
  });
}

describe("the random lives", () => {
  it("come to every event and every phase of this core, so that no property holds for want of a case", () => {
    const sample = fc.sample(lives, { numRuns: 400, seed: 20_260_101 });
    const steps = sample.flatMap((life) => life.steps);
    const kinds = new Set(steps.flatMap(({ events }) => events.map(({ kind }) => kind)));
    const phases = new Set(steps.map(({ after }) => phaseOf(after)));
    expect([...kinds].toSorted()).toEqual(KINDS.filter((kind) => kind !== "TaskAccepted").toSorted());
    expect(phases.size).toBe(10);
    expect(steps.some(({ after }) => after.settlements >= 3)).toBe(true);
    expect(steps.some(({ before, command }) => "epoch" in command && command.epoch !== before.epoch)).toBe(true);
  });
});

describe("the log", () => {
  it("is numbered without a gap, and the task knows the number of its newest event (P3)", () => {
    everyLife(({ first, steps }) => {
      let version = first.version;
      for (const { events, before, after } of steps) {
        expect(before.version).toBe(version);
        version += events.length;
        expect(after.version).toBe(version);
      }
    });
  });

  it("gives the same task when it is read again from its beginning, also out of the store (P14, F18)", () => {
    everyLife((life) => {
      const events = [...life.accepted, ...life.steps.flatMap((step) => step.events)];
      expect(replay(events)).toStrictEqual(life.last);
      const stored = events.map((event) => {
        const read = decodeEvent(encodeEvent(event));
        if (read.kind !== "ok") throw new Error(read.detail);
        return read.value;
      });
      expect(replay(stored)).toStrictEqual(life.last);
      const snapshot = decodeTask(encodeTask(life.last));
      expect(snapshot).toStrictEqual({ kind: "ok", value: life.last });
    });
  });

  it("is only added to by accepted commands", () => {
    everyStep(({ decision, before, after }) => {
      const changes = decision.kind === "accepted" && decision.events.length > 0;
      expect(after === before).toBe(!changes);
    });
  });
});

describe("a task", () => {
  it("keeps its three ids for life (P2)", () => {
    everyTask((task) => {
      expect(viewOf(task, 0).handle).toEqual({
        taskId: task.handle.taskId,
        childThreadId: task.handle.childThreadId,
        nodeId: `node:delegated-task:${task.handle.taskId}`,
      });
    });
  });

  it("keeps whatever else was fixed at its acceptance (P2)", () => {
    everyLife(({ first, last }) => {
      expect(last.handle).toEqual(first.handle);
      expect(last.origin).toEqual(first.origin);
      expect(last.createdAtMs).toBe(first.createdAtMs);
      // Who works may be changed by a continuation, and nothing else.
      const { agent, driver, model, options, onLoss, requireEvidence } = first.spec;
      expect({ ...last.spec, agent, driver, model, options, onLoss, requireEvidence }).toEqual(first.spec);
    });
  });

  it("can be told at any time, with a handle and one next step (P1)", () => {
    everyTask((task, nowMs) => {
      const view = viewOf(task, nowMs);
      expect(view.handle).toEqual(task.handle);
      expect(NEXT_KINDS).toContain(view.next.kind);
      expect(view.status === "working" || view.status === "input_required").toBe(task.state.kind !== "settled");
      if (view.next.kind === "wait") expect(view.next.seen).toHaveLength(1);
    });
  });

  it("is refused nothing without a next step (P1)", () => {
    everyStep(({ decision }) => {
      const kinds = decision.kind === "rejection" ? [decision.next.kind] : [];
      expect(NEXT_KINDS).toEqual(expect.arrayContaining(kinds));
    });
  });

  it("holds no more messages than the limit (P15)", () => {
    everyTask((task) => {
      expect(task.messages.length).toBeLessThanOrEqual(LIMITS.queuedMessagesMax);
    });
  });

  it("counts nothing below zero and expects nothing at no time", () => {
    everyTask((task) => {
      const { tries, unknowns, losses, activeMs, steps, questions, settlements, acknowledgedThrough, news } = task;
      const counts = { tries, unknowns, losses, activeMs, steps, questions, settlements, acknowledgedThrough, news };
      const wrong = Object.entries(counts).filter(([, count]) => !Number.isSafeInteger(count) || count < 0);
      expect(wrong).toEqual([]);
      expect(acknowledgedThrough).toBeLessThanOrEqual(settlements);
      if (task.state.kind === "queued") expect(Number.isSafeInteger(task.state.dueAtMs)).toBe(true);
    });
  });
});

describe("an attempt", () => {
  it("has an epoch above every earlier one, adopted or started (P5)", () => {
    everyEvent((before, event, after) => {
      const renews = event.kind === "AttemptStarted" || event.kind === "AttemptAdopted";
      expect(after.epoch).toBe(before.epoch + (renews ? 1 : 0));
    });
  });

  it("never starts while an earlier one is not proven gone (P5, P10, F19)", () => {
    everyEvent((before, event) => {
      const free = before.residue === null && before.state.kind === "queued";
      expect(event.kind === "AttemptStarted" && !free).toBe(false);
    });
  });

  it("keeps its id, its mark and its process for life (P5)", () => {
    everyEvent((before, event, after) => {
      const [old, now] = [attemptOf(before.state), attemptOf(after.state)];
      if (old === null || now === null || event.kind === "AttemptStarted") return;
      expect({ id: now.attemptId, mark: now.mark, startedAtMs: now.startedAtMs }).toEqual({
        id: old.attemptId,
        mark: old.mark,
        startedAtMs: old.startedAtMs,
      });
      if (old.process !== null) expect(now.process).not.toBeNull();
    });
  });

  it("has an id of its own (P2)", () => {
    everyLife(({ steps }) => {
      const ids = steps.flatMap(({ events }) =>
        events.flatMap((event) => (event.kind === "AttemptStarted" ? [event.attemptId] : [])),
      );
      expect(new Set(ids).size).toBe(ids.length);
    });
  });

  it("that is live is the only one and the newest (P5, P10)", () => {
    everyTask((task) => {
      const live = attemptOf(task.state);
      expect(live !== null && task.residue !== null).toBe(false);
      for (const attempt of [live, task.residue]) if (attempt !== null) expect(attempt.epoch).toBe(task.epoch);
    });
  });

  it("of an older epoch changes nothing (P5, D1)", () => {
    everyStep(({ before, command, after }) => {
      const stale = "epoch" in command && command.epoch !== before.epoch;
      expect(stale && after !== before).toBe(false);
    });
  });

  it("never works in the future, and its run no longer than there was time (L3)", () => {
    everyTask((task, nowMs) => {
      const attempt = attemptOf(task.state);
      if (attempt !== null) {
        expect(attempt.activeSinceMs).toBeLessThanOrEqual(nowMs);
        expect(attempt.lastProgressAtMs).toBeLessThanOrEqual(nowMs);
      }
      expect(task.activeMs).toBeLessThanOrEqual(nowMs - task.run.queuedAtMs);
    });
  });
});

describe("a settlement", () => {
  it("has the next number, once, in order (F14)", () => {
    everyLife(({ steps }) => {
      const numbers = steps.flatMap(({ events }) =>
        events.flatMap((event) => (event.kind === "TaskSettled" ? [event.settlement.number] : [])),
      );
      expect(numbers).toEqual(numbers.map((_, index) => index + 1));
    });
  });

  it("is never said without proof, nor without a person over named survivors (P5, F24, F37)", () => {
    everyEvent((before, event) => {
      if (event.kind !== "TaskSettled") return;
      const { stop } = event.settlement;
      if (stop.proof === "abandoned") {
        expect(stop.by?.kind).toBe("person");
        expect(stop.survivors.length).toBeGreaterThan(0);
        return;
      }
      expect(before.residue).toBeNull();
      expect(attemptOf(before.state)).toBeNull();
      expect(stop.survivors).toEqual([]);
      expect(stop.proof === "none_started").toBe(before.epoch === 0);
    });
  });

  it("as completed has evidence and a text, and no other has evidence (P13, F15)", () => {
    everyTask((task) => {
      const verdict = task.lastSettlement?.verdict;
      if (verdict === undefined) return;
      const completed = verdict.status === "completed";
      expect(verdict.evidence !== null).toBe(completed);
      if (completed) {
        expect(verdict.result?.bytes).toBeGreaterThan(0);
        expect(verdict.partial).toBe(false);
        if (task.spec.requireEvidence === "explicit") expect(verdict.evidence).toBe("explicit");
      }
      expect(verdict.class !== null).toBe(verdict.status === "failed");
    });
  });

  it("stands: nothing but a continuation reopens it (P5)", () => {
    everyEvent((before, event, after) => {
      if (before.state.kind !== "settled") return;
      const stays = event.kind !== "RunQueued";
      expect(after.state === before.state).toBe(stays);
    });
  });

  it("of a cancelled run is not followed by a run that nobody asked for since (P12)", () => {
    everyLife(({ steps }) => {
      let cancelled = false;
      for (const { command, events } of steps) {
        if (command.kind === "ContinueTask") cancelled = false;
        if (command.kind === "CancelTask") cancelled = true;
        expect(cancelled && events.some(({ kind }) => kind === "RunQueued")).toBe(false);
      }
    });
  });
});

describe("news", () => {
  it("is counted for exactly what the contract names (L2)", () => {
    everyEvent((before, event, after) => {
      expect(after.news - before.news).toBe(newsIn(before, event));
    });
  });

  it("is never taken back, and a settlement carries its own (P9)", () => {
    everyStep(({ before, after }) => {
      expect(after.news).toBeGreaterThanOrEqual(before.news);
      if (after.state.kind === "settled") expect(after.state.settlement.news).toBeLessThanOrEqual(after.news);
    });
  });

  it("that is all told leaves a settled task quiet, and nothing hides an unread one (P9, L2)", () => {
    everyTask((task) => {
      expect(isNews(task, task.news)).toBe(false);
      expect(isQuiet(task, task.news)).toBe(task.state.kind === "settled");
      const unread = task.state.kind === "settled" && task.acknowledgedThrough < task.settlements;
      if (unread) expect([isNews(task, null), isNews(task, 0), isQuiet(task, null)]).toEqual([true, true, false]);
    });
  });
});

describe("the supervisor's plan", () => {
  it("is carried out by a command that is accepted, and is then not asked for again (P14)", () => {
    everyTask((task, nowMs) => {
      for (const held of [true, false]) {
        const { intent } = plan(task, nowMs, held);
        if (intent === null) continue;
        const step = stepOf(task, carryOut(intent), nowMs);
        expect(step.events.length, intent.kind).toBeGreaterThan(0);
        const again = plan(step.after, nowMs, true).intent;
        expect(again !== null && same(again, intent)).toBe(false);
      }
    });
  });

  it("looks again at the moment when there is something to do, and not before", () => {
    everyTask((task, nowMs) => {
      const { intent, lookAgainAtMs } = plan(task, nowMs, true);
      if (lookAgainAtMs === null) return;
      expect(intent).toBeNull();
      expect(lookAgainAtMs).toBeGreaterThan(nowMs);
      expect(plan(task, lookAgainAtMs, true).intent).not.toBeNull();
      expect(plan(task, lookAgainAtMs - 1, true).intent).toBeNull();
    });
  });

  it("forgets no task that has not ended or left something behind (P14, R6)", () => {
    everyTask((task, nowMs) => {
      const { intent, lookAgainAtMs } = plan(task, nowMs, false);
      expect(intent !== null || lookAgainAtMs !== null).toBe(isUnfinished(task));
    });
  });

  it("brings every task to its end when nobody else does anything (P14, F20)", () => {
    everyLife(({ last, nowMs }) => {
      let task = last;
      let clockMs = nowMs;
      for (let turn = 0; isUnfinished(task); turn += 1) {
        expect(turn).toBeLessThan(200);
        const { intent, lookAgainAtMs } = plan(task, clockMs, true);
        if (intent !== null) task = stepOf(task, carryOut(intent), clockMs).after;
        else if (task.state.kind === "running") task = stepOf(task, wellDone(task), clockMs).after;
        else clockMs = lookAgainAtMs ?? clockMs;
      }
      expect(task.state.kind).toBe("settled");
      expect(clockMs - nowMs).toBeLessThanOrEqual(30 * HOUR);
    });
  });

  it("heals no fault for longer than patience and sleep allow (P6)", () => {
    everyTask((task) => {
      const { state } = task;
      if (state.kind !== "queued" || state.reason !== "healing" || state.problem === null) return;
      expect(state.dueAtMs).toBeLessThanOrEqual(state.problem.retriesUntilMs);
    });
  });
});

function wellDone(task: Task) {
  const asking = finished();
  return typeof asking === "function" ? asking(task) : asking;
}

function same(one: Intent, other: Intent): boolean {
  return JSON.stringify(one) === JSON.stringify(other);
}

/** Contract §6: settlement, question opened or closed, stall begun or ended, recovering, paused, survivors. */
function newsIn({ state }: Task, event: TaskEvent): number {
  if (ALWAYS_NEWS.has(event.kind)) return 1;
  switch (event.kind) {
    case "RetryScheduled":
      return event.reason === "recovering" || event.reason === "paused" ? 1 : 0;
    case "InputExpired":
    case "AttemptSucceeded":
    case "AttemptFailed":
    case "AttemptLost":
    case "CancelRequested":
      return state.kind === "awaiting_answer" || (attemptOf(state)?.stalledSinceMs ?? null) !== null ? 1 : 0;
    default:
      return 0;
  }
}

const ALWAYS_NEWS: ReadonlySet<TaskEvent["kind"]> = new Set([
  "TaskSettled",
  "InputRequested",
  "InputAnswered",
  "StallBegan",
  "StallEnded",
  "SurvivorsFound",
]);

const NEXT_KINDS = [
  "wait",
  "use_result",
  "answer",
  "continue",
  "repeat_same_call",
  "choose_key",
  "fix",
  "ask_user",
  "do_it_yourself",
];

const KINDS: readonly TaskEvent["kind"][] = [
  "TaskAccepted",
  "RunQueued",
  "AttemptStarted",
  "ChildBound",
  "ProgressRecorded",
  "InputRequested",
  "InputAnswered",
  "InputExpired",
  "AttemptSucceeded",
  "AttemptFailed",
  "AttemptLost",
  "AttemptAdopted",
  "RetryScheduled",
  "StallBegan",
  "StallEnded",
  "SleepForgiven",
  "MessageQueued",
  "TaskReopened",
  "CancelRequested",
  "LateResultKept",
  "AttemptStopped",
  "SurvivorsFound",
  "TaskSettled",
  "DeliveryAcked",
];
