/**
 * Long synchronous reading in stretches, so that the event loop is never held for longer than a few milliseconds at a time.
 */

import { setImmediate as nextTurn } from "node:timers/promises";

/** To be called, and awaited, after every small piece; mostly returns at once. */
export type Breathe = () => Promise<void> | undefined;

/** How long one stretch may last. */
const STRETCH_MS = 4;

/** Lets others run once a stretch has been long enough. */
export function createBreather(): Breathe {
  let since = performance.now();
  return () => {
    if (performance.now() - since < STRETCH_MS) return undefined;
    return nextTurn().then(() => {
      since = performance.now();
    });
  };
}
