/**
 * What a memory store has committed, and how it is looked through.
 *
 * Invariant: every value in a table is frozen, so that it can be handed out as it is.
 */

import { statusOf } from "../core/describe.ts";
import type { TaskEvent } from "../core/event.ts";
import type { TaskId, ThreadId } from "../core/ids.ts";
import type { Status, Task } from "../core/task.ts";
import type {
  Claim,
  NumberedEvent,
  PendingPage,
  PendingQuery,
  Receipt,
  ReceiptKey,
  TaskPage,
  TaskQuery,
} from "../ports/store.ts";
import { isOpen, isUnread, needsLook, settledAtMs } from "./task-flags.ts";
import { pageSize } from "./task-list.ts";

export type Tables = {
  readonly tasks: Map<TaskId, Task>;
  readonly threads: Map<ThreadId, TaskId>;
  readonly events: Map<TaskId, TaskEvent[]>;
  readonly texts: Map<TaskId, Map<string, string>>;
  readonly receipts: Map<string, StoredReceipt>;
  readonly claims: Map<TaskId, Claim>;
  /** Showings of a settlement, by `settlementKey`. */
  readonly shown: Map<string, number>;
};

/** `settledMs`: the last settlement of a purged task; null while the task is there. */
export type StoredReceipt = { readonly receipt: Receipt; readonly settledMs: number | null };

export function createTables(): Tables {
  return {
    tasks: new Map(),
    threads: new Map(),
    events: new Map(),
    texts: new Map(),
    receipts: new Map(),
    claims: new Map(),
    shown: new Map(),
  };
}

export function receiptKeyOf(key: ReceiptKey): string {
  return JSON.stringify([key.caller, key.parentTaskId, key.tool, key.aboutTaskId, key.clientRequestId]);
}

export function settlementKey(taskId: TaskId, settlement: number): string {
  return `${taskId}:${settlement}`;
}

/** Newest first. */
export function listTasks(tables: Tables, query: TaskQuery): TaskPage {
  const found = [...tables.tasks.values()].filter((task) => isAsked(task, query)).sort(newestFirst);
  const limit = pageSize(query.limit);
  return { tasks: found.slice(0, limit), more: found.length > limit };
}

function isAsked(task: Task, query: TaskQuery): boolean {
  const { caller, conversation, parentTaskId } = task.origin;
  const { taskId } = task.handle;
  if (query.open && !isOpen(task)) return false;
  if (query.unread && !isUnread(task)) return false;
  if (query.idPrefix !== null && !taskId.startsWith(query.idPrefix)) return false;
  if (query.before !== null && taskId >= query.before) return false;
  return (
    isOrAny(query.caller, caller) &&
    isOrAny(query.conversation, conversation) &&
    isOrAny(query.parentTaskId, parentTaskId) &&
    isOrAny(query.status, statusOf(task))
  );
}

function isOrAny<Value>(asked: Value | null, actual: Value): boolean {
  return asked === null || asked === actual;
}

/** In the order asked, each once. */
export function tasksByIds(tables: Tables, taskIds: readonly TaskId[], caller: string | null): readonly Task[] {
  return [...new Set(taskIds)]
    .map((taskId) => tables.tasks.get(taskId))
    .filter((task) => task !== undefined)
    .filter((task) => isOrAny(caller, task.origin.caller));
}

export function unfinishedTasks(tables: Tables): readonly Task[] {
  return [...tables.tasks.values()].filter(needsLook).sort(oldestFirst);
}

export function settledBefore(tables: Tables, beforeMs: number, limit: number): readonly TaskId[] {
  return [...tables.tasks.values()]
    .filter((task) => !needsLook(task) && (settledAtMs(task) ?? beforeMs) < beforeMs)
    .sort(oldestSettlementFirst)
    .slice(0, pageSize(limit))
    .map((task) => task.handle.taskId);
}

export function countByStatus(tables: Tables): Record<Status, number> {
  const counts = { working: 0, input_required: 0, completed: 0, failed: 0, cancelled: 0 };
  for (const task of tables.tasks.values()) counts[statusOf(task)] += 1;
  return counts;
}

export function eventsAfter(tables: Tables, taskId: TaskId, after: number, limit: number): readonly NumberedEvent[] {
  const events = (tables.events.get(taskId) ?? []).slice(after, after + pageSize(limit));
  return events.map((event, index) => ({ number: after + index + 1, event }));
}

/** Oldest settlement first. */
export function pendingTasks(tables: Tables, query: PendingQuery): PendingPage {
  const unread = [...tables.tasks.values()].filter((task) => task.origin.caller === query.caller && isUnread(task));
  const tasks = unread
    .filter((task) => query.conversation === null || task.origin.conversation === query.conversation)
    .filter((task) => showingsOf(tables, task) < query.shownMax)
    .sort(oldestSettlementFirst)
    .slice(0, pageSize(query.limit));
  return { tasks, count: unread.length };
}

function showingsOf(tables: Tables, task: Task): number {
  return tables.shown.get(settlementKey(task.handle.taskId, task.settlements)) ?? 0;
}

export function newestReceipt(tables: Tables, caller: string, tool: string, clientRequestId: string): Receipt | null {
  let newest: Receipt | null = null;
  for (const { receipt } of tables.receipts.values()) {
    if (receipt.caller !== caller || receipt.tool !== tool || receipt.clientRequestId !== clientRequestId) continue;
    if (newest === null || isNewer(receipt, newest)) newest = receipt;
  }
  return newest;
}

function isNewer(one: Receipt, other: Receipt): boolean {
  if (one.createdAtMs !== other.createdAtMs) return one.createdAtMs > other.createdAtMs;
  return one.taskId > other.taskId;
}

function oldestFirst(one: Task, other: Task): number {
  return one.handle.taskId < other.handle.taskId ? -1 : 1;
}

function newestFirst(one: Task, other: Task): number {
  return oldestFirst(other, one);
}

function oldestSettlementFirst(one: Task, other: Task): number {
  return (settledAtMs(one) ?? 0) - (settledAtMs(other) ?? 0) || oldestFirst(one, other);
}

/** Freezes a value and everything in it. What is frozen already is taken to be frozen to its ground. */
export function frozen<T>(value: T): T {
  if (typeof value !== "object" || value === null || Object.isFrozen(value)) return value;
  Object.freeze(value);
  for (const field of Object.values(value)) frozen(field);
  return value;
}
