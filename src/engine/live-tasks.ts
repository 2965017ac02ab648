/**
 * What is going on where: the unfinished tasks, for `otherLive`, followers and overviews.
 *
 * Invariant: a hint kept from committed changes, never asked for a decision.
 */

import { type Caller, reaches } from "../core/caller.ts";
import { isUnfinished } from "../core/plan.ts";
import type { TaskId } from "../core/ids.ts";
import type { Task } from "../core/task.ts";
import { overlaps } from "../core/workspace-claim.ts";
import type { OtherLive } from "../ports/engine.ts";
import { titleFor } from "./view-for.ts";

export type LiveTasks = {
  changed(task: Task): void;
  task(taskId: TaskId): Task | null;
  all(): Iterable<Task>;
  /** Those that heal a passing fault. */
  healing(): Iterable<Task>;
  /** Other unfinished tasks of the same name that the caller may see and whose directory overlaps, newest first, at most five. */
  othersIn(task: Task, caller: Caller): readonly OtherLive[];
};

const SHOWN_MAX = 5;

export function createLiveTasks(): LiveTasks {
  const byCaller = new Map<string, Map<TaskId, Task>>();
  const byId = new Map<TaskId, Task>();
  return {
    task: (taskId) => byId.get(taskId) ?? null,
    all: () => byId.values(),
    healing: () => [...byId.values()].filter(({ state }) => state.kind === "queued" && state.problem !== null),
    changed(task) {
      const { caller } = task.origin;
      const tasks = byCaller.get(caller) ?? new Map<TaskId, Task>();
      if (isUnfinished(task)) byId.set(task.handle.taskId, task);
      else byId.delete(task.handle.taskId);
      if (isUnfinished(task)) tasks.set(task.handle.taskId, task);
      else tasks.delete(task.handle.taskId);
      if (tasks.size === 0) byCaller.delete(caller);
      else byCaller.set(caller, tasks);
    },
    othersIn(task, caller) {
      const others: OtherLive[] = [];
      // A full queue holds a thousand: no further than what is shown.
      for (const other of [...(byCaller.get(task.origin.caller)?.values() ?? [])].reverse()) {
        if (others.length === SHOWN_MAX) break;
        const isOther = other.handle.taskId !== task.handle.taskId && reaches(caller, other.origin);
        if (isOther && overlaps(other.spec.cwd, task.spec.cwd)) others.push(lineOf(other, caller));
      }
      return others;
    },
  };
}

function lineOf(task: Task, caller: Caller): OtherLive {
  const { handle, spec } = task;
  return { taskId: handle.taskId, title: titleFor(task, caller), access: spec.access, cwd: spec.cwd };
}
