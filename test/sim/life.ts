/**
 * One life of a simulated daemon: everything that its engine does passes through here, so that it can be cut off, frozen or
 * slowed at any point where it waits for the world.
 *
 * Invariant: after its death nothing of the engine reaches the world: every port rejects, no timer fires.
 * Invariant: while it is frozen nothing of the engine moves; what came meanwhile comes, late and in order, when it thaws.
 */

import type { Clock, Timer } from "../../src/ports/clock.ts";
import { storageTrouble } from "../../src/store/storage-trouble.ts";

export type Life = {
  readonly number: number;
  readonly alive: boolean;
  readonly frozen: boolean;
  /** True from the order to stop on. */
  draining: boolean;
  readonly clock: Clock;
  /** One point at which the engine waits: takes a while, and never returns to a dead or frozen engine. */
  pass(): Promise<void>;
  /** A point that takes no time. Throws if the daemon is dead, or dies there. */
  point(): void;
  /** Resolves once the daemon moves; false if it died. */
  moving(): Promise<boolean>;
  kill(): void;
  /** Dies at the point after this many. */
  killAfter(points: number): void;
  freeze(): void;
  thaw(): void;
  /** Resolves when it has died. */
  readonly died: Promise<void>;
  /** Timers that are set. */
  timers(): number;
};

export function createLife(options: {
  readonly number: number;
  readonly clock: Clock;
  /** Milliseconds that a point takes; 0 for most. */
  readonly delayMs: () => number;
  /** Called once, in the moment of death. */
  readonly onDeath: () => void;
}): Life {
  const { clock } = options;
  const death = Promise.withResolvers<void>();
  const timers = new Set<object>();
  let alive = true;
  let frozen = false;
  let pointsLeft: number | null = null;
  let backlog: (() => void)[] = [];

  function kill(): void {
    if (!alive) return;
    alive = false;
    timers.clear();
    const waiting = backlog;
    backlog = [];
    options.onDeath();
    death.resolve();
    for (const go of waiting) go();
  }

  function point(): void {
    check();
    if (pointsLeft === null) return;
    pointsLeft -= 1;
    if (pointsLeft <= 0) kill();
    check();
  }

  function check(): void {
    if (!alive) throw storageTrouble("crashed", "the daemon was killed");
  }

  async function moving(): Promise<boolean> {
    const isHeld = (): boolean => alive && frozen;
    while (isHeld()) await new Promise<void>((resolve) => backlog.push(resolve));
    return alive;
  }

  return {
    number: options.number,
    draining: false,
    get alive() {
      return alive;
    },
    get frozen() {
      return frozen;
    },
    clock: {
      wallMs: clock.wallMs,
      monotonicMs: clock.monotonicMs,
      after(delayMs, fire): Timer {
        const timer = {};
        if (alive) timers.add(timer);
        const go = (): void => {
          if (!timers.has(timer)) return;
          if (frozen) {
            backlog.push(go);
            return;
          }
          timers.delete(timer);
          fire();
        };
        const inner = clock.after(delayMs, go);
        return {
          [Symbol.dispose]() {
            timers.delete(timer);
            inner[Symbol.dispose]();
          },
        };
      },
    },
    point,
    async pass() {
      point();
      const delayMs = options.delayMs();
      if (delayMs > 0) await sleep(clock, delayMs);
      await moving();
      check();
    },
    moving,
    kill,
    killAfter(points) {
      pointsLeft = points;
    },
    freeze() {
      frozen = true;
    },
    thaw() {
      frozen = false;
      const waiting = backlog;
      backlog = [];
      for (const go of waiting) go();
    },
    died: death.promise,
    timers: () => timers.size,
  };
}

export function sleep(clock: Clock, delayMs: number): Promise<void> {
  return new Promise((resolve) => {
    clock.after(delayMs, resolve);
  });
}
