/** Waits by the daemon's clock. */

import type { Clock } from "../ports/clock.ts";

export function pause(clock: Clock, delayMs: number): Promise<void> {
  return new Promise((resolve) => {
    clock.after(delayMs, resolve);
  });
}
