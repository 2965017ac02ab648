/**
 * `npm run bench`: the promised figures, measured against the SDK's bare server or against the daemon itself, as a table.
 *
 * `-- --quick` measures less and coarser; `--strict` exits with 1 if a figure is missed; `--only cost,held,finished,end,threads`
 * runs parts; `--profile DIR` writes CPU profiles of the servers there.
 * Invariant: bounded in count and time; every process and folder that was made is gone at the end.
 */

import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { availableParallelism, cpus, loadavg, tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { parseArgs } from "node:util";
import { measureCallCost } from "./call-cost.ts";
import { measureChildEnd } from "./child-end.ts";
import { type Figure, isMet, tableOf } from "./figures.ts";
import { measureFinishedTasks } from "./finished-tasks.ts";
import { measureHeldWaits } from "./held-waits.ts";
import { nowMs } from "./now.ts";
import type { Plan, Scene } from "./scene.ts";
import { measureThreads } from "./threads.ts";

const FULL: Plan = {
  rounds: 9,
  readsToWarmUp: 5_000,
  delegationsToWarmUp: 400,
  readsPerRound: 500,
  delegationsPerRound: 60,
  held: 2_000,
  wakes: 200,
  wakesOfAll: 3,
  finished: 100_000,
  starts: 5,
  childRuns: 60,
  pages: 200,
};

const QUICK: Plan = {
  rounds: 5,
  readsToWarmUp: 1_000,
  delegationsToWarmUp: 100,
  readsPerRound: 200,
  delegationsPerRound: 40,
  held: 300,
  wakes: 30,
  wakesOfAll: 1,
  finished: 5_000,
  starts: 1,
  childRuns: 20,
  pages: 40,
};

const PARTS: Readonly<Record<string, (scene: Scene) => Promise<readonly Figure[]>>> = {
  cost: measureCallCost,
  held: measureHeldWaits,
  finished: measureFinishedTasks,
  end: measureChildEnd,
  threads: measureThreads,
};

const { values } = parseArgs({
  options: {
    quick: { type: "boolean", default: false },
    strict: { type: "boolean", default: false },
    only: { type: "string", default: Object.keys(PARTS).join(",") },
    profile: { type: "string" },
  },
});

const startedMs = nowMs();
const folder = mkdtempSync(join(tmpdir(), "delegate-bench-"));
const profileTo = values.profile === undefined ? null : resolve(values.profile);
if (profileTo !== null) mkdirSync(profileTo, { recursive: true });
const scene: Scene = { plan: values.quick ? QUICK : FULL, folder, profileTo };
const loadBefore = loadavg()[0] ?? 0;
const figures: Figure[] = [];
try {
  for (const name of values.only.split(",")) {
    const measure = PARTS[name];
    if (measure === undefined) throw new Error(`no part ${name}; there are ${Object.keys(PARTS).join(", ")}`);
    figures.push(...(await measure(scene)));
    console.error(`${name}: ${elapsed()}`);
  }
} finally {
  rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
}

const missed = figures.filter((figure) => !isMet(figure));
console.log(tableOf(figures));
console.log(`${figures.length - missed.length} of ${figures.length} figures met, ${elapsed()}; ${machine()}`);
if (values.strict && missed.length > 0) process.exitCode = 1;

function elapsed(): string {
  return `${((nowMs() - startedMs) / 1_000).toFixed(0)} s`;
}

/** A busy machine makes every figure worse; who reads them has to know. */
function machine(): string {
  const load = `load ${loadBefore.toFixed(1)} before, ${(loadavg()[0] ?? 0).toFixed(1)} after`;
  return `${cpus()[0]?.model ?? "unknown processor"}, ${availableParallelism()} cores, Node ${process.versions.node}, ${load}`;
}
