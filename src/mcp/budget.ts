/**
 * How long one call may be held: `slice = min(waitMs, S, 240 s)` (contract §7).
 *
 * Invariant: pure; the same request always gets the same slice.
 * Absent on purpose: the background exception for interactive Claude Code, and learning itself (its result comes in as
 * `learnedMs`).
 */

import { clientProfileOf } from "./client-profile.ts";
import type { ClientInfo } from "./tool.ts";

/** No call is held longer, whatever anybody asks for. */
const SLICE_MAX_MS = 240_000;
/** Without an event stream not even a header leaves before the answer, and several clients give up on that at 60 s. */
const NOT_STREAMING_MAX_MS = 45_000;
/** A client that says how long it waits is answered after this share of it, but not before `ANNOUNCED_MIN_MS`. */
const ANNOUNCED_SHARE = 0.8;
const ANNOUNCED_MIN_MS = 1_000;

export type SliceRequest = {
  /** What the caller asked for in ms; null: as long as its client bears. */
  readonly waitMs: number | null;
  readonly client: ClientInfo | null;
  /** The client's own limit in ms, from `X-Request-Timeout-Ms` or `?requestTimeoutMs=`. */
  readonly requestTimeoutMs: number | null;
  /** The operator's `clients.<name>.waitSliceMs`. */
  readonly overrideMs: number | null;
  /** What was learned for this caller, client and version. */
  readonly learnedMs: number | null;
  readonly progressToken: boolean;
  /** True if the answer travels as an event stream. */
  readonly streaming: boolean;
};

/** Longest time in ms that this call may be held; at least 0. */
export function sliceMs(request: SliceRequest): number {
  const asked = request.waitMs ?? SLICE_MAX_MS;
  return Math.max(0, Math.min(asked, boundMs(request), SLICE_MAX_MS));
}

/** The wait that a call's arguments ask for in ms; null if they name none. `timeoutMs` is accepted for `waitMs`. */
export function askedWaitMs(args: unknown): number | null {
  if (typeof args !== "object" || args === null) return null;
  const asked = "waitMs" in args ? args.waitMs : "timeoutMs" in args ? args.timeoutMs : null;
  const number = typeof asked === "string" && asked.trim() !== "" ? Number(asked) : asked;
  return typeof number === "number" && Number.isFinite(number) ? Math.max(0, number) : null;
}

/** Reads a time limit in ms out of a header or query value; null for anything that is no positive whole number. */
export function timeLimitMs(text: unknown): number | null {
  if (typeof text !== "string" || !/^\d{1,10}$/.test(text)) return null;
  const ms = Number(text);
  return ms > 0 ? ms : null;
}

function boundMs(request: SliceRequest): number {
  if (request.overrideMs !== null) return request.overrideMs;
  if (request.requestTimeoutMs !== null) {
    return Math.max(ANNOUNCED_MIN_MS, Math.floor(request.requestTimeoutMs * ANNOUNCED_SHARE));
  }
  const boundedMs = request.learnedMs ?? tableMs(request);
  return request.streaming ? boundedMs : Math.min(boundedMs, NOT_STREAMING_MAX_MS);
}

function tableMs(request: SliceRequest): number {
  const profile = clientProfileOf(request.client);
  return request.progressToken && request.streaming ? profile.sliceWithProgressMs : profile.sliceMs;
}
