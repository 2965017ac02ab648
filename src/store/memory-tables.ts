/**
 * What a memory store has committed, and how it is looked through.
 *
 * Invariant: every value in a table is frozen, so that it can be handed out as it is.
 */

import type { Reach } from "../core/caller.ts";
import { statusOf } from "../core/describe.ts";
import type { TaskEvent } from "../core/event.ts";
import type { TaskId, ThreadId } from "../core/ids.ts";
import type { Status, Task } from "../core/task.ts";
import type {
  Claim,
  Notice,
  NumberedEvent,
  PendingPage,
  PendingQuery,
  Receipt,
  ReceiptKey,
  TaskPage,
  TaskQuery,
} from "../ports/store.ts";
import type { Transcript } from "./memory-transcript.ts";
import { isOpen, isUnread, lineageBelow, lineageOf, needsLook, rootOf, settledAtMs } from "./task-flags.ts";
import { idsSize, pageSize } from "./task-list.ts";

export type Tables = {
  readonly tasks: Map<TaskId, Task>;
  readonly threads: Map<ThreadId, TaskId>;
  readonly events: Map<TaskId, TaskEvent[]>;
  readonly texts: Map<TaskId, Map<string, string>>;
  readonly receipts: Map<string, StoredReceipt>;
  readonly claims: Map<TaskId, Claim>;
  /** Showings of a settlement, by `settlementKey`. */
  readonly shown: Map<string, number>;
  readonly transcripts: Map<TaskId, Transcript>;
  /** By `noticeId`. */
  readonly notices: Map<string, Notice>;
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
    transcripts: new Map(),
    notices: new Map(),
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
  const { conversation, parentTaskId } = task.origin;
  const { taskId } = task.handle;
  if (query.open && !isOpen(task)) return false;
  if (query.unread && !isUnread(task)) return false;
  if (query.idPrefix !== null && !taskId.startsWith(query.idPrefix)) return false;
  if (query.before !== null && taskId >= query.before) return false;
  return (
    isWithin(task, query) &&
    isOrAny(query.conversation, conversation) &&
    isOrAny(query.parentTaskId, parentTaskId ?? "root") &&
    isOrAny(query.status, statusOf(task))
  );
}

function isOrAny<Value>(asked: Value | null, actual: Value): boolean {
  return asked === null || asked === actual;
}

function isWithin(task: Task, { caller, below }: Reach): boolean {
  return isOrAny(caller, task.origin.caller) && (below === null || isBelow(task, below));
}

function isBelow(task: Task, path: readonly TaskId[]): boolean {
  return task.origin.rootTaskId === rootOf(path) && lineageOf(task).startsWith(lineageBelow(path));
}

/** In the order asked, each once. */
export function tasksByIds(tables: Tables, taskIds: readonly TaskId[], reach: Reach): readonly Task[] {
  return [...new Set(taskIds)]
    .map((taskId) => tables.tasks.get(taskId))
    .filter((task) => task !== undefined)
    .filter((task) => isWithin(task, reach));
}

export function unfinishedTasks(tables: Tables): readonly Task[] {
  return [...tables.tasks.values()].filter(needsLook).sort(oldestFirst);
}

export function unfinishedBelow(tasks: Iterable<Task>, path: readonly TaskId[]): readonly Task[] {
  return [...tasks].filter((task) => needsLook(task) && isBelow(task, path));
}

export function settledBefore(tables: Tables, beforeMs: number, limit: number): readonly TaskId[] {
  return finishedBefore(tables, beforeMs).slice(0, idsSize(limit));
}

export function transcriptsSettledBefore(tables: Tables, beforeMs: number, limit: number): readonly TaskId[] {
  return finishedBefore(tables, beforeMs)
    .filter((taskId) => tables.transcripts.has(taskId))
    .slice(0, idsSize(limit));
}

function finishedBefore(tables: Tables, beforeMs: number): readonly TaskId[] {
  return [...tables.tasks.values()]
    .filter((task) => !needsLook(task) && (settledAtMs(task) ?? beforeMs) < beforeMs)
    .sort(oldestSettlementFirst)
    .map((task) => task.handle.taskId);
}

export function dueNotices(tables: Tables, nowMs: number, limit: number): readonly Notice[] {
  return [...tables.notices.values()]
    .filter(({ dueAtMs }) => dueAtMs <= nowMs)
    .sort((one, other) => one.dueAtMs - other.dueAtMs || (one.noticeId < other.noticeId ? -1 : 1))
    .slice(0, pageSize(limit));
}

export function nextNoticeAtMs(tables: Tables): number | null {
  let next: number | null = null;
  for (const { dueAtMs } of tables.notices.values()) next = Math.min(next ?? dueAtMs, dueAtMs);
  return next;
}

export function countByStatus(tables: Tables): Record<Status, number> {
  const counts = { working: 0, input_required: 0, completed: 0, failed: 0, cancelled: 0 };
  for (const task of tables.tasks.values()) counts[statusOf(task)] += 1;
  return counts;
}

export function milestonesAfter(
  tables: Tables,
  taskId: TaskId,
  after: number,
  limit: number,
): readonly NumberedEvent[] {
  const numbered = (tables.events.get(taskId) ?? []).map((event, index) => ({ number: index + 1, event }));
  const found = numbered.filter(({ number, event }) => number > after && event.kind !== "ProgressRecorded");
  return found.slice(0, pageSize(limit));
}

export function eventsAfter(tables: Tables, taskId: TaskId, after: number, limit: number): readonly NumberedEvent[] {
  const events = (tables.events.get(taskId) ?? []).slice(after, after + pageSize(limit));
  return events.map((event, index) => ({ number: after + index + 1, event }));
}

/** Oldest settlement first. */
export function pendingTasks(tables: Tables, query: PendingQuery): PendingPage {
  const unread = [...tables.tasks.values()].filter((task) => isUnread(task) && isToldOf(task, query));
  const tasks = unread
    .filter((task) => query.conversation === null || task.origin.conversation === query.conversation)
    .filter((task) => showingsOf(tables, task) < query.shownMax)
    .sort(oldestSettlementFirst)
    .slice(0, pageSize(query.limit));
  return { tasks, count: unread.length };
}

/** Who is told that a task has settled: whoever delegated it. */
function isToldOf({ origin }: Task, { caller, parentTaskId }: PendingQuery): boolean {
  return origin.caller === caller && origin.parentTaskId === parentTaskId;
}

function showingsOf(tables: Tables, task: Task): number {
  return tables.shown.get(settlementKey(task.handle.taskId, task.settlements)) ?? 0;
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
