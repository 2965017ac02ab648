/**
 * The daemon's sign of life towards its guard.
 *
 * Absent on purpose: lease rows. One daemon holds the data directory's lock; the guard is the lease's other side.
 */

import type { Children } from "../ports/children.ts";
import type { Clock, Timer } from "../ports/clock.ts";

export type LeaseKeeper = Disposable & { start(): void };

export function createLeaseKeeper(world: {
  readonly clock: Clock;
  readonly children: Children;
  readonly leaseMs: number;
  /** Called with every beat: whatever has to be noticed also while nothing else happens. */
  readonly onBeat: () => void;
}): LeaseKeeper {
  const { clock, children } = world;
  const everyMs = Math.max(1, Math.floor(world.leaseMs / 6));
  let timer: Timer | null = null;

  function beat(): void {
    children.heartbeat();
    timer = clock.after(everyMs, beat);
    world.onBeat();
  }

  return {
    start() {
      children.heartbeat();
      timer = clock.after(everyMs, beat);
    },
    [Symbol.dispose]() {
      timer?.[Symbol.dispose]();
    },
  };
}
