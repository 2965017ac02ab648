/**
 * A clock that stands still until a test moves it.
 *
 * Invariant: timers fire in the order of their due times, equal ones in the order in which they were set, each while the
 * clock shows its due time.
 * Invariant: machine sleep moves wall time alone and fires nothing, as on a real machine.
 */

import type { Clock } from "../../src/ports/clock.ts";

export type StepClock = Clock & {
  /** Moves time by `ms` and fires what falls due, timers that the fired ones set included. Returns when all have fired. */
  advance(ms: number): void;
  /** Like `advance`, but lets everything that a fired timer caused run first, so that what it awaited can set new timers. */
  advanceAndSettle(ms: number): Promise<void>;
  /** Puts the machine to sleep for `ms`: wall time jumps, running time stands still. */
  sleepMachine(ms: number): void;
  /** Sets wall time forward or back, as an operator or a time server does. */
  setWall(ms: number): void;
  /** Running time until the next timer, or null if none is set. */
  nextInMs(): number | null;
  /** How many timers are set. */
  timers(): number;
};

type Entry = { readonly dueMs: number; readonly order: number; readonly fire: () => void };

/** Starts at 2026-01-01T00:00:00Z unless told otherwise. */
export function createStepClock(startWallMs: number = Date.UTC(2026, 0, 1)): StepClock {
  let wallMs = startWallMs;
  let monotonicMs = 0;
  let order = 0;
  const entries = new Set<Entry>();

  const moveTo = (targetMs: number): void => {
    wallMs += targetMs - monotonicMs;
    monotonicMs = targetMs;
  };
  const takeDue = (untilMs: number): Entry | undefined => {
    const entry = earliest(entries);
    if (entry === undefined || entry.dueMs > untilMs) return undefined;
    entries.delete(entry);
    moveTo(Math.max(monotonicMs, entry.dueMs));
    return entry;
  };

  return {
    wallMs: () => wallMs,
    monotonicMs: () => monotonicMs,
    after(delayMs, fire) {
      const entry: Entry = { dueMs: monotonicMs + Math.max(0, delayMs), order: order++, fire };
      entries.add(entry);
      return { [Symbol.dispose]: () => void entries.delete(entry) };
    },
    advance(ms) {
      const untilMs = monotonicMs + ms;
      for (let entry = takeDue(untilMs); entry !== undefined; entry = takeDue(untilMs)) entry.fire();
      moveTo(Math.max(monotonicMs, untilMs));
    },
    async advanceAndSettle(ms) {
      const untilMs = monotonicMs + ms;
      await settle();
      for (let entry = takeDue(untilMs); entry !== undefined; entry = takeDue(untilMs)) {
        entry.fire();
        await settle();
      }
      moveTo(Math.max(monotonicMs, untilMs));
      await settle();
    },
    sleepMachine(ms) {
      wallMs += ms;
    },
    setWall(ms) {
      wallMs = ms;
    },
    nextInMs() {
      const entry = earliest(entries);
      return entry === undefined ? null : Math.max(0, entry.dueMs - monotonicMs);
    },
    timers: () => entries.size,
  };
}

function earliest(entries: ReadonlySet<Entry>): Entry | undefined {
  let first: Entry | undefined;
  for (const entry of entries) {
    const sooner =
      first === undefined || entry.dueMs < first.dueMs || (entry.dueMs === first.dueMs && entry.order < first.order);
    if (sooner) first = entry;
  }
  return first;
}

/** A few turns of the event loop: promises, immediates and finished file reads get their turn. */
async function settle(): Promise<void> {
  for (let turn = 0; turn < 5; turn++) await new Promise<void>((resolve) => setImmediate(resolve));
}
