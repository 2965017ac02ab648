/**
 * A server in a process of its own: started, with the probe in it asked, ended.
 *
 * Invariant: only processes that were started here are ended, by pid; one that does not end by itself is killed.
 */

import { type ChildProcess, type IOType, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, readFileSync } from "node:fs";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { z } from "zod";
import { nowMs } from "./now.ts";

export type StartedServer = AsyncDisposable & {
  /** The first line that the server wrote to its standard output. */
  readonly ready: unknown;
  /** Time from the spawn to that line. */
  readonly readyAfterMs: number;
  /** CPU time of the process up to it; null where the system does not show it. */
  readonly cpuToReadyMs: number | null;
};

export type ServerProcess = StartedServer & {
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
};

const PROBE = fileURLToPath(new URL("./probe.ts", import.meta.url));
const START_MAX_MS = 30_000;
const END_MAX_MS = 15_000;
const ANSWER_MAX_MS = 30_000;

const usageSchema = z.object({ usageUs: z.number() });
const memorySchema = z.object({ rssBytes: z.number(), heapBytes: z.number() });
const commitsSchema = z.object({ commitsMs: z.array(z.number()) });

/** As users start it. */
export async function startPlainServer(start: ServerStart): Promise<StartedServer> {
  return (await spawnServer(start, [], PLAIN)).started;
}

/** With the probe in it. `profileTo`: folder for a CPU profile, written when the server ends; null for none. */
export async function startServer(start: ServerStart, profileTo: string | null): Promise<ServerProcess> {
  const profile = profileTo === null ? [] : ["--cpu-prof", `--cpu-prof-dir=${profileTo}`];
  const flags = ["--expose-gc", "--disable-warning=ExperimentalWarning", ...profile, "--import", PROBE];
  const { server, started } = await spawnServer(start, flags, [...PLAIN, "ipc"]);
  const ask = createAsker(server);
  return {
    ...started,
    usageUs: async () => usageSchema.parse(await ask("usage")).usageUs,
    memory: async () => memorySchema.parse(await ask("memory")),
    commitsMs: async () => commitsSchema.parse(await ask("commits")).commitsMs,
  };
}

type Stdio = IOType | "ipc";

const PLAIN: readonly Stdio[] = ["ignore", "pipe", "inherit"];

async function spawnServer(
  { program, args, cwd, env }: ServerStart,
  flags: readonly string[],
  stdio: readonly Stdio[],
): Promise<{ readonly server: ChildProcess; readonly started: StartedServer }> {
  const startedMs = nowMs();
  const server = spawn(process.execPath, [...flags, program, ...args], { cwd, env, stdio: [...stdio] });
  const gone = once(server, "exit");
  try {
    const line = await firstLine(server, gone);
    const readyAfterMs = nowMs() - startedMs;
    const cpuToReadyMs = cpuMsOf(server.pid);
    const ready: unknown = JSON.parse(line);
    const dispose = (): Promise<void> => end(server, gone);
    return { server, started: { ready, readyAfterMs, cpuToReadyMs, [Symbol.asyncDispose]: dispose } };
  } catch (error) {
    await end(server, gone);
    throw error;
  }
}

/** Linux counts in hundredths of a second: user time in field 14, system time in field 15. */
function cpuMsOf(pid: number | undefined): number | null {
  const path = `/proc/${pid}/stat`;
  if (!existsSync(path)) return null;
  const fields = readFileSync(path, "utf8")
    .replace(/^.*\) /, "")
    .split(" ");
  return (Number(fields[11]) + Number(fields[12])) * 10;
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
