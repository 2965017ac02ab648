/**
 * The daemon's sign of life towards its guard, and its notice of machine sleep.
 *
 * Invariant: after a gap between wall and running time every running child and every stop gets a fresh period, and no
 * loss is counted (contract §13). Waits measure running time, so they need nothing.
 * Absent on purpose: lease rows. One daemon holds the data directory's lock; the guard is the lease's other side.
 */

import type { Children } from "../ports/children.ts";
import type { Clock, Timer } from "../ports/clock.ts";
import type { Log } from "../ports/log.ts";

export type LeaseKeeper = Disposable & { start(): void };

/** A wall clock that is corrected by less than this is not machine sleep. */
const SLEEP_GAP_MS = 10_000;

export function createLeaseKeeper(world: {
  readonly clock: Clock;
  readonly children: Children;
  readonly log: Log;
  readonly leaseMs: number;
  readonly onMachineSlept: (gapMs: number) => Promise<void>;
}): LeaseKeeper {
  const { clock, children, log } = world;
  const everyMs = Math.max(1, Math.floor(world.leaseMs / 6));
  let timer: Timer | null = null;
  let lastWallMs = 0;
  let lastMonotonicMs = 0;

  function beat(): void {
    children.heartbeat();
    const gapMs = clock.wallMs() - lastWallMs - (clock.monotonicMs() - lastMonotonicMs);
    remember();
    timer = clock.after(everyMs, beat);
    if (gapMs <= SLEEP_GAP_MS) return;
    log.info("machine_slept", { gapMs });
    world.onMachineSlept(gapMs).catch((error: unknown) => log.error("sleep_not_forgiven", { error: String(error) }));
  }

  function remember(): void {
    lastWallMs = clock.wallMs();
    lastMonotonicMs = clock.monotonicMs();
  }

  return {
    start() {
      remember();
      children.heartbeat();
      timer = clock.after(everyMs, beat);
    },
    [Symbol.dispose]() {
      timer?.[Symbol.dispose]();
    },
  };
}
