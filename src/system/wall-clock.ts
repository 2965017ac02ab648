/**
 * The machine's time: the only place in the daemon that asks for it and that starts timers.
 *
 * Invariant: a delay of any length is kept, though the platform's own timer fires at once past 2^31 - 1 ms.
 * Invariant: no timer of this clock keeps the process alive.
 */

import type { Clock, Timer } from "../ports/clock.ts";

/** The longest delay that one platform timer can hold. */
const PLATFORM_DELAY_MAX_MS = 2 ** 31 - 1;

export function createWallClock(): Clock {
  return {
    wallMs: () => Date.now(),
    monotonicMs: () => performance.now(),
    after: startTimer,
  };
}

function startTimer(delayMs: number, fire: () => void): Timer {
  let remainingMs = Math.max(0, delayMs);
  let handle: NodeJS.Timeout | undefined;
  const step = (): void => {
    const stepMs = Math.min(remainingMs, PLATFORM_DELAY_MAX_MS);
    remainingMs -= stepMs;
    handle = setTimeout(() => (remainingMs > 0 ? step() : fire()), stepMs);
    handle.unref();
  };
  step();
  return { [Symbol.dispose]: () => clearTimeout(handle) };
}
