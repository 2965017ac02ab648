/**
 * Who a child is: the caller that an attempt's credential or mark stands for.
 *
 * Invariant: only while that very attempt is alive: a credential dies with its attempt, whoever holds it by then (P18).
 * Invariant: a child has its root caller's name and never its scopes: no child is an admin.
 */

import type { Caller, Lineage } from "../core/caller.ts";
import { attemptOf } from "../core/evolve.ts";
import { type AttemptId, parseAttemptId } from "../core/ids.ts";
import type { Store, StoreWriter } from "../ports/store.ts";

const CHILD_SCOPES: Caller["scopes"] = ["read", "delegate"];

export async function childOf(store: Store, attemptId: AttemptId): Promise<Caller | null> {
  const parsed = parseAttemptId(attemptId);
  const task = parsed === null ? null : await store.task(parsed.taskId);
  const attempt = task === null ? null : attemptOf(task.state);
  if (task === null || attempt?.attemptId !== attemptId) return null;
  const { caller: name, ancestors } = task.origin;
  const lineage = { taskId: task.handle.taskId, epoch: attempt.epoch, ancestors };
  return { kind: "child", name, scopes: CHILD_SCOPES, conversation: null, lineage };
}

/** Looked up in the transaction that starts something for a child: a tree that is being cancelled grows no more (C1). */
export async function isAtWork(tx: StoreWriter, { taskId, epoch }: Lineage): Promise<boolean> {
  const task = await tx.task(taskId);
  return task !== null && attemptOf(task.state)?.epoch === epoch;
}
