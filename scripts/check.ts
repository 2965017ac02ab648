/**
 * Everything that must hold before a change is shared, in under a minute on two cores: one line a step, the output of
 * failing steps only. `npm run check -- types lint` runs just the named steps.
 *
 * Invariant: exits with 0 only if every step did; a step that hangs is ended and counts as failed.
 * Absent on purpose: the slow tests (real daemons, harnesses, faults). `npm test` runs those.
 */

import { spawn } from "node:child_process";
import { availableParallelism } from "node:os";
import path from "node:path";

type Step = {
  readonly name: string;
  /** Run one after another until one fails. */
  readonly commands: readonly string[];
  /** Uses all cores by itself, so it runs after the others. */
  readonly alone?: true;
};

type Outcome = { readonly name: string; readonly failed: boolean };

const STEPS: readonly Step[] = [
  { name: "package", commands: ["node scripts/build.ts", "publint run --strict", "node scripts/pack-smoke.ts"] },
  { name: "types", commands: ["tsc -p tsconfig.json"] },
  { name: "lint", commands: ["oxlint --type-aware --quiet"] },
  { name: "format", commands: ["biome format --reporter=summary ."] },
  { name: "walls", commands: ["node scripts/walls.ts"] },
  { name: "dead code", commands: ["knip --no-progress"] },
  { name: "generated", commands: ["node scripts/generate.ts --check"] },
  { name: "tests", commands: ["vitest run --project fast"], alone: true },
];
const STEP_MS = 120_000;
const OUTPUT_CHARS_MAX = 200_000;
const ROOT = path.join(import.meta.dirname, "..");
const ENV = {
  ...process.env,
  NO_COLOR: "1",
  PATH: [path.dirname(process.execPath), path.join(ROOT, "node_modules", ".bin"), process.env["PATH"]].join(
    path.delimiter,
  ),
};

const startedMs = Date.now();
const wanted = process.argv.slice(2);
const unknown = wanted.filter((name) => !STEPS.some((step) => step.name === name));
if (unknown.length > 0) {
  console.error(`no such step: ${unknown.join(", ")}; there are ${STEPS.map((step) => step.name).join(", ")}`);
  process.exit(2);
}
const steps = STEPS.filter((step) => wanted.length === 0 || wanted.includes(step.name));
const outcomes = [
  ...(await runAll(
    steps.filter((step) => !step.alone),
    availableParallelism(),
  )),
  ...(await runAll(
    steps.filter((step) => step.alone),
    1,
  )),
];
const failed = outcomes.filter((outcome) => outcome.failed).map((outcome) => outcome.name);
console.log(`${failed.length === 0 ? "all steps hold" : `failed: ${failed.join(", ")}`}, ${seconds(startedMs)}`);
process.exitCode = failed.length === 0 ? 0 : 1;

/** Runs the steps in their order, `width` of them at a time. */
async function runAll(queue: readonly Step[], width: number): Promise<readonly Outcome[]> {
  const waiting = [...queue];
  const outcomes: Outcome[] = [];
  const lane = async (): Promise<void> => {
    for (let step = waiting.shift(); step; step = waiting.shift()) outcomes.push(await runStep(step));
  };
  await Promise.all(Array.from({ length: width }, lane));
  return outcomes;
}

async function runStep(step: Step): Promise<Outcome> {
  const stepStartedMs = Date.now();
  let output = "";
  let problem: string | null = null;
  for (const command of step.commands) {
    const ran = await run(command);
    output = ran.output;
    problem = ran.problem === null ? null : `${command}: ${ran.problem}`;
    if (problem) break;
  }
  console.log(`${problem ? "FAIL" : "ok  "} ${step.name.padEnd(12)} ${seconds(stepStartedMs).padStart(7)}`);
  if (problem) console.log(`${output.trimEnd()}\n${problem}\n`);
  return { name: step.name, failed: problem !== null };
}

/** `problem` is null if the command exited with 0. */
function run(command: string): Promise<{ readonly output: string; readonly problem: string | null }> {
  return new Promise((resolve) => {
    const [program = "", ...args] = command.split(" ");
    const child = spawn(program, args, { cwd: ROOT, env: ENV, stdio: ["ignore", "pipe", "pipe"], timeout: STEP_MS });
    let output = "";
    const collect = (chunk: string): void => {
      output = (output + chunk).slice(-OUTPUT_CHARS_MAX);
    };
    child.stdout.setEncoding("utf8").on("data", collect);
    child.stderr.setEncoding("utf8").on("data", collect);
    child.on("error", (error) => resolve({ output, problem: error.message }));
    child.on("close", (code, signal) => {
      const ended = child.killed ? `ended after ${STEP_MS / 1000} s` : `exited with ${signal ?? code}`;
      resolve({ output, problem: code === 0 ? null : ended });
    });
  });
}

function seconds(sinceMs: number): string {
  return `${((Date.now() - sinceMs) / 1000).toFixed(1)} s`;
}
