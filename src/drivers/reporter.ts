/**
 * Reports of a driver with several sources, in order.
 *
 * Invariant: one after another, and nothing once the attempt is over for the engine.
 */

import type { DriverEvent } from "../ports/driver.ts";

export type Report = (event: DriverEvent) => Promise<void>;

export function createReporter(tell: Report, signal: AbortSignal): Report {
  let turn: Promise<void> = Promise.resolve();
  return (event) => {
    const told = turn.then(() => (signal.aborted ? undefined : tell(event)));
    turn = told.catch(() => undefined);
    return told;
  };
}

const GARBAGE_CHARACTERS_MAX = 200;

/** Said once of an agent that writes between its messages. */
export function garbageNote(line: string): string {
  return `The agent wrote lines that are no messages of the protocol; they are left out. The first: ${line.slice(0, GARBAGE_CHARACTERS_MAX)}`;
}
