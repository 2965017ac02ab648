/**
 * Folds one event into a task. The only place that says what an event means.
 *
 * Invariant: total and deterministic: the same history gives the same task, byte for byte.
 * Invariant: `version` counts events; `news` counts exactly those that contract §6 calls news.
 */

import { assert, assertNever } from "./assert.ts";
import type { TaskEvent } from "./event.ts";
import type { Attempt, Settlement, Task, TaskState, Verdict } from "./task.ts";

export function evolve(task: Task | null, event: TaskEvent): Task {
  if (event.kind === "TaskAccepted") {
    assert(task === null, "a task is accepted once");
    return accepted(event);
  }
  assert(task !== null, `${event.kind} needs a task`);
  return { ...applied(task, event), version: task.version + 1 };
}

/** Folds a history from its beginning. Null if it is empty. */
export function replay(events: readonly TaskEvent[]): Task | null {
  return events.reduce<Task | null>(evolve, null);
}

function accepted(event: TaskEvent & { readonly kind: "TaskAccepted" }): Task {
  return {
    handle: event.handle,
    spec: event.spec,
    origin: event.origin,
    createdAtMs: event.atMs,
    state: { kind: "queued", reason: "new", dueAtMs: event.atMs, sinceMs: event.atMs, problem: null },
    residue: null,
    lastStop: null,
    run: { ordinal: 0, message: event.message, queuedAtMs: event.atMs, by: event.by },
    messages: [],
    epoch: 0,
    tries: 0,
    unknowns: 0,
    losses: 0,
    faultSinceMs: null,
    activeMs: 0,
    steps: 0,
    nativeSessionId: null,
    questions: 0,
    settlements: 0,
    acknowledgedThrough: 0,
    lastSettlement: null,
    news: 0,
    version: 1,
  };
}

function applied(task: Task, event: Exclude<TaskEvent, { readonly kind: "TaskAccepted" }>): Task {
  const { atMs } = event;
  switch (event.kind) {
    case "RunQueued":
      return runQueued(task, event);
    case "AttemptStarted":
      return attemptStarted(task, event);
    case "ChildBound":
      return {
        ...onAttempt(task, { process: event.process, nativeSessionId: event.nativeSessionId }),
        nativeSessionId: event.nativeSessionId ?? task.nativeSessionId,
      };
    case "ProgressRecorded":
      return progressRecorded(task, event);
    case "InputRequested":
      return inputRequested(task, event);
    case "InputAnswered":
      return { ...resumed(task, atMs), news: task.news + 1 };
    case "InputExpired":
      return ended({ ...task, news: task.news + 1 }, event.verdict, atMs);
    case "AttemptSucceeded":
      return ended(task, event.verdict, atMs);
    case "AttemptFailed":
      return { ...ended(task, event.verdict, atMs), unknowns: task.unknowns + (event.fault.nature === "unknown" ? 1 : 0) };
    case "AttemptLost":
      return { ...ended(task, event.verdict, atMs), losses: task.losses + (event.counted ? 1 : 0) };
    case "AttemptAdopted":
      return { ...onAttempt(task, { epoch: event.epoch, attemptId: event.attemptId }), epoch: event.epoch };
    case "RetryScheduled":
      return retryScheduled(task, event);
    case "StallBegan":
      return { ...onAttempt(task, { stalledSinceMs: atMs }), news: task.news + 1 };
    case "StallEnded":
      return { ...onAttempt(task, { stalledSinceMs: null }), news: task.news + 1 };
    case "SleepForgiven":
      return sleepForgiven(task, event.gapMs);
    case "MessageQueued":
      return { ...task, messages: [...task.messages, { message: event.message, by: event.by, atMs }] };
    case "TaskReopened":
      return { ...task, spec: { ...task.spec, agent: event.agent, driver: event.driver, model: event.model } };
    case "CancelRequested":
      return { ...ended(task, event.verdict, atMs), messages: [] };
    case "LateResultKept":
      return lateResultKept(task, event.result);
    case "AttemptStopped":
      return { ...task, residue: null, lastStop: event.stop };
    case "SurvivorsFound":
      return survivorsFound(task, event);
    case "TaskSettled":
      return settled(task, event.settlement);
    case "DeliveryAcked":
      return { ...task, acknowledgedThrough: Math.max(task.acknowledgedThrough, event.settlement) };
    default:
      return assertNever(event);
  }
}

type EventOf<Kind extends TaskEvent["kind"]> = TaskEvent & { readonly kind: Kind };

function runQueued(task: Task, event: EventOf<"RunQueued">): Task {
  const [head, ...rest] = task.messages;
  return {
    ...task,
    state: { kind: "queued", reason: event.reason, dueAtMs: event.atMs, sinceMs: event.atMs, problem: null },
    run: { ordinal: event.ordinal, message: event.message, queuedAtMs: event.atMs, by: event.by },
    messages: head?.message.name === event.message.name ? rest : task.messages,
    tries: 0,
    unknowns: 0,
    losses: 0,
    faultSinceMs: null,
    activeMs: 0,
    steps: 0,
  };
}

function attemptStarted(task: Task, event: EventOf<"AttemptStarted">): Task {
  const attempt: Attempt = {
    attemptId: event.attemptId,
    epoch: event.epoch,
    mark: event.mark,
    startedAtMs: event.atMs,
    activeSinceMs: event.atMs,
    process: null,
    nativeSessionId: null,
    steps: 0,
    lastProgressAtMs: event.atMs,
    toolRunningSinceMs: null,
    stalledSinceMs: null,
  };
  return { ...task, epoch: event.epoch, state: { kind: "running", attempt } };
}

function progressRecorded(task: Task, event: EventOf<"ProgressRecorded">): Task {
  const attempt = attemptOf(task.state);
  assert(attempt !== null, "progress belongs to a live attempt");
  const change = {
    steps: attempt.steps + event.steps,
    lastProgressAtMs: event.atMs,
    toolRunningSinceMs: event.toolRunningSinceMs,
  };
  return { ...onAttempt(task, change), steps: task.steps + event.steps };
}

function inputRequested(task: Task, event: EventOf<"InputRequested">): Task {
  const { state } = task;
  assert(state.kind === "running", "only a running child asks");
  return {
    ...task,
    state: { kind: "awaiting_answer", attempt: state.attempt, question: event.question },
    activeMs: task.activeMs + activeOf(state.attempt, event.atMs),
    questions: task.questions + 1,
    news: task.news + 1,
  };
}

function resumed(task: Task, atMs: number): Task {
  const { state } = task;
  assert(state.kind === "awaiting_answer", "an answer needs a question");
  return { ...task, state: { kind: "running", attempt: { ...state.attempt, activeSinceMs: atMs, lastProgressAtMs: atMs } } };
}

/** The run is over but for the proof that its processes are gone. */
function ended(task: Task, verdict: Verdict, atMs: number): Task {
  const { state } = task;
  const attempt = attemptOf(state);
  return {
    ...task,
    state: { kind: "stopping", verdict, sinceMs: atMs, survivors: [] },
    residue: attempt ?? task.residue,
    activeMs: task.activeMs + (state.kind === "running" ? activeOf(state.attempt, atMs) : 0),
  };
}

function retryScheduled(task: Task, event: EventOf<"RetryScheduled">): Task {
  const healing = event.reason === "healing";
  const sameSeries = event.problem === null || event.problem.sinceMs === task.faultSinceMs;
  const isNews = event.reason === "recovering" || event.reason === "paused";
  return {
    ...task,
    state: {
      kind: "queued",
      reason: event.reason,
      dueAtMs: event.dueAtMs,
      sinceMs: event.atMs,
      problem: event.problem,
    },
    tries: (sameSeries ? task.tries : 0) + (healing ? 1 : 0),
    unknowns: sameSeries ? task.unknowns : Math.min(task.unknowns, 1),
    faultSinceMs: event.problem?.sinceMs ?? task.faultSinceMs,
    news: isNews ? task.news + 1 : task.news,
  };
}

function sleepForgiven(task: Task, gapMs: number): Task {
  const { state } = task;
  if (state.kind === "stopping") return { ...task, state: { ...state, sinceMs: state.sinceMs + gapMs } };
  const attempt = attemptOf(state);
  if (attempt === null) return task;
  return onAttempt(task, {
    activeSinceMs: attempt.activeSinceMs + gapMs,
    lastProgressAtMs: attempt.lastProgressAtMs + gapMs,
  });
}

function lateResultKept(task: Task, result: EventOf<"LateResultKept">["result"]): Task {
  const { state } = task;
  assert(state.kind === "stopping", "a late result belongs to a task that is being stopped");
  return { ...task, state: { ...state, verdict: { ...state.verdict, result, partial: true } } };
}

function survivorsFound(task: Task, event: EventOf<"SurvivorsFound">): Task {
  const { state } = task;
  const news = task.news + 1;
  return state.kind === "stopping" ? { ...task, news, state: { ...state, survivors: event.survivors } } : { ...task, news };
}

function settled(task: Task, settlement: Settlement): Task {
  return {
    ...task,
    state: { kind: "settled", settlement },
    settlements: settlement.number,
    lastSettlement: settlement,
    news: settlement.news,
  };
}

/** The attempt that may be alive, or null. */
export function attemptOf(state: TaskState): Attempt | null {
  return state.kind === "running" || state.kind === "awaiting_answer" ? state.attempt : null;
}

function activeOf(attempt: Attempt, atMs: number): number {
  return Math.max(0, atMs - attempt.activeSinceMs);
}

function onAttempt(task: Task, change: Partial<Attempt>): Task {
  const { state } = task;
  assert(state.kind === "running" || state.kind === "awaiting_answer", "the event belongs to a live attempt");
  return { ...task, state: { ...state, attempt: { ...state.attempt, ...change } } };
}
