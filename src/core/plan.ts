/**
 * What should be true of a task now, and when to look again. First start, retry, restart recovery and clean-up are the
 * same question asked of different states; there is no other recovery.
 *
 * Invariant: pure and idempotent: an intent that has been carried out is not asked for again.
 * Invariant: `reap` comes before `start`, always.
 */

import { assertNever } from "./assert.ts";
import type { QuestionId } from "./ids.ts";
import { LIMITS } from "./limits.ts";
import type { Attempt, Task } from "./task.ts";

export type Intent =
  | { readonly kind: "start" }
  /** Stop whatever is left of this attempt and report on it. */
  | { readonly kind: "reap"; readonly attempt: Attempt }
  /** Nothing of its own is left: it ends once what it has delegated has. */
  | { readonly kind: "awaitBelow"; readonly epoch: number }
  /** Nobody runs this attempt. */
  | { readonly kind: "lose"; readonly epoch: number }
  | { readonly kind: "markStalled"; readonly epoch: number }
  | { readonly kind: "expireActive"; readonly epoch: number }
  | { readonly kind: "expireInput"; readonly questionId: QuestionId };

export type Plan = { readonly intent: Intent | null; readonly lookAgainAtMs: number | null };

/** `held`: somebody with a valid lease runs the newest attempt. */
export function plan(task: Task, nowMs: number, held: boolean): Plan {
  const { state } = task;
  switch (state.kind) {
    case "queued":
      if (task.residue !== null) return act({ kind: "reap", attempt: task.residue });
      return state.dueAtMs <= nowMs ? act({ kind: "start" }) : rest(state.dueAtMs);
    case "running":
      if (!held) return act({ kind: "lose", epoch: state.attempt.epoch });
      return planRunning(task, state.attempt, nowMs);
    case "awaiting_answer":
      if (!held) return act({ kind: "lose", epoch: state.attempt.epoch });
      if (state.question.deadlineAtMs > nowMs) return rest(state.question.deadlineAtMs);
      return act({ kind: "expireInput", questionId: state.question.questionId });
    case "stopping":
      if (task.residue === null) return act({ kind: "awaitBelow", epoch: task.epoch });
      return act({ kind: "reap", attempt: task.residue });
    case "settled":
      return task.residue === null ? rest(null) : act({ kind: "reap", attempt: task.residue });
    default:
      return assertNever(state);
  }
}

function planRunning(task: Task, attempt: Attempt, nowMs: number): Plan {
  const { policy } = task.spec;
  const { epoch } = attempt;
  const deadlineMs = attempt.activeSinceMs + policy.maxActiveMs - task.activeMs;
  if (deadlineMs <= nowMs) return act({ kind: "expireActive", epoch });
  // A running tool is activity, and a stall is told once.
  if (attempt.toolRunningSinceMs !== null || attempt.stalledSinceMs !== null) return rest(deadlineMs);
  const stallMs = attempt.lastProgressAtMs + policy.stallAfterMs;
  if (stallMs <= nowMs) return act({ kind: "markStalled", epoch });
  return rest(Math.min(deadlineMs, stallMs));
}

function act(intent: Intent): Plan {
  return { intent, lookAgainAtMs: null };
}

function rest(lookAgainAtMs: number | null): Plan {
  return { intent: null, lookAgainAtMs };
}

/** True if a supervisor still has something to do with this task, now or later. */
export function isUnfinished(task: Task): boolean {
  return task.state.kind !== "settled" || task.residue !== null;
}

/** How soon to look again after a reap that left survivors. */
export const REAP_AGAIN_MS = LIMITS.reapAgainMs;
