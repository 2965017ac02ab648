/**
 * A promise of the clock's, for races against something that may never come.
 */

import type { Clock } from "../ports/clock.ts";

/** Resolves with `value` once `ms` have passed. */
export function after<Value>(clock: Pick<Clock, "after">, ms: number, value: Value): Promise<Value> {
  return new Promise((resolve) => {
    clock.after(ms, () => resolve(value));
  });
}
