/**
 * Announces settlements that a caller has not confirmed, in whatever answer it gets next (contract §6, §11).
 *
 * Invariant: at least once: an announcement ends with the caller's own word (`after`, ack, continue), never with a write
 * to a socket; each is shown a few times and then only counted.
 */

import { type Caller, parentOf } from "../core/caller.ts";
import { statusOf } from "../core/describe.ts";
import type { TaskId } from "../core/ids.ts";
import { LIMITS } from "../core/limits.ts";
import type { Task } from "../core/task.ts";
import type { Pending } from "../ports/engine.ts";
import type { Store } from "../ports/store.ts";
import { isStorageTrouble } from "./storage.ts";

export type Courier = {
  /** What to announce to this caller beside an answer about `shown`, which needs no announcement. */
  pendingFor(caller: Caller, shown: ReadonlySet<TaskId>): Promise<Pending>;
  /** A task has settled or was acknowledged: whoever delegated it may have something pending. */
  changed(task: Task): void;
  /** A commit may have been made without anybody hearing of it: nothing is known any more. */
  uncertain(): void;
};

export const NOTHING_PENDING: Pending = { completions: [], count: 0 };

export function createCourier(store: Store): Courier {
  // Those known to have nothing pending; a hint that saves a query per answer, refreshed by every settlement.
  const idle = new Set<string>();

  async function announce(caller: Caller, shown: ReadonlySet<TaskId>): Promise<Pending> {
    const page = await store.pending({
      caller: caller.name,
      parentTaskId: parentOf(caller),
      conversation: caller.conversation,
      shownMax: LIMITS.pendingShownMax,
      limit: LIMITS.pendingListedMax + shown.size,
    });
    if (page.count > 0) idle.delete(audienceOf(caller.name, parentOf(caller)));
    const listed = page.tasks.filter((task) => !shown.has(task.handle.taskId)).slice(0, LIMITS.pendingListedMax);
    // A person who looks on uses up none of the showings that are for whoever delegated.
    if (listed.length > 0 && caller.kind !== "person") await countShown(store, listed);
    const covered = page.tasks.filter((task) => shown.has(task.handle.taskId)).length + listed.length;
    return { completions: listed.map(completionOf), count: Math.max(0, page.count - covered) };
  }

  return {
    async pendingFor(caller, shown) {
      const audience = audienceOf(caller.name, parentOf(caller));
      if (idle.has(audience)) return NOTHING_PENDING;
      idle.add(audience);
      try {
        return await announce(caller, shown);
      } catch (error) {
        // An announcement rides on an answer; that it cannot be read or counted now must not cost the answer (P1).
        idle.delete(audience);
        if (!isStorageTrouble(error)) throw error;
        return NOTHING_PENDING;
      }
    },
    changed({ origin }) {
      idle.delete(audienceOf(origin.caller, origin.parentTaskId));
    },
    uncertain() {
      idle.clear();
    },
  };
}

/** Who is told of a task's end: its root caller, or the child that delegated it. Caller names hold no slash. */
function audienceOf(caller: string, parentTaskId: TaskId | null): string {
  return parentTaskId === null ? caller : `${caller}/${parentTaskId}`;
}

async function countShown(store: Store, tasks: readonly Task[]): Promise<void> {
  const shown = tasks.map((task) => ({ taskId: task.handle.taskId, settlement: task.settlements }));
  await store.write((tx) => tx.countShown(shown));
}

function completionOf(task: Task): Pending["completions"][number] {
  return {
    taskId: task.handle.taskId,
    nodeId: task.handle.nodeId,
    settlement: task.settlements,
    status: statusOf(task),
    title: task.spec.title,
  };
}
