/**
 * From what a driver saw to what it means: one table, read top down.
 *
 * Invariant: text never makes a success; it only tells an edge page from a real refusal.
 * Invariant: a bare unknown is `unknown`, never `completed` and never definitive at the first time.
 */

import type { FailureClass, Fault, FaultEvidence, FaultNature } from "./failure.ts";
import { LIMITS } from "./limits.ts";

export function classify(evidence: FaultEvidence): Fault {
  const row = TABLE.find((candidate) => candidate.when(evidence)) ?? UNKNOWN;
  return {
    class: row.class,
    nature: row.nature,
    httpStatus: evidence.httpStatus ?? null,
    stopReason: evidence.stopReason ?? null,
    retryAfterMs: spanOf(evidence.retryAfterMs),
  };
}

/** A provider's word is data: only a number of milliseconds that can be waited for is one. */
function spanOf(retryAfterMs: number | undefined): number | null {
  return retryAfterMs !== undefined && Number.isFinite(retryAfterMs) && retryAfterMs >= 0 ? retryAfterMs : null;
}

type Row = {
  readonly when: (evidence: FaultEvidence) => boolean;
  readonly class: FailureClass;
  readonly nature: FaultNature;
};

const EDGE_PAGE = /<!doctype html|<html|attention required!|cloudflare|cf-ray|blocked by a gateway or proxy/i;
/** The machine is short of something, or there was no guard to start the program: nothing ran. */
const PASSING_SPAWN_CODES = new Set(["EAGAIN", "ENOMEM", "EMFILE", "ENFILE", "GUARD_GONE"]);
const PASSING_STATUS = new Set([408, 425, 429, 500, 502, 503, 504, 529]);
const AUTH_KINDS = new Set([
  "authentication_failed",
  "authentication_error",
  "oauth_org_not_allowed",
  "account_on_hold",
  "verification_required",
  "cloud_credential_error",
]);
/** The agent does not know what it was configured with, or does not speak its driver's protocol. */
const CONFIG_KINDS = new Set(["model_not_found", "option_not_found", "protocol_mismatch"]);
const PASSING_KINDS = new Set(["rate_limit", "overloaded", "overloaded_error", "server_error", "api_error"]);

const UNKNOWN: Row = { when: () => true, class: "unknown", nature: "unknown" };

const TABLE: readonly Row[] = [
  { when: (e) => PASSING_SPAWN_CODES.has(e.spawnCode ?? ""), class: "spawn_error", nature: "passing" },
  { when: (e) => e.spawnCode === "WORKSPACE", class: "workspace_missing", nature: "definitive" },
  { when: (e) => e.spawnCode !== undefined, class: "spawn_error", nature: "definitive" },
  { when: (e) => e.rerun === true, class: "exit_error", nature: "passing" },
  { when: (e) => e.contextLost === true, class: "context_lost", nature: "definitive" },
  { when: isEdgePage, class: "edge_block", nature: "passing" },
  { when: (e) => isUsageLimit(e) && isLongPause(e), class: "quota", nature: "passing" },
  { when: (e) => isUsageLimit(e) && spanOf(e.retryAfterMs) !== null, class: "provider_transient", nature: "passing" },
  { when: (e) => e.providerKind === "usage_limit_reached", class: "quota", nature: "definitive" },
  { when: (e) => isPassingStatus(e.httpStatus), class: "provider_transient", nature: "passing" },
  { when: (e) => e.httpStatus === 401 || e.httpStatus === 403, class: "auth", nature: "definitive" },
  { when: (e) => e.httpStatus === 402, class: "billing", nature: "definitive" },
  { when: (e) => e.httpStatus === 404, class: "config", nature: "definitive" },
  { when: (e) => e.httpStatus === 400 || e.httpStatus === 413, class: "bad_request", nature: "definitive" },
  { when: (e) => e.transport === true, class: "transport", nature: "passing" },
  { when: (e) => e.providerKind === "billing_error", class: "billing", nature: "definitive" },
  { when: (e) => CONFIG_KINDS.has(e.providerKind ?? ""), class: "config", nature: "definitive" },
  { when: (e) => e.providerKind === "invalid_request", class: "bad_request", nature: "definitive" },
  { when: (e) => AUTH_KINDS.has(e.providerKind ?? ""), class: "auth", nature: "definitive" },
  { when: (e) => PASSING_KINDS.has(e.providerKind ?? ""), class: "provider_transient", nature: "passing" },
  { when: (e) => e.stopReason === "refusal", class: "refused", nature: "definitive" },
  { when: (e) => e.stopReason === "max_turns", class: "max_turns", nature: "definitive" },
  { when: (e) => e.stopReason === "max_tokens", class: "max_tokens", nature: "definitive" },
  { when: (e) => e.providerKind === "max_output_tokens", class: "max_tokens", nature: "definitive" },
  { when: (e) => e.empty === true, class: "no_result", nature: "definitive" },
  { when: (e) => e.exit !== undefined, class: "exit_error", nature: "definitive" },
];

/** Some agents hide the status and call an edge page a failed login; the page gives it away. */
function isEdgePage({ httpStatus, providerKind, text }: FaultEvidence): boolean {
  const suspect =
    httpStatus === undefined
      ? AUTH_KINDS.has(providerKind ?? "")
      : httpStatus === 401 || httpStatus === 403 || httpStatus === 503;
  return suspect && EDGE_PAGE.test(text ?? "");
}

/** A limit that ends at a known moment, or a 429 that may be one. */
function isUsageLimit({ httpStatus, providerKind }: FaultEvidence): boolean {
  return httpStatus === 429 || providerKind === "usage_limit_reached";
}

function isLongPause(evidence: FaultEvidence): boolean {
  return (evidence.retryAfterMs ?? 0) > LIMITS.quotaRetryAfterMs;
}

function isPassingStatus(status: number | undefined): boolean {
  return status !== undefined && (PASSING_STATUS.has(status) || (status >= 520 && status <= 527));
}
