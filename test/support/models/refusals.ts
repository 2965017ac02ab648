/**
 * What a provider, or the edge in front of it, answers instead of a model: status, body and headers in each dialect.
 */

import type { Dialect } from "./conversation.ts";
import type { ModelFault } from "./plan.ts";

export type Refusal = {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
};

const CLOUDFLARE = [
  '<!DOCTYPE html>\n<html lang="en-US"><head><title>Attention Required! | Cloudflare</title><meta charset="UTF-8" /></head>',
  '<body><div class="cf-wrapper"><h1 data-translate="block_headline">Sorry, you have been blocked</h1>',
  "<h2>You are unable to access this website</h2><p>Cloudflare Ray ID: <strong>8f1e2d3c4b5a6978</strong></p></div></body></html>",
].join("");

const GEMINI_STATUS: Readonly<Record<number, string>> = {
  401: "UNAUTHENTICATED",
  403: "PERMISSION_DENIED",
  404: "NOT_FOUND",
  429: "RESOURCE_EXHAUSTED",
};

const TYPES: Readonly<Record<string, readonly [type: string, message: string]>> = {
  "403": ["permission_error", "Your key does not have permission to use this model"],
  "402": ["insufficient_quota", "Your credit balance is too low"],
  "404": ["not_found_error", "model: no such model"],
  "429": ["rate_limit_error", "Rate limit reached"],
  "500": ["api_error", "Internal server error"],
  "503": ["api_error", "Service unavailable"],
  "529": ["overloaded_error", "Overloaded"],
};

const RETRY_AFTER_S = 2;

/** The refusal of a fault; null for faults that are none (resets, hangs, faults inside a stream). */
export function refusalOf(fault: ModelFault, dialect: Dialect): Refusal | null {
  if (fault.kind === "cf403") {
    const headers = {
      "content-type": "text/html; charset=UTF-8",
      server: "cloudflare",
      "cf-ray": "8f1e2d3c4b5a6978-EWR",
    };
    return { status: 403, headers, body: CLOUDFLARE };
  }
  if (fault.kind === "401") return json(401, badKey(dialect));
  const known = TYPES[fault.kind];
  if (known === undefined) return null;
  const status = Number(fault.kind);
  const retryAfter = fault.kind === "429" ? { "retry-after": String(fault.retryAfter ?? RETRY_AFTER_S) } : {};
  return json(status, problem(dialect, status, ...known), retryAfter);
}

function badKey(dialect: Dialect): object {
  if (dialect === "anthropic") return problem(dialect, 401, "authentication_error", "invalid x-api-key");
  if (dialect === "gemini") return problem(dialect, 401, "", "API key not valid. Please pass a valid API key.");
  const message = "Incorrect API key provided: dummy.";
  return { error: { type: "invalid_request_error", code: "invalid_api_key", message, param: null } };
}

function problem(dialect: Dialect, status: number, type: string, message: string): object {
  if (dialect === "anthropic") return { type: "error", error: { type, message }, request_id: "req_fake" };
  if (dialect === "gemini") return { error: { code: status, message, status: GEMINI_STATUS[status] ?? "UNAVAILABLE" } };
  return { error: { type, code: type, message } };
}

function json(status: number, body: object, headers: Readonly<Record<string, string>> = {}): Refusal {
  return { status, headers: { "content-type": "application/json", ...headers }, body: JSON.stringify(body) };
}
