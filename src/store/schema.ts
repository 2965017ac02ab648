/**
 * The tables as Kysely sees them. What each is for, and who writes it.
 *
 * Invariant: one schema for every database: text for ids, names and JSON, integers for times (ms since the epoch), counts
 * and flags (0 or 1). Orders and ranges over text mean the order of bytes (SQLite's default; `COLLATE "C"` on Postgres).
 * Invariant: a table's columns change only by a new migration.
 * Absent on purpose: foreign keys from receipts, which outlive their task.
 */

import type { Generated } from "kysely";
import type { Status } from "../core/task.ts";
import type { TranscriptRole } from "../ports/store.ts";

export type Schema = {
  readonly tasks: TaskColumns & TranscriptFlag;
  readonly events: EventColumns;
  readonly texts: TextColumns;
  readonly receipts: ReceiptColumns;
  readonly claims: ClaimColumns;
  readonly announcements: AnnouncementColumns;
  readonly unread_counts: UnreadCountColumns;
  readonly transcript_totals: TranscriptTotalsColumns;
  readonly transcript: TranscriptColumns;
  readonly notices: NoticeColumns;
  readonly meta: MetaColumns;
};

/** The newest snapshot of a task; the columns beside it are what rows are found by. */
export type TaskColumns = {
  readonly task_id: string;
  readonly thread_id: string;
  readonly caller: string;
  readonly conversation: string | null;
  readonly parent_id: string | null;
  readonly root_id: string;
  /** Ids of the tasks above, root first, each followed by "/": what is below a task is a range. Null without a parent. */
  readonly lineage: string | null;
  readonly status: string;
  /** Not settled. */
  readonly is_open: number;
  /** Settled and not acknowledged. */
  readonly is_unread: number;
  /** Not settled, or settled with processes that are not proven gone. */
  readonly needs_look: number;
  readonly created_ms: number;
  readonly settled_ms: number | null;
  /** Number of the newest event; every replacement names the one it follows. */
  readonly version: number;
  readonly snapshot: string;
};

/** Kept beside the task by the writer of transcripts, for their retention. */
type TranscriptFlag = { readonly has_transcript: Generated<number> };

/** Append only; `number` counts 1, 2, … within a task. */
export type EventColumns = {
  readonly task_id: string;
  readonly number: number;
  readonly body: string;
};

/** Prompts, results and messages, apart from the snapshot so that a snapshot stays small. */
export type TextColumns = {
  readonly task_id: string;
  readonly name: string;
  readonly body: string;
};

/** The key space of contract §3; `parent_id` and `about_id` are "" where there is none, so that the key is unique. */
export type ReceiptColumns = {
  readonly caller: string;
  readonly client_request_id: string;
  readonly tool: string;
  readonly parent_id: string;
  readonly about_id: string;
  readonly fingerprint: string;
  readonly fingerprint_version: number;
  readonly field_digests: string;
  readonly task_id: string;
  readonly thread_id: string;
  readonly created_ms: number;
  /** Last settlement of a task whose data are purged: the receipt is a tombstone from then on. Else null. */
  readonly settled_ms: number | null;
};

/** A child's right to write at and below a path. */
export type ClaimColumns = {
  readonly task_id: string;
  readonly caller: string;
  readonly path: string;
  readonly since_ms: number;
};

/** One row for each unread task: how often its settlement stood in `pendingCompletions`. */
export type AnnouncementColumns = {
  readonly task_id: string;
  readonly settlement: number;
  readonly caller: string;
  /** The task whose child delegated it; "" for the root caller. With `caller`, the audience. */
  readonly parent_id: string;
  readonly conversation: string | null;
  readonly shown: number;
  readonly settled_ms: number;
};

/** How many announcements an audience has, kept so that every answer can say it in constant time. No row: none. */
export type UnreadCountColumns = {
  readonly caller: string;
  readonly parent_id: string;
  readonly unread: number;
};

/** What appending to a transcript has to know of it; see `transcript-cap`. */
export type TranscriptTotalsColumns = {
  readonly task_id: string;
  readonly last_number: number;
  /** UTF-8 bytes of the text that is there. */
  readonly bytes: number;
  /** Last entry of the beginning, which is never dropped, and the bytes up to it. */
  readonly head_number: number;
  readonly head_bytes: number;
};

/** What a child said and did, entry by entry; `number` counts 1, 2, … within a task. */
export type TranscriptColumns = {
  readonly task_id: string;
  readonly number: number;
  readonly role: TranscriptRole;
  readonly at_ms: number;
  /** UTF-8 bytes of `body`. */
  readonly bytes: number;
  /** Entries dropped right before this one, and their bytes. */
  readonly dropped_entries: number;
  readonly dropped_bytes: number;
  readonly body: string;
};

/** The outbox: settlements on their way to notifiers. */
export type NoticeColumns = {
  readonly notice_id: string;
  readonly task_id: string;
  readonly settlement: number;
  readonly status: Status;
  readonly target: string;
  readonly settled_ms: number;
  readonly due_ms: number;
  readonly tries: number;
};

/** Facts about the database itself. */
export type MetaColumns = {
  readonly name: string;
  readonly value: string;
};
