/**
 * From a provider's refusal, before or inside its stream, to evidence for `core/classify.ts`.
 *
 * Invariant: the status of the answer is the status; a body only adds the provider's own word and a text.
 */

import { headOf } from "../../core/excerpt.ts";
import type { FaultEvidence } from "../../core/failure.ts";
import { type Fields, fieldsIn, isFields, numberIn, textIn } from "../fields.ts";

export type Refusal = {
  readonly status: number;
  readonly contentType: string;
  readonly headers: Readonly<Record<string, string | readonly string[] | undefined>>;
  readonly body: string;
};

const TEXT_CHARACTERS_MAX = 2_000;
/** The providers' words for what others have a common one for. */
const KINDS: Readonly<Record<string, string>> = {
  invalid_request_error: "invalid_request",
  context_length_exceeded: "invalid_request",
  request_too_large: "invalid_request",
  invalid_api_key: "authentication_failed",
  permission_error: "authentication_failed",
  not_found_error: "model_not_found",
  rate_limit_error: "rate_limit",
  rate_limit_exceeded: "rate_limit",
  timeout_error: "server_error",
  server_is_overloaded: "overloaded",
  insufficient_quota: "billing_error",
};

/** An answer that is no success. `nowMs`: wall time, for a wait that is given as a date. */
export function refusalEvidence({ status, headers, body }: Refusal, nowMs: number): FaultEvidence {
  if (status >= 300 && status < 400) return redirectEvidence(status);
  const error = errorIn(body);
  const providerKind = kindOf(error);
  const retryAfterMs = waitIn(headers, nowMs);
  const text = headOf(body, TEXT_CHARACTERS_MAX).toWellFormed();
  return {
    // An empty account is told with the status of a busy service; waiting does not fill it.
    ...(providerKind === "billing_error" ? {} : { httpStatus: status }),
    ...(providerKind === null ? {} : { providerKind }),
    ...(retryAfterMs === null ? {} : { retryAfterMs }),
    ...(text.trim() === "" ? {} : { text }),
  };
}

/** An answer that says success, but is no stream: an error in a body, a page of a proxy, a server of another kind. */
export function noStreamEvidence({ contentType, body }: Refusal): FaultEvidence {
  const error = errorIn(body);
  if (Object.keys(error).length > 0) return errorEvidence(error);
  const text = `the answer is no event stream but ${contentType === "" ? "of no named type" : headOf(contentType, 100)}: ${headOf(body, TEXT_CHARACTERS_MAX - 200)}`;
  const isOther = /\bjson\b/i.test(contentType);
  return { text: text.toWellFormed(), ...(isOther ? { providerKind: "protocol_mismatch" } : {}) };
}

/** An error inside the stream. */
export function errorEvidence(error: Fields): FaultEvidence {
  const status = numberIn(error["code"]) ?? numberIn(error["status"]);
  const providerKind = kindOf(error);
  const text = headOf(textIn(error["message"]) ?? JSON.stringify(error), TEXT_CHARACTERS_MAX).toWellFormed();
  return {
    text,
    ...(status !== null && status >= 400 && status <= 599 ? { httpStatus: status } : {}),
    ...(providerKind === null ? {} : { providerKind }),
  };
}

/** The connection broke, was never made, or nothing came for too long. */
export function brokenEvidence(error: unknown): FaultEvidence {
  const code = error instanceof Error && "code" in error ? String(error.code) : "no code";
  const message = error instanceof Error ? error.message : "";
  return { transport: true, text: headOf(`${message} (${code})`, TEXT_CHARACTERS_MAX).toWellFormed() };
}

/** A key must not travel to a place that nobody named. */
function redirectEvidence(httpStatus: number): FaultEvidence {
  const text = "the provider answered with a redirect, which is not followed; name its target in baseUrl";
  return { httpStatus, providerKind: "protocol_mismatch", text };
}

function errorIn(body: string): Fields {
  try {
    const answer: unknown = JSON.parse(body);
    // Some servers put their one answer into a list.
    const { error } = fieldsIn(Array.isArray(answer) ? answer[0] : answer);
    return isFields(error) ? error : typeof error === "string" ? { message: error } : {};
  } catch {
    return {};
  }
}

/** The code is the narrower word where there are two. */
function kindOf(error: Fields): string | null {
  const words = [textIn(error["code"]), textIn(error["type"])].filter((word) => word !== null);
  const known = words.find((word) => KINDS[word] !== undefined);
  return known === undefined ? (words.at(-1) ?? null) : (KINDS[known] ?? null);
}

/** Milliseconds that the provider asks to wait: a number of seconds, or a date. */
function waitIn(headers: Refusal["headers"], nowMs: number): number | null {
  const exact = Number(one(headers["retry-after-ms"]) ?? Number.NaN);
  if (Number.isFinite(exact) && exact >= 0) return exact;
  const wait = one(headers["retry-after"])?.trim() ?? "";
  if (/^\d{1,9}(?:\.\d{1,6})?$/.test(wait)) return Math.ceil(Number(wait) * 1_000);
  // Dates have words; a bare negative or broken number is none.
  const dateMs = /[a-z]{3}/i.test(wait) ? Date.parse(wait) : Number.NaN;
  return Number.isNaN(dateMs) ? null : Math.max(0, dateMs - nowMs);
}

function one(value: string | readonly string[] | undefined): string | undefined {
  return typeof value === "object" ? value[0] : value;
}
