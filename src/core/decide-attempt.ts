/**
 * Decisions about one attempt: start, progress, questions, endings, loss, proof of its end.
 *
 * Invariant: no attempt starts while another may still have processes (reap before start).
 * Invariant: a terminal word follows a stop proof in the same commit, and nothing else (P5).
 */

import type { Command, FinishAttempt } from "./command.ts";
import type { Decision } from "./decision.ts";
import type { TaskEventBody } from "./event.ts";
import { attemptOf, evolve, withoutOldFaults } from "./evolve.ts";
import type { Fault } from "./failure.ts";
import { attemptIdOf, markOf, questionIdOf } from "./ids.ts";
import { LIMITS } from "./limits.ts";
import { backoffMs } from "./retry.ts";
import type { Attempt, Problem, StopRecord, Task, TextRef, Verdict } from "./task.ts";
import { completed, failedAs, failedBy, lastStopOf, partsOf, settlementOf } from "./verdict.ts";

type Of<Kind extends Command["kind"]> = Extract<Command, { readonly kind: Kind }>;

const STALE: Decision = { kind: "ignored", why: "stale_epoch" };

export function decideStart(task: Task, command: Of<"StartAttempt">, nowMs: number): Decision {
  const { state } = task;
  if (state.kind !== "queued" || state.dueAtMs > nowMs || task.residue !== null) {
    return { kind: "ignored", why: "not_startable" };
  }
  const epoch = task.epoch + 1;
  const attemptId = attemptIdOf(task.handle.taskId, epoch);
  const { daemonId, head } = command;
  return accept({ kind: "AttemptStarted", attemptId, epoch, mark: markOf(daemonId, attemptId), head });
}

export function decideBind(task: Task, command: Of<"BindChild">): Decision {
  if (liveAttempt(task, command.epoch) === null) return STALE;
  const { epoch, process, nativeSessionId } = command;
  return accept({ kind: "ChildBound", epoch, process, nativeSessionId });
}

export function decideProgress(task: Task, command: Of<"RecordProgress">): Decision {
  const attempt = liveAttempt(task, command.epoch);
  if (attempt === null) return STALE;
  const { epoch, steps, toolRunningSinceMs } = command;
  const progress: TaskEventBody = { kind: "ProgressRecorded", epoch, steps, toolRunningSinceMs };
  return attempt.stalledSinceMs === null ? accept(progress) : accept({ kind: "StallEnded", epoch }, progress);
}

export function decideAsk(task: Task, command: Of<"AskInput">, nowMs: number): Decision {
  const attempt = liveAttempt(task, command.epoch);
  if (task.state.kind !== "running" || attempt === null) return STALE;
  const { ask, epoch } = command;
  const question = {
    questionId: questionIdOf(task.questions + 1),
    kind: ask.kind,
    optionIds: ask.optionIds,
    action: ask.action,
    prompt: ask.prompt,
    askedAtMs: nowMs,
    deadlineAtMs: nowMs + task.spec.policy.questionDeadlineMs,
  };
  const requested: TaskEventBody = { kind: "InputRequested", epoch, question };
  return attempt.stalledSinceMs === null ? accept(requested) : accept({ kind: "StallEnded", epoch }, requested);
}

export function decideFinish(task: Task, command: FinishAttempt, nowMs: number): Decision {
  const attempt = liveAttempt(task, command.epoch);
  if (attempt === null) return keepLate(task, command.epoch, command.result) ?? STALE;
  const parts = partsOf(command.result, command.sideEffects, command.usage);
  if (!command.ok) return decideFault(task, attempt, command.fault, parts, nowMs);
  const verdict = verdictOfSuccess(task, command.evidence, parts);
  if (verdict.status === "completed") return accept({ kind: "AttemptSucceeded", epoch: command.epoch, verdict });
  const fault: Fault = {
    class: "no_result",
    nature: "definitive",
    httpStatus: null,
    stopReason: null,
    retryAfterMs: null,
  };
  return accept({ kind: "AttemptFailed", epoch: command.epoch, fault, verdict });
}

/** Success needs something to show (P13), and what the operator asked for. */
function verdictOfSuccess(task: Task, evidence: "explicit" | "assumed", parts: ReturnType<typeof partsOf>): Verdict {
  const empty = parts.result === null || parts.result.bytes === 0;
  const tooWeak = task.spec.requireEvidence === "explicit" && evidence === "assumed";
  if (empty || tooWeak) return failedAs("no_result", { ...parts, partial: !empty });
  return completed(evidence, parts);
}

function decideFault(
  task: Task,
  attempt: Attempt,
  fault: Fault,
  parts: ReturnType<typeof partsOf>,
  nowMs: number,
): Decision {
  const retryAtMs = fault.retryAfterMs === null ? null : nowMs + fault.retryAfterMs;
  const verdict = failedBy(fault, parts, retryAtMs);
  const failed: TaskEventBody = { kind: "AttemptFailed", epoch: attempt.epoch, fault, verdict };
  const retry = retryOf(task, attempt, fault, nowMs);
  return retry === null ? accept(failed) : accept(failed, retry);
}

/** The retry that a fault earns, or null if it ends the run. */
function retryOf(task: Task, attempt: Attempt, fault: Fault, nowMs: number): TaskEventBody | null {
  const { policy } = task.spec;
  if (fault.nature === "definitive") return null;
  const { tries, unknowns, faultSinceMs } = withoutOldFaults(task, nowMs);
  if (fault.nature === "unknown" && unknowns >= policy.unknownAttemptsMax) return null;
  const sinceMs = faultSinceMs ?? nowMs;
  const retriesUntilMs = sinceMs + policy.patienceMs;
  if (fault.class === "quota") return pauseOf(policy.pauseMaxMs, fault, sinceMs, retriesUntilMs, nowMs);
  if (nowMs >= retriesUntilMs) return null;
  // The last try is made when patience ends, not given up because the next back-off would pass that moment.
  const delayMs = backoffMs(attempt.attemptId, tries + 1, policy.backoffMaxMs, fault.retryAfterMs);
  const dueAtMs = Math.min(nowMs + delayMs, retriesUntilMs);
  const problem = problemOf(fault, sinceMs, dueAtMs, retriesUntilMs);
  return { kind: "RetryScheduled", dueAtMs, reason: "healing", problem };
}

/** A usage limit with a known reset waits for it without using patience. */
function pauseOf(
  pauseMaxMs: number,
  fault: Fault,
  sinceMs: number,
  retriesUntilMs: number,
  nowMs: number,
): TaskEventBody | null {
  if (fault.retryAfterMs === null || fault.retryAfterMs > pauseMaxMs) return null;
  const dueAtMs = nowMs + fault.retryAfterMs;
  const problem = problemOf(fault, sinceMs, dueAtMs, retriesUntilMs + fault.retryAfterMs);
  return { kind: "RetryScheduled", dueAtMs, reason: "paused", problem };
}

function problemOf(fault: Fault, sinceMs: number, nextTryAtMs: number, retriesUntilMs: number): Problem {
  return { class: fault.class, httpStatus: fault.httpStatus, sinceMs, nextTryAtMs, retriesUntilMs };
}

/** A cancel came first: what the child still said is kept as partial (contract §3). */
function keepLate(task: Task, epoch: number, result: TextRef | null): Decision | null {
  const { state } = task;
  const mine = state.kind === "stopping" && task.residue?.epoch === epoch;
  if (!mine || state.verdict.status !== "cancelled" || result === null) return null;
  return accept({ kind: "LateResultKept", epoch, result });
}

export function decideLose(task: Task, command: Of<"LoseAttempt">, nowMs: number): Decision {
  const attempt = liveAttempt(task, command.epoch);
  if (attempt === null) return keepLate(task, command.epoch, command.partial) ?? { kind: "ignored", why: "not_lost" };
  const { onLoss, policy } = task.spec;
  const verdict = failedAs("lost", {
    continuable: onLoss !== "fail",
    contextKept: onLoss === "resume",
    result: command.partial,
    partial: command.partial !== null,
  });
  const counted = !command.orderly;
  const { epoch } = command;
  const unseen = command.unseen ? ({ unseen: true } as const) : {};
  const lost: TaskEventBody = { kind: "AttemptLost", epoch, counted, ...unseen, verdict };
  if (onLoss === "fail" || (counted && task.losses >= policy.lossesMax)) return accept(lost);
  return accept(lost, { kind: "RetryScheduled", dueAtMs: nowMs, reason: "recovering", problem: null });
}

export function decideAdopt(task: Task, command: Of<"AdoptAttempt">): Decision {
  const attempt = liveAttempt(task, command.epoch);
  if (attempt === null) return STALE;
  return accept({ kind: "AttemptAdopted", epoch: task.epoch + 1, attemptId: attempt.attemptId });
}

export function decideStalled(task: Task, command: Of<"MarkStalled">, nowMs: number): Decision {
  const attempt = liveAttempt(task, command.epoch);
  if (attempt === null || task.state.kind !== "running" || attempt.stalledSinceMs !== null) return STALE;
  const quiet =
    attempt.toolRunningSinceMs === null && nowMs - attempt.lastProgressAtMs >= task.spec.policy.stallAfterMs;
  return quiet ? accept({ kind: "StallBegan", epoch: command.epoch }) : STALE;
}

export function decideExpireActive(task: Task, command: Of<"ExpireActive">, nowMs: number): Decision {
  const { state } = task;
  if (state.kind !== "running" || state.attempt.epoch !== command.epoch) return STALE;
  if (task.activeMs + (nowMs - state.attempt.activeSinceMs) < task.spec.policy.maxActiveMs) return STALE;
  const fault: Fault = {
    class: "deadline",
    nature: "definitive",
    httpStatus: null,
    stopReason: null,
    retryAfterMs: null,
  };
  return accept({ kind: "AttemptFailed", epoch: command.epoch, fault, verdict: failedAs("deadline") });
}

/**
 * The report on the processes of the newest attempt, or on what was delegated below where none are left: proof ends what
 * waits for it, survivors are named, each once.
 */
export function decideStop(task: Task, command: Of<"ReportStop">, nowMs: number): Decision {
  const reportedOn = task.residue?.epoch ?? (task.state.kind === "stopping" ? task.epoch : null);
  if (reportedOn !== command.epoch) return STALE;
  const { report } = command;
  if (report.kind === "proven") return accept(...afterProof(task, command.epoch, report.stop, nowMs));
  const { state } = task;
  const waits = state.kind === "stopping" || state.kind === "queued";
  if (!waits || nowMs - state.sinceMs < LIMITS.survivorsAfterMs) return accept();
  // Whoever gives up on them has to know all of them: one that shows up later is named too.
  const named = new Set(state.survivors.map(({ pid }) => pid));
  if (report.survivors.every(({ pid }) => named.has(pid))) return accept();
  return accept({ kind: "SurvivorsFound", epoch: command.epoch, survivors: report.survivors });
}

function afterProof(task: Task, epoch: number, stop: StopRecord, nowMs: number): readonly TaskEventBody[] {
  const own = task.residue !== null;
  const stopped: readonly TaskEventBody[] = own ? [{ kind: "AttemptStopped", epoch, stop }] : [];
  if (task.state.kind !== "stopping") return stopped;
  const { verdict } = task.state;
  const settlement = settlementOf(task, verdict, own ? stop : lastStopOf(task), nowMs);
  const settled: TaskEventBody = { kind: "TaskSettled", settlement };
  // A message that waited for this run is sent now; after a failure it waits until somebody continues the task.
  const head = task.messages[0];
  if (head === undefined || verdict.status !== "completed") return [...stopped, settled];
  const ordinal = task.run.ordinal + 1;
  return [
    ...stopped,
    settled,
    { kind: "TaskReopened", by: head.by, choice: head.choice ?? {} },
    { kind: "RunQueued", ordinal, message: head.message, by: head.by, reason: "continued" },
  ];
}

/** The live attempt if it is of this epoch. */
function liveAttempt(task: Task, epoch: number): Attempt | null {
  const attempt = attemptOf(task.state);
  return attempt !== null && attempt.epoch === epoch ? attempt : null;
}

function accept(...events: readonly TaskEventBody[]): Decision {
  return { kind: "accepted", events };
}

/** Folds a decision's events, all at one moment. */
export function foldAll(task: Task | null, events: readonly TaskEventBody[], atMs: number): Task | null {
  return events.reduce<Task | null>((state, event) => evolve(state, { ...event, atMs }), task);
}
