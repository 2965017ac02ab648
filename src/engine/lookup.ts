/**
 * Finds a caller's task by whatever id the caller has, and says so where there is none.
 *
 * Invariant: a foreign id and an unknown one take the same query and give the same answer, byte for byte (P16).
 */

import type { Caller } from "../core/caller.ts";
import { parseId, type TaskId } from "../core/ids.ts";
import type { Task } from "../core/task.ts";
import type { Answer, RefusalAnswer } from "../ports/engine.ts";
import type { Store } from "../ports/store.ts";
import type { Presenter } from "./present.ts";

export type Lookup = {
  /** The task that any of its three ids names, if it is this caller's (or the caller is an admin). */
  find(asked: string, caller: Caller): Promise<Task | null>;
  findAll(asked: readonly string[], caller: Caller): Promise<ReadonlyMap<string, Task>>;
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
    const tasks = await store.tasks([...new Set(ids.values())], scopeOf(caller));
    const byId = new Map(tasks.map((task) => [task.handle.taskId, task]));
    const found = new Map<string, Task>();
    for (const [text, taskId] of ids) {
      const task = byId.get(taskId);
      if (task !== undefined) found.set(text, task);
    }
    return found;
  }

  return {
    findAll,
    async find(asked, caller) {
      return (await findAll([asked], caller)).get(asked) ?? null;
    },
    async unknown(asked, caller, extra = {}) {
      const code = parseId(asked).kind === "thread" ? "unknown_thread" : "unknown_task";
      const page = await store.list({ ...ALL_OF, caller: caller.name, limit: NEWEST_SHOWN });
      return presenter.refusal(
        { kind: "rejection", code, next: { kind: "fix", tool: "task_list", arguments: {} }, detail: { asked } },
        caller,
        { ...extra, newest: page.tasks.map((task) => presenter.view(task)) },
      );
    },
  };
}

/** Whose tasks a caller may see: its own, or everybody's for an admin. */
export function scopeOf(caller: Caller): string | null {
  return caller.scopes.includes("admin") ? null : caller.name;
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
