/**
 * Rows to values: where a record that cannot be read becomes storage trouble with a name.
 *
 * Invariant: an unreadable record is never left out in silence; a caller who did not see it might do its work again.
 */

import { statusOf } from "../core/describe.ts";
import type { TaskEvent } from "../core/event.ts";
import type { Task } from "../core/task.ts";
import type { Receipt } from "../ports/store.ts";
import { type Decoded, decodeEvent, decodeReceipt, decodeTask, encodeTask } from "./codec.ts";
import type { ReceiptColumns, TaskColumns } from "./schema.ts";
import { storageTrouble } from "./storage-trouble.ts";
import { isOpen, isUnread, needsLook, settledAtMs } from "./task-flags.ts";

export function taskColumns(task: Task): TaskColumns {
  const { handle, origin } = task;
  return {
    task_id: handle.taskId,
    thread_id: handle.childThreadId,
    caller: origin.caller,
    conversation: origin.conversation,
    parent_id: origin.parentTaskId,
    root_id: origin.rootTaskId,
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

function valueOf<Value>(decoded: Decoded<Value>): Value {
  if (decoded.kind === "refused") throw storageTrouble(decoded.reason, decoded.detail);
  return decoded.value;
}
