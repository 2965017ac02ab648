/**
 * From what Pi said of a failure to evidence for `core/classify.ts`. Pi has its provider's status in front of the text, or only
 * the words of the library that asked.
 *
 * Invariant: the process's exit status says nothing: Pi ends well also after a provider refused for good.
 */

import type { FaultEvidence } from "../../core/failure.ts";
import { errorEvidence } from "../rpc-evidence.ts";
import type { PiOutcome } from "./pi-turn.ts";

const INTERNAL = -32_603;
const BROKEN =
  /^terminated$|\bother side closed\b|\bpremature close\b|\bstream (?:ended|closed)\b|\bconnection (?:lost|error)\b|\btimed? ?out\b|\bwithout finish_reason\b/i;
/** The words of a provider's error inside its stream. */
const OVERLOADED = /^overloaded\b|\boverloaded_error\b/i;
const EMPTY_ACCOUNT = /\binsufficient_quota\b/;
const NO_LOGIN = /\bno api key\b|\bapi key (?:not found|is missing)\b|\bnot (?:logged|signed) in\b|\/login\b/i;
const NO_MODEL = /\bmodel\b.{0,200}\bnot found\b|\bno models?\b.{0,40}\b(?:available|selected|found|match)/is;
const REFUSALS = new Set(["refusal", "content_filter", "safety"]);

/** What Pi, its provider or the library between them wrote. */
export function writtenEvidence(message: string): FaultEvidence {
  const evidence = errorEvidence({ code: INTERNAL, message, data: null });
  // An empty account is told with the status of a busy service; waiting does not fill it.
  if (evidence.httpStatus === 429 && EMPTY_ACCOUNT.test(message)) {
    const { httpStatus: _, ...rest } = evidence;
    return { ...rest, providerKind: "billing_error" };
  }
  if (evidence.httpStatus !== undefined || evidence.transport === true) return evidence;
  if (BROKEN.test(message.trim())) return { ...evidence, transport: true };
  if (OVERLOADED.test(message.trim())) return { ...evidence, providerKind: "overloaded_error" };
  if (NO_MODEL.test(message)) return { ...evidence, providerKind: "model_not_found" };
  return NO_LOGIN.test(message) ? { ...evidence, providerKind: "authentication_failed" } : evidence;
}

/** Null if the run ended well. */
export function outcomeEvidence({
  aborted,
  stopReason,
  rawStopReason,
  errorMessage,
  text,
}: PiOutcome): FaultEvidence | null {
  if (stopReason === "error") return writtenEvidence(errorMessage ?? "");
  if (aborted || stopReason === "aborted") return { stopReason: "cancelled" };
  if (REFUSALS.has(rawStopReason ?? "")) return { stopReason: "refusal" };
  if (stopReason === "length") return { stopReason: "max_tokens" };
  if (stopReason !== "stop") return { stopReason: stopReason ?? "none" };
  return text === null ? { empty: true } : null;
}
