/**
 * Looking at real processes from a test, without the code under test: by mark, by pid, by what they write. And a guard client
 * that is set up as `main` would.
 */

import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { attemptIdOf, type Mark, markOf, taskIdFrom } from "../../src/core/ids.ts";
import { createGuardClient, type GuardClientOptions } from "../../src/guard/guard-client.ts";
import { createGuardClock } from "../../src/guard/guard-clock.ts";
import type { Child, Children, SpawnSpec } from "../../src/ports/children.ts";
import type { Log, LogFields } from "../../src/ports/log.ts";

const POLL_MS = 5;
const AGENT = fileURLToPath(new URL("./fake-agent.ts", import.meta.url));
let marks = 0;

/** Polls a condition; for process boundaries only. Fails with `what` after `withinMs`. */
export async function eventually<Value>(
  what: string,
  look: () => Value | Promise<Value>,
  withinMs = 5_000,
): Promise<NonNullable<Value>> {
  for (const startedMs = performance.now(); performance.now() - startedMs < withinMs; await delay(POLL_MS)) {
    const value = await look();
    if (value !== null && value !== undefined && value !== false) return value;
  }
  throw new Error(`not within ${withinMs} ms: ${what}`);
}

/** A mark that no other test uses. */
export function freshMark(daemonId = `test${process.pid}`): Mark {
  marks += 1;
  return markOf(daemonId, attemptIdOf(taskIdFrom(String(marks).padStart(26, "0")), 1));
}

export function agentCommand(script: readonly object[]): readonly [string, ...string[]] {
  return [process.execPath, AGENT, JSON.stringify(script)];
}

/** The fake agent as a driver runs it: the script comes with the task. */
export const AGENT_COMMAND: readonly [string, ...string[]] = [process.execPath, AGENT];

export function shell(line: string): readonly [string, ...string[]] {
  return ["/bin/sh", "-c", line];
}

/** Living processes whose environment carries the mark. */
export function processesMarked(mark: Mark): readonly number[] {
  return allPids().filter(
    (pid) => isAlive(pid) && contents(`/proc/${pid}/environ`).split("\0").includes(`DELEGATE_CHILD_MARK=${mark}`),
  );
}

/** True if the process exists and is more than a zombie. */
export function isAlive(pid: number): boolean {
  const stat = contents(`/proc/${pid}/stat`);
  return stat !== "" && !["Z", "X"].includes(stat.slice(stat.lastIndexOf(")") + 2).charAt(0));
}

/** Start time of a process as the system counts it. */
export function startTimeOf(pid: number): string {
  const stat = contents(`/proc/${pid}/stat`);
  return stat.slice(stat.lastIndexOf(")") + 2).split(" ")[19] ?? "";
}

function allPids(): readonly number[] {
  return readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .map(Number);
}

/** Empty if the file is not there. */
export function contents(path: string): string {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return "";
  }
}

export type TestFolder = Disposable & { readonly path: string; file(name: string): string };

export function createTestFolder(): TestFolder {
  const path = mkdtempSync(join(tmpdir(), "delegate-test-"));
  return {
    path,
    file: (name) => join(path, name),
    [Symbol.dispose]: () => rmSync(path, { recursive: true, force: true }),
  };
}

export type RecordedLog = Log & { readonly events: readonly { readonly event: string; readonly fields: LogFields }[] };

export function createRecordedLog(): RecordedLog {
  const events: { event: string; fields: LogFields }[] = [];
  const add = (event: string, fields: LogFields = {}): void => void events.push({ event, fields });
  return { events, debug: add, info: add, warn: add, error: add };
}

export type TestChildren = Children & {
  readonly log: RecordedLog;
  /** The newest guard's pid. */
  guardPid(): number;
  /** Starts a child that has to start. */
  start(command: SpawnSpec["command"], options?: Partial<SpawnSpec>): Promise<Child & { readonly mark: Mark }>;
};

/** A real guard client; beats by itself unless `beatMs` is null. Dispose it in every test. */
export function createTestChildren(
  options: Partial<GuardClientOptions> & { readonly beatMs?: number | null } = {},
): TestChildren {
  const log = createRecordedLog();
  const { beatMs = 1_000, ...rest } = options;
  const client = createGuardClient({
    daemonId: `test${process.pid}`,
    leaseMs: 30_000,
    clock: createGuardClock(),
    log,
    ...rest,
  });
  const beat = beatMs === null ? undefined : setInterval(client.heartbeat, beatMs);
  return {
    ...client,
    log,
    guardPid: () => Number(log.events.findLast(({ event }) => event === "guard_started")?.fields["pid"]),
    async start(command, options = {}) {
      const mark = options.mark ?? freshMark();
      const env = { PATH: process.env["PATH"] ?? "" };
      const result = await client.spawn({ mark, command, cwd: tmpdir(), env, stdin: "", ...options });
      if (result.kind === "failed") throw new Error(`${result.code}: ${result.message}`);
      return { ...result.child, mark };
    },
    async [Symbol.asyncDispose]() {
      clearInterval(beat);
      await client[Symbol.asyncDispose]();
    },
  };
}

/** Everything a stream has, as text. */
export async function readAll(stream: AsyncIterable<Uint8Array>): Promise<string> {
  const chunks: Uint8Array[] = [];
  for await (const chunk of stream) chunks.push(chunk);
  return Buffer.concat(chunks).toString("utf8");
}
