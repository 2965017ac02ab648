/**
 * Signs of life of a chatty child, coalesced.
 *
 * Invariant: reports come one after another, at most one in `PROGRESS_GAP_MS`; no step is lost, what was not yet said is said
 * with the next report or by `flush`.
 * Invariant: that a tool began or ended to run is said at once: silence afterwards means something else (W8).
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

/** `toolRunning` tells whether the child has a tool at work; a driver that cannot know leaves it out. */
export function createProgressGate(
  clock: Clock,
  report: (event: DriverEvent) => Promise<void>,
  toolRunning: () => boolean = () => false,
): ProgressGate {
  let unsaid = 0;
  let steps = 0;
  let saidRunning = false;
  let lastMs = Number.NEGATIVE_INFINITY;
  let turn: Promise<void> = Promise.resolve();

  const say = (): Promise<void> => {
    const told = steps;
    steps = 0;
    unsaid = 0;
    lastMs = clock.monotonicMs();
    const running = toolRunning();
    saidRunning = running;
    turn = turn.then(() => report({ kind: "progress", steps: told, toolRunning: running }));
    return turn;
  };
  return {
    note(more) {
      steps += more;
      unsaid += 1;
      const due = clock.monotonicMs() - lastMs >= PROGRESS_GAP_MS || toolRunning() !== saidRunning;
      return due ? say() : Promise.resolve();
    },
    flush: () => (unsaid > 0 ? say() : turn),
  };
}
