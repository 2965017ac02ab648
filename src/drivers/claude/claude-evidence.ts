/**
 * From a `result` line to what it means. Claude Code tells the provider's status as data.
 *
 * Invariant: neither `subtype` nor the exit code decides: the one is `success` after a refused request, the other 0 after an
 * interrupt. `is_error`, `terminal_reason`, `api_error_status` and the error's own kind do.
 * Invariant: a failure without a status counts as a broken connection only where its kind names no other cause.
 */

import { headOf } from "../../core/excerpt.ts";
import type { FaultEvidence } from "../../core/failure.ts";
import type { DriverEnd } from "../../ports/driver.ts";
import { type Fields, fieldsIn, listIn, numberIn, textIn } from "../fields.ts";

const TEXT_CHARACTERS_MAX = 2_000;
const NO_SUCH_SESSION = /\bNo conversation found with session ID\b/i;
const SESSION_IN_USE = /\bSession ID\b.{0,80}\bis already in use\b/is;
/** Kinds that say nothing of the cause. */
const VAGUE_KINDS = new Set(["unknown", "server_error"]);
/** Endings of a turn with a common name for their cause. */
const KINDS_OF_REASONS: Readonly<Record<string, string>> = {
  prompt_too_long: "invalid_request",
  image_error: "invalid_request",
};

/** `error`: the last message that tells a failed request; empty if there was none. */
export function resultVerdict(result: Fields, error: Fields, nowMs: number): DriverEnd {
  if (result["stop_reason"] === "refusal") return faultEnd({ stopReason: "refusal", ...textOf(result) });
  if (result["is_error"] === false) {
    const empty = (textIn(result["result"]) ?? "").trim() === "";
    return empty ? faultEnd({ empty: true }) : { end: "success", evidence: "explicit" };
  }
  return faultEnd(failureOf(result, error, nowMs));
}

/** The session that was to be taken up is not there. */
export function isUnknownSession(result: Fields): boolean {
  return result["is_error"] === true && listIn(result["errors"]).some((line) => NO_SUCH_SESSION.test(String(line)));
}

/** By what it wrote before it ended: another process, or an earlier one, has the session that was to be made. */
export function isSessionInUse(stderr: string): boolean {
  return SESSION_IN_USE.test(stderr);
}

function failureOf(result: Fields, error: Fields, nowMs: number): FaultEvidence {
  const reason = textIn(result["terminal_reason"]) ?? "";
  const text = textOf(result);
  if (reason !== "api_error") {
    const kind = KINDS_OF_REASONS[reason];
    if (kind !== undefined) return { providerKind: kind, ...text };
    return { ...(reason === "" ? {} : { stopReason: reason }), ...text };
  }
  const status = numberIn(result["api_error_status"]) ?? numberIn(error["api_error_status"]);
  const kind = kindOf(result, error);
  const retryAfterMs = waitOf(result, error, nowMs);
  return {
    ...text,
    ...(status === null ? {} : { httpStatus: status }),
    ...(kind === null ? {} : { providerKind: kind }),
    ...(retryAfterMs === null ? {} : { retryAfterMs }),
    ...(status === null && (kind === null || VAGUE_KINDS.has(kind)) ? { transport: true } : {}),
  };
}

function kindOf(result: Fields, error: Fields): string | null {
  const special = textIn(result["api_error"]) ?? textIn(error["api_error"]);
  if (special === "usage_limit_reached") return special;
  return textIn(error["error"]);
}

/** Until a usage limit that was reached ends. */
function waitOf(result: Fields, error: Fields, nowMs: number): number | null {
  for (const message of [result, error]) {
    const limit = fieldsIn(fieldsIn(message["api_error_params"])["rate_limit_info"]);
    const resetsAtSeconds = numberIn(limit["resetsAt"]);
    if (resetsAtSeconds !== null) return Math.max(0, resetsAtSeconds * 1_000 - nowMs);
  }
  return null;
}

/** What a result says of a failure. */
export function textOf(result: Fields): { readonly text?: string } {
  const errors = listIn(result["errors"]).filter((line) => typeof line === "string");
  const text = [textIn(result["result"]) ?? "", ...errors].filter((line) => line !== "").join("\n");
  return text === "" ? {} : { text: headOf(text, TEXT_CHARACTERS_MAX).toWellFormed() };
}

function faultEnd(fault: FaultEvidence): DriverEnd {
  return { end: "fault", fault };
}
