/**
 * Refusals: expected answers, with a code that is never reused and what the caller can do next.
 *
 * Invariant: a refusal leaves nothing behind; the same key may be sent again (contract §3).
 * Absent on purpose: sentences; see `mcp/wording.ts`.
 */

import type { Handle } from "./ids.ts";
import type { NextStep } from "./next-step.ts";
import type { Status } from "./task.ts";

export const CODES = [
  "missing_client_request_id",
  "invalid_arguments",
  "idempotency_conflict",
  "expired_receipt",
  "duplicate_work",
  "workspace_busy",
  "workspace_not_allowed",
  "workspace_failed",
  "unknown_task",
  "unknown_thread",
  "unknown_agent",
  "agent_unavailable",
  "permission_limit",
  "not_allowed",
  "not_pending",
  "depth_limit",
  "tree_limit",
  "capacity_full",
  "rate_limit",
  "storage_unavailable",
  "stopping",
  "internal",
] as const;
export type Code = (typeof CODES)[number];

/** True if the same call can succeed later without being changed. */
export const RETRYABLE: Readonly<Record<Code, boolean>> = {
  missing_client_request_id: false,
  invalid_arguments: false,
  idempotency_conflict: false,
  expired_receipt: false,
  duplicate_work: false,
  workspace_busy: true,
  workspace_not_allowed: false,
  workspace_failed: false,
  unknown_task: false,
  unknown_thread: false,
  unknown_agent: false,
  agent_unavailable: true,
  permission_limit: false,
  not_allowed: false,
  not_pending: false,
  depth_limit: false,
  tree_limit: false,
  capacity_full: true,
  rate_limit: true,
  storage_unavailable: true,
  stopping: true,
  internal: true,
};

export type Rejection = {
  readonly kind: "rejection";
  readonly code: Code;
  readonly next: NextStep;
  /** What to tell: facts for the sentence, all of ours or of the caller's own words, never a child's. */
  readonly detail: Readonly<Record<string, string | number | readonly string[]>>;
  /** Names of the fields that differ (`idempotency_conflict`). */
  readonly differing?: readonly string[];
  readonly related?: Related;
};

/** Another task that a refusal names; another caller's holder shows only since when. */
export type Related =
  | (Handle & { readonly mine: true; readonly status: Status; readonly title: string; readonly ageMs: number })
  | { readonly mine: false; readonly sinceMs: number };
