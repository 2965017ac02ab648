/**
 * What one work has written and nobody else sees yet.
 *
 * Invariant: until `commit` the tables are as they were; a draft that is dropped has done nothing.
 * Invariant: a work that goes on using its transaction after it has ended is refused, as it is by a real store.
 */

import { assert } from "../core/assert.ts";
import type { ClaimHolder } from "../core/command.ts";
import type { TaskEvent } from "../core/event.ts";
import type { TaskId } from "../core/ids.ts";
import type { Task } from "../core/task.ts";
import { overlaps } from "../core/workspace-claim.ts";
import type { Claim, Load, LoadQuery, Notice, Receipt, StoreWriter, TaskChange } from "../ports/store.ts";
import {
  frozen,
  receiptKeyOf,
  type StoredReceipt,
  settlementKey,
  type Tables,
  unfinishedBelow,
} from "./memory-tables.ts";
import { extended, type Transcript } from "./memory-transcript.ts";
import { isOpen as isTaskOpen, isUnread, needsLook, settledAtMs } from "./task-flags.ts";
import { pageSize } from "./task-list.ts";

export type Draft = {
  readonly tx: StoreWriter;
  /** Ends the draft: later calls on `tx` are refused. */
  end(): void;
  commit(): void;
};

/** Null in a map: taken away. */
type Changes = {
  readonly tasks: Map<TaskId, Task | null>;
  readonly events: { readonly taskId: TaskId; readonly event: TaskEvent }[];
  readonly texts: { readonly taskId: TaskId; readonly name: string; readonly body: string }[];
  readonly receipts: Map<string, StoredReceipt | null>;
  readonly claims: Map<TaskId, Claim | null>;
  readonly shown: string[];
  readonly transcripts: Map<TaskId, Transcript | null>;
  readonly notices: Map<string, Notice | null>;
};

export function createDraft(tables: Tables): Draft {
  const changes: Changes = {
    tasks: new Map(),
    events: [],
    texts: [],
    receipts: new Map(),
    claims: new Map(),
    shown: [],
    transcripts: new Map(),
    notices: new Map(),
  };
  let isOpen = true;
  const taskOf = (taskId: TaskId): Task | null => seen(tables.tasks, changes.tasks, taskId);
  const within = <Args extends readonly unknown[], Result>(call: (...args: Args) => Result) => {
    return async (...args: Args): Promise<Result> => {
      assert(isOpen, "a transaction is not used after its work has ended");
      return call(...args);
    };
  };
  return {
    tx: {
      task: within(taskOf),
      receipt: within((key) => seen(tables.receipts, changes.receipts, receiptKeyOf(key))?.receipt ?? null),
      putReceipt: within((receipt) => putReceipt(tables, changes, receipt)),
      append: within((change) => append(changes, taskOf(change.task.handle.taskId), change)),
      claimHolder: within((path, caller) => {
        const claims = merged(tables.claims, changes.claims).filter((claim) => overlaps(claim.path, path));
        return holderOf(claims, caller, taskOf);
      }),
      putClaim: within((claim) => {
        assert(taskOf(claim.taskId) !== null, "a claim belongs to a task");
        changes.claims.set(claim.taskId, frozen(claim));
      }),
      hasClaim: within((taskId) => seen(tables.claims, changes.claims, taskId) !== null),
      dropClaim: within((taskId) => void changes.claims.set(taskId, null)),
      unfinishedBelow: within((path) => unfinishedBelow(merged(tables.tasks, changes.tasks), path)),
      appendTranscript: within((taskId, entries, bytesMax) => {
        if (taskOf(taskId) === null || entries.length === 0) return;
        const before = seen(tables.transcripts, changes.transcripts, taskId);
        changes.transcripts.set(taskId, frozen(extended(before, entries, bytesMax)));
      }),
      dropTranscript: within((taskId) => void changes.transcripts.set(taskId, null)),
      putNotices: within((notices) => {
        for (const notice of notices) {
          assert(taskOf(notice.taskId) !== null, "a notice belongs to a task");
          putNotice(tables, changes, notice);
        }
      }),
      dropNotice: within((noticeId) => void changes.notices.set(noticeId, null)),
      delayNotice: within((noticeId, dueAtMs) => delayNotice(tables, changes, { noticeId, dueAtMs })),
      load: within((query) => load(merged(tables.tasks, changes.tasks), query)),
      countShown: within((shown) => {
        for (const { taskId, settlement } of shown) changes.shown.push(settlementKey(taskId, settlement));
      }),
      purge: within((taskId) => purge(tables, changes, taskOf(taskId))),
      forgetReceipts: within((settledBeforeMs, limit) => forgetReceipts(tables, changes, settledBeforeMs, limit)),
    },
    end() {
      isOpen = false;
    },
    commit: () => commit(tables, changes),
  };
}

function putReceipt(tables: Tables, changes: Changes, receipt: Receipt): void {
  const key = receiptKeyOf(receipt);
  assert(seen(tables.receipts, changes.receipts, key) === null, "a key has one receipt");
  changes.receipts.set(key, { receipt: frozen(receipt), settledMs: null });
}

function append(changes: Changes, current: Task | null, change: TaskChange): boolean {
  const { task, events, expectedVersion, texts } = change;
  const { taskId } = task.handle;
  assert(task.version === expectedVersion + events.length, "a task's version counts its events");
  if ((current?.version ?? 0) !== expectedVersion) return false;
  changes.tasks.set(taskId, frozen(task));
  for (const event of events) changes.events.push({ taskId, event: frozen(event) });
  // A text is stored as UTF-8, which has no half characters.
  for (const { name, body } of texts) changes.texts.push({ taskId, name, body: body.toWellFormed() });
  return true;
}

function putNotice(tables: Tables, changes: Changes, notice: Notice): void {
  const { noticeId } = notice;
  if (seen(tables.notices, changes.notices, noticeId) === null) changes.notices.set(noticeId, frozen(notice));
}

function delayNotice(tables: Tables, changes: Changes, delay: Pick<Notice, "noticeId" | "dueAtMs">): void {
  const notice = seen(tables.notices, changes.notices, delay.noticeId);
  if (notice === null) return;
  changes.notices.set(delay.noticeId, frozen({ ...notice, ...delay, tries: notice.tries + 1 }));
}

function holderOf(claims: Claim[], caller: string, taskOf: (taskId: TaskId) => Task | null): ClaimHolder | null {
  const [claim] = claims.sort((one, other) => one.sinceMs - other.sinceMs || (one.taskId < other.taskId ? -1 : 1));
  const task = claim === undefined ? null : taskOf(claim.taskId);
  if (claim === undefined || task === null) return null;
  if (claim.caller !== caller) return { mine: false, sinceMs: claim.sinceMs };
  return { mine: true, handle: task.handle, sinceMs: claim.sinceMs };
}

function load(tasks: readonly Task[], query: LoadQuery): Load {
  const { caller, rootTaskId, sinceMs } = query;
  return {
    openTasks: tasks.filter(isTaskOpen).length,
    tasksInTree: tasks.filter(({ origin }) => origin.parentTaskId !== null && origin.rootTaskId === rootTaskId).length,
    delegationsSince: tasks.filter((task) => task.origin.caller === caller && task.createdAtMs >= sinceMs).length,
  };
}

function purge(tables: Tables, changes: Changes, task: Task | null): void {
  if (task === null) return;
  const settledMs = settledAtMs(task);
  assert(!needsLook(task) && settledMs !== null, "only a task that is settled and stopped is purged");
  const { taskId } = task.handle;
  for (const { receipt } of merged(tables.receipts, changes.receipts)) {
    if (receipt.taskId === taskId) changes.receipts.set(receiptKeyOf(receipt), { receipt, settledMs });
  }
  changes.tasks.set(taskId, null);
  changes.claims.set(taskId, null);
  changes.transcripts.set(taskId, null);
  for (const notice of merged(tables.notices, changes.notices)) {
    if (notice.taskId === taskId) changes.notices.set(notice.noticeId, null);
  }
}

function forgetReceipts(tables: Tables, changes: Changes, settledBeforeMs: number, limit: number): number {
  const tombstones = merged(tables.receipts, changes.receipts)
    .flatMap(({ receipt, settledMs }) => (settledMs === null ? [] : [{ receipt, settledMs }]))
    .filter(({ settledMs }) => settledMs < settledBeforeMs)
    .sort((one, other) => one.settledMs - other.settledMs || (one.receipt.taskId < other.receipt.taskId ? -1 : 1))
    .slice(0, pageSize(limit));
  for (const { receipt } of tombstones) changes.receipts.set(receiptKeyOf(receipt), null);
  return tombstones.length;
}

function commit(tables: Tables, changes: Changes): void {
  for (const [taskId, task] of changes.tasks) {
    if (task === null) forget(tables, taskId);
    else {
      tables.tasks.set(taskId, task);
      tables.threads.set(task.handle.childThreadId, taskId);
      if (!isUnread(task)) tables.shown.delete(settlementKey(taskId, task.settlements));
    }
  }
  for (const { taskId, event } of changes.events) {
    if (!tables.tasks.has(taskId)) continue;
    const events = tables.events.get(taskId);
    if (events === undefined) tables.events.set(taskId, [event]);
    else events.push(event);
  }
  for (const { taskId, name, body } of changes.texts) {
    if (!tables.tasks.has(taskId)) continue;
    const texts = tables.texts.get(taskId);
    if (texts === undefined) tables.texts.set(taskId, new Map([[name, body]]));
    else texts.set(name, body);
  }
  apply(tables.receipts, changes.receipts);
  apply(tables.claims, changes.claims);
  apply(tables.transcripts, changes.transcripts);
  apply(tables.notices, changes.notices);
  for (const key of changes.shown) tables.shown.set(key, (tables.shown.get(key) ?? 0) + 1);
}

function forget(tables: Tables, taskId: TaskId): void {
  const task = tables.tasks.get(taskId);
  if (task === undefined) return;
  tables.tasks.delete(taskId);
  tables.threads.delete(task.handle.childThreadId);
  tables.events.delete(taskId);
  tables.texts.delete(taskId);
  tables.shown.delete(settlementKey(taskId, task.settlements));
}

function apply<Key, Value>(table: Map<Key, Value>, changes: ReadonlyMap<Key, Value | null>): void {
  for (const [key, value] of changes) {
    if (value === null) table.delete(key);
    else table.set(key, value);
  }
}

/** A row as the draft sees it. */
function seen<Key, Value>(
  table: ReadonlyMap<Key, Value>,
  changes: ReadonlyMap<Key, Value | null>,
  key: Key,
): Value | null {
  const changed = changes.get(key);
  return changed === undefined ? (table.get(key) ?? null) : changed;
}

/** All rows as the draft sees them. */
function merged<Key, Value>(table: ReadonlyMap<Key, Value>, changes: ReadonlyMap<Key, Value | null>): Value[] {
  const rows: Value[] = [];
  for (const [key, value] of table) if (!changes.has(key)) rows.push(value);
  for (const value of changes.values()) if (value !== null) rows.push(value);
  return rows;
}
