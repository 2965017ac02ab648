/**
 * Judges a history, wherever it came from: which promise was broken, where, and how.
 *
 * Invariant: pure: the same history gives the same violations; nothing but the history is looked at.
 * Invariant: a rule says nothing about what the history does not tell, so a history without calls or processes is judged
 * by the rules that remain.
 */

import { CALL_RULES } from "./history-rules-calls.ts";
import { PROCESS_RULES } from "./history-rules-processes.ts";
import { TASK_RULES } from "./history-rules-tasks.ts";
import { WAIT_RULES } from "./history-rules-waits.ts";
import type { Entry, History } from "./history.ts";
import { createScene, type Scene } from "./history-scene.ts";

export type Violation = {
  readonly rule: string;
  /** The promises that it breaks. */
  readonly promises: readonly string[];
  /** Which entry showed it; 0 is the first after the header. */
  readonly index: number;
  readonly says: string;
};

export type Tell = (says: string) => void;

export type Rule = {
  readonly name: string;
  readonly promises: readonly string[];
  /** What it looks for, in a sentence. */
  readonly says: string;
  /** Begins a history; the result is called with every entry, after the scene has taken it in. */
  begin(tell: Tell): (entry: Entry, scene: Scene) => void;
};

/** More than this tells nothing new. */
const VIOLATIONS_MAX = 100;

export const RULES: readonly Rule[] = [...TASK_RULES, ...CALL_RULES, ...WAIT_RULES, ...PROCESS_RULES];

/** `rules`: which ones to judge by; all of them unless told otherwise. */
export function checkHistory(history: History, rules: readonly Rule[] = RULES): readonly Violation[] {
  const { header, entries } = history;
  const violations: Violation[] = [];
  let index = 0;
  const judges = rules.map((rule) =>
    rule.begin((says) => {
      if (violations.length < VIOLATIONS_MAX) {
        violations.push({ rule: rule.name, promises: rule.promises, index, says });
      }
    }),
  );
  const fold = createScene(header, new Set(entries.map(({ kind }) => kind)));
  for (const entry of entries) {
    const scene = fold.see(entry);
    for (const judge of judges) judge(entry, scene);
    fold.leave(entry);
    index += 1;
  }
  return violations;
}
