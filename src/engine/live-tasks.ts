/**
 * What is going on where: the unfinished tasks by caller, for `otherLive`.
 *
 * Invariant: a hint kept from committed changes, never asked for a decision.
 */

import { isUnfinished } from "../core/plan.ts";
import type { TaskId } from "../core/ids.ts";
import type { Task } from "../core/task.ts";
import { overlaps } from "../core/workspace-claim.ts";
import type { OtherLive } from "../ports/engine.ts";

export type LiveTasks = {
  changed(task: Task): void;
  /** The same caller's other unfinished tasks whose directory overlaps, newest first, at most five. */
  othersIn(task: Task): readonly OtherLive[];
};

const SHOWN_MAX = 5;

export function createLiveTasks(): LiveTasks {
  const byCaller = new Map<string, Map<TaskId, Task>>();
  return {
    changed(task) {
      const { caller } = task.origin;
      const tasks = byCaller.get(caller) ?? new Map<TaskId, Task>();
      if (isUnfinished(task)) tasks.set(task.handle.taskId, task);
      else tasks.delete(task.handle.taskId);
      if (tasks.size === 0) byCaller.delete(caller);
      else byCaller.set(caller, tasks);
    },
    othersIn(task) {
      const others: OtherLive[] = [];
      // A full queue holds a thousand: no further than what is shown.
      for (const other of [...(byCaller.get(task.origin.caller)?.values() ?? [])].reverse()) {
        if (others.length === SHOWN_MAX) break;
        const isOther = other.handle.taskId !== task.handle.taskId;
        if (isOther && overlaps(other.spec.cwd, task.spec.cwd)) others.push(lineOf(other));
      }
      return others;
    },
  };
}

function lineOf({ handle, spec }: Task): OtherLive {
  return { taskId: handle.taskId, title: spec.title, access: spec.access, cwd: spec.cwd };
}
