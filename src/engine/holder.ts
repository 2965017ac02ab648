/**
 * Who holds a directory, as a refusal may name it: the caller's own task with its handle, another caller's only by since
 * when (P16). A child is shown only what is below its own task.
 */

import { type Caller, reaches } from "../core/caller.ts";
import type { ClaimHolder } from "../core/command.ts";
import { statusOf } from "../core/describe.ts";
import type { Related } from "../core/rejection.ts";
import type { Task } from "../core/task.ts";
import type { StoreWriter } from "../ports/store.ts";
import { titleFor } from "./view-for.ts";

export async function relatedHolder(
  tx: StoreWriter,
  holder: ClaimHolder,
  caller: Caller,
  nowMs: number,
): Promise<Related> {
  const task = holder.mine ? await tx.task(holder.handle.taskId) : null;
  return task === null || !reaches(caller, task.origin)
    ? { mine: false, sinceMs: holder.sinceMs }
    : { ...relatedOf(task, nowMs), title: titleFor(task, caller) };
}

/** Of a task that the caller itself delegated: its title is shown. */
export function relatedOf(task: Task, nowMs: number): Extract<Related, { readonly mine: true }> {
  const { handle, spec, createdAtMs } = task;
  return { ...handle, mine: true, status: statusOf(task), title: spec.title, ageMs: nowMs - createdAtMs };
}
