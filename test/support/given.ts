/**
 * Tables of the state machine in plain words: `given().and(START).when(finished()).thenEvents("AttemptSucceeded")`.
 *
 * Invariant: a story is made of accepted commands only; one that is refused or ignored on the way fails the test where
 * it stands. Everything on the way is deeply frozen, so a decision that changes its input fails too.
 * Absent on purpose: `then` as a method's name; an object that has one is taken for a promise.
 */

import { expect } from "vitest";
import { type Actor, DAEMON } from "../../src/core/caller.ts";
import type { Circumstances, Command, ContinueTask, DelegateTask, InputAsked } from "../../src/core/command.ts";
import { decide } from "../../src/core/decide.ts";
import type { Decision, Ignored } from "../../src/core/decision.ts";
import type { TaskEvent, TaskEventBody, TaskEventKind } from "../../src/core/event.ts";
import { evolve } from "../../src/core/evolve.ts";
import type { Fault } from "../../src/core/failure.ts";
import { type Handle, nodeIdOf, questionIdOf, taskIdFrom, threadIdFrom } from "../../src/core/ids.ts";
import type { NextStep } from "../../src/core/next-step.ts";
import type { Code, Rejection } from "../../src/core/rejection.ts";
import type {
  AgentChoice,
  Choice,
  Origin,
  Policy,
  ProcessIdentity,
  ProofKind,
  Spec,
  StopRecord,
  Survivor,
  Task,
  TextRef,
} from "../../src/core/task.ts";

/** When every story begins. */
export const T0 = Date.UTC(2026, 0, 1);
export const SECOND = 1_000;
export const MINUTE = 60 * SECOND;
export const HOUR = 60 * MINUTE;

export const CALLER: Actor = { kind: "caller", name: "claude" };
export const PERSON: Actor = { kind: "person", name: "ada" };
export const CHILD: Actor = { kind: "child", name: "claude" };
export { DAEMON };

export const PROCESS: ProcessIdentity = { pid: 4711, startTime: "123456", bootId: "b00t" };
export const LEFTOVER: Survivor = { pid: 4712, command: "sleep infinity" };

/** The defaults of contract §10. */
export const POLICY: Policy = {
  maxActiveMs: 24 * HOUR,
  patienceMs: 4 * HOUR,
  backoffMaxMs: 60 * SECOND,
  unknownAttemptsMax: 2,
  lossesMax: 5,
  pauseMaxMs: 6 * HOUR,
  stallAfterMs: 5 * MINUTE,
  questionDeadlineMs: 24 * HOUR,
};

export type SpecChange = Partial<Omit<Spec, "policy">> & { readonly policy?: Partial<Policy> };

export function aSpec({ policy, ...change }: SpecChange = {}): Spec {
  return {
    title: "Fix the migration",
    role: "general",
    agent: "claude",
    driver: "claude",
    model: null,
    options: {},
    cwd: "/repo/shop",
    access: "write",
    isolation: "auto",
    permissions: "accept_edits",
    background: "reap",
    resultSchema: null,
    labels: [],
    onLoss: "resume",
    requireEvidence: "assumed",
    ...change,
    policy: { ...POLICY, ...policy },
  };
}

/** `number` 0–9 tells one handle from another. */
export function aHandle(number = 1): Handle {
  const taskId = taskIdFrom(`01J000000000000000000000A${number}`);
  return { taskId, childThreadId: threadIdFrom(`01J000000000000000000000B${number}`), nodeId: nodeIdOf(taskId) };
}

export function anOrigin(change: Partial<Origin> = {}): Origin {
  return {
    caller: "claude",
    conversation: null,
    clientRequestId: "fix-migration-7f3k9q",
    parentTaskId: null,
    rootTaskId: aHandle().taskId,
    ancestors: [],
    depth: 1,
    ...change,
  };
}

export function aText(name: string, bytes = 100): TextRef {
  return { name, bytes };
}

/** A world with room for everything. */
const FREE: Circumstances = {
  openTasks: 0,
  openTasksMax: 1_004,
  depthMax: 1,
  tasksInTree: 0,
  tasksPerTreeMax: 50,
  delegationsLastMinute: 0,
  delegationsPerMinuteMax: 60,
  delegatorGone: false,
  claimHolder: null,
  holderIsAbove: false,
  onBusy: "refuse",
};

export type Asked = {
  readonly spec?: SpecChange;
  readonly origin?: Partial<Origin>;
  readonly handle?: Handle;
  readonly circumstances?: Partial<Circumstances>;
};

export function delegated({ spec, origin, handle, circumstances }: Asked = {}): DelegateTask {
  return {
    kind: "DelegateTask",
    handle: handle ?? aHandle(),
    spec: aSpec(spec),
    origin: anOrigin(origin),
    message: aText("message-1"),
    by: CALLER,
    circumstances: { ...FREE, ...circumstances },
  };
}

/** A command, or what makes one from the task as it is: most carry its newest epoch. */
export type Asking = Command | ((task: Task) => Command);

export const START = { kind: "StartAttempt", daemonId: "d1", head: null } as const satisfies Command;

export function bound(process: ProcessIdentity | null = PROCESS, nativeSessionId: string | null = "s-1"): Asking {
  return ({ epoch }) => ({ kind: "BindChild", epoch, process, nativeSessionId });
}

export function progressed(steps = 1, toolRunningSinceMs: number | null = null): Asking {
  return ({ epoch }) => ({ kind: "RecordProgress", epoch, steps, toolRunningSinceMs });
}

export const PERMISSION: InputAsked = {
  kind: "permission",
  optionIds: ["allow_once", "reject"],
  action: { tool: "bash", command: "npm run db:reset" },
  prompt: null,
};

export function asked(ask: InputAsked = PERMISSION): Asking {
  return ({ epoch }) => ({ kind: "AskInput", epoch, ask });
}

/** Answers the newest question unless told otherwise. */
export function answered(number: number | null = null, by: Actor = CALLER, choice: Choice = ALLOWED): Asking {
  return ({ questions }) => ({ kind: "AnswerInput", questionId: questionIdOf(number ?? questions), choice, by });
}

export const ALLOWED: Choice = { kind: "option", optionId: "allow_once" };

export function questionExpired(number: number | null = null): Asking {
  return ({ questions }) => ({ kind: "ExpireInput", questionId: questionIdOf(number ?? questions) });
}

export type Well = { readonly result?: TextRef | null; readonly evidence?: "explicit" | "assumed" };

export function finished({ result = aText("result"), evidence = "explicit" }: Well = {}): Asking {
  return ({ epoch }) => {
    return { kind: "FinishAttempt", epoch, ok: true, evidence, result, sideEffects: true, usage: null };
  };
}

export function aFault(change: Partial<Fault> = {}): Fault {
  return {
    class: "provider_transient",
    nature: "passing",
    httpStatus: 503,
    stopReason: null,
    retryAfterMs: null,
    ...change,
  };
}

export const EDGE_BLOCK = aFault({ class: "edge_block", httpStatus: 403 });
export const UNKNOWN = aFault({ class: "unknown", nature: "unknown", httpStatus: null });
export const AUTH = aFault({ class: "auth", nature: "definitive", httpStatus: 401 });

export function failed(fault: Fault = aFault(), result: TextRef | null = null): Asking {
  return ({ epoch }) => {
    return { kind: "FinishAttempt", epoch, ok: false, fault, result, sideEffects: true, usage: null };
  };
}

export type Loss = { readonly orderly?: boolean; readonly partial?: TextRef | null; readonly unseen?: boolean };

export function lost({ orderly = false, partial = null, unseen = false }: Loss = {}): Asking {
  const how = unseen ? ({ unseen: true } as const) : {};
  return ({ epoch }) => ({ kind: "LoseAttempt", epoch, partial, orderly, ...how });
}

export const ADOPT: Asking = ({ epoch }) => ({ kind: "AdoptAttempt", epoch });

export function aStop(proof: ProofKind = "marker+tree", change: Partial<StopRecord> = {}): StopRecord {
  return { proof, survivors: [], kept: [], by: null, ...change };
}

/** The processes of the newest attempt are proven gone. */
export function gone(stop: StopRecord = aStop()): Asking {
  return ({ epoch }) => ({ kind: "ReportStop", epoch, report: { kind: "proven", stop } });
}

export function survived(...survivors: readonly Survivor[]): Asking {
  const named = survivors.length === 0 ? [LEFTOVER] : survivors;
  return ({ epoch }) => ({ kind: "ReportStop", epoch, report: { kind: "survivors", survivors: named } });
}

export const STALLED: Asking = ({ epoch }) => ({ kind: "MarkStalled", epoch });
export const EXPIRE_ACTIVE: Asking = ({ epoch }) => ({ kind: "ExpireActive", epoch });

/** Who works in these tests, to be changed. */
export function aChoice(): AgentChoice {
  const { agent, driver, model, options, onLoss, requireEvidence } = aSpec();
  return { agent, driver, model, options, onLoss, requireEvidence };
}

export function slept(gapMs: number): Command {
  return { kind: "ForgiveSleep", gapMs };
}

export function continued(name: string, change: Partial<ContinueTask> = {}): ContinueTask {
  return {
    kind: "ContinueTask",
    message: aText(name),
    afterSettlement: null,
    by: CALLER,
    choice: null,
    ...change,
  };
}

export function cancelled(by: Actor = CALLER): Command {
  return { kind: "CancelTask", reason: null, by };
}

export function abandoned(by: Actor = PERSON): Command {
  return { kind: "AbandonSurvivors", by };
}

export function acked(settlement: number, by: Actor = CALLER): Command {
  return { kind: "AckDelivery", settlement, by };
}

/** The command as an older attempt of the same task would send it. */
export function byEpoch(epoch: number, asking: Asking): Asking {
  return (task) => commandOf(asking, { ...task, epoch });
}

export type Given = {
  readonly task: Task;
  readonly nowMs: number;
  readonly events: readonly TaskEvent[];
  /** Lets time pass. */
  later(ms: number): Given;
  /** Goes on with a command that must be accepted and change something. */
  and(asking: Asking): Given;
  when(asking: Asking): Outcome;
};

export type Outcome = {
  readonly decision: Decision;
  /** The task afterwards; the same object if nothing has happened. */
  readonly task: Task;
  /** Expects exactly these events in this order. */
  thenEvents(...kinds: readonly TaskEventKind[]): Given;
  /** Expects success without any event. */
  thenNothing(): void;
  thenRefused(code: Code, next: NextStep["kind"]): Rejection;
  thenIgnored(why: Ignored): void;
};

/** A task that has just been accepted, at `T0`. */
export function given(asked: Asked = {}): Given {
  const command = delegated(asked);
  const decision = decide(null, command, T0);
  if (decision.kind !== "accepted") throw new Error(`not accepted: ${JSON.stringify(decision)}`);
  return story(happened(null, decision.events, T0), T0);
}

/** What a decision about a task that does not exist comes to. */
export function whenAbsent(asking: Command): Decision {
  return decide(null, asking, T0);
}

export function commandOf(asking: Asking, task: Task): Command {
  return typeof asking === "function" ? asking(task) : asking;
}

type Told = { readonly task: Task; readonly events: readonly TaskEvent[] };

function story({ task, events }: Told, nowMs: number): Given {
  return {
    task,
    nowMs,
    events,
    later: (ms) => story({ task, events }, nowMs + ms),
    and(asking) {
      const decision = decide(task, commandOf(asking, task), nowMs);
      if (decision.kind !== "accepted" || decision.events.length === 0) {
        throw new Error(`${commandOf(asking, task).kind} came to ${JSON.stringify(decision)}`);
      }
      const after = happened(task, decision.events, nowMs);
      return story({ task: after.task, events: [...events, ...after.events] }, nowMs);
    },
    when: (asking) => outcome({ task, events }, commandOf(asking, task), nowMs),
  };
}

function outcome(before: Told, command: Command, nowMs: number): Outcome {
  const decision = decide(before.task, command, nowMs);
  const bodies = decision.kind === "accepted" ? decision.events : [];
  const after = bodies.length === 0 ? { task: before.task, events: [] } : happened(before.task, bodies, nowMs);
  return {
    decision,
    task: after.task,
    thenEvents(...kinds) {
      const seen = decision.kind === "accepted" ? bodies.map(({ kind }) => kind) : decision;
      expect(seen).toEqual(kinds);
      return story({ task: after.task, events: [...before.events, ...after.events] }, nowMs);
    },
    thenNothing() {
      expect(decision).toEqual({ kind: "accepted", events: [] });
    },
    thenRefused(code, next) {
      if (decision.kind !== "rejection") throw new Error(`not refused: ${JSON.stringify(decision)}`);
      expect({ code: decision.code, next: decision.next.kind }).toEqual({ code, next });
      return decision;
    },
    thenIgnored(why) {
      expect(decision).toEqual({ kind: "ignored", why });
    },
  };
}

/** Folds what happened, each step frozen. */
export function happened(task: Task | null, bodies: readonly TaskEventBody[], atMs: number): Told {
  const events = bodies.map((body) => frozen({ ...body, atMs }));
  const after = events.reduce<Task | null>((state, event) => frozen(evolve(state, event)), task);
  if (after === null) throw new Error("nothing happened");
  return { task: after, events };
}

/** Freezes a value and all that it holds. */
export function frozen<Value>(value: Value): Value {
  if (typeof value !== "object" || value === null || Object.isFrozen(value)) return value;
  Object.freeze(value);
  for (const part of Object.values(value)) frozen(part);
  return value;
}
