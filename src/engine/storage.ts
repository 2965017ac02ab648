/**
 * Storage trouble as an answer (contract §12).
 */

import type { Rejection } from "../core/rejection.ts";
import type { StorageTrouble } from "../ports/store.ts";

export function isStorageTrouble(error: unknown): error is StorageTrouble {
  return error instanceof Error && "storageCode" in error && typeof error.storageCode === "string";
}

/** A refusal for what went wrong: the storage by name, everything else as `internal`. */
export function rejectionOf(error: unknown): Rejection {
  const code = isStorageTrouble(error) ? "storage_unavailable" : "internal";
  const detail = isStorageTrouble(error) ? { storageCode: error.storageCode } : {};
  return { kind: "rejection", code, next: { kind: "repeat_same_call" }, detail };
}
