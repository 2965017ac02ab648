/**
 * Finds a caller's task by whatever id the caller has, and says so where there is none.
 *
 * Invariant: a foreign id and an unknown one take the same query and give the same answer, byte for byte (P16).
 * Invariant: a child finds what is below its own task; of its own task it may read the status, and nothing else (P18).
 */

import { type Caller, reachOf } from "../core/caller.ts";
import { parseId, type TaskId } from "../core/ids.ts";
import type { Task } from "../core/task.ts";
import type { Answer, RefusalAnswer } from "../ports/engine.ts";
import type { Store } from "../ports/store.ts";
import type { Presenter } from "./present.ts";

export type Lookup = {
  /** The task that any of its three ids names, if it is this caller's (or the caller is an admin). */
  find(asked: string, caller: Caller): Promise<Task | null>;
  findAll(asked: readonly string[], caller: Caller): Promise<ReadonlyMap<string, Task>>;
  /** As `find`, and a child's own task: only to say how it is. */
  findToTell(asked: string, caller: Caller): Promise<Task | null>;
  /** The answer for an id that names nothing of this caller's. */
  unknown(asked: string, caller: Caller, extra?: Partial<RefusalAnswer>): Promise<Answer>;
};

const NEWEST_SHOWN = 3;

export function createLookup(store: Store, presenter: Presenter): Lookup {
  async function taskIdOf(asked: string): Promise<TaskId | null> {
    const parsed = parseId(asked);
    if (parsed.kind === "task") return parsed.taskId;
    return parsed.kind === "thread" ? store.taskIdOfThread(parsed.threadId) : null;
  }

  async function findAll(asked: readonly string[], caller: Caller): Promise<ReadonlyMap<string, Task>> {
    const ids = new Map<string, TaskId>();
    for (const text of asked) {
      const taskId = await taskIdOf(text);
      if (taskId !== null) ids.set(text, taskId);
    }
    const tasks = await store.tasks([...new Set(ids.values())], reachOf(caller));
    const byId = new Map(tasks.map((task) => [task.handle.taskId, task]));
    const found = new Map<string, Task>();
    for (const [text, taskId] of ids) {
      const task = byId.get(taskId);
      if (task !== undefined) found.set(text, task);
    }
    return found;
  }

  async function find(asked: string, caller: Caller): Promise<Task | null> {
    return (await findAll([asked], caller)).get(asked) ?? null;
  }

  return {
    findAll,
    find,
    async findToTell(asked, caller) {
      const found = await find(asked, caller);
      if (found !== null || caller.kind !== "child") return found;
      const own = caller.lineage.taskId;
      return (await taskIdOf(asked)) === own ? store.task(own) : null;
    },
    async unknown(asked, caller, extra = {}) {
      const code = parseId(asked).kind === "thread" ? "unknown_thread" : "unknown_task";
      const page = await store.list({ ...ALL_OF, ...reachOf(caller), caller: caller.name, limit: NEWEST_SHOWN });
      return presenter.refusal(
        { kind: "rejection", code, next: { kind: "fix", tool: "task_list", arguments: {} }, detail: { asked } },
        caller,
        { ...extra, newest: page.tasks.map((task) => presenter.view(task, caller)) },
      );
    },
  };
}

export const ALL_OF = {
  open: false,
  unread: false,
  conversation: null,
  status: null,
  parentTaskId: null,
  idPrefix: null,
  before: null,
} as const;
