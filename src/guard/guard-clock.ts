/**
 * Time inside the guard. Unlike the daemon's clock its timers keep the process alive: a guard whose daemon is gone still has
 * children to stop.
 */

import type { Clock } from "../ports/clock.ts";

export function createGuardClock(): Clock {
  return {
    wallMs: () => Date.now(),
    monotonicMs: () => performance.now(),
    after(delayMs, fire) {
      const handle = setTimeout(fire, delayMs);
      return { [Symbol.dispose]: () => clearTimeout(handle) };
    },
  };
}
