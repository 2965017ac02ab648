/**
 * Judges from the daemon's signs of life whether it is there: two thirds of the lease without one mean that it is frozen.
 *
 * Invariant: signs that lie unread in the pipe count. The watch looks twice, with a turn of the event loop between, so a
 * guard that was itself held up does not take its own absence for the daemon's.
 * Invariant: after a time in which the guard was itself suspended (machine sleep, a paused container) the daemon gets a
 * whole fresh period (contract §13).
 */

import type { Clock } from "../ports/clock.ts";

export type LeaseWatch = Disposable & {
  /** A sign of life. */
  beat(): void;
  /** True from the moment of the verdict until the next sign of life. */
  silent(): boolean;
};

const TICK_MS_MIN = 10;
const TICK_MS_MAX = 1_000;
const SECOND_LOOK_MS = 10;

/** `onSilent` is called once for each silence. */
export function createLeaseWatch(clock: Clock, leaseMs: number, onSilent: () => void): LeaseWatch {
  const quietMs = (leaseMs * 2) / 3;
  const tickMs = Math.min(TICK_MS_MAX, Math.max(TICK_MS_MIN, quietMs / 10));
  let lastBeatMs = clock.monotonicMs();
  let lastTickMs = lastBeatMs;
  let silent = false;

  const isOverdue = (): boolean => clock.monotonicMs() - lastBeatMs >= quietMs;
  const judge = (): void => {
    if (isOverdue() && !silent) {
      silent = true;
      onSilent();
    }
    timer = clock.after(tickMs, tick);
  };
  const tick = (): void => {
    const nowMs = clock.monotonicMs();
    if (nowMs - lastTickMs > tickMs + quietMs / 2) lastBeatMs = nowMs;
    lastTickMs = nowMs;
    timer = isOverdue() && !silent ? clock.after(SECOND_LOOK_MS, judge) : clock.after(tickMs, tick);
  };
  let timer = clock.after(tickMs, tick);

  return {
    beat() {
      lastBeatMs = clock.monotonicMs();
      silent = false;
    },
    silent: () => silent,
    [Symbol.dispose]: () => timer[Symbol.dispose](),
  };
}
