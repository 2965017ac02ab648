/**
 * What leaves with a notice, and what is said when it did not arrive: the same for every kind of receiver.
 *
 * Invariant: the body is written field by field from a closed list, so a longer object can never carry a word of a child or
 * a caller outside.
 * Invariant: a reason is made of our own words, numbers and error codes; no address, secret or text of a receiver is in it.
 */

import { createHash } from "node:crypto";
import type { NoticeBody, NoticeOutcome } from "../ports/notifier.ts";

/** All that one delivery may take. */
export const DELIVERY_MS = 10_000;

export const DELIVERED: NoticeOutcome = { kind: "delivered" };

export function again(reason: string): NoticeOutcome {
  return { kind: "again", reason };
}

export function noticeJson({ type, timestamp, data }: NoticeBody): string {
  const { taskId, childThreadId, nodeId, settlement, status, url } = data;
  return JSON.stringify({ type, timestamp, data: { taskId, childThreadId, nodeId, settlement, status, url } });
}

/** `webhook-1f2e3d4c`: the same over restarts, and nothing that `target` holds can be read from it. */
export function targetName(kind: "webhook" | "command", target: string): string {
  return `${kind}-${createHash("sha256").update(target).digest("hex").slice(0, 8)}`;
}

/** The code of a system's or library's error, else the name of its kind. Never its message, which may quote what was sent. */
export function codeOf(error: unknown): string {
  if (!(error instanceof Error)) return "unknown";
  const code = "code" in error ? String(error.code) : "";
  return [code, error.name].find((word) => /^[A-Z][A-Za-z0-9_]{0,63}$/.test(word)) ?? "unknown";
}
