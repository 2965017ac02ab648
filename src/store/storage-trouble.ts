/**
 * The one error that a store may raise: the storage itself failed (contract §12). Everything else thrown is a defect.
 *
 * Invariant: `storageCode` is one of the names below; callers decide by it, never by a message.
 */

import type { StorageTrouble } from "../ports/store.ts";

export type StorageCode =
  /** No space, no quota, or the page limit of the database. */
  | "disk_full"
  | "read_only"
  | "io_error"
  /** Another program held the database's write lock for longer than the busy time. */
  | "busy"
  | "corrupt"
  | "gone"
  | "no_memory"
  /** More works wait for a commit than the queue takes. */
  | "queue_full"
  /** The store was closed. */
  | "closed"
  /** A simulated crash of the memory store. */
  | "crashed"
  /** A record of a form that this version does not know; nothing is guessed. */
  | "unknown_version"
  | "malformed_record"
  /** The database does not take a setting that a durable commit needs. */
  | "not_durable"
  /** A commit failed in a way that has no name of its own. */
  | "commit_failed";

export function storageTrouble(storageCode: StorageCode, detail: string, cause?: unknown): StorageTrouble {
  const message = `storage trouble (${storageCode}): ${detail}`;
  return Object.assign(cause === undefined ? new Error(message) : new Error(message, { cause }), { storageCode });
}

export function isStorageTrouble(error: unknown): error is StorageTrouble {
  return error instanceof Error && "storageCode" in error && typeof error.storageCode === "string";
}

/** The message of anything thrown. */
export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
