/**
 * What the measurements have in common: their size, folders, and a daemon with tasks in it.
 */

import { mkdirSync } from "node:fs";
import { join } from "node:path";
import type { Load } from "./load.ts";
import { type Call, structuredContentOf, type Wire } from "./wire.ts";

export type Plan = {
  readonly rounds: number;
  readonly readsToWarmUp: number;
  readonly delegationsToWarmUp: number;
  /** Calls in a round that only read. */
  readonly readsPerRound: number;
  /** Delegations in a round; they stay in the queue. */
  readonly delegationsPerRound: number;
  readonly held: number;
  readonly wakes: number;
  readonly wakesOfAll: number;
  readonly finished: number;
  readonly starts: number;
  readonly childRuns: number;
  /** Pages of a long thread, of each kind. */
  readonly pages: number;
};

export type Scene = { readonly plan: Plan; readonly folder: string; readonly profileTo: string | null };

/** A folder of its own for each daemon. */
export function folderOf({ folder }: Scene, name: string): string {
  const path = join(folder, name);
  mkdirSync(path, { recursive: true });
  return path;
}

let keys = 0;

/** A delegation under a new key, as a caller would write it. */
export function delegation(wire: Wire, agent: "blocked" | "timed" = "blocked", mode: "async" | "wait" = "async"): Call {
  keys += 1;
  return wire.call("delegate_task", {
    clientRequestId: `bench-${process.pid}-${keys}`,
    title: `Piece ${keys}`,
    task: TASK,
    role: "research",
    agent,
    mode,
  });
}

/** Delegates tasks; their ids. The first occupies the only place for a running child, the others queue. */
export async function delegateMany(load: Load, wire: Wire, count: number): Promise<readonly string[]> {
  const ids: string[] = [];
  while (ids.length < count) {
    const wanted = Math.min(AT_A_TIME, count - ids.length);
    const answers = await Promise.all(Array.from({ length: wanted }, () => load.send(delegation(wire))));
    ids.push(...answers.map(taskIdOf));
  }
  return ids;
}

const AT_A_TIME = 64;

function taskIdOf(answer: string): string {
  const { taskId } = structuredContentOf(answer);
  if (typeof taskId !== "string") throw new Error(`no task in: ${answer.slice(0, 500)}`);
  return taskId;
}

export function oneOf<Value>(values: readonly Value[], n: number): Value {
  const value = values[n % values.length];
  if (value === undefined) throw new Error("nothing to choose from");
  return value;
}

/** About the length of a short prompt: 700 characters. */
const TASK = `Read the modules below the source folder and report which of them open files without closing them. ${"Name the file, the line and the reason. ".repeat(15)}`;
