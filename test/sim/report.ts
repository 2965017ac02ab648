/**
 * What a run of worlds tells a person: the first thing that was broken, how to see it again, and what the worlds were like.
 */

import type { Violation } from "../support/history-check.ts";
import { type History, lineOfEntry } from "../support/history.ts";
import { COUNTED, type Counted, type Counts } from "./recorder.ts";
import type { Outcome } from "./world.ts";

/** Entries that are shown up to the first violation. */
const LAST = 30;

/** The first violation of a world with the entries that led to it, and the command that shows all of them. */
export function reportOf({ seed, history, violations }: Outcome): string {
  const [first] = violations;
  if (first === undefined) return `seed ${seed}: nothing is broken`;
  return [
    `seed ${seed}: ${sayViolation(first)}`,
    ...lastEntries(history, first),
    `${violations.length} violations in all. Replay: node scripts/sim.ts --seed ${seed} --verbose`,
  ].join("\n");
}

export function sayViolation({ rule, promises, index, says }: Violation): string {
  const cited = promises.length === 0 ? "" : ` (${promises.join(", ")})`;
  return `${rule}${cited} at entry ${index}: ${says}`;
}

export function sumOf(outcomes: readonly { readonly counts: Counts }[]): Counts {
  const sum = new Map<Counted, number>();
  for (const { counts } of outcomes) {
    for (const what of COUNTED) sum.set(what, (sum.get(what) ?? 0) + (counts.get(what) ?? 0));
  }
  return sum;
}

/** What 1,000 worlds of this kind meet, as text of a few lines. */
export function sayCounts(counts: Counts, worlds: number): string {
  const perThousand = COUNTED.map((what) => `${what} ${Math.round(((counts.get(what) ?? 0) * 1_000) / worlds)}`);
  const lines: string[] = [];
  while (perThousand.length > 0) lines.push(`  ${perThousand.splice(0, 8).join(" · ")}`);
  return ["in 1,000 worlds:", ...lines].join("\n");
}

function lastEntries({ entries }: History, { index }: Violation): readonly string[] {
  return entries.slice(Math.max(0, index - LAST + 1), index + 1).map((entry) => `  ${lineOfEntry(entry)}`);
}
