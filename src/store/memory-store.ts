/**
 * The store without a disk: the reference that the others are measured against, and what simulated worlds run on.
 *
 * Invariant: works run one after another, each all or nothing: what a work writes lies in a draft until it is committed.
 * Invariant: values are frozen when they come in, so that nobody can change what is stored through what he put or got.
 * Invariant: only promises are used to take turns, no timer and no immediate: a simulated world stays in its own time.
 *
 * A crash: `crash()` ends this handle as a killed daemon ends. Works that wait, run or are held at a fault point reject with
 * `crashed`; what they wrote is gone unless their commit had been made, and nothing they do later counts. Every later call
 * on this handle rejects. The handle that `crash()` returns stands on what was committed, like a new daemon.
 */

import { statusOf } from "../core/describe.ts";
import type { TaskId } from "../core/ids.ts";
import type { Status } from "../core/task.ts";
import type { Faults } from "../ports/fault.ts";
import type { Store, StoreWriter } from "../ports/store.ts";
import { createDraft, type Draft } from "./memory-draft.ts";
import {
  createTables,
  listTasks,
  newestReceipt,
  oldestFirst,
  oldestSettlementFirst,
  pendingTasks,
  receiptKeyOf,
  type Tables,
} from "./memory-tables.ts";
import { isStorageTrouble, messageOf, type StorageCode, storageTrouble } from "./storage-trouble.ts";
import { needsLook, settledAtMs } from "./task-flags.ts";
import { pageSize } from "./task-list.ts";

export type MemoryStore = Store & {
  /** Kills this handle and returns one on what was committed. */
  crash(): MemoryStore;
};

export function createMemoryStore(options: { readonly faults?: Faults } = {}): MemoryStore {
  return open(createTables(), options.faults ?? null);
}

type Ending = { readonly code: StorageCode; readonly detail: string };

function open(tables: Tables, faults: Faults | null): MemoryStore {
  /** Why this handle takes no calls any more. After a crash works in flight do not count either. */
  let ended: Ending | null = null;
  let isHealthy = true;
  let turn: Promise<unknown> = Promise.resolve();
  /** Rejections of the works that are not settled. */
  const unsettled = new Set<(reason: unknown) => void>();

  const read = async <T>(query: () => T): Promise<T> => {
    if (ended !== null) throw storageTrouble(ended.code, ended.detail);
    return query();
  };

  /** Commits a draft between the two fault points. Rejects with StorageTrouble. */
  const commit = async (draft: Draft): Promise<void> => {
    try {
      await faults?.at("before_commit");
      if (ended?.code === "crashed") return;
      draft.commit();
      await faults?.at("after_commit");
      isHealthy = true;
    } catch (error) {
      isHealthy = false;
      throw isStorageTrouble(error) ? error : storageTrouble("commit_failed", messageOf(error), error);
    }
  };

  const perform = async <T>(work: (tx: StoreWriter) => Promise<T>): Promise<T> => {
    const draft = createDraft(tables);
    const result = await work(draft.tx).finally(draft.end);
    if (ended?.code !== "crashed") await commit(draft);
    return result;
  };

  return {
    write<T>(work: (tx: StoreWriter) => Promise<T>): Promise<T> {
      if (ended !== null) return Promise.reject(storageTrouble(ended.code, ended.detail));
      return new Promise<T>((resolve, reject) => {
        unsettled.add(reject);
        const run = async (): Promise<void> => {
          if (ended?.code === "crashed") return;
          await perform(work).then(resolve, reject);
          unsettled.delete(reject);
        };
        turn = turn.then(run);
      });
    },
    task: (taskId) => read(() => tables.tasks.get(taskId) ?? null),
    tasks: (taskIds, caller) => read(() => tasksByIds(tables, taskIds, caller)),
    taskIdOfThread: (threadId) => read(() => tables.threads.get(threadId) ?? null),
    receipt: (key) => read(() => tables.receipts.get(receiptKeyOf(key))?.receipt ?? null),
    receiptByRequestId: (caller, tool, clientRequestId) =>
      read(() => newestReceipt(tables, caller, tool, clientRequestId)),
    list: (query) => read(() => listTasks(tables, query)),
    unfinished: () => read(() => [...tables.tasks.values()].filter(needsLook).sort(oldestFirst)),
    settledBefore: (beforeMs, limit) => read(() => settledBefore(tables, beforeMs, limit)),
    pending: (query) => read(() => pendingTasks(tables, query)),
    text: (taskId, name) => read(() => tables.texts.get(taskId)?.get(name) ?? null),
    events: (taskId, after, limit) =>
      read(() => {
        const events = (tables.events.get(taskId) ?? []).slice(after, after + pageSize(limit));
        return events.map((event, index) => ({ number: after + index + 1, event }));
      }),
    counts: () => read(() => countByStatus(tables)),
    healthy: () => isHealthy,
    crash() {
      ended = { code: "crashed", detail: "the daemon was killed" };
      for (const reject of unsettled) reject(storageTrouble(ended.code, ended.detail));
      unsettled.clear();
      return open(tables, faults);
    },
    async [Symbol.asyncDispose]() {
      const last = turn;
      ended ??= { code: "closed", detail: "the store is closed" };
      await last;
    },
  };
}

function tasksByIds(tables: Tables, taskIds: readonly TaskId[], caller: string | null) {
  return [...new Set(taskIds)]
    .map((taskId) => tables.tasks.get(taskId))
    .filter((task) => task !== undefined)
    .filter((task) => caller === null || task.origin.caller === caller);
}

function settledBefore(tables: Tables, beforeMs: number, limit: number): readonly TaskId[] {
  return [...tables.tasks.values()]
    .filter((task) => !needsLook(task) && (settledAtMs(task) ?? beforeMs) < beforeMs)
    .sort(oldestSettlementFirst)
    .slice(0, pageSize(limit))
    .map((task) => task.handle.taskId);
}

function countByStatus(tables: Tables): Record<Status, number> {
  const counts = { working: 0, input_required: 0, completed: 0, failed: 0, cancelled: 0 };
  for (const task of tables.tasks.values()) counts[statusOf(task)] += 1;
  return counts;
}
