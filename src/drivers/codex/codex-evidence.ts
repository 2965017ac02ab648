/**
 * From a failed turn or a refused call to evidence for `core/classify.ts`. Codex tells the provider's status as data; what it
 * does not is read from the text.
 *
 * Invariant: an error that has neither a status nor a known kind stays unknown; it is not guessed.
 */

import type { FaultEvidence } from "../../core/failure.ts";
import { errorEvidence, isUnknownSession, type RpcError } from "../rpc-evidence.ts";
import { type Fields, fieldsIn, isFields, numberIn, textIn } from "../fields.ts";

/** Codex's words in `core/classify.ts`'s. */
const KINDS: Readonly<Record<string, string>> = {
  contextWindowExceeded: "invalid_request",
  badRequest: "invalid_request",
  sessionBudgetExceeded: "usage_limit_reached",
  usageLimitExceeded: "usage_limit_reached",
  rateLimitExceeded: "rate_limit",
  flexUnavailable: "overloaded",
  serverOverloaded: "overloaded",
  policyCapacityUnavailable: "overloaded",
  internalServerError: "server_error",
  modelNotFound: "model_not_found",
  unauthorized: "authentication_failed",
};
const REFUSALS = new Set([
  "inferenceHookDenied",
  "cyberPolicy",
  "bioPolicy",
  "misalignmentPolicyViolation",
  "tooManyDenials",
]);
/** Without a status of the provider these mean that the connection broke. */
const CONNECTIONS = new Set([
  "httpConnectionFailed",
  "responseStreamConnectionFailed",
  "responseStreamDisconnected",
  "responseTooManyFailedAttempts",
]);
const OTHER_WRITER = /already has an active writer/i;
const BAD_SETTINGS =
  /^invalid request\b|\bfail(?:ed|ure) to (?:load|parse|deserialize) (?:\w+ )?config|\bconfig\.toml\b/i;

/** `resetsInMs`: when the account's used-up limit begins anew, as the provider last told it. */
export function turnEvidence(error: Fields, resetsInMs: number | null): FaultEvidence {
  const { codexErrorInfo, additionalDetails } = error;
  const kind = textIn(codexErrorInfo) ?? Object.keys(fieldsIn(codexErrorInfo))[0] ?? "";
  const errorKind = KINDS[kind];
  const details = textIn(additionalDetails);
  const data = {
    ...(isFields(codexErrorInfo) ? { info: codexErrorInfo } : {}),
    ...(errorKind === undefined ? {} : { errorKind }),
    ...(details === null ? {} : { details }),
  };
  const evidence = errorEvidence({ code: 0, message: textIn(error["message"]) ?? "", data });
  return {
    ...evidence,
    ...(REFUSALS.has(kind) ? { stopReason: "refusal" } : {}),
    ...(CONNECTIONS.has(kind) && evidence.httpStatus === undefined ? { transport: true } : {}),
    ...(errorKind === "usage_limit_reached" && resetsInMs !== null ? { retryAfterMs: resetsInMs } : {}),
  };
}

/** A call that was refused before there was a turn. */
export function callEvidence(method: string, error: RpcError): FaultEvidence {
  const text = `${method}: ${error.message}`;
  // Its other process ends, or somebody else's does.
  if (OTHER_WRITER.test(error.message)) return { transport: true, text };
  if (method === "thread/resume" && isUnknownSession(error)) return { contextLost: true, text };
  if (BAD_SETTINGS.test(error.message)) return { providerKind: "option_not_found", text };
  return { ...errorEvidence(error), text };
}

/** The later of the used-up windows of an account's limits; null if none is used up or none says when it ends. */
export function resetsInMs(limits: Fields, nowMs: number): number | null {
  const windows = [fieldsIn(limits["primary"]), fieldsIn(limits["secondary"])];
  const waits = windows.flatMap(({ usedPercent, resetsAt }) => {
    const at = numberIn(resetsAt);
    return (numberIn(usedPercent) ?? 0) >= 100 && at !== null ? [at * 1_000 - nowMs] : [];
  });
  return waits.length === 0 ? null : Math.max(0, ...waits);
}
