/**
 * The opaque `after` of `task_wait`: how far each task has been told, in a form that differs in every answer.
 *
 * Shape: `<nonce>:<short>.<news>.<steps>` and further `_<short>.<news>.<steps>`; `short` = the last 8 characters of the
 * task id. After waits without news their number stands behind the nonce: `<nonce>-<quiet>:`; without it, it is 0.
 * Invariant: reading it back never throws; what is not ours reads as null.
 */

import type { TaskId } from "./ids.ts";
import type { Seen } from "./next-step.ts";

const FORM = /^[0-9a-z]{1,12}(?:-[0-9]{1,4})?:(?:[0-9A-Z]{8}\.[0-9]{1,9}\.[0-9]{1,9}(?:_|$))*$/;
const QUIET = /^[0-9a-z]{1,12}-([0-9]{1,4}):/;
const QUIET_MAX = 9_999;
const ENTRY = /([0-9A-Z]{8})\.([0-9]+)\.([0-9]+)/g;

/** What has been told of a task: its news counter and its steps. */
export type Told = { readonly news: number; readonly steps: number };

/** By the short form of the task id. */
export type After = ReadonlyMap<string, Told>;

/**
 * `nonce`: lower-case base 36, new for every answer: some clients end a run at identical repeated calls. `quietSlices`: waits
 * in a row that have ended without news.
 */
export function packAfter(seen: readonly Seen[], nonce: string, quietSlices = 0): string {
  const quiet = quietSlices === 0 ? "" : `-${Math.min(quietSlices, QUIET_MAX)}`;
  return `${nonce}${quiet}:${seen.map(({ taskId, news, steps }) => `${shortOf(taskId)}.${news}.${steps}`).join("_")}`;
}

export function readAfter(text: string): After | null {
  if (!FORM.test(text)) return null;
  const entries = text.matchAll(ENTRY);
  return new Map(
    [...entries].map(([, short = "", news, steps]) => [short, { news: Number(news), steps: Number(steps) }]),
  );
}

/** How many waits in a row had ended without news when this was packed. */
export function quietSlicesOf(text: string): number {
  return FORM.test(text) ? Number(QUIET.exec(text)?.[1] ?? 0) : 0;
}

/** What the caller has been told of this task; null if `after` does not speak of it. */
export function toldOf(after: After | null, taskId: TaskId): Told | null {
  return after?.get(shortOf(taskId)) ?? null;
}

function shortOf(taskId: TaskId): string {
  return taskId.slice(-8);
}
