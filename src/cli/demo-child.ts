/**
 * The demo's child: a program that writes a file slowly and commits it, and a log by which its life can be judged.
 *
 * It may be run again after it was killed half-way: it finds what is there and finishes it.
 */

import { execFile } from "node:child_process";
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import path from "node:path";
import { promisify } from "node:util";

export type DemoChild = {
  readonly repository: string;
  readonly command: readonly [string, string, string];
  readonly task: string;
  readonly log: string;
};

/** What the log tells: who started when, whether two were ever alive at once, how much was committed. */
export type DemoLife = {
  readonly starts: readonly number[];
  readonly beats: number;
  readonly overlaps: boolean;
  readonly commits: number;
};

const PROGRAM = `
import { appendFileSync, writeFileSync } from "node:fs";
import { execFileSync } from "node:child_process";
const log = process.argv[2];
const note = (what) => appendFileSync(log, JSON.stringify({ pid: process.pid, what, atMs: Date.now() }) + "\\n");
let task = "";
for await (const chunk of process.stdin) task += chunk;
note("start");
for (let line = 1; line <= 40; line += 1) {
  writeFileSync("greeting.txt", "hello, world\\n".repeat(line));
  note("beat");
  await new Promise((resolve) => setTimeout(resolve, 100));
}
const git = (...args) => execFileSync("git", ["-c", "user.name=demo", "-c", "user.email=demo@localhost", "-c", "core.hooksPath=/dev/null", ...args]);
git("add", "greeting.txt");
git("commit", "--quiet", "-m", "Write a greeting");
note("end");
console.log("Wrote greeting.txt (40 lines) and committed it, as asked: " + task.trim());
`;

export async function makeRepository(folder: string): Promise<DemoChild> {
  const repository = path.join(folder, "repository");
  const program = path.join(folder, "child.mjs");
  const log = path.join(folder, "life.jsonl");
  mkdirSync(repository);
  writeFileSync(program, PROGRAM);
  await promisify(execFile)("git", ["init", "--quiet", repository]);
  return {
    repository,
    command: [process.execPath, program, log],
    task: "Write greeting.txt with 40 lines and commit it.",
    log,
  };
}

export function askChildren({ log, repository }: DemoChild): DemoLife {
  const notes = (existsSync(log) ? readFileSync(log, "utf8") : "")
    .split("\n")
    .filter((line) => line !== "")
    .map(readNote);
  const starts = notes.filter(({ what }) => what === "start");
  const overlaps = starts.some((start) =>
    notes.some(({ pid, atMs }) => pid !== start.pid && isAlive(notes, pid, start.atMs, atMs)),
  );
  return {
    starts: starts.map(({ pid }) => pid),
    beats: notes.filter(({ what }) => what === "beat").length,
    overlaps,
    commits: commitsOf(repository),
  };
}

type Note = { readonly pid: number; readonly what: string; readonly atMs: number };

function readNote(line: string): Note {
  const [pid, atMs] = [/"pid":(\d+)/, /"atMs":(\d+)/].map((form) => Number(form.exec(line)?.[1]));
  return { pid: pid ?? 0, atMs: atMs ?? 0, what: /"what":"(\w+)"/.exec(line)?.[1] ?? "" };
}

/** True if a process wrote both before and after another one's start. */
function isAlive(notes: readonly Note[], pid: number, startMs: number, atMs: number): boolean {
  return atMs > startMs && notes.some((note) => note.pid === pid && note.atMs < startMs);
}

function commitsOf(repository: string): number {
  const log = path.join(repository, ".git", "logs", "HEAD");
  return existsSync(log)
    ? readFileSync(log, "utf8")
        .split("\n")
        .filter((line) => line !== "").length
    : 0;
}
