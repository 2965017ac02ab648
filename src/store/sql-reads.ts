/**
 * What a store is asked outside of transactions, in SQL.
 *
 * Invariant: a caller is part of the query that looks for its task, so that a foreign id and an unknown one take the same
 * way (P16).
 * Invariant: an answer's size is bounded, whatever limit is asked for.
 */

import type { Kysely } from "kysely";
import type { TaskId } from "../core/ids.ts";
import type { Status } from "../core/task.ts";
import type { PendingPage, PendingQuery, Store } from "../ports/store.ts";
import { storedTaskId } from "./codec.ts";
import { readEvent, readNotice, readReceipt, readTask, readTranscriptEntry } from "./records.ts";
import type { Schema } from "./schema.ts";
import { receiptKeyColumns, unfinishedBelow } from "./sql-writer.ts";
import type { Statements } from "./statements.ts";
import { idsSize, PAGE_MAX, pageSize } from "./task-list.ts";

/** How often a settlement may be shown at most; each count is a query of its own. */
const SHOWN_MAX = 10;

type TaskReads = Pick<
  Store,
  | "task"
  | "tasks"
  | "taskIdOfThread"
  | "list"
  | "unfinished"
  | "unfinishedBelow"
  | "settledBefore"
  | "transcriptsSettledBefore"
  | "counts"
>;
type OtherReads = Pick<
  Store,
  "receipt" | "pending" | "text" | "events" | "milestones" | "transcript" | "dueNotices" | "nextNoticeAtMs"
>;

export function createTaskReads(db: Kysely<Schema>, statements: Statements): TaskReads {
  return {
    async task(taskId) {
      const { rows } = await statements.snapshotOfTask.run(db, { taskId });
      return rows[0] === undefined ? null : readTask(rows[0]);
    },
    async tasks(taskIds, reach) {
      const asked = [...new Set(taskIds)];
      const found = new Map<string, string>();
      for (let at = 0; at < asked.length; at += PAGE_MAX) {
        const { text, args } = statements.tasksByIds(asked.slice(at, at + PAGE_MAX), reach);
        const { rows } = await text.run(db, args);
        for (const row of rows) found.set(row.task_id, row.snapshot);
      }
      return inOrder(asked, found).map((snapshot) => readTask({ snapshot }));
    },
    async taskIdOfThread(threadId) {
      const { rows } = await statements.taskOfThread.run(db, { threadId });
      return rows[0] === undefined ? null : storedTaskId(rows[0].task_id);
    },
    async list(query) {
      const { text, args } = statements.lists(query);
      const { rows } = await text.run(db, args);
      const limit = pageSize(query.limit);
      return { tasks: rows.slice(0, limit).map(readTask), more: rows.length > limit };
    },
    async unfinished() {
      const { rows } = await statements.unfinishedTasks.run(db, {});
      return rows.map(readTask);
    },
    unfinishedBelow: (path) => unfinishedBelow(db, statements, path),
    async settledBefore(beforeMs, limit) {
      const { rows } = await statements.finishedBefore.run(db, { beforeMs, limit: idsSize(limit) });
      return rows.map((row) => storedTaskId(row.task_id));
    },
    async transcriptsSettledBefore(beforeMs, limit) {
      const { rows } = await statements.finishedTranscriptsBefore.run(db, { beforeMs, limit: idsSize(limit) });
      return rows.map((row) => storedTaskId(row.task_id));
    },
    counts: () => countByStatus(db, statements),
  };
}

export function createOtherReads(db: Kysely<Schema>, statements: Statements): OtherReads {
  return {
    async receipt(key) {
      const { rows } = await statements.receiptByKey.run(db, receiptKeyColumns(key));
      return rows[0] === undefined ? null : readReceipt(rows[0]);
    },
    pending: (query) => pendingPage(db, statements, query),
    async text(taskId, name) {
      const { rows } = await statements.textOfTask.run(db, { taskId, name });
      return rows[0]?.body ?? null;
    },
    async events(taskId, after, limit) {
      const { rows } = await statements.eventsAfter.run(db, { taskId, after, limit: pageSize(limit) });
      return rows.map((row) => ({ number: row.number, event: readEvent(row) }));
    },
    async milestones(taskId, after, limit) {
      const { rows } = await statements.milestonesAfter.run(db, { taskId, after, limit: pageSize(limit) });
      return rows.map((row) => ({ number: row.number, event: readEvent(row) }));
    },
    async transcript(taskId, after, limit, bytesMax) {
      const page = { taskId, after, limit: pageSize(limit), bytesMax };
      const { rows } = await statements.transcriptAfter.run(db, page);
      return rows.map(readTranscriptEntry);
    },
    async dueNotices(nowMs, limit) {
      const { rows } = await statements.noticesDue.run(db, { nowMs, limit: pageSize(limit) });
      return rows.map(readNotice);
    },
    async nextNoticeAtMs() {
      const { rows } = await statements.nextNotice.run(db, {});
      return rows[0]?.due_ms ?? null;
    },
  };
}

function inOrder(asked: readonly TaskId[], found: ReadonlyMap<string, string>): readonly string[] {
  return asked.map((taskId) => found.get(taskId)).filter((snapshot) => snapshot !== undefined);
}

/** One short query for each number of showings, merged by age: constant time however many have been shown often enough. */
async function pendingPage(db: Kysely<Schema>, statements: Statements, query: PendingQuery): Promise<PendingPage> {
  const { conversation } = query;
  const audience = { caller: query.caller, parent_id: query.parentTaskId ?? "" };
  const unread = await statements.unreadOfAudience.run(db, audience);
  const count = unread.rows[0]?.unread ?? 0;
  // Every answer of ours asks this, and most callers have nothing unread.
  if (count === 0) return { tasks: [], count };
  const limit = pageSize(query.limit);
  const found: { readonly task_id: string; readonly settled_ms: number; readonly snapshot: string }[] = [];
  for (let shown = 0; shown < Math.min(query.shownMax, SHOWN_MAX); shown++) {
    const { rows } =
      conversation === null
        ? await statements.announcedToAudience.run(db, { ...audience, shown, limit })
        : await statements.announcedToConversation.run(db, { ...audience, conversation, shown, limit });
    found.push(...rows);
  }
  found.sort((one, other) => one.settled_ms - other.settled_ms || (one.task_id < other.task_id ? -1 : 1));
  return { tasks: found.slice(0, limit).map(readTask), count };
}

async function countByStatus(db: Kysely<Schema>, statements: Statements): Promise<Record<Status, number>> {
  const { rows } = await statements.tasksByStatus.run(db, {});
  const counts = new Map(rows.map((row) => [row.status, row.tasks]));
  return {
    working: counts.get("working") ?? 0,
    input_required: counts.get("input_required") ?? 0,
    completed: counts.get("completed") ?? 0,
    failed: counts.get("failed") ?? 0,
    cancelled: counts.get("cancelled") ?? 0,
  };
}
