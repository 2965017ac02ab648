/**
 * Those who follow what happens to tasks, each told of what its caller may see.
 *
 * Invariant: told after the commit; a follower that throws harms nobody else.
 */

import { type Caller, reaches } from "../core/caller.ts";
import { phaseOf, statusOf } from "../core/describe.ts";
import type { Task } from "../core/task.ts";
import type { Clock } from "../ports/clock.ts";
import type { Log } from "../ports/log.ts";
import type { TaskChangeNote, Upkeep } from "../ports/upkeep.ts";

export type Followers = Pick<Upkeep, "follow"> & { tell(task: Task): void };

export function createFollowers(clock: Clock, log: Log): Followers {
  const followers = new Set<{ readonly caller: Caller; readonly onChange: (change: TaskChangeNote) => void }>();
  return {
    follow(caller, onChange) {
      const follower = { caller, onChange };
      followers.add(follower);
      return { [Symbol.dispose]: () => void followers.delete(follower) };
    },
    tell(task) {
      if (followers.size === 0) return;
      const note = noteOf(task, clock.wallMs());
      for (const { caller, onChange } of followers) {
        if (!reaches(caller, task.origin)) continue;
        try {
          onChange(note);
        } catch (error) {
          log.warn("follower_failed", { error: String(error) });
        }
      }
    },
  };
}

function noteOf(task: Task, atMs: number): TaskChangeNote {
  const { taskId, nodeId } = task.handle;
  const { settlements, version } = task;
  return { taskId, nodeId, status: statusOf(task), phase: phaseOf(task), settlements, version, atMs };
}
