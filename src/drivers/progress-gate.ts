/**
 * Signs of life of a chatty child, coalesced.
 *
 * Invariant: reports come one after another, at most one in `PROGRESS_GAP_MS`; no step is lost, what was not yet said is said
 * with the next report or by `flush`.
 */

import type { DriverEvent } from "../ports/driver.ts";
import type { Clock } from "../ports/clock.ts";

export type ProgressGate = {
  /** Something happened; `steps` 0 is a sign of life only. Resolves when a report that is due has been taken. */
  note(steps: number): Promise<void>;
  /** Says what was not yet said. */
  flush(): Promise<void>;
};

export const PROGRESS_GAP_MS = 250;

export function createProgressGate(clock: Clock, report: (event: DriverEvent) => Promise<void>): ProgressGate {
  let unsaid = 0;
  let steps = 0;
  let lastMs = Number.NEGATIVE_INFINITY;
  let turn: Promise<void> = Promise.resolve();

  const say = (): Promise<void> => {
    const told = steps;
    steps = 0;
    unsaid = 0;
    lastMs = clock.monotonicMs();
    turn = turn.then(() => report({ kind: "progress", steps: told, toolRunning: false }));
    return turn;
  };
  return {
    note(more) {
      steps += more;
      unsaid += 1;
      return clock.monotonicMs() - lastMs < PROGRESS_GAP_MS ? Promise.resolve() : say();
    },
    flush: () => (unsaid > 0 ? say() : turn),
  };
}
