/**
 * The store over SQL, the same for every database.
 *
 * Invariant: reads see committed data only; they run beside the transaction of the works, never inside it.
 * Invariant: a caller is part of the query that looks for its task, so that a foreign id and an unknown one take the same
 * way (P16).
 * Absent on purpose: SQL that only one database understands, and opening one; see `sqlite`.
 */

import type { Kysely } from "kysely";
import type { TaskId } from "../core/ids.ts";
import type { Status } from "../core/task.ts";
import type { PendingPage, PendingQuery, Store } from "../ports/store.ts";
import { storedTaskId } from "./codec.ts";
import { createGroupCommit, type GroupCommitParts } from "./group-commit.ts";
import { readEvent, readReceipt, readTask } from "./records.ts";
import type { Schema } from "./schema.ts";
import { receiptKeyColumns } from "./sql-writer.ts";
import type { Statements } from "./statements.ts";
import { messageOf, storageTrouble } from "./storage-trouble.ts";
import { createTasksByIds, listQuery, PAGE_MAX, pageSize } from "./task-list.ts";

export type SqlStoreParts = GroupCommitParts & {
  /** Connection for reads; may be the one for writes where the database has a pool. */
  readonly reads: Kysely<Schema>;
  /** Closes what the store was opened with; called once, after the last write. */
  readonly release: () => Promise<void>;
};

/** How often a settlement may be shown at most; each count is a query of its own. */
const SHOWN_MAX = 10;

export function createSqlStore(parts: SqlStoreParts): Store {
  const { reads, statements } = parts;
  const commits = createGroupCommit(parts);
  const tasksByIds = createTasksByIds(reads);
  let closing: Promise<void> | null = null;

  /** Names errors of the database; an error of ours passes as it is. */
  const read = async <T>(query: () => Promise<T>): Promise<T> => {
    if (closing !== null) throw storageTrouble("closed", "the store is closed");
    try {
      return await query();
    } catch (error) {
      const code = parts.storageCodeOf(error);
      throw code === null ? error : storageTrouble(code, messageOf(error), error);
    }
  };

  return {
    write: commits.write,
    healthy: commits.healthy,
    task: (taskId) =>
      read(async () => {
        const { rows } = await statements.snapshotOfTask.run(reads, { taskId });
        return rows[0] === undefined ? null : readTask(rows[0]);
      }),
    tasks: (taskIds, caller) =>
      read(async () => {
        const asked = [...new Set(taskIds)];
        const found = new Map<string, string>();
        for (let at = 0; at < asked.length; at += PAGE_MAX) {
          const rows = await tasksByIds(reads, asked.slice(at, at + PAGE_MAX), caller);
          for (const row of rows) found.set(row.task_id, row.snapshot);
        }
        return inOrder(asked, found).map((snapshot) => readTask({ snapshot }));
      }),
    taskIdOfThread: (threadId) =>
      read(async () => {
        const { rows } = await statements.taskOfThread.run(reads, { threadId });
        return rows[0] === undefined ? null : storedTaskId(rows[0].task_id);
      }),
    receipt: (key) =>
      read(async () => {
        const { rows } = await statements.receiptByKey.run(reads, receiptKeyColumns(key));
        return rows[0] === undefined ? null : readReceipt(rows[0]);
      }),
    receiptByRequestId: (caller, tool, clientRequestId) =>
      read(async () => {
        const key = { caller, tool, client_request_id: clientRequestId };
        const { rows } = await statements.receiptByRequestId.run(reads, key);
        return rows[0] === undefined ? null : readReceipt(rows[0]);
      }),
    list: (query) =>
      read(async () => {
        const rows = await listQuery(reads, query).execute();
        const limit = pageSize(query.limit);
        return { tasks: rows.slice(0, limit).map(readTask), more: rows.length > limit };
      }),
    unfinished: () =>
      read(async () => {
        const { rows } = await statements.unfinishedTasks.run(reads, {});
        return rows.map(readTask);
      }),
    settledBefore: (beforeMs, limit) =>
      read(async () => {
        const { rows } = await statements.finishedBefore.run(reads, { beforeMs, limit: pageSize(limit) });
        return rows.map((row) => storedTaskId(row.task_id));
      }),
    pending: (query) => read(() => pendingPage(reads, statements, query)),
    text: (taskId, name) =>
      read(async () => {
        const { rows } = await statements.textOfTask.run(reads, { taskId, name });
        return rows[0]?.body ?? null;
      }),
    events: (taskId, after, limit) =>
      read(async () => {
        const { rows } = await statements.eventsAfter.run(reads, { taskId, after, limit: pageSize(limit) });
        return rows.map((row) => ({ number: row.number, event: readEvent(row) }));
      }),
    counts: () => read(() => countByStatus(reads, statements)),
    async [Symbol.asyncDispose]() {
      closing ??= commits.close().then(parts.release);
      await closing;
    },
  };
}

function inOrder(asked: readonly TaskId[], found: ReadonlyMap<string, string>): readonly string[] {
  return asked.map((taskId) => found.get(taskId)).filter((snapshot) => snapshot !== undefined);
}

/** One short query for each number of showings, merged by age: constant time however many have been shown often enough. */
async function pendingPage(reads: Kysely<Schema>, statements: Statements, query: PendingQuery): Promise<PendingPage> {
  const { caller, conversation } = query;
  const limit = pageSize(query.limit);
  const found: { readonly task_id: string; readonly settled_ms: number; readonly snapshot: string }[] = [];
  for (let shown = 0; shown < Math.min(query.shownMax, SHOWN_MAX); shown++) {
    const { rows } =
      conversation === null
        ? await statements.announcedToCaller.run(reads, { caller, shown, limit })
        : await statements.announcedToConversation.run(reads, { caller, conversation, shown, limit });
    found.push(...rows);
  }
  found.sort((one, other) => one.settled_ms - other.settled_ms || (one.task_id < other.task_id ? -1 : 1));
  const { rows } = await statements.unreadOfCaller.run(reads, { caller });
  return { tasks: found.slice(0, limit).map(readTask), count: Number(rows[0]?.unread ?? 0) };
}

async function countByStatus(reads: Kysely<Schema>, statements: Statements): Promise<Record<Status, number>> {
  const { rows } = await statements.tasksByStatus.run(reads, {});
  const counts = new Map(rows.map((row) => [row.status, Number(row.tasks)]));
  return {
    working: counts.get("working") ?? 0,
    input_required: counts.get("input_required") ?? 0,
    completed: counts.get("completed") ?? 0,
    failed: counts.get("failed") ?? 0,
    cancelled: counts.get("cancelled") ?? 0,
  };
}
