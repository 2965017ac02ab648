/**
 * One timer for all open streams: every beat each of them writes something, so that no proxy and no client takes a
 * silent connection for a dead one.
 *
 * Invariant: the timer runs only while there is somebody to beat for.
 */

import type { Clock, Timer } from "../ports/clock.ts";

export type Heartbeat = {
  /** Calls `beat` every period until disposed; for the first time within one period. */
  add(beat: () => void): Disposable;
};

export function createHeartbeat(clock: Clock, everyMs: number): Heartbeat {
  const beats = new Set<() => void>();
  let timer: Timer | null = null;

  function schedule(): void {
    timer = clock.after(everyMs, () => {
      timer = null;
      for (const beat of beats) beat();
      if (beats.size > 0) schedule();
    });
  }

  return {
    add(beat) {
      // A closure of its own, so that adding the same function twice makes two entries.
      const entry = (): void => beat();
      beats.add(entry);
      if (timer === null) schedule();
      return {
        [Symbol.dispose]() {
          beats.delete(entry);
          if (beats.size > 0 || timer === null) return;
          timer[Symbol.dispose]();
          timer = null;
        },
      };
    },
  };
}
