/**
 * Receipts of calls: the same key and the same fields are the same call, for days (P3, contract §3).
 *
 * Invariant: a repeat never writes anything; it reads the task as it is now.
 */

import { createHash } from "node:crypto";

import { type Caller, parentOf } from "../core/caller.ts";
import { headOf } from "../core/excerpt.ts";
import type { TaskId } from "../core/ids.ts";
import { LIMITS } from "../core/limits.ts";
import type { NextStep } from "../core/next-step.ts";
import { canonical, differingFields, FINGERPRINT_VERSION, fingerprintFields } from "../core/receipt.ts";
import type { Task } from "../core/task.ts";
import type { Clock } from "../ports/clock.ts";
import type { Answer, KeyedCall } from "../ports/engine.ts";
import type { IdSource } from "../ports/id-source.ts";
import type { Receipt, ReceiptKey, Store } from "../ports/store.ts";
import { relatedOf } from "./holder.ts";
import type { Presenter } from "./present.ts";
import { titleFor } from "./view-for.ts";

export type Receipts = {
  /** The answer to a call whose key is known: a replay, a conflict, or `expired_receipt`. */
  answer(receipt: Receipt, call: KeyedCall<unknown>, caller: Caller): Promise<Replay>;
  make(key: ReceiptKey, call: KeyedCall<unknown>, handle: Task["handle"]): Receipt;
};

export type Replay =
  | { readonly kind: "replay"; readonly task: Task; readonly ageMs: number; readonly stale: boolean }
  | { readonly kind: "answer"; readonly answer: Answer };

export function createReceipts(world: {
  readonly store: Store;
  readonly clock: Clock;
  readonly ids: IdSource;
  readonly presenter: Presenter;
}): Receipts {
  const { store, clock, ids, presenter } = world;
  return {
    async answer(receipt, call, caller) {
      const { clientRequestId } = receipt;
      const task = await store.task(receipt.taskId);
      const freshKey = suggestKey(clientRequestId, ids);
      const again: NextStep = { kind: "choose_key", clientRequestId: freshKey };
      const refused = { created: "none", clientRequestId } as const;
      if (task === null) {
        const detail = { clientRequestId, taskId: receipt.taskId };
        const rejection = { kind: "rejection", code: "expired_receipt", next: again, detail } as const;
        return { kind: "answer", answer: await presenter.refusal(rejection, caller, refused) };
      }
      const digests = digestsOf(call);
      if (fingerprintOf(digests) !== receipt.fingerprint) {
        // A message may have gone to what a child delegated; its title is the child's then (P17).
        const related = { ...relatedOf(task, clock.wallMs()), title: titleFor(task, caller) };
        const differing = differingFields(receipt.fieldDigests, digests);
        const detail = { clientRequestId, cwd: task.spec.cwd };
        const rejection = {
          kind: "rejection",
          code: "idempotency_conflict",
          next: again,
          detail,
          differing,
          related,
        } as const;
        return { kind: "answer", answer: await presenter.refusal(rejection, caller, refused) };
      }
      const ageMs = clock.wallMs() - receipt.createdAtMs;
      return { kind: "replay", task, ageMs, stale: isStale(task, clock.wallMs()) };
    },
    make(key, call, { taskId, childThreadId }) {
      const fieldDigests = digestsOf(call);
      return {
        ...key,
        fingerprint: fingerprintOf(fieldDigests),
        fingerprintVersion: FINGERPRINT_VERSION,
        fieldDigests,
        taskId,
        childThreadId,
        createdAtMs: clock.wallMs(),
      };
    },
  };
}

const SUFFIX_CHARACTERS = 6;

/** A key like the given one that nobody has used; never too short or too long to be one. */
export function suggestKey(key: string, ids: IdSource): string {
  const stem = headOf(key, LIMITS.keyCharactersMax - SUFFIX_CHARACTERS - 1);
  return `${stem}-${ids.nonce(Math.max(SUFFIX_CHARACTERS, LIMITS.keyCharactersMin - stem.length - 1))}`;
}

export function keyOf(caller: Caller, tool: string, clientRequestId: string, aboutTaskId: TaskId | null): ReceiptKey {
  return { caller: caller.name, parentTaskId: parentOf(caller), tool, aboutTaskId, clientRequestId };
}

function isStale(task: Task, nowMs: number): boolean {
  const { state } = task;
  if (state.kind !== "settled" || task.acknowledgedThrough < task.settlements) return false;
  return nowMs - state.settlement.atMs > LIMITS.staleReplayMs;
}

function digestsOf(call: KeyedCall<unknown>): Record<string, string> {
  const digests: Record<string, string> = {};
  for (const [name, text] of Object.entries(fingerprintFields(call.sent))) digests[name] = sha256(text).slice(0, 22);
  return digests;
}

function fingerprintOf(digests: Record<string, string>): string {
  return sha256(canonical(digests));
}

function sha256(text: string): string {
  return createHash("sha256").update(text).digest("base64url");
}
