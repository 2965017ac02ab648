/**
 * What a store finds tasks by, read off a task. One place, so that both stores agree.
 */

import { assert } from "../core/assert.ts";
import type { TaskId } from "../core/ids.ts";
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

/** The tasks above one, root first, each followed by "/"; "" where there is none. What is below a task is found by it. */
export function lineageOf(task: Task): string {
  return lineageBelow(task.origin.ancestors);
}

/** How the lineage of everything begins that is below the last task of a path. Ids hold no "/". */
export function lineageBelow(path: readonly TaskId[]): string {
  return path.map((taskId) => `${taskId}/`).join("");
}

/** A path begins with a root: "below nothing" would be everything. */
export function rootOf(path: readonly TaskId[]): TaskId {
  const [root] = path;
  assert(root !== undefined, "a path to a task names at least that task");
  return root;
}
