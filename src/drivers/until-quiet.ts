/**
 * When the output of a program that has ended counts as complete: a background process of it may hold the pipe open for ever.
 */

import type { Clock } from "../ports/clock.ts";

/** How long no byte has to come, and the limit of that. */
const QUIET_MS = 200;
const DRAIN_MS_MAX = 2_000;

/** Resolves when no byte has come for `QUIET_MS`, at the latest after `DRAIN_MS_MAX`. */
export function untilQuiet(clock: Clock, lastByteMs: () => number): Promise<void> {
  const startedMs = clock.monotonicMs();
  return new Promise((resolve) => {
    const look = (): void => {
      const nowMs = clock.monotonicMs();
      const quietMs = nowMs - Math.max(startedMs, lastByteMs());
      if (quietMs >= QUIET_MS || nowMs - startedMs >= DRAIN_MS_MAX) resolve();
      else clock.after(QUIET_MS - quietMs, look);
    };
    look();
  });
}
