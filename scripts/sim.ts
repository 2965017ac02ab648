/**
 * Runs seeded worlds, replays one, or judges a history from a file.
 *
 *   node scripts/sim.ts --seeds 2000 [--from 1] [--workers 2]
 *   node scripts/sim.ts --seed 17 [--verbose] [--out FILE]
 *   node scripts/sim.ts check FILE
 *
 * Exits with 0 if nothing is broken, 1 if something is, 2 if it was called wrongly.
 */

import { readFileSync, writeFileSync } from "node:fs";
import { availableParallelism } from "node:os";
import { parseArgs } from "node:util";
import { isMainThread, parentPort, Worker } from "node:worker_threads";
import { type Counts, type Counted } from "../test/sim/recorder.ts";
import { reportOf, sayCounts, sayViolation, sumOf } from "../test/sim/report.ts";
import { runWorld } from "../test/sim/world.ts";
import { checkHistory } from "../test/support/history-check.ts";
import { decodeHistory, encodeHistory, lineOfEntry } from "../test/support/history.ts";

/** What a worker tells of one seed; `report` is null if nothing is broken. */
type Told = { readonly seed: number; readonly report: string | null; readonly counts: readonly [Counted, number][] };
type Share = { readonly from: number; readonly step: number; readonly to: number };

const USAGE = `usage: node scripts/sim.ts --seeds N [--from N] [--workers N]
       node scripts/sim.ts --seed N [--verbose] [--out FILE]
       node scripts/sim.ts check FILE`;
const FAILURES_SHOWN_MAX = 3;

if (isMainThread) process.exitCode = await main(process.argv.slice(2));
else await work(process.argv.slice(2).map(Number));

async function main(args: string[]): Promise<number> {
  const asked = read(args);
  if (asked === null) {
    console.error(USAGE);
    return 2;
  }
  if (asked.kind === "check") return checkFile(asked.file);
  return asked.kind === "replay" ? replay(asked) : runMany(asked);
}

type Asked =
  | { readonly kind: "check"; readonly file: string }
  | { readonly kind: "replay"; readonly seed: number; readonly verbose: boolean; readonly out: string | null }
  | { readonly kind: "many"; readonly from: number; readonly seeds: number; readonly workers: number };

function read(args: string[]): Asked | null {
  try {
    const { values, positionals } = parseArgs({
      args,
      allowPositionals: true,
      options: {
        seeds: { type: "string" },
        from: { type: "string", default: "1" },
        workers: { type: "string", default: String(Math.min(2, availableParallelism())) },
        seed: { type: "string" },
        verbose: { type: "boolean", default: false },
        out: { type: "string" },
      },
    });
    const [verb, file] = positionals;
    if (verb === "check" && file !== undefined) return { kind: "check", file };
    if (verb !== undefined) return null;
    const seed = numberOf(values.seed);
    if (seed !== null) return { kind: "replay", seed, verbose: values.verbose, out: values.out ?? null };
    const [seeds, from, workers] = [numberOf(values.seeds), numberOf(values.from), numberOf(values.workers)];
    return seeds === null || from === null || workers === null ? null : { kind: "many", seeds, from, workers };
  } catch {
    return null;
  }
}

function numberOf(text: string | undefined): number | null {
  return text !== undefined && /^[0-9]{1,9}$/.test(text) ? Number(text) : null;
}

function checkFile(file: string): number {
  const read = decodeHistory(readFileSync(file, "utf8"));
  if (read.kind === "refused") {
    console.error(`${file}: line ${read.line} is not of this form: ${read.reason}`);
    return 2;
  }
  const violations = checkHistory(read.history);
  for (const violation of violations) console.log(sayViolation(violation));
  console.log(`${read.history.entries.length} entries, ${violations.length} violations`);
  return violations.length === 0 ? 0 : 1;
}

async function replay({ seed, verbose, out }: Asked & { readonly kind: "replay" }): Promise<number> {
  const outcome = await runWorld(seed);
  if (out !== null) writeFileSync(out, encodeHistory(outcome.history));
  if (verbose) for (const entry of outcome.history.entries) console.log(lineOfEntry(entry));
  for (const violation of outcome.violations) console.log(sayViolation(violation));
  console.log(`seed ${seed}: ${outcome.history.entries.length} entries, ${outcome.violations.length} violations`);
  return outcome.violations.length === 0 ? 0 : 1;
}

async function runMany({ from, seeds, workers }: Asked & { readonly kind: "many" }): Promise<number> {
  const startedMs = Date.now();
  const told: Told[] = [];
  await Promise.all(
    Array.from({ length: workers }, (_, index) =>
      share({ from: from + index, step: workers, to: from + seeds }, (one) => told.push(one)),
    ),
  );
  const broken = told.flatMap(({ seed, report }) => (report === null ? [] : [{ seed, report }]));
  broken.sort((one, other) => one.seed - other.seed);
  for (const { report } of broken.slice(0, FAILURES_SHOWN_MAX)) console.log(`${report}\n`);
  const counts: Counts = sumOf(told.map((one) => ({ counts: new Map(one.counts) })));
  const seconds = (Date.now() - startedMs) / 1000;
  console.log(sayCounts(counts, Math.max(1, told.length)));
  console.log(`${told.length} seeds from ${from}: ${broken.length} broken`);
  if (broken.length > 0) console.log(`broken: ${broken.map(({ seed }) => seed).join(" ")}`);
  console.log(`${seconds.toFixed(1)} s, ${(told.length / seconds).toFixed(1)} seeds a second, ${workers} workers`);
  return broken.length === 0 && told.length === seeds ? 0 : 1;
}

/** Runs a share of the seeds in a thread of its own. Rejects if the thread broke. */
function share(seeds: Share, tell: (told: Told) => void): Promise<void> {
  return new Promise((resolve, reject) => {
    const worker = new Worker(new URL(import.meta.url), { argv: [seeds.from, seeds.step, seeds.to] });
    worker.on("message", tell);
    worker.on("error", reject);
    worker.on("exit", (code) => (code === 0 ? resolve() : reject(new Error(`a worker ended with ${code}`))));
  });
}

async function work([from = 1, step = 1, to = 1]: number[]): Promise<void> {
  for (let seed = from; seed < to; seed += step) {
    const outcome = await runWorld(seed);
    const report = outcome.violations.length === 0 ? null : reportOf(outcome);
    const told: Told = { seed, report, counts: [...outcome.counts] };
    parentPort?.postMessage(told, []);
  }
}
