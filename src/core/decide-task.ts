/**
 * Decisions about a task as its callers see it: accept, continue, answer, cancel, abandon, acknowledge.
 *
 * Invariant: a refusal is decided before anything exists; after acceptance every answer carries the handle.
 */

import type { Command, ContinueTask, DelegateTask } from "./command.ts";
import type { Decision } from "./decision.ts";
import type { TaskEventBody } from "./event.ts";
import { attemptOf } from "./evolve.ts";
import { LIMITS } from "./limits.ts";
import type { NextStep } from "./next-step.ts";
import type { Rejection } from "./rejection.ts";
import type { StopRecord, Task } from "./task.ts";
import { cancelled, failedAs, lastStopOf, settlementOf } from "./verdict.ts";

type Of<Kind extends Command["kind"]> = Extract<Command, { readonly kind: Kind }>;

export function decideDelegate(task: Task | null, command: DelegateTask): Decision {
  if (task !== null) return reject("internal", { kind: "repeat_same_call" }, { reason: "task id taken" });
  const refusal = limitReached(command) ?? busy(command);
  if (refusal !== null) return refusal;
  const { handle, spec, origin, message, by } = command;
  return accept(
    { kind: "TaskAccepted", handle, spec, origin, message, by },
    { kind: "RunQueued", ordinal: 1, message, by, reason: "new" },
  );
}

/** Limits in the order in which they matter to the caller: what it must do itself first, what passes last. */
function limitReached({ circumstances, origin }: DelegateTask): Rejection | null {
  const now = circumstances;
  if (now.delegatorGone) return reject("not_allowed", { kind: "do_it_yourself" }, { reason: "delegator_gone" });
  if (origin.depth > now.depthMax) {
    return reject("depth_limit", { kind: "do_it_yourself" }, { limit: now.depthMax });
  }
  if (now.tasksInTree >= now.tasksPerTreeMax) {
    return reject("tree_limit", { kind: "do_it_yourself" }, { limit: now.tasksPerTreeMax });
  }
  if (now.delegationsLastMinute >= now.delegationsPerMinuteMax) {
    return reject("rate_limit", { kind: "repeat_same_call" }, { limit: now.delegationsPerMinuteMax });
  }
  if (now.openTasks >= now.openTasksMax) {
    return reject("capacity_full", { kind: "repeat_same_call" }, { limit: now.openTasksMax });
  }
  return null;
}

function busy({ circumstances, spec }: DelegateTask): Rejection | null {
  const { claimHolder: holder, holderIsAbove, onBusy } = circumstances;
  if (holder === null || (onBusy === "queue" && !holderIsAbove)) return null;
  const mine = holderIsAbove ? "above" : holder.mine ? "yes" : "no";
  const detail: Rejection["detail"] = { cwd: spec.cwd, sinceMs: holder.sinceMs, mine };
  const named = mine === "yes" && holder.mine ? { ...detail, holder: holder.handle.taskId } : detail;
  const change: Readonly<Record<string, string>> = holderIsAbove ? { access: "read" } : { onBusy: "queue" };
  return reject("workspace_busy", { kind: "fix", change }, named);
}

export function decideContinue(task: Task, command: ContinueTask, nowMs: number): Decision {
  const moved = command.afterSettlement !== null && hasMovedOn(task, command.afterSettlement);
  if (moved) return accept();
  // A settled task sends one of them at once, so that a full queue can never keep it from going on.
  if (task.state.kind !== "settled" && task.messages.length >= LIMITS.queuedMessagesMax) {
    return reject("capacity_full", waitFor(task), { limit: LIMITS.queuedMessagesMax });
  }
  const { message, by, choice } = command;
  const queued: TaskEventBody = { kind: "MessageQueued", message, by, choice };
  if (task.state.kind !== "settled") return accept(queued);
  // Going on with a result is the caller's word that it has been read; a person's or another caller's is not.
  const isOwn = by.kind !== "person" && by.name === task.origin.caller;
  const unread = isOwn && task.acknowledgedThrough < task.settlements;
  const acked: readonly TaskEventBody[] = unread ? [{ kind: "DeliveryAcked", settlement: task.settlements, by }] : [];
  // Messages that waited through a failure go first; each is a run of its own.
  const head = task.messages[0] ?? { message, by, atMs: nowMs, choice };
  return accept(
    ...acked,
    queued,
    { kind: "TaskReopened", by, choice: head.choice ?? {} },
    { kind: "RunQueued", ordinal: task.run.ordinal + 1, message: head.message, by: head.by, reason: "continued" },
  );
}

/** True if somebody continued the task past the settlement that the caller knows of. */
function hasMovedOn(task: Task, afterSettlement: number): boolean {
  const open = task.state.kind !== "settled";
  return task.settlements > afterSettlement || (open && task.settlements === afterSettlement && task.run.ordinal > 1);
}

export function decideAnswer(task: Task, command: Of<"AnswerInput">): Decision {
  const { state } = task;
  if (state.kind !== "awaiting_answer" || state.question.questionId !== command.questionId) {
    return reject("not_pending", waitFor(task), { questionId: command.questionId });
  }
  const { questionId, choice, by } = command;
  const { optionIds } = state.question;
  if (choice.kind === "option" && !optionIds.includes(choice.optionId)) return noSuchOption(optionIds);
  // A permission is one of the offered options, never free text that a child could read as it likes.
  if (choice.kind === "text" && state.question.kind === "permission") return noSuchOption(optionIds);
  return accept({ kind: "InputAnswered", questionId, choice, by });
}

/** The options are the child's words, so they are not repeated here; the answer shows them in its question. */
function noSuchOption(optionIds: readonly string[]): Rejection {
  const expected = optionIds.length === 0 ? "nothing: answer with text" : "one of question.optionIds";
  return reject("invalid_arguments", { kind: "fix", change: { optionId: expected } }, { fields: ["optionId"] });
}

export function decideExpireInput(task: Task, command: Of<"ExpireInput">, nowMs: number): Decision {
  const { state } = task;
  const pending = state.kind === "awaiting_answer" && state.question.questionId === command.questionId;
  if (!pending || state.question.deadlineAtMs > nowMs) return { kind: "ignored", why: "stale_epoch" };
  return accept({ kind: "InputExpired", questionId: command.questionId, verdict: failedAs("input_expired") });
}

export function decideCancel(task: Task, command: Of<"CancelTask">, nowMs: number): Decision {
  const { state } = task;
  const { reason, by } = command;
  if (state.kind === "settled") return accept();
  // The earlier event wins: what has ended and only waits for its proof stays as it is, but no message follows it.
  if (state.kind === "stopping") {
    if (task.messages.length === 0) return accept();
    return accept({ kind: "CancelRequested", reason, by, verdict: state.verdict });
  }
  const verdict = cancelled(task, by);
  const requested: TaskEventBody = { kind: "CancelRequested", reason, by, verdict };
  if (attemptOf(state) !== null || task.residue !== null || command.below === true) return accept(requested);
  const settlement = settlementOf(task, verdict, lastStopOf(task), nowMs);
  return accept(requested, { kind: "TaskSettled", settlement });
}

export function decideAbandon(task: Task, command: Of<"AbandonSurvivors">, nowMs: number): Decision {
  const { state } = task;
  if (command.by.kind !== "person") return reject("not_allowed", { kind: "ask_user" }, { may: "person" });
  const waits = state.kind === "stopping" || state.kind === "queued";
  if (!waits || state.survivors.length === 0) {
    return reject("not_pending", waitFor(task), { reason: "no named survivors" });
  }
  const verdict = state.kind === "stopping" ? state.verdict : failedAs("survivors");
  const stop: StopRecord = { proof: "abandoned", survivors: state.survivors, kept: [], by: command.by };
  return accept({ kind: "TaskSettled", settlement: settlementOf(task, verdict, stop, nowMs) });
}

export function decideAck(task: Task, command: Of<"AckDelivery">): Decision {
  const { settlement, by } = command;
  const known = settlement <= task.settlements && settlement > task.acknowledgedThrough;
  return known ? accept({ kind: "DeliveryAcked", settlement, by }) : accept();
}

export function decideSleep(task: Task, command: Of<"ForgiveSleep">): Decision {
  const { state, residue, faultSinceMs } = task;
  const timed = attemptOf(state) !== null || residue !== null || faultSinceMs !== null;
  return state.kind !== "settled" && timed ? accept({ kind: "SleepForgiven", gapMs: command.gapMs }) : accept();
}

/** A refusal shows nothing of the task, so the wait after it claims that nothing was told. */
function waitFor(task: Task): NextStep {
  return { kind: "wait", seen: [{ taskId: task.handle.taskId, news: 0, steps: 0 }] };
}

function reject(code: Rejection["code"], next: NextStep, detail: Rejection["detail"]): Rejection {
  return { kind: "rejection", code, next, detail };
}

function accept(...events: readonly TaskEventBody[]): Decision {
  return { kind: "accepted", events };
}
