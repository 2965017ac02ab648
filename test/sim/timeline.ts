/**
 * Moves a world's time, one moment after another.
 *
 * Invariant: time moves only when nothing is left to do at a moment: one turn of the event loop empties the queue of
 * promises, and the simulated parts wait for nothing but the clock.
 */

import type { StepClock } from "../support/step-clock.ts";

export type Timeline = {
  /** Lets time pass until it holds; false if it did not within `limitMs` of running time. */
  until(holds: () => boolean | Promise<boolean>, limitMs: number): Promise<boolean>;
  /** Lets this much running time pass. */
  pass(ms: number): Promise<void>;
  /** Lets time pass until the work is done, at most `limitMs`. */
  during(work: Promise<unknown>, limitMs: number): Promise<void>;
  /** Turns of the event loop so far. */
  readonly turns: number;
};

/** A world that needs more turns runs in circles. */
const TURNS_MAX = 300_000;

export function createTimeline(clock: StepClock): Timeline {
  let turns = 0;

  async function until(holds: () => boolean | Promise<boolean>, limitMs: number): Promise<boolean> {
    const untilMs = clock.monotonicMs() + limitMs;
    while (clock.monotonicMs() <= untilMs) {
      if (await holds()) return true;
      const stepMs = clock.nextInMs();
      if (stepMs === null) return false;
      clock.advance(stepMs);
      await new Promise<void>((resolve) => setImmediate(resolve));
      turns += 1;
      if (turns > TURNS_MAX) throw new Error("the world runs in circles");
    }
    return false;
  }

  return {
    until,
    async pass(ms) {
      await until(() => false, ms);
    },
    async during(work, limitMs) {
      let done = false;
      const end = (): void => {
        done = true;
      };
      work.then(end, end);
      await until(() => done, limitMs);
    },
    get turns() {
      return turns;
    },
  };
}
