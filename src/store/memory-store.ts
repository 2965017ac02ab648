/**
 * The store without a disk: the reference that the others are measured against, and what simulated worlds run on.
 *
 * Invariant: works run one after another, each all or nothing: what a work writes lies in a draft until it is committed.
 * Invariant: values are frozen when they come in, so that nobody can change what is stored through what he put or got.
 *
 * A crash: `crash()` ends this handle as a killed daemon ends. Works that wait, run or are held at a fault point reject with
 * `crashed`; what they wrote is gone unless their commit had been made, and nothing they do later counts. Every later call
 * on this handle rejects. The handle that `crash()` returns stands on what was committed, like a new daemon.
 */

import type { Faults } from "../ports/fault.ts";
import type { Store } from "../ports/store.ts";
import {
  countByStatus,
  createTables,
  dueNotices,
  eventsAfter,
  milestonesAfter,
  listTasks,
  nextNoticeAtMs,
  pendingTasks,
  receiptKeyOf,
  settledBefore,
  type Tables,
  tasksByIds,
  transcriptsSettledBefore,
  unfinishedBelow,
  unfinishedTasks,
} from "./memory-tables.ts";
import { pageOf } from "./memory-transcript.ts";
import { createWorks } from "./memory-works.ts";
import { pageSize } from "./task-list.ts";

export type MemoryStore = Store & {
  /** Kills this handle and returns one on what was committed. */
  crash(): MemoryStore;
};

export function createMemoryStore(options: { readonly faults?: Faults } = {}): MemoryStore {
  return open(createTables(), options.faults ?? null);
}

function open(tables: Tables, faults: Faults | null): MemoryStore {
  const works = createWorks(tables, faults);
  const read = async <T>(query: () => T): Promise<T> => {
    works.assertOpen();
    return query();
  };
  return {
    write: works.write,
    healthy: works.healthy,
    task: (taskId) => read(() => tables.tasks.get(taskId) ?? null),
    tasks: (taskIds, reach) => read(() => tasksByIds(tables, taskIds, reach)),
    taskIdOfThread: (threadId) => read(() => tables.threads.get(threadId) ?? null),
    receipt: (key) => read(() => tables.receipts.get(receiptKeyOf(key))?.receipt ?? null),
    list: (query) => read(() => listTasks(tables, query)),
    unfinished: () => read(() => unfinishedTasks(tables)),
    unfinishedBelow: (path) => read(() => unfinishedBelow(tables.tasks.values(), path)),
    settledBefore: (beforeMs, limit) => read(() => settledBefore(tables, beforeMs, limit)),
    transcriptsSettledBefore: (beforeMs, limit) => read(() => transcriptsSettledBefore(tables, beforeMs, limit)),
    pending: (query) => read(() => pendingTasks(tables, query)),
    text: (taskId, name) => read(() => tables.texts.get(taskId)?.get(name) ?? null),
    events: (taskId, after, limit) => read(() => eventsAfter(tables, taskId, after, limit)),
    milestones: (taskId, after, limit) => read(() => milestonesAfter(tables, taskId, after, limit)),
    transcript: (taskId, after, limit, bytesMax) =>
      read(() => pageOf(tables.transcripts.get(taskId), after, { limit: pageSize(limit), bytesMax })),
    dueNotices: (nowMs, limit) => read(() => dueNotices(tables, nowMs, limit)),
    nextNoticeAtMs: () => read(() => nextNoticeAtMs(tables)),
    counts: () => read(() => countByStatus(tables)),
    crash() {
      works.crash();
      return open(tables, faults);
    },
    [Symbol.asyncDispose]: works.close,
  };
}
