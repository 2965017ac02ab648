/**
 * The table of the state machine, cell by cell: every command in every state.
 *
 * A cell is the events that follow, `nothing` (accepted, no event), `refused <code> -> <next>` or `ignored <why>`. A row
 * names the cells that differ from its `otherwise`.
 */

import { describe, expect, it } from "vitest";
import type { Command } from "../../src/core/command.ts";
import { describe as viewOf } from "../../src/core/describe.ts";
import type { Phase } from "../../src/core/task.ts";
import {
  ADOPT,
  type Asking,
  AUTH,
  abandoned,
  acked,
  aFault,
  answered,
  asked,
  bound,
  byEpoch,
  cancelled,
  commandOf,
  continued,
  delegated,
  EXPIRE_ACTIVE,
  failed,
  finished,
  type Given,
  given,
  gone,
  HOUR,
  lost,
  MINUTE,
  progressed,
  questionExpired,
  SECOND,
  STALLED,
  START,
  slept,
  survived,
  whenAbsent,
} from "../support/given.ts";

const atWork = given().and(START).and(bound());
const proving = atWork.and(finished());

/** Every state, and within a state every shape that a decision looks at. */
const STATES = {
  queued: given(),
  healing: atWork.and(failed()).and(gone()),
  paused: atWork.and(failed(aFault({ class: "quota", retryAfterMs: HOUR }))).and(gone()),
  recovering: atWork.and(lost()),
  recoveringBesideSurvivors: atWork
    .and(lost())
    .later(30 * SECOND)
    .and(survived()),
  starting: given().and(START),
  running: atWork,
  runningTooLong: atWork.later(24 * HOUR),
  stalled: atWork.later(5 * MINUTE).and(STALLED),
  awaiting: atWork.and(asked()),
  awaitingTooLong: atWork.and(asked()).later(24 * HOUR),
  stoppingCompleted: proving,
  stoppingFailed: atWork.and(failed(AUTH)),
  stoppingCancelled: atWork.and(cancelled()),
  stoppingBesideSurvivors: proving.later(30 * SECOND).and(survived()),
  completed: proving.and(gone()),
  failed: atWork.and(failed(AUTH)).and(gone()),
  failedForGood: given({ spec: { onLoss: "fail" } })
    .and(START)
    .and(lost())
    .and(gone()),
  cancelled: given().and(cancelled()),
  abandoned: proving
    .later(30 * SECOND)
    .and(survived())
    .and(abandoned()),
} satisfies Record<string, Given>;

const COMMANDS = {
  DelegateTask: delegated(),
  StartAttempt: START,
  BindChild: bound(),
  RecordProgress: progressed(),
  AskInput: asked(),
  AnswerInput: answered(1),
  "AnswerInput to another question": answered(7),
  ExpireInput: questionExpired(1),
  "ExpireInput of another question": questionExpired(7),
  "FinishAttempt well": finished(),
  "FinishAttempt without a word": finished({ result: null }),
  "FinishAttempt with a passing fault": failed(),
  "FinishAttempt with a definitive fault": failed(AUTH),
  LoseAttempt: lost(),
  "LoseAttempt in order": lost({ orderly: true }),
  AdoptAttempt: ADOPT,
  "ReportStop proven": gone(),
  "ReportStop with survivors": survived(),
  MarkStalled: STALLED,
  ExpireActive: EXPIRE_ACTIVE,
  ForgiveSleep: slept(HOUR),
  ContinueTask: continued("more"),
  CancelTask: cancelled(),
  AbandonSurvivors: abandoned(),
  AckDelivery: acked(1),
} satisfies Record<string, Asking>;

type Row = { readonly otherwise: string } & Partial<Record<keyof typeof STATES, string>>;

/** One cell for each state in which a child may be at work. */
function whileLive(cell: string, change: Partial<Record<keyof typeof STATES, string>> = {}): Omit<Row, "otherwise"> {
  const live = { starting: cell, running: cell, runningTooLong: cell, awaiting: cell, awaitingTooLong: cell };
  return { ...live, stalled: cell, ...change };
}

/** One cell for each state in which the run is over. */
function onceSettled(cell: string): Omit<Row, "otherwise"> {
  return { completed: cell, failed: cell, failedForGood: cell, cancelled: cell, abandoned: cell };
}

const STALE = "ignored stale_epoch";
const NOT_PENDING = "refused not_pending -> wait";

const TABLE: Readonly<Record<keyof typeof COMMANDS, Row>> = {
  DelegateTask: { otherwise: "refused internal -> repeat_same_call" },
  StartAttempt: { otherwise: "ignored not_startable", queued: "AttemptStarted" },
  BindChild: { otherwise: STALE, ...whileLive("ChildBound") },
  RecordProgress: { otherwise: STALE, ...whileLive("ProgressRecorded", { stalled: "StallEnded ProgressRecorded" }) },
  AskInput: {
    otherwise: STALE,
    starting: "InputRequested",
    running: "InputRequested",
    runningTooLong: "InputRequested",
    stalled: "StallEnded InputRequested",
  },
  AnswerInput: { otherwise: NOT_PENDING, awaiting: "InputAnswered", awaitingTooLong: "InputAnswered" },
  "AnswerInput to another question": { otherwise: NOT_PENDING },
  ExpireInput: { otherwise: STALE, awaitingTooLong: "InputExpired" },
  "ExpireInput of another question": { otherwise: STALE },
  "FinishAttempt well": {
    otherwise: STALE,
    ...whileLive("AttemptSucceeded"),
    stoppingCancelled: "LateResultKept",
  },
  "FinishAttempt without a word": { otherwise: STALE, ...whileLive("AttemptFailed") },
  "FinishAttempt with a passing fault": { otherwise: STALE, ...whileLive("AttemptFailed RetryScheduled") },
  "FinishAttempt with a definitive fault": { otherwise: STALE, ...whileLive("AttemptFailed") },
  LoseAttempt: { otherwise: "ignored not_lost", ...whileLive("AttemptLost RetryScheduled") },
  "LoseAttempt in order": { otherwise: "ignored not_lost", ...whileLive("AttemptLost RetryScheduled") },
  AdoptAttempt: { otherwise: STALE, ...whileLive("AttemptAdopted") },
  "ReportStop proven": {
    otherwise: STALE,
    recovering: "AttemptStopped",
    recoveringBesideSurvivors: "AttemptStopped",
    stoppingCompleted: "AttemptStopped TaskSettled",
    stoppingFailed: "AttemptStopped TaskSettled",
    stoppingCancelled: "AttemptStopped TaskSettled",
    stoppingBesideSurvivors: "AttemptStopped TaskSettled",
    abandoned: "AttemptStopped",
  },
  "ReportStop with survivors": {
    otherwise: STALE,
    recovering: "nothing",
    recoveringBesideSurvivors: "nothing",
    stoppingCompleted: "nothing",
    stoppingFailed: "nothing",
    stoppingCancelled: "nothing",
    stoppingBesideSurvivors: "nothing",
    abandoned: "nothing",
  },
  MarkStalled: { otherwise: STALE, runningTooLong: "StallBegan" },
  ExpireActive: { otherwise: STALE, runningTooLong: "AttemptFailed" },
  ForgiveSleep: { otherwise: "SleepForgiven", queued: "nothing", ...onceSettled("nothing") },
  ContinueTask: {
    otherwise: "MessageQueued",
    ...onceSettled("DeliveryAcked MessageQueued TaskReopened RunQueued"),
  },
  CancelTask: {
    otherwise: "CancelRequested",
    queued: "CancelRequested TaskSettled",
    healing: "CancelRequested TaskSettled",
    paused: "CancelRequested TaskSettled",
    stoppingCompleted: "nothing",
    stoppingFailed: "nothing",
    stoppingCancelled: "nothing",
    stoppingBesideSurvivors: "nothing",
    ...onceSettled("nothing"),
  },
  AbandonSurvivors: {
    otherwise: NOT_PENDING,
    recoveringBesideSurvivors: "TaskSettled",
    stoppingBesideSurvivors: "TaskSettled",
  },
  AckDelivery: { otherwise: "nothing", ...onceSettled("DeliveryAcked") },
};

const ROWS = Object.entries(TABLE).map(([name, row]) => ({ name, row }));

describe("the table of the state machine", () => {
  it.each(ROWS)(
    "answers $name in every state with its events, a refusal that has a next step, or silence (P1)",
    ({ name, row }) => {
      expect(cells(named(name))).toEqual(
        Object.fromEntries(Object.keys(STATES).map((state) => [state, cellIn(row, state)])),
      );
    },
  );

  it("has a row for every kind of command", () => {
    const rows = new Set(Object.values(COMMANDS).map((asking) => commandOf(asking, atWork.task).kind));
    expect([...rows].toSorted()).toEqual(Object.keys(EVERY_KIND).toSorted());
  });

  it("covers every phase that a task of this core can be in", () => {
    const phases = new Set(Object.values(STATES).map(({ task, nowMs }) => viewOf(task, nowMs).phase));
    expect([...phases].toSorted()).toEqual(PHASES.toSorted());
  });

  it("ignores every command about a task that does not exist, but for the one that makes it", () => {
    for (const asking of Object.values(COMMANDS)) {
      const command = commandOf(asking, given().task);
      if (command.kind === "DelegateTask") continue;
      expect(whenAbsent(command)).toEqual({ kind: "ignored", why: "no_such_task" });
    }
  });

  it.each([-1, 1])("changes nothing for a command whose epoch is off by %i, in any state (P5, D1)", (off) => {
    const states = Object.entries(STATES).map(([name, state]) => ({ name, state }));
    for (const { name, state } of states) {
      for (const asking of Object.values(COMMANDS)) {
        const stale = byEpoch(state.task.epoch + off, asking);
        if (!("epoch" in commandOf(stale, state.task))) continue;
        const { decision, task } = state.when(stale);
        expect(decision.kind, name).toBe("ignored");
        expect(task, name).toBe(state.task);
      }
    }
  });
});

const PHASES: readonly Phase[] = [
  "queued",
  "starting",
  "running",
  "healing",
  "paused",
  "recovering",
  "awaiting_answer",
  "stalled",
  "stopping",
  "settled",
];

// A record, so that a new kind does not compile before it is listed.
const EVERY_KIND: Readonly<Record<Command["kind"], true>> = {
  DelegateTask: true,
  StartAttempt: true,
  BindChild: true,
  RecordProgress: true,
  AskInput: true,
  AnswerInput: true,
  ExpireInput: true,
  FinishAttempt: true,
  LoseAttempt: true,
  AdoptAttempt: true,
  ReportStop: true,
  MarkStalled: true,
  ExpireActive: true,
  ForgiveSleep: true,
  ContinueTask: true,
  CancelTask: true,
  AbandonSurvivors: true,
  AckDelivery: true,
};

function named(name: string): Asking {
  const found = Object.entries(COMMANDS).find(([candidate]) => candidate === name);
  if (found === undefined) throw new Error(`no command ${name}`);
  return found[1];
}

function cellIn(row: Row, state: string): string {
  return new Map(Object.entries(row)).get(state) ?? row.otherwise;
}

function cells(asking: Asking): Record<string, string> {
  return Object.fromEntries(Object.entries(STATES).map(([name, state]) => [name, cellOf(state, asking)]));
}

function cellOf(state: Given, asking: Asking): string {
  const { decision } = state.when(asking);
  if (decision.kind === "rejection") return `refused ${decision.code} -> ${decision.next.kind}`;
  if (decision.kind === "ignored") return `ignored ${decision.why}`;
  return decision.events.map(({ kind }) => kind).join(" ") || "nothing";
}
