/**
 * What the fake agent remembers of a run, as a real agent keeps its conversation: which steps are done and what was said.
 *
 * Invariant: a step that was done is not done again when the run is taken up anew.
 */

import { readFileSync, writeFileSync } from "node:fs";

export type FakeMemory = {
  /** Steps done. */
  position: number;
  /** Attempts that ended at the present step. */
  faults: number;
  said: string;
  wrote: boolean;
  /** To the last question. */
  answer: string | null;
};

export type FakeMemories = {
  /** `fresh`: the run begins; what was remembered of the one before is forgotten. */
  recall(session: string, stateFile: string | null, fresh: boolean): FakeMemory;
  /** To be called after every change. */
  keep(session: string, stateFile: string | null, memory: FakeMemory): void;
};

const SESSIONS_MAX = 10_000;

export function createFakeMemories(): FakeMemories {
  const sessions = new Map<string, FakeMemory>();
  return {
    recall(session, stateFile, fresh) {
      const known = fresh ? null : stateFile === null ? sessions.get(session) : readState(stateFile);
      return known ?? { position: 0, faults: 0, said: "", wrote: false, answer: null };
    },
    keep(session, stateFile, memory) {
      if (stateFile !== null) return writeFileSync(stateFile, JSON.stringify(memory));
      sessions.delete(session);
      sessions.set(session, memory);
      const [oldest] = sessions.keys();
      if (sessions.size > SESSIONS_MAX && oldest !== undefined) sessions.delete(oldest);
    },
  };
}

function readState(path: string): FakeMemory | null {
  try {
    const state: unknown = JSON.parse(readFileSync(path, "utf8"));
    return isMemory(state) ? state : null;
  } catch {
    return null;
  }
}

function isMemory(state: unknown): state is FakeMemory {
  return (
    typeof state === "object" &&
    state !== null &&
    "position" in state &&
    typeof state.position === "number" &&
    "faults" in state &&
    typeof state.faults === "number" &&
    "said" in state &&
    typeof state.said === "string" &&
    "wrote" in state &&
    typeof state.wrote === "boolean" &&
    "answer" in state &&
    (state.answer === null || typeof state.answer === "string")
  );
}
