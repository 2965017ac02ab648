/**
 * Random lives of one task: moves that are chosen blindly and become commands when the task is there to be asked.
 *
 * Invariant: a move says nothing about the state it will meet, so stale epochs, doubled reports, answers to closed
 * questions and commands at the wrong time come up by themselves.
 * Invariant: nothing here knows what should happen; that is for the properties.
 */

import fc from "fast-check";
import { type Actor, DAEMON } from "../../src/core/caller.ts";
import type { Command } from "../../src/core/command.ts";
import { decide } from "../../src/core/decide.ts";
import type { Decision } from "../../src/core/decision.ts";
import type { TaskEvent } from "../../src/core/event.ts";
import { attemptOf } from "../../src/core/evolve.ts";
import { FAILURE_CLASSES, type Fault } from "../../src/core/failure.ts";
import { questionIdOf } from "../../src/core/ids.ts";
import { type Intent, plan } from "../../src/core/plan.ts";
import type { Choice, Task, TextRef } from "../../src/core/task.ts";
import {
  aText,
  CALLER,
  CHILD,
  delegated,
  frozen,
  happened,
  HOUR,
  LEFTOVER,
  MINUTE,
  PERMISSION,
  PERSON,
  PROCESS,
  SECOND,
  type SpecChange,
  aStop,
  T0,
} from "./given.ts";

/** One step of a life: let time pass, then do this, perhaps twice. */
export type Move = {
  readonly waitMs: number;
  /** 0 = the newest epoch; else off by that much. */
  readonly epochOff: number;
  readonly twice: boolean;
  readonly deed: Deed;
};

/** What is done; `follow` is the supervisor doing what `plan` wants. */
export type Deed = (task: Task, epoch: number, nowMs: number) => Command;

export type Step = {
  readonly before: Task;
  readonly command: Command;
  readonly nowMs: number;
  readonly decision: Decision;
  readonly events: readonly TaskEvent[];
  readonly after: Task;
};

export type Life = {
  readonly accepted: readonly TaskEvent[];
  readonly first: Task;
  readonly steps: readonly Step[];
  readonly last: Task;
  readonly nowMs: number;
};

/** Plays the moves on a new task. */
function live(spec: SpecChange, moves: readonly Move[]): Life {
  const decision = decide(null, delegated({ spec }), T0);
  if (decision.kind !== "accepted") throw new Error(decision.kind);
  const { task: first, events: accepted } = happened(null, decision.events, T0);
  const steps: Step[] = [];
  let task = first;
  let nowMs = T0;
  for (const { waitMs, epochOff, twice, deed } of moves) {
    nowMs += waitMs;
    const command = frozen(deed(task, task.epoch + epochOff, nowMs));
    for (let time = 0; time < (twice ? 2 : 1); time += 1) {
      const step = stepOf(task, command, nowMs);
      steps.push(step);
      task = step.after;
    }
  }
  return { accepted, first, steps, last: task, nowMs };
}

export function stepOf(before: Task, command: Command, nowMs: number): Step {
  const decision = decide(before, command, nowMs);
  if (decision.kind !== "accepted" || decision.events.length === 0) {
    return { before, command, nowMs, decision, events: [], after: before };
  }
  const { task: after, events } = happened(before, decision.events, nowMs);
  return { before, command, nowMs, decision, events, after };
}

/** The command that carries an intent out; a reap finds everything gone. */
export function carryOut(intent: Intent): Command {
  switch (intent.kind) {
    case "start":
      return { kind: "StartAttempt", daemonId: "d1", head: null };
    case "reap":
      return proofFor(intent.attempt.epoch);
    case "awaitBelow":
      return proofFor(intent.epoch);
    case "lose":
      return { kind: "LoseAttempt", epoch: intent.epoch, partial: null, orderly: false, unseen: true };
    case "markStalled":
      return { kind: "MarkStalled", epoch: intent.epoch };
    case "expireActive":
      return { kind: "ExpireActive", epoch: intent.epoch };
    case "expireInput":
      return { kind: "ExpireInput", questionId: intent.questionId };
    default:
      throw new Error("an intent of no known kind");
  }
}

function proofFor(epoch: number): Command {
  return { kind: "ReportStop", epoch, report: { kind: "proven", stop: aStop() } };
}

const actors: fc.Arbitrary<Actor> = fc.constantFrom(CALLER, PERSON, CHILD, DAEMON);
const results: fc.Arbitrary<TextRef | null> = fc.constantFrom(null, aText("empty", 0), aText("result"), aText("other"));
const spansMs = fc.oneof(
  { weight: 6, arbitrary: fc.integer({ min: 0, max: 2 * SECOND }) },
  { weight: 3, arbitrary: fc.integer({ min: 0, max: 2 * MINUTE }) },
  { weight: 2, arbitrary: fc.integer({ min: 0, max: HOUR }) },
  { weight: 1, arbitrary: fc.integer({ min: 0, max: 30 * HOUR }) },
);

const faults: fc.Arbitrary<Fault> = fc.record({
  class: fc.constantFrom(...FAILURE_CLASSES),
  nature: fc.oneof(
    { weight: 4, arbitrary: fc.constant("passing" as const) },
    { weight: 1, arbitrary: fc.constantFrom("definitive" as const, "unknown" as const) },
  ),
  httpStatus: fc.constantFrom(null, 403, 429, 503),
  stopReason: fc.constant(null),
  retryAfterMs: fc.option(fc.integer({ min: 0, max: 8 * HOUR })),
});

const REJECTED: Choice = { kind: "option", optionId: "reject" };
const OTHER_AGENT = { model: null, options: {}, onLoss: "resume", requireEvidence: "assumed" } as const;

/** The supervisor, with a daemon that may or may not be running the newest attempt. */
const following: fc.Arbitrary<Deed> = fc.boolean().map((held) => (task, epoch, nowMs) => {
  const { intent } = plan(task, nowMs, held && attemptOf(task.state) !== null);
  return intent === null ? { kind: "RecordProgress", epoch, steps: 1, toolRunningSinceMs: null } : carryOut(intent);
});

const deeds: readonly fc.WeightedArbitrary<Deed>[] = [
  { weight: 14, arbitrary: following },
  { weight: 8, arbitrary: fc.constant((): Command => ({ kind: "StartAttempt", daemonId: "d2", head: "c0ffee" })) },
  { weight: 8, arbitrary: fc.constant((_task, epoch): Command => proofFor(epoch)) },
  {
    weight: 4,
    arbitrary: fc
      .record({ process: fc.option(fc.constant(PROCESS)), nativeSessionId: fc.option(fc.constant("s-1")) })
      .map(
        (child): Deed =>
          (_task, epoch) => ({ kind: "BindChild", epoch, ...child }),
      ),
  },
  {
    weight: 6,
    arbitrary: fc.tuple(fc.nat({ max: 3 }), fc.boolean()).map(
      ([steps, tool]): Deed =>
        (_task, epoch, nowMs) => ({ kind: "RecordProgress", epoch, steps, toolRunningSinceMs: tool ? nowMs : null }),
    ),
  },
  { weight: 5, arbitrary: fc.constant((_task, epoch): Command => ({ kind: "AskInput", epoch, ask: PERMISSION })) },
  {
    weight: 4,
    arbitrary: fc.tuple(fc.nat({ max: 2 }), actors).map(
      ([back, by]): Deed =>
        ({ questions }) => ({ kind: "AnswerInput", questionId: questionIdOf(questions - back), choice: REJECTED, by }),
    ),
  },
  {
    weight: 2,
    arbitrary: fc.constant(({ questions }): Command => ({ kind: "ExpireInput", questionId: questionIdOf(questions) })),
  },
  {
    weight: 5,
    arbitrary: fc.tuple(results, fc.constantFrom("explicit" as const, "assumed" as const)).map(
      ([result, evidence]): Deed =>
        (_task, epoch) => ({
          kind: "FinishAttempt",
          epoch,
          ok: true,
          evidence,
          result,
          sideEffects: true,
          usage: null,
        }),
    ),
  },
  {
    weight: 7,
    arbitrary: fc.tuple(results, faults).map(
      ([result, fault]): Deed =>
        (_task, epoch) => ({ kind: "FinishAttempt", epoch, ok: false, fault, result, sideEffects: false, usage: null }),
    ),
  },
  {
    weight: 3,
    arbitrary: fc.tuple(results, fc.boolean()).map(
      ([partial, orderly]): Deed =>
        (_task, epoch) => ({ kind: "LoseAttempt", epoch, partial, orderly }),
    ),
  },
  { weight: 2, arbitrary: fc.constant((_task, epoch): Command => ({ kind: "AdoptAttempt", epoch })) },
  {
    weight: 4,
    arbitrary: fc.constant((_task, epoch): Command => {
      return { kind: "ReportStop", epoch, report: { kind: "survivors", survivors: [LEFTOVER] } };
    }),
  },
  { weight: 3, arbitrary: fc.constant((_task, epoch): Command => ({ kind: "MarkStalled", epoch })) },
  { weight: 1, arbitrary: fc.constant((_task, epoch): Command => ({ kind: "ExpireActive", epoch })) },
  {
    weight: 2,
    arbitrary: spansMs.map(
      (gapMs): Deed =>
        () => ({ kind: "ForgiveSleep", gapMs }),
    ),
  },
  {
    weight: 5,
    arbitrary: fc
      .record({
        name: fc.nat({ max: 1_000_000 }),
        back: fc.option(fc.nat({ max: 2 })),
        by: actors,
        agent: fc.constantFrom(null, "codex"),
      })
      .map(
        ({ name, back, by, agent }): Deed =>
          ({ settlements }) => ({
            kind: "ContinueTask",
            message: aText(`message-x${name}`),
            afterSettlement: back === null ? null : settlements - back,
            by,
            choice: agent === null ? null : { ...OTHER_AGENT, agent, driver: agent },
          }),
      ),
  },
  {
    weight: 2,
    arbitrary: fc.tuple(actors, fc.boolean()).map(
      ([by, below]): Deed =>
        () => ({ kind: "CancelTask", reason: null, by, ...(below ? { below } : {}) }),
    ),
  },
  {
    weight: 2,
    arbitrary: actors.map(
      (by): Deed =>
        () => ({ kind: "AbandonSurvivors", by }),
    ),
  },
  {
    weight: 2,
    arbitrary: fc.tuple(fc.integer({ min: -1, max: 1 }), actors).map(
      ([off, by]): Deed =>
        ({ settlements }) => ({ kind: "AckDelivery", settlement: settlements + off, by }),
    ),
  },
  { weight: 1, arbitrary: fc.constant((): Command => delegated()) },
];

const moves: fc.Arbitrary<readonly Move[]> = fc.array(
  fc.record({
    waitMs: spansMs,
    epochOff: fc.oneof(
      { weight: 10, arbitrary: fc.constant(0) },
      { weight: 1, arbitrary: fc.integer({ min: -3, max: 2 }) },
    ),
    twice: fc.oneof({ weight: 5, arbitrary: fc.constant(false) }, { weight: 1, arbitrary: fc.constant(true) }),
    deed: fc.oneof(...deeds),
  }),
  { maxLength: 80, size: "max" },
);

/** Agents of every temper, with limits small enough to be reached. */
const specs: fc.Arbitrary<SpecChange> = fc.record({
  access: fc.constantFrom("read", "write"),
  onLoss: fc.constantFrom("resume", "resume", "rerun", "fail"),
  requireEvidence: fc.constantFrom("assumed", "explicit"),
  policy: fc.record(
    {
      maxActiveMs: fc.constantFrom(MINUTE, HOUR, 24 * HOUR),
      patienceMs: fc.constantFrom(0, MINUTE, 4 * HOUR),
      backoffMaxMs: fc.constantFrom(1, MINUTE),
      unknownAttemptsMax: fc.nat({ max: 2 }),
      lossesMax: fc.nat({ max: 3 }),
      stallAfterMs: fc.constantFrom(SECOND, 5 * MINUTE),
      questionDeadlineMs: fc.constantFrom(MINUTE, 24 * HOUR),
    },
    { requiredKeys: [] },
  ),
});

/** A life long enough to see most of what can happen; a failing one prints what was asked and what came of it. */
export const lives: fc.Arbitrary<Life> = fc.tuple(specs, moves).map(([spec, steps]) => {
  const life = live(spec, steps);
  return { ...life, [fc.toStringMethod]: () => storyOf(spec, life) };
});

function storyOf(spec: SpecChange, { steps }: Life): string {
  const lines = steps.map(({ before, command, nowMs, decision }) => {
    const came = decision.kind === "accepted" ? decision.events.map(({ kind }) => kind).join(" ") : decision.kind;
    return `  +${nowMs - T0} ms, ${before.state.kind} at epoch ${before.epoch}: ${JSON.stringify(command)} -> ${came}`;
  });
  return [`a life with ${JSON.stringify(spec)}`, ...lines].join("\n");
}
