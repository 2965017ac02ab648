/**
 * Records as JSON text, and back. The one place in the store that asserts types.
 *
 * Invariant: every record carries the version of its form. Older forms are lifted step by step by upcasters; an unknown
 * version or a broken record is refused by name, never guessed at.
 * Invariant: whatever tells one task from another (ids, version, state, owner) is checked on every read; the rest of a
 * record of a known version is trusted, because only this file writes it.
 * Absent on purpose: texts, which are stored as they are.
 */

import type { TaskEvent, TaskEventKind } from "../core/event.ts";
import { nodeIdOf, parseId, type TaskId, type ThreadId } from "../core/ids.ts";
import type { Task, TaskState } from "../core/task.ts";
import type { Receipt } from "../ports/store.ts";
import { isRecord } from "./json-record.ts";
import { EVENT_UPCASTERS, TASK_UPCASTERS, type Upcasters } from "./older-forms.ts";
import type { ReceiptColumns } from "./schema.ts";

export type Decoded<Value> =
  | { readonly kind: "ok"; readonly value: Value }
  | { readonly kind: "refused"; readonly reason: "unknown_version" | "malformed_record"; readonly detail: string };

/** Raised when the form of either record changes, together with an upcaster from the form before. */
const TASK_FORM = { newest: 2, upcasters: TASK_UPCASTERS } as const;
const EVENT_FORM = { newest: 2, upcasters: EVENT_UPCASTERS } as const;

/** Newest forms that this version writes; a database that holds a newer one is not opened. */
export const RECORD_VERSIONS = { task: TASK_FORM.newest, event: EVENT_FORM.newest } as const;

export function encodeTask(task: Task): string {
  return wrap(TASK_FORM.newest, task);
}

export function decodeTask(text: string): Decoded<Task> {
  const record = unwrap(text, TASK_FORM.newest, TASK_FORM.upcasters);
  if (record.kind === "refused") return record;
  const flaw = flawOfTask(record.value);
  return flaw === null ? { kind: "ok", value: record.value as Task } : malformed(`task: ${flaw}`);
}

export function encodeEvent(event: TaskEvent): string {
  return wrap(EVENT_FORM.newest, event);
}

export function decodeEvent(text: string): Decoded<TaskEvent> {
  const record = unwrap(text, EVENT_FORM.newest, EVENT_FORM.upcasters);
  if (record.kind === "refused") return record;
  const event = record.value;
  if (!isRecord(event) || !Number.isFinite(event["atMs"])) return malformed("event: atMs");
  const kind = event["kind"];
  if (typeof kind !== "string" || !Object.hasOwn(EVENT_KINDS, kind)) return malformed(`event: kind ${String(kind)}`);
  return { kind: "ok", value: event as TaskEvent };
}

export function encodeReceipt(receipt: Receipt): ReceiptColumns {
  return {
    caller: receipt.caller,
    client_request_id: receipt.clientRequestId,
    tool: receipt.tool,
    parent_id: receipt.parentTaskId ?? "",
    about_id: receipt.aboutTaskId ?? "",
    fingerprint: receipt.fingerprint,
    fingerprint_version: receipt.fingerprintVersion,
    field_digests: JSON.stringify(receipt.fieldDigests),
    task_id: receipt.taskId,
    thread_id: receipt.childThreadId,
    created_ms: receipt.createdAtMs,
    settled_ms: null,
  };
}

export function decodeReceipt(row: ReceiptColumns): Decoded<Receipt> {
  const fieldDigests = parsed(row.field_digests);
  if (!isRecord(fieldDigests) || !Object.values(fieldDigests).every(isText)) return malformed("receipt: field digests");
  return {
    kind: "ok",
    value: {
      caller: row.caller,
      parentTaskId: row.parent_id === "" ? null : storedTaskId(row.parent_id),
      tool: row.tool,
      aboutTaskId: row.about_id === "" ? null : storedTaskId(row.about_id),
      clientRequestId: row.client_request_id,
      fingerprint: row.fingerprint,
      fingerprintVersion: row.fingerprint_version,
      fieldDigests: fieldDigests as Record<string, string>,
      taskId: storedTaskId(row.task_id),
      childThreadId: storedThreadId(row.thread_id),
      createdAtMs: row.created_ms,
    },
  };
}

/** An id out of a column that only this store fills. */
export function storedTaskId(text: string): TaskId {
  return text as TaskId;
}

/** An id out of a column that only this store fills. */
export function storedThreadId(text: string): ThreadId {
  return text as ThreadId;
}

/** Opens an envelope and lifts what is in it to `newest`. Exported for the forms of other records and for tests. */
export function unwrap(text: string, newest: number, upcasters: Upcasters): Decoded<unknown> {
  const envelope = parsed(text);
  if (!isRecord(envelope)) return malformed("not an envelope");
  const version = envelope["v"];
  if (typeof version !== "number" || !Number.isInteger(version) || version < 1) return malformed("no version");
  if (version > newest) return unknown(version, newest);
  let record = envelope["record"];
  for (let from = version; from < newest; from++) {
    const lift = upcasters[from];
    if (lift === undefined) return unknown(version, newest);
    record = lift(record);
  }
  return { kind: "ok", value: record };
}

export function wrap(version: number, record: unknown): string {
  return JSON.stringify({ v: version, record });
}

/** What is wrong with a task, or null. */
function flawOfTask(task: unknown): string | null {
  if (!isRecord(task)) return "not an object";
  const { handle, origin, spec, state, version } = task;
  if (!isHandle(handle)) return "handle";
  if (!Number.isInteger(version)) return "version";
  if (!isRecord(origin) || !isText(origin["caller"])) return "origin";
  if (!isRecord(state) || !isText(state["kind"]) || !Object.hasOwn(STATE_KINDS, state["kind"])) return "state";
  return isRecord(spec) ? null : "spec";
}

function isHandle(handle: unknown): boolean {
  if (!isRecord(handle)) return false;
  const { taskId, childThreadId, nodeId } = handle;
  if (!isText(taskId) || !isText(childThreadId) || parseId(childThreadId).kind !== "thread") return false;
  const id = parseId(taskId);
  return id.kind === "task" && id.taskId === taskId && nodeId === nodeIdOf(id.taskId);
}

// Records instead of lists, so that the compiler asks for a new kind here.
const STATE_KINDS: Readonly<Record<TaskState["kind"], true>> = {
  queued: true,
  running: true,
  awaiting_answer: true,
  stopping: true,
  settled: true,
};

const EVENT_KINDS: Readonly<Record<TaskEventKind, true>> = {
  TaskAccepted: true,
  RunQueued: true,
  AttemptStarted: true,
  ChildBound: true,
  ProgressRecorded: true,
  InputRequested: true,
  InputAnswered: true,
  InputExpired: true,
  AttemptSucceeded: true,
  AttemptFailed: true,
  AttemptLost: true,
  AttemptAdopted: true,
  RetryScheduled: true,
  StallBegan: true,
  StallEnded: true,
  SleepForgiven: true,
  MessageQueued: true,
  TaskReopened: true,
  CancelRequested: true,
  LateResultKept: true,
  AttemptStopped: true,
  SurvivorsFound: true,
  TaskSettled: true,
  DeliveryAcked: true,
};

function parsed(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return undefined;
  }
}

function malformed(detail: string): { kind: "refused"; reason: "malformed_record"; detail: string } {
  return { kind: "refused", reason: "malformed_record", detail };
}

function unknown(version: number, newest: number): { kind: "refused"; reason: "unknown_version"; detail: string } {
  return {
    kind: "refused",
    reason: "unknown_version",
    detail: `version ${version}; this program knows up to ${newest}`,
  };
}

function isText(value: unknown): value is string {
  return typeof value === "string";
}
