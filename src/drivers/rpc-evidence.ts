/**
 * From a JSON-RPC error of an agent to evidence for `core/classify.ts`. The protocols have no status, no class and no wait;
 * agents put them into the error's data or into its text, each in its own way.
 *
 * Invariant: a status in the data comes before one in the text; what stands in neither is left out, not guessed.
 * Invariant: the child's own last words are evidence only beside an error of the protocol, never alone.
 */

import { headOf } from "../core/excerpt.ts";
import type { FaultEvidence } from "../core/failure.ts";
import { fieldsIn, isFields, listIn, numberIn, textIn } from "./fields.ts";

export type RpcError = { readonly code: number; readonly message: string; readonly data: unknown };

export const RPC = {
  authRequired: -32_000,
  notFound: -32_002,
  cancelled: -32_800,
  noMethod: -32_601,
  badParams: -32_602,
};

const TEXT_CHARACTERS_MAX = 2_000;
/** An agent that hides the provider's answer may have shown it in its last message. */
const LAST_WORDS_CHARACTERS_MAX = 1_000;
const DEPTH_MAX = 4;

const STATUS_KEYS = new Set([
  "status",
  "statusCode",
  "status_code",
  "httpStatus",
  "http_status",
  "httpStatusCode",
  "http_status_code",
  "api_error_status",
  "error_status",
]);
const KIND_KEYS = ["errorKind", "error_kind", "errorName", "error_name", "errorType", "error_type"];
const WAIT_MS_KEYS = new Set(["retryAfterMs", "retry_after_ms"]);
const WAIT_SECONDS_KEYS = new Set(["retryAfter", "retry_after", "retry-after"]);
/** Agents' own names for what others have a common one for. */
const KINDS: Readonly<Record<string, string>> = {
  ContextOverflowError: "invalid_request",
  ProviderAuthError: "authentication_failed",
  ProviderModelNotFoundError: "model_not_found",
};
const STATUS_IN_TEXT = [
  /\bAPI Error:? (\d{3})\b/i,
  /\bstatus(?: code)?:? (\d{3})\b/i,
  /\bHTTP (\d{3})\b/,
  /^(\d{3})\b/,
  /"(?:code|status|status_?code)": ?"?(\d{3})\b/i,
];
/** What the protocol's own libraries put before a message. */
const WRAPPER = /^internal error:?\s*/i;
/** Some agents show of a status its reason phrase alone. */
const REASON_PHRASES: readonly (readonly [RegExp, number])[] = [
  [/^bad request\b/i, 400],
  [/^unauthorized\b/i, 401],
  [/^payment required\b/i, 402],
  [/^forbidden\b/i, 403],
  [/^too many requests\b/i, 429],
  [/^internal server error\b/i, 500],
  [/^bad gateway\b/i, 502],
  [/^service unavailable\b/i, 503],
  [/^gateway time-?out\b/i, 504],
];
const BROKEN =
  /\b(?:ECONNRESET|ECONNREFUSED|ENOTFOUND|EAI_AGAIN|ETIMEDOUT|EPIPE|ENETUNREACH|EHOSTUNREACH)\b|socket hang up|socket connection was closed|fetch failed|network error|stream disconnected|connection (?:reset|refused|closed|error)|unable to connect/i;
const NO_SUCH_SESSION =
  /\b(?:session|thread|conversation|rollout)\b.{0,80}\b(?:not found|unknown|unavailable|does not exist|doesn't exist|no longer)\b|\b(?:no|unknown|invalid) (?:such |previous )?(?:sessions?|threads?|conversations?|rollouts?)\b/is;

/** `lastWords`: what the child wrote last before the error. */
export function errorEvidence(error: RpcError, lastWords: string | null = null): FaultEvidence {
  if (error.code === RPC.cancelled) return { stopReason: "cancelled", text: textOf(error) };
  const own = textOf(error);
  const words = lastWords === null ? "" : lastWords.slice(-LAST_WORDS_CHARACTERS_MAX).toWellFormed();
  const httpStatus =
    statusIn(error.data) ?? (isStatus(error.code) ? error.code : null) ?? statusInText(own) ?? wordStatus(words);
  const text = headOf(words === "" ? own : `${own}\n${words}`, TEXT_CHARACTERS_MAX);
  const providerKind = kindOf(error);
  const retryAfterMs = waitIn(error.data);
  return {
    ...(text.trim() === "" ? {} : { text }),
    ...(httpStatus === null ? {} : { httpStatus }),
    ...(providerKind === null ? {} : { providerKind }),
    ...(retryAfterMs === null ? {} : { retryAfterMs }),
    ...(httpStatus === null && BROKEN.test(text) ? { transport: true } : {}),
  };
}

/** The answer to an attempt to take up a session. */
export function isUnknownSession(error: RpcError): boolean {
  return error.code === RPC.notFound || NO_SUCH_SESSION.test(textOf(error));
}

function kindOf({ code, data }: RpcError): string | null {
  const fields = fieldsIn(data);
  for (const key of KIND_KEYS) {
    const kind = textIn(fields[key]);
    if (kind !== null) return KINDS[kind] ?? kind;
  }
  return code === RPC.authRequired ? "authentication_failed" : null;
}

/** The message, and of the data what is text. */
function textOf({ message, data }: RpcError): string {
  const more = textIn(data) ?? ["message", "details", "detail", "error"].map((key) => textIn(fieldsIn(data)[key]));
  const parts = [message, ...[more].flat()].filter((part) => part !== null && part !== "");
  return headOf([...new Set(parts)].join("\n"), TEXT_CHARACTERS_MAX).toWellFormed();
}

function statusIn(data: unknown): number | null {
  return findNumber(data, (key, value) => (STATUS_KEYS.has(key) && isStatus(value) ? value : null));
}

function waitIn(data: unknown): number | null {
  return findNumber(data, (key, value) => {
    if (WAIT_MS_KEYS.has(key)) return value;
    return WAIT_SECONDS_KEYS.has(key.toLowerCase()) || WAIT_SECONDS_KEYS.has(key) ? value * 1_000 : null;
  });
}

/** The first number that `take` takes, nearest to the top. Numbers may be written as text. */
function findNumber(data: unknown, take: (key: string, value: number) => number | null): number | null {
  let level: readonly unknown[] = [data];
  for (let depth = 0; depth < DEPTH_MAX && level.length > 0; depth++) {
    const entries = level.flatMap((value) => (isFields(value) ? Object.entries(value) : []));
    for (const [key, value] of entries) {
      const number = numberIn(typeof value === "string" && /^\d{1,9}$/.test(value) ? Number(value) : value);
      const taken = number === null ? null : take(key, number);
      if (taken !== null) return taken;
    }
    level = entries.flatMap(([, value]) => (isFields(value) ? [value] : listIn(value)));
  }
  return null;
}

function statusInText(written: string): number | null {
  const text = written.replace(WRAPPER, "");
  for (const pattern of STATUS_IN_TEXT) {
    const status = Number(pattern.exec(text)?.[1] ?? Number.NaN);
    if (isStatus(status)) return status;
  }
  return REASON_PHRASES.find(([phrase]) => phrase.test(text))?.[1] ?? null;
}

/** Stricter than for an error's own text: a child may write of statuses. */
function wordStatus(words: string): number | null {
  const status = Number(/\bAPI Error: (\d{3})\b/.exec(words)?.[1] ?? Number.NaN);
  return isStatus(status) ? status : null;
}

function isStatus(value: number): boolean {
  return Number.isInteger(value) && value >= 400 && value <= 599;
}
