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
    state: { kind: "queued", reason: "new", dueAtMs: event.atMs, sinceMs: event.atMs, problem: null, survivors: [] },
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
    startHead: null,
    questions: 0,
    lastAnswer: null,
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
      return childBound(task, event);
    case "ProgressRecorded":
      return progressRecorded(task, event);
    case "InputRequested":
      return inputRequested(task, event);
    case "InputAnswered":
      return inputAnswered(task, event);
    case "InputExpired":
      return ended(task, event.verdict, atMs);
    case "AttemptSucceeded":
      return ended(task, event.verdict, atMs);
    case "AttemptFailed":
      return attemptFailed(withoutOldFaults(task, atMs), event);
    case "AttemptLost":
      return attemptLost(withoutOldFaults(task, atMs), event);
    case "AttemptAdopted":
      return { ...onAttempt(task, { epoch: event.epoch, attemptId: event.attemptId }), epoch: event.epoch };
    case "RetryScheduled":
      return retryScheduled(task, event);
    case "StallBegan":
      return { ...onAttempt(task, { stalledSinceMs: atMs }), news: task.news + 1 };
    case "StallEnded":
      return { ...onAttempt(task, { stalledSinceMs: null }), news: task.news + 1 };
    case "SleepForgiven":
      return sleepForgiven(task, event.gapMs, atMs);
    case "MessageQueued":
      return messageQueued(task, event);
    case "TaskReopened":
      return taskReopened(task, event);
    case "CancelRequested":
      // What has ended and only waits for its proof keeps its verdict; what waited behind it is not sent any more.
      return { ...(task.state.kind === "stopping" ? task : ended(task, event.verdict, atMs)), messages: [] };
    case "LateResultKept":
      return lateResultKept(task, event.result);
    case "AttemptStopped":
      return attemptStopped(task, event);
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
    state: {
      kind: "queued",
      reason: event.reason,
      dueAtMs: event.atMs,
      sinceMs: event.atMs,
      problem: null,
      survivors: [],
    },
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
  return { ...task, epoch: event.epoch, startHead: task.startHead ?? event.head, state: { kind: "running", attempt } };
}

/** A later report adds what it knows; it never takes the process away that a stop has to find. */
function childBound(task: Task, event: EventOf<"ChildBound">): Task {
  const attempt = attemptOf(task.state);
  assert(attempt !== null, "a child belongs to a live attempt");
  const process = event.process ?? attempt.process;
  const nativeSessionId = event.nativeSessionId ?? attempt.nativeSessionId;
  return { ...onAttempt(task, { process, nativeSessionId }), nativeSessionId: nativeSessionId ?? task.nativeSessionId };
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

function inputAnswered(task: Task, { questionId, choice, by, atMs }: EventOf<"InputAnswered">): Task {
  const { state } = task;
  assert(state.kind === "awaiting_answer", "an answer needs a question");
  return {
    ...task,
    state: { kind: "running", attempt: { ...state.attempt, activeSinceMs: atMs, lastProgressAtMs: atMs } },
    lastAnswer: { questionId, choice, by },
    news: task.news + 1,
  };
}

/** The run is over but for the proof that its processes are gone. Its question is closed and its stall is over: news. */
function ended(task: Task, verdict: Verdict, atMs: number, ranUntilMs: number = atMs): Task {
  const { state } = task;
  const attempt = attemptOf(state);
  const closes = state.kind === "awaiting_answer" || (attempt !== null && attempt.stalledSinceMs !== null);
  return {
    ...task,
    state: { kind: "stopping", verdict, sinceMs: atMs, survivors: [] },
    residue: attempt ?? task.residue,
    activeMs: task.activeMs + (state.kind === "running" ? activeOf(state.attempt, ranUntilMs) : 0),
    news: closes ? task.news + 1 : task.news,
  };
}

/** What nobody saw end ran until its last sign of life: the time without a daemon is not its running time. */
function attemptLost(task: Task, event: EventOf<"AttemptLost">): Task {
  const { atMs, verdict } = event;
  const lastSignMs = attemptOf(task.state)?.lastProgressAtMs ?? atMs;
  const lost = ended(task, verdict, atMs, event.unseen ? Math.min(lastSignMs, atMs) : atMs);
  return { ...lost, losses: task.losses + (event.counted ? 1 : 0) };
}

function attemptFailed(task: Task, event: EventOf<"AttemptFailed">): Task {
  const unknowns = task.unknowns + (event.fault.nature === "unknown" ? 1 : 0);
  return { ...ended(task, event.verdict, event.atMs), unknowns };
}

/**
 * The task as the end of its present attempt finds it: an attempt that worked longer than the longest back-off was
 * healthy, so what ended before it began is over and the next fault begins a new series.
 */
export function withoutOldFaults(task: Task, atMs: number): Task {
  const attempt = attemptOf(task.state);
  const healthy = attempt !== null && attempt.steps > 0 && atMs - attempt.startedAtMs > task.spec.policy.backoffMaxMs;
  return healthy ? { ...task, tries: 0, unknowns: 0, faultSinceMs: null } : task;
}

function retryScheduled(task: Task, event: EventOf<"RetryScheduled">): Task {
  const { problem, reason } = event;
  const isNews = reason === "recovering" || reason === "paused";
  // A pause until a known moment uses no patience: the series counts as that much younger.
  const pausedMs = reason === "paused" ? event.dueAtMs - event.atMs : 0;
  return {
    ...task,
    state: {
      kind: "queued",
      reason,
      dueAtMs: event.dueAtMs,
      sinceMs: event.atMs,
      problem,
      survivors: [],
    },
    tries: task.tries + (reason === "healing" ? 1 : 0),
    faultSinceMs: problem === null ? task.faultSinceMs : problem.sinceMs + pausedMs,
    news: isNews ? task.news + 1 : task.news,
  };
}

/**
 * Machine sleep is nobody's time: watchdogs begin a fresh period, running time, patience and a question's deadline leave
 * the gap out. Nothing moves past the present moment: what began after the machine woke was not asleep.
 */
function sleepForgiven(task: Task, gapMs: number, atMs: number): Task {
  const { state } = task;
  const later = (ms: number): number => Math.max(ms, Math.min(ms + gapMs, atMs));
  const rested = { ...task, faultSinceMs: task.faultSinceMs === null ? null : later(task.faultSinceMs) };
  switch (state.kind) {
    case "queued": {
      const problem = state.problem && {
        ...state.problem,
        sinceMs: later(state.problem.sinceMs),
        retriesUntilMs: state.problem.retriesUntilMs + gapMs,
      };
      return { ...rested, state: { ...state, sinceMs: task.residue === null ? state.sinceMs : atMs, problem } };
    }
    case "running":
    case "awaiting_answer": {
      const activeSinceMs = later(state.attempt.activeSinceMs);
      const awake = onAttempt(rested, { activeSinceMs, lastProgressAtMs: atMs });
      if (awake.state.kind !== "awaiting_answer") return awake;
      const { question } = awake.state;
      const deadlineAtMs = question.deadlineAtMs + gapMs;
      return { ...awake, state: { ...awake.state, question: { ...question, deadlineAtMs } } };
    }
    case "stopping":
      return { ...rested, state: { ...state, sinceMs: atMs } };
    case "settled":
      return rested;
    default:
      return assertNever(state);
  }
}

function messageQueued(task: Task, { message, by, choice, atMs }: EventOf<"MessageQueued">): Task {
  return { ...task, messages: [...task.messages, { message, by, atMs, choice }] };
}

/** Another agent cannot go on in the conversation of the first. */
function taskReopened(task: Task, { choice }: EventOf<"TaskReopened">): Task {
  const spec = { ...task.spec, ...choice };
  const same = spec.agent === task.spec.agent && spec.driver === task.spec.driver;
  return { ...task, spec, nativeSessionId: same ? task.nativeSessionId : null };
}

function lateResultKept(task: Task, result: EventOf<"LateResultKept">["result"]): Task {
  const { state } = task;
  assert(state.kind === "stopping", "a late result belongs to a task that is being stopped");
  return { ...task, state: { ...state, verdict: { ...state.verdict, result, partial: true } } };
}

function survivorsFound(task: Task, event: EventOf<"SurvivorsFound">): Task {
  const { state } = task;
  const news = task.news + 1;
  assert(state.kind === "stopping" || state.kind === "queued", "survivors hold something up");
  return { ...task, news, state: { ...state, survivors: event.survivors } };
}

function attemptStopped(task: Task, event: EventOf<"AttemptStopped">): Task {
  const { state } = task;
  const freed = state.kind === "queued" ? { ...state, survivors: [] } : state;
  return { ...task, state: freed, residue: null, lastStop: event.stop };
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
