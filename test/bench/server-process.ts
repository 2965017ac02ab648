/**
 * A server in a process of its own, with the probe in it: started, asked, ended.
 *
 * Invariant: only processes that were started here are ended, by pid; one that does not end by itself is killed.
 */

import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { z } from "zod";
import { nowMs } from "./now.ts";

export type ServerProcess = AsyncDisposable & {
  /** The first line that the server wrote to its standard output. */
  readonly ready: unknown;
  /** Time from the spawn to that line. */
  readonly readyAfterMs: number;
  /** CPU time of the process so far, user and system, all threads. */
  usageUs(): Promise<number>;
  /** After forced garbage collection. */
  memory(): Promise<Memory>;
  /** When transactions were committed (`nowMs`) since the last question. */
  commitsMs(): Promise<readonly number[]>;
};

export type Memory = { readonly rssBytes: number; readonly heapBytes: number };

export type ServerStart = {
  readonly program: string;
  readonly args: readonly string[];
  readonly cwd: string;
  readonly env: Readonly<Record<string, string>>;
  /** Folder for CPU profiles, written when the server ends; null for none. */
  readonly profileTo: string | null;
};

const PROBE = fileURLToPath(new URL("./probe.ts", import.meta.url));
const START_MAX_MS = 30_000;
const END_MAX_MS = 15_000;
const ANSWER_MAX_MS = 30_000;

const usageSchema = z.object({ usageUs: z.number() });
const memorySchema = z.object({ rssBytes: z.number(), heapBytes: z.number() });
const commitsSchema = z.object({ commitsMs: z.array(z.number()) });

export async function startServer(start: ServerStart): Promise<ServerProcess> {
  const profile = start.profileTo === null ? [] : ["--cpu-prof", `--cpu-prof-dir=${start.profileTo}`];
  const flags = ["--expose-gc", "--disable-warning=ExperimentalWarning", ...profile, "--import", PROBE];
  const startedMs = nowMs();
  const server = spawn(process.execPath, [...flags, start.program, ...start.args], {
    cwd: start.cwd,
    env: start.env,
    stdio: ["ignore", "pipe", "inherit", "ipc"],
  });
  const gone = once(server, "exit");
  try {
    const ready: unknown = JSON.parse(await firstLine(server, gone));
    const ask = createAsker(server);
    return {
      ready,
      readyAfterMs: nowMs() - startedMs,
      usageUs: async () => usageSchema.parse(await ask("usage")).usageUs,
      memory: async () => memorySchema.parse(await ask("memory")),
      commitsMs: async () => commitsSchema.parse(await ask("commits")).commitsMs,
      [Symbol.asyncDispose]: () => end(server, gone),
    };
  } catch (error) {
    await end(server, gone);
    throw error;
  }
}

async function firstLine(server: ChildProcess, gone: Promise<unknown>): Promise<string> {
  if (server.stdout === null) throw new Error("the server has no standard output");
  const lines = createInterface({ input: server.stdout });
  const signal = AbortSignal.timeout(START_MAX_MS);
  const line = once(lines, "line", { signal }).then(([text]) => String(text));
  const ended = gone.then(() => {
    throw new Error("the server ended before it was ready");
  });
  return Promise.race([line, ended]);
}

/** One question at a time. */
function createAsker(server: ChildProcess): (question: string) => Promise<unknown> {
  let last: Promise<unknown> = Promise.resolve();
  const ask = async (question: string): Promise<unknown> => {
    const answer = once(server, "message", { signal: AbortSignal.timeout(ANSWER_MAX_MS) });
    server.send(question);
    const [message]: unknown[] = await answer;
    return message;
  };
  return (question) => {
    last = last.then(() => ask(question));
    return last;
  };
}

/** SIGINT: a daemon stops its children at once instead of leaving them to its guard. */
async function end(server: ChildProcess, gone: Promise<unknown>): Promise<void> {
  if (server.exitCode !== null || server.signalCode !== null) return;
  server.kill("SIGINT");
  const late = setTimeout(() => server.kill("SIGKILL"), END_MAX_MS);
  await gone;
  clearTimeout(late);
}
