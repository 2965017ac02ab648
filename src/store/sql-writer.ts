/**
 * What a work may do inside a transaction, in SQL.
 *
 * Invariant: a task's row is inserted only if absent and replaced only at the version that the change follows; nothing else
 * of a change is written unless that succeeded.
 * Invariant: events are numbered from the version they follow, without a gap.
 * Invariant: `announcements` and `unread_counts` say the same as the tasks' own `is_unread`.
 */

import type { Kysely } from "kysely";
import { assert } from "../core/assert.ts";
import type { TaskId } from "../core/ids.ts";
import type { Task } from "../core/task.ts";
import type { ReceiptKey, StoreWriter, TaskChange } from "../ports/store.ts";
import { findHolder } from "./claims.ts";
import { encodeEvent, encodeReceipt } from "./codec.ts";
import { noticeColumns, readReceipt, readTask, taskColumns } from "./records.ts";
import type { Schema, TaskColumns, UnreadCountColumns } from "./schema.ts";
import { createTranscriptWrites } from "./sql-transcript.ts";
import type { Statements } from "./statements.ts";
import { placeBelow } from "./task-list.ts";

/** A writer on one open transaction. */
export function createSqlWriter(trx: Kysely<Schema>, statements: Statements): StoreWriter {
  return {
    async task(taskId) {
      const { rows } = await statements.snapshotOfTask.run(trx, { taskId });
      return rows[0] === undefined ? null : readTask(rows[0]);
    },
    async receipt(key) {
      const { rows } = await statements.receiptByKey.run(trx, receiptKeyColumns(key));
      return rows[0] === undefined ? null : readReceipt(rows[0]);
    },
    async putReceipt(receipt) {
      await statements.insertReceipt.run(trx, encodeReceipt(receipt));
    },
    append: (change) => append(trx, statements, change),
    claimHolder: (path, caller) => findHolder(statements.claims, trx, { path, caller }),
    async putClaim(claim) {
      const { taskId, caller, path, sinceMs } = claim;
      await statements.putClaim.run(trx, { task_id: taskId, caller, path, since_ms: sinceMs });
    },
    async hasClaim(taskId) {
      const { rows } = await statements.claimOfTask.run(trx, { taskId });
      return rows.length > 0;
    },
    async dropClaim(taskId) {
      await statements.dropClaim.run(trx, { taskId });
    },
    unfinishedBelow: (path) => unfinishedBelow(trx, statements, path),
    ...createTranscriptWrites(trx, statements),
    async putNotices(notices) {
      for (const notice of notices) await statements.putNotice.run(trx, noticeColumns(notice));
    },
    async dropNotice(noticeId) {
      await statements.dropNotice.run(trx, { noticeId });
    },
    async delayNotice(noticeId, dueAtMs) {
      await statements.delayNotice.run(trx, { noticeId, dueMs: dueAtMs });
    },
    async load({ caller, rootTaskId, sinceMs }) {
      const { rows } = await statements.load.run(trx, { caller, rootId: rootTaskId ?? "", sinceMs });
      const [counts] = rows;
      return {
        openTasks: counts?.open_tasks ?? 0,
        tasksInTree: counts?.tasks_in_tree ?? 0,
        delegationsSince: counts?.delegations_since ?? 0,
      };
    },
    async countShown(shown) {
      for (const { taskId, settlement } of shown) await statements.countShown.run(trx, { taskId, settlement });
    },
    purge: (taskId) => purge(trx, statements, taskId),
    async forgetReceipts(settledBeforeMs, limit) {
      const { numAffectedRows } = await statements.deleteTombstones.run(trx, { beforeMs: settledBeforeMs, limit });
      return Number(numAffectedRows ?? 0n);
    },
  };
}

export function receiptKeyColumns(key: ReceiptKey) {
  return {
    caller: key.caller,
    client_request_id: key.clientRequestId,
    tool: key.tool,
    parent_id: key.parentTaskId ?? "",
    about_id: key.aboutTaskId ?? "",
  };
}

export async function unfinishedBelow(
  on: Kysely<Schema>,
  statements: Statements,
  path: readonly TaskId[],
): Promise<readonly Task[]> {
  const { rows } = await statements.unfinishedBelow.run(on, placeBelow(path));
  return rows.map(readTask);
}

async function append(trx: Kysely<Schema>, statements: Statements, change: TaskChange): Promise<boolean> {
  const { task, events, expectedVersion, texts } = change;
  assert(task.version === expectedVersion + events.length, "a task's version counts its events");
  const columns = taskColumns(task);
  if (!(await writeTask(trx, statements, columns, expectedVersion))) return false;

  let number = expectedVersion;
  for (const event of events) {
    number += 1;
    await statements.insertEvent.run(trx, { task_id: columns.task_id, number, body: encodeEvent(event) });
  }
  for (const { name, body } of texts) await statements.putText.run(trx, { task_id: columns.task_id, name, body });
  if (task.settlements > 0) await announce(trx, statements, task, columns);
  return true;
}

/** True if the row was absent (version 0), or was at the expected version. */
async function writeTask(
  trx: Kysely<Schema>,
  statements: Statements,
  columns: TaskColumns,
  expected: number,
): Promise<boolean> {
  if (expected === 0) return hasChangedOne(await statements.insertTask.run(trx, columns));
  const change = { ...columns, expected };
  if (columns.is_open === 1 && hasChangedOne(await statements.replaceSnapshot.run(trx, change))) return true;
  return hasChangedOne(await statements.replaceTask.run(trx, change));
}

function hasChangedOne({ numAffectedRows }: { readonly numAffectedRows?: bigint }): boolean {
  return numAffectedRows === 1n;
}

/** Keeps the announcement of a task that has settled at least once in step with its being unread. */
async function announce(trx: Kysely<Schema>, statements: Statements, task: Task, columns: TaskColumns): Promise<void> {
  const { task_id, conversation, settled_ms } = columns;
  const audience = audienceOf(columns);
  if (columns.is_unread === 0 || settled_ms === null) return silence(trx, statements, task_id, audience);
  const settlement = task.settlements;
  const row = { task_id, settlement, ...audience, conversation, shown: 0, settled_ms };
  if (hasChangedOne(await statements.announce.run(trx, row)))
    await statements.addUnread.run(trx, { ...audience, unread: 1 });
  else await statements.announceAnew.run(trx, { task_id, settlement, settled_ms, shown: 0 });
}

type Audience = Pick<UnreadCountColumns, "caller" | "parent_id">;

/** Who is told that a task has settled: whoever delegated it. */
function audienceOf({ caller, parent_id }: Pick<TaskColumns, "caller" | "parent_id">): Audience {
  return { caller, parent_id: parent_id ?? "" };
}

async function silence(trx: Kysely<Schema>, statements: Statements, taskId: string, audience: Audience): Promise<void> {
  if (!hasChangedOne(await statements.silence.run(trx, { taskId }))) return;
  await statements.addUnread.run(trx, { ...audience, unread: -1 });
  await statements.dropReadCount.run(trx, audience);
}

/** Everything that hangs on the task's row goes with it: events, texts, claim, transcript, notices. */
async function purge(trx: Kysely<Schema>, statements: Statements, taskId: string): Promise<void> {
  const { rows } = await statements.flagsOfTask.run(trx, { taskId });
  const [task] = rows;
  if (task === undefined) return;
  assert(task.needs_look === 0 && task.settled_ms !== null, "only a task that is settled and stopped is purged");
  await statements.buryReceipts.run(trx, { taskId, settledMs: task.settled_ms });
  await silence(trx, statements, taskId, audienceOf(task));
  await statements.deleteTask.run(trx, { taskId });
}
