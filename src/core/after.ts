/**
 * The opaque `after` of `task_wait`: how far each task has been told, in a form that differs in every answer.
 *
 * Shape: `<nonce>:<short>.<news>` and further `_<short>.<news>`; `short` = the last 8 characters of the task id.
 * Invariant: reading it back never throws; what is not ours reads as null.
 */

import type { TaskId } from "./ids.ts";
import type { Seen } from "./next-step.ts";

const SHORT = 8;
const FORM = /^[0-9a-z]{1,12}:([0-9A-Z]{8}\.[0-9]{1,9}(?:_[0-9A-Z]{8}\.[0-9]{1,9})*)?$/;

/** News counters told so far, by the short form of the task id. */
export type After = ReadonlyMap<string, number>;

/** `nonce`: lower-case base 36, new for every answer: some clients end a run at identical repeated calls. */
export function packAfter(seen: readonly Seen[], nonce: string): string {
  return `${nonce}:${seen.map(({ taskId, news }) => `${shortOf(taskId)}.${news}`).join("_")}`;
}

export function readAfter(text: string): After | null {
  const match = FORM.exec(text);
  if (match === null) return null;
  const entries = (match[1] ?? "").split("_").filter((entry) => entry !== "");
  return new Map(entries.map((entry) => [entry.slice(0, SHORT), Number(entry.slice(SHORT + 1))]));
}

/** What the caller has been told of this task; null if `after` does not speak of it. */
export function toldOf(after: After | null, taskId: TaskId): number | null {
  return after?.get(shortOf(taskId)) ?? null;
}

function shortOf(taskId: TaskId): string {
  return taskId.slice(-SHORT);
}
