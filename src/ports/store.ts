/**
 * Where the truth is kept.
 *
 * Invariant: what `write` resolves with is durable: committed and synced before the promise settles (P4).
 * Invariant: works handed over within one turn of the event loop may share a commit, yet each is all or nothing: one that
 * throws leaves no trace and does not touch the others.
 * Invariant: a task's row is replaced only by the holder of its newest version (`appended` false otherwise).
 */

import type { Reach } from "../core/caller.ts";
import type { ClaimHolder } from "../core/command.ts";
import type { TaskEvent } from "../core/event.ts";
import type { TaskId, ThreadId } from "../core/ids.ts";
import type { Status, Task } from "../core/task.ts";

export type Store = AsyncDisposable & {
  /** Runs `work` in one transaction. It may await only `tx`. Rejects with what `work` threw, or with StorageTrouble. */
  write<T>(work: (tx: StoreWriter) => Promise<T>): Promise<T>;
  task(taskId: TaskId): Promise<Task | null>;
  /** Tasks by id within a reach; what is outside of it and what does not exist are left out alike (P16). */
  tasks(taskIds: readonly TaskId[], reach: Reach): Promise<readonly Task[]>;
  taskIdOfThread(threadId: ThreadId): Promise<TaskId | null>;
  receipt(key: ReceiptKey): Promise<Receipt | null>;
  list(query: TaskQuery): Promise<TaskPage>;
  /** Tasks that a supervisor has to look at: everything not settled, and settled ones with a residue. Oldest first. */
  unfinished(): Promise<readonly Task[]>;
  /** Tasks below the one at the end of this path that are unfinished, in any order. */
  unfinishedBelow(path: readonly TaskId[]): Promise<readonly Task[]>;
  /** Tasks that settled before this moment and are stopped, oldest settlement first: what retention may purge. */
  settledBefore(beforeMs: number, limit: number): Promise<readonly TaskId[]>;
  /** Those of `settledBefore` that still have a transcript. */
  transcriptsSettledBefore(beforeMs: number, limit: number): Promise<readonly TaskId[]>;
  /** Unacknowledged settlements for `pendingCompletions`, oldest first. */
  pending(query: PendingQuery): Promise<PendingPage>;
  /** Body of a text, or null after retention. */
  text(taskId: TaskId, name: string): Promise<string | null>;
  /** Events in order after number `after`, at most `limit`. */
  events(taskId: TaskId, after: number, limit: number): Promise<readonly NumberedEvent[]>;
  /** The same without signs of life (`ProgressRecorded`), in constant time however many there are between. */
  milestones(taskId: TaskId, after: number, limit: number): Promise<readonly NumberedEvent[]>;
  /**
   * Transcript entries numbered above `after`, in order, at most `limit` and about `bytesMax` bytes of text (at least one entry
   * if there is one). Numbers rise without a gap but where entries were dropped for the cap: such a gap is its entry's `dropped`.
   */
  transcript(taskId: TaskId, after: number, limit: number, bytesMax: number): Promise<readonly TranscriptEntry[]>;
  counts(): Promise<Readonly<Record<Status, number>>>;
  /** Notices that are due, oldest first. */
  dueNotices(nowMs: number, limit: number): Promise<readonly Notice[]>;
  /** When the next notice is due; null if there is none. */
  nextNoticeAtMs(): Promise<number | null>;
  /** True while writes succeed; false after one failed for want of the storage (contract §12). */
  healthy(): boolean;
};

export type StoreWriter = {
  task(taskId: TaskId): Promise<Task | null>;
  receipt(key: ReceiptKey): Promise<Receipt | null>;
  putReceipt(receipt: Receipt): Promise<void>;
  /**
   * Appends events after `expectedVersion` and replaces the snapshot. False if somebody else was first; nothing is
   * written then. `texts` are stored under their names in the same transaction.
   */
  append(change: TaskChange): Promise<boolean>;
  claimHolder(path: string, caller: string): Promise<ClaimHolder | null>;
  putClaim(claim: Claim): Promise<void>;
  hasClaim(taskId: TaskId): Promise<boolean>;
  dropClaim(taskId: TaskId): Promise<void>;
  /** Tasks below the one at the end of this path that are unfinished. */
  unfinishedBelow(path: readonly TaskId[]): Promise<readonly Task[]>;
  /**
   * Adds to a task's transcript. Beyond `bytesMax` bytes of text the oldest entries after the first half of it are dropped, so
   * that beginning and end are kept and the gap is marked. Nothing if the task does not exist.
   */
  appendTranscript(taskId: TaskId, entries: readonly NewTranscriptEntry[], bytesMax: number): Promise<void>;
  dropTranscript(taskId: TaskId): Promise<void>;
  /** Puts notices into the outbox; an equal id is there already and stays as it is. */
  putNotices(notices: readonly Notice[]): Promise<void>;
  /** Takes a notice out of the outbox: delivered, or given up. */
  dropNotice(noticeId: string): Promise<void>;
  /** Sets when it is tried again. */
  delayNotice(noticeId: string, dueAtMs: number): Promise<void>;
  /** Counts for the limits of a delegation, read inside the transaction. */
  load(query: LoadQuery): Promise<Load>;
  /** Counts one showing of each of these settlements in `pendingCompletions`. */
  countShown(shown: readonly { readonly taskId: TaskId; readonly settlement: number }[]): Promise<void>;
  /** Removes a task's data but keeps its receipts, so that a late repeat is `expired_receipt`, never a new child. */
  purge(taskId: TaskId): Promise<void>;
  /**
   * Removes receipts of purged tasks whose last settlement was before this moment, those of the `limit` oldest; resolves
   * with how many.
   */
  forgetReceipts(settledBeforeMs: number, limit: number): Promise<number>;
};

export type TaskChange = {
  readonly task: Task;
  readonly events: readonly TaskEvent[];
  /** Version that the events follow; 0 creates the task. */
  readonly expectedVersion: number;
  readonly texts: readonly { readonly name: string; readonly body: string }[];
};

/** Key space of contract §3. */
export type ReceiptKey = {
  readonly caller: string;
  /** Parent task, or null for the root caller. */
  readonly parentTaskId: TaskId | null;
  readonly tool: string;
  /** The continued task, for `task_continue`; else null. */
  readonly aboutTaskId: TaskId | null;
  readonly clientRequestId: string;
};

export type Receipt = ReceiptKey & {
  readonly fingerprint: string;
  readonly fingerprintVersion: number;
  /** Digest of each field as sent, to name the ones that differ. */
  readonly fieldDigests: Readonly<Record<string, string>>;
  readonly taskId: TaskId;
  readonly childThreadId: ThreadId;
  readonly createdAtMs: number;
};

/** `path` is a real path; two claims overlap if one path is the other or lies below it. */
export type Claim = {
  readonly taskId: TaskId;
  readonly caller: string;
  readonly path: string;
  readonly sinceMs: number;
};

export type TranscriptRole = "child" | "tool" | "note";

export type NewTranscriptEntry = { readonly role: TranscriptRole; readonly atMs: number; readonly text: string };

export type TranscriptEntry = NewTranscriptEntry & {
  /** 1, 2, … within the task. */
  readonly number: number;
  /** What was dropped right before this entry; null if nothing was. */
  readonly dropped: { readonly entries: number; readonly bytes: number } | null;
};

/** One settlement on its way to one notifier (contract §11). */
export type Notice = {
  /** `<taskId>:<settlement>:<target>`: the same notice is never put twice. */
  readonly noticeId: string;
  readonly taskId: TaskId;
  readonly settlement: number;
  readonly status: Status;
  /** Name of the notifier. */
  readonly target: string;
  readonly settledAtMs: number;
  readonly dueAtMs: number;
  /** Deliveries that failed; counted up by `delayNotice`. */
  readonly tries: number;
};

export type TaskQuery = Reach & {
  readonly open: boolean;
  /** Settled and not acknowledged. */
  readonly unread: boolean;
  readonly conversation: string | null;
  readonly status: Status | null;
  /** Children of this task; `root`: tasks without a parent; null: all. */
  readonly parentTaskId: TaskId | "root" | null;
  /** Ids that begin with this, for prefixes on the command line. */
  readonly idPrefix: string | null;
  readonly limit: number;
  /** `taskId` after which (older) the page begins; null = newest. */
  readonly before: TaskId | null;
};

export type TaskPage = { readonly tasks: readonly Task[]; readonly more: boolean };

/** Settlements of tasks that this caller delegated itself: as root (`parentTaskId` null) or as the child of that task. */
export type PendingQuery = {
  readonly caller: string;
  readonly parentTaskId: TaskId | null;
  readonly conversation: string | null;
  readonly shownMax: number;
  readonly limit: number;
};

export type PendingPage = {
  readonly tasks: readonly Task[];
  /** All unacknowledged settlements of the caller, the listed ones included. */
  readonly count: number;
};

export type NumberedEvent = { readonly number: number; readonly event: TaskEvent };

export type LoadQuery = { readonly caller: string; readonly rootTaskId: TaskId | null; readonly sinceMs: number };
export type Load = {
  readonly openTasks: number;
  readonly tasksInTree: number;
  readonly delegationsSince: number;
};

/** Thrown by a Store when the storage itself fails (disk full, read-only, gone); everything else thrown is a defect. */
export type StorageTrouble = Error & { readonly storageCode: string };
