/**
 * Rows to values: where a record that cannot be read becomes storage trouble with a name.
 *
 * Invariant: an unreadable record is never left out in silence; a caller who did not see it might do its work again.
 */

import { statusOf } from "../core/describe.ts";
import type { TaskEvent } from "../core/event.ts";
import type { Task } from "../core/task.ts";
import type { Notice, Receipt, TranscriptEntry } from "../ports/store.ts";
import { type Decoded, decodeEvent, decodeReceipt, decodeTask, encodeTask, storedTaskId } from "./codec.ts";
import type { NoticeColumns, ReceiptColumns, TaskColumns, TranscriptColumns } from "./schema.ts";
import { storageTrouble } from "./storage-trouble.ts";
import { isOpen, isUnread, lineageOf, needsLook, settledAtMs } from "./task-flags.ts";

export function taskColumns(task: Task): TaskColumns {
  const { handle, origin } = task;
  return {
    task_id: handle.taskId,
    thread_id: handle.childThreadId,
    caller: origin.caller,
    conversation: origin.conversation,
    parent_id: origin.parentTaskId,
    root_id: origin.rootTaskId,
    lineage: origin.ancestors.length === 0 ? null : lineageOf(task),
    status: statusOf(task),
    is_open: isOpen(task) ? 1 : 0,
    is_unread: isUnread(task) ? 1 : 0,
    needs_look: needsLook(task) ? 1 : 0,
    created_ms: task.createdAtMs,
    settled_ms: settledAtMs(task),
    version: task.version,
    snapshot: encodeTask(task),
  };
}

export function readTask(row: { readonly snapshot: string }): Task {
  return valueOf(decodeTask(row.snapshot));
}

export function readEvent(row: { readonly body: string }): TaskEvent {
  return valueOf(decodeEvent(row.body));
}

export function readReceipt(row: ReceiptColumns): Receipt {
  return valueOf(decodeReceipt(row));
}

export function readTranscriptEntry(row: Omit<TranscriptColumns, "task_id" | "bytes">): TranscriptEntry {
  const { number, role, at_ms, body, dropped_entries: entries, dropped_bytes: bytes } = row;
  return { number, role, atMs: at_ms, text: body, dropped: entries === 0 ? null : { entries, bytes } };
}

export function noticeColumns(notice: Notice): NoticeColumns {
  return {
    notice_id: notice.noticeId,
    task_id: notice.taskId,
    settlement: notice.settlement,
    status: notice.status,
    target: notice.target,
    settled_ms: notice.settledAtMs,
    due_ms: notice.dueAtMs,
    tries: notice.tries,
  };
}

export function readNotice(row: NoticeColumns): Notice {
  return {
    noticeId: row.notice_id,
    taskId: storedTaskId(row.task_id),
    settlement: row.settlement,
    status: row.status,
    target: row.target,
    settledAtMs: row.settled_ms,
    dueAtMs: row.due_ms,
    tries: row.tries,
  };
}

function valueOf<Value>(decoded: Decoded<Value>): Value {
  if (decoded.kind === "refused") throw storageTrouble(decoded.reason, decoded.detail);
  return decoded.value;
}
