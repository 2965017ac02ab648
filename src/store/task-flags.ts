/**
 * What a store finds tasks by, read off a task. One place, so that both stores agree.
 */

import type { Task } from "../core/task.ts";

/** Not settled. */
export function isOpen(task: Task): boolean {
  return task.state.kind !== "settled";
}

/** Not settled, or settled with processes that are not proven gone: the supervisor has something to do. */
export function needsLook(task: Task): boolean {
  return isOpen(task) || task.residue !== null;
}

/** Settled and not acknowledged: to be announced. A task that was continued announces its next settlement. */
export function isUnread(task: Task): boolean {
  return task.state.kind === "settled" && task.acknowledgedThrough < task.state.settlement.number;
}

/** When the present settlement was reached; null for a task that is open. */
export function settledAtMs(task: Task): number | null {
  return task.state.kind === "settled" ? task.state.settlement.atMs : null;
}
