/**
 * What is true of a task now, for whoever asks: always with a handle and a next step (P1).
 *
 * Invariant: `TaskView` is built here and nowhere else, and neither `handle` nor `next` is optional in it.
 * Invariant: nothing that a child wrote is in it but `question.action` and the survivors' commands; texts are named, not held.
 */

import { assertNever } from "./assert.ts";
import type { Actor } from "./caller.ts";
import { attemptOf } from "./evolve.ts";
import { headOf } from "./excerpt.ts";
import type { FailureClass } from "./failure.ts";
import { type Handle, type RunId, runIdOf, type TaskId } from "./ids.ts";
import { LIMITS } from "./limits.ts";
import type { NextStep } from "./next-step.ts";
import type { Attempt, Phase, Problem, Question, Settlement, Spec, Status, Survivor, Task } from "./task.ts";

export type TaskView = {
  readonly handle: Handle;
  readonly next: NextStep;
  readonly status: Status;
  readonly phase: Phase;
  readonly spec: Spec;
  /** Null for readers who did not choose it (see `withoutWords`). */
  readonly key: string | null;
  readonly conversation: string | null;
  readonly createdAtMs: number;
  /** Age of the task at the moment of the view. */
  readonly ageMs: number;
  readonly news: number;
  /** Steps of the present run. */
  readonly steps: number;
  readonly version: number;
  readonly runId: RunId;
  readonly runOrdinal: number;
  /** Who asked for the present run, and when. */
  readonly runBy: { readonly kind: Actor["kind"]; readonly atMs: number };
  readonly attempt: number;
  readonly settlements: number;
  readonly acknowledged: boolean;
  readonly question: Question | null;
  readonly problem: Problem | null;
  /** The newest settlement, if the task is settled. */
  readonly outcome: Settlement | null;
  /** The last ended run of a task that goes on. */
  readonly earlierRun: Settlement | null;
  readonly survivors: readonly Survivor[];
  readonly activity: Activity | null;
  readonly queuedSinceMs: number | null;
  readonly queuedMessages: number;
  /** True if a settled task can be continued, and what that keeps. */
  readonly continuable: boolean;
  readonly runningSinceMs: number | null;
};

export type Activity = {
  readonly lastProgressAtMs: number;
  readonly toolRunningSinceMs: number | null;
};

export function describe(task: Task, nowMs: number): TaskView {
  const { state } = task;
  const attempt = attemptOf(state);
  const settlement = state.kind === "settled" ? state.settlement : null;
  return {
    handle: task.handle,
    next: nextOf(task),
    status: statusOf(task),
    phase: phaseOf(task),
    spec: task.spec,
    key: task.origin.clientRequestId,
    conversation: task.origin.conversation,
    createdAtMs: task.createdAtMs,
    ageMs: nowMs - task.createdAtMs,
    news: task.news,
    steps: task.steps,
    version: task.version,
    runId: runIdOf(task.handle.taskId, task.run.ordinal),
    runOrdinal: task.run.ordinal,
    runBy: { kind: task.run.by.kind, atMs: task.run.queuedAtMs },
    attempt: task.epoch,
    settlements: task.settlements,
    acknowledged: task.acknowledgedThrough >= task.settlements,
    question: state.kind === "awaiting_answer" ? state.question : null,
    problem: state.kind === "queued" ? state.problem : null,
    outcome: settlement,
    earlierRun: settlement === null ? task.lastSettlement : null,
    survivors: state.kind === "stopping" || state.kind === "queued" ? state.survivors : [],
    activity: attempt === null ? null : activityOf(attempt),
    queuedSinceMs: state.kind === "queued" ? state.sinceMs : null,
    queuedMessages: task.messages.length,
    continuable: settlement?.verdict.continuable ?? false,
    runningSinceMs: attempt?.startedAtMs ?? null,
  };
}

/**
 * The same view for somebody who may not answer the child's question: a child sees that its descendant waits and waits too,
 * others are told that a person has to decide.
 */
export function withoutAnswering(view: TaskView, instead: "wait" | "ask_user"): TaskView {
  if (view.next.kind !== "answer") return view;
  const { handle, news, steps } = view;
  const next: NextStep =
    instead === "wait" ? { kind: "wait", seen: [{ taskId: handle.taskId, news, steps }] } : { kind: "ask_user" };
  return { ...view, next };
}

/** The same view for somebody to whom the words of whoever delegated the task are a child's words (P17). */
export function withoutWords(view: TaskView): TaskView {
  return { ...view, spec: { ...view.spec, title: TITLE_OF_A_CHILD }, key: null };
}

export const TITLE_OF_A_CHILD = "work that a child delegated";

export function statusOf(task: Task): Status {
  const { state } = task;
  switch (state.kind) {
    case "queued":
    case "running":
    case "stopping":
      return "working";
    case "awaiting_answer":
      return "input_required";
    case "settled":
      return state.settlement.verdict.status;
    default:
      return assertNever(state);
  }
}

export function phaseOf(task: Task): Phase {
  const { state } = task;
  switch (state.kind) {
    case "queued":
      if (state.survivors.length > 0) return "stopping";
      if (state.reason === "healing" || state.reason === "paused" || state.reason === "recovering") return state.reason;
      return "queued";
    case "running":
      if (state.attempt.stalledSinceMs !== null) return "stalled";
      return state.attempt.process === null && state.attempt.steps === 0 ? "starting" : "running";
    case "awaiting_answer":
    case "stopping":
    case "settled":
      return state.kind;
    default:
      return assertNever(state);
  }
}

/** Failures that the same prompt would meet again until somebody changes something. */
const NEEDS_A_FIX: ReadonlySet<FailureClass> = new Set([
  "auth",
  "billing",
  "config",
  "bad_request",
  "quota",
  "spawn_error",
  "workspace_missing",
]);

function nextOf(task: Task): NextStep {
  const { taskId } = task.handle;
  const { state } = task;
  if (state.kind === "awaiting_answer") return answerTo(taskId, state.question);
  if (state.kind !== "settled") return { kind: "wait", seen: [{ taskId, news: task.news, steps: task.steps }] };
  const { verdict, number } = state.settlement;
  // Whoever has cancelled work is not told to go on with it.
  if (verdict.status !== "failed") return { kind: "use_result" };
  if (verdict.class !== null && NEEDS_A_FIX.has(verdict.class)) return { kind: "fix" };
  if (verdict.continuable) return { kind: "continue", taskId, afterSettlement: number };
  return { kind: "choose_key", clientRequestId: furtherKey(task.origin.clientRequestId, number + 1) };
}

function answerTo(taskId: TaskId, { questionId, kind, optionIds }: Question): NextStep {
  const give = kind === "question" && optionIds.length === 0 ? "text" : "optionId";
  return { kind: "answer", taskId, questionId, give };
}

/** The key with a number behind it, never longer than a key may be. */
function furtherKey(key: string, number: number): string {
  const suffix = `-${number}`;
  return headOf(key, LIMITS.keyCharactersMax - suffix.length) + suffix;
}

function activityOf({ lastProgressAtMs, toolRunningSinceMs }: Attempt): Activity {
  return { lastProgressAtMs, toolRunningSinceMs };
}

/** Whether a task has something to tell a caller who has been told up to `told` (null: never asked before). */
export function isNews(task: Task, told: number | null): boolean {
  if (told !== null) return task.news > told;
  const { state } = task;
  switch (state.kind) {
    case "settled":
      return task.acknowledgedThrough < task.settlements;
    case "awaiting_answer":
      return true;
    case "running":
      return state.attempt.stalledSinceMs !== null;
    case "queued":
      return state.reason === "paused" || state.reason === "recovering" || state.survivors.length > 0;
    case "stopping":
      return state.survivors.length > 0;
    default:
      return assertNever(state);
  }
}

/** True if no wait for this task can ever bring news: settled, acknowledged, told. */
export function isQuiet(task: Task, told: number | null): boolean {
  const acknowledged = task.acknowledgedThrough >= task.settlements;
  return task.state.kind === "settled" && (acknowledged || (told !== null && told >= task.news));
}
