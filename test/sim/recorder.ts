/**
 * Writes down what happens in a world, each with its moment, and counts what the world was put through.
 */

import type { TaskEventKind } from "../../src/core/event.ts";
import type { Clock } from "../../src/ports/clock.ts";
import type { Entry, Happening, HistoryHeader } from "../support/history.ts";

export type Recorder = {
  readonly entries: readonly Entry[];
  add(happening: Happening): void;
  /** Counts one more of something that the figures tell. */
  count(what: Counted, by?: number): void;
  readonly counts: Counts;
};

/** What a run of worlds is measured by: a world in which these are rare is too kind. */
export const COUNTED = [
  "daemons",
  "crashes",
  "drains",
  "freezes",
  "sleeps",
  "guardDeaths",
  "guardStops",
  "storageFailures",
  "spawns",
  "spawnFailures",
  "orphans",
  "reaps",
  "survivors",
  "named",
  "abandoned",
  "kept",
  "calls",
  "lostCalls",
  "lostAnswers",
  "abortedWaits",
  "tasks",
  "grandchildren",
  "replays",
  "conflicts",
  "refusals",
  "faults",
  "healed",
  "losses",
  "stalls",
  "questions",
  "answered",
  "expired",
  "reopened",
  "cancels",
  "completed",
  "failed",
  "cancelled",
  "acknowledged",
  "events",
  "steps",
] as const;
export type Counted = (typeof COUNTED)[number];
export type Counts = ReadonlyMap<Counted, number>;

export function createRecorder(clock: Clock, header: HistoryHeader): Recorder & { readonly header: HistoryHeader } {
  const entries: Entry[] = [];
  const counts = zeroCounts();
  return {
    header,
    entries,
    counts,
    add(happening) {
      entries.push({ ...happening, atMs: clock.wallMs(), runMs: clock.monotonicMs() });
    },
    count(what, by = 1) {
      counts.set(what, (counts.get(what) ?? 0) + by);
    },
  };
}

function zeroCounts(): Map<Counted, number> {
  return new Map(COUNTED.map((what) => [what, 0]));
}

/** Counts what the events tell. */
export function countOutcomes({ entries, count }: Recorder): void {
  for (const entry of entries) {
    if (entry.kind !== "event") continue;
    const { event } = entry;
    const what = COUNTED_EVENTS.get(event.kind);
    if (what !== undefined) count(what);
    if (event.kind === "RetryScheduled" && event.reason === "healing") count("healed");
    if (event.kind !== "TaskSettled") continue;
    const { verdict, stop } = event.settlement;
    count(verdict.status);
    count("kept", stop.kept.length);
    if (stop.proof === "abandoned") count("abandoned");
  }
}

const COUNTED_EVENTS: ReadonlyMap<TaskEventKind, Counted> = new Map([
  ["TaskAccepted", "tasks"],
  ["AttemptFailed", "faults"],
  ["AttemptLost", "losses"],
  ["StallBegan", "stalls"],
  ["InputRequested", "questions"],
  ["InputAnswered", "answered"],
  ["InputExpired", "expired"],
  ["SurvivorsFound", "named"],
  ["TaskReopened", "reopened"],
]);
