/**
 * Starts the guard's process: in a session of its own, so that Ctrl-C and a closed terminal do not reach it, with one
 * connection to the daemon as descriptor 3.
 *
 * Invariant: the guard's environment holds what Node needs and whose guard it is, nothing else; it has no child's mark.
 */

import { type ChildProcess, spawn } from "node:child_process";
import { Duplex } from "node:stream";
import { fileURLToPath } from "node:url";
import { GUARD_VARIABLE, guardOwnerText } from "./marker.ts";

export type StartedGuard = {
  readonly process: ChildProcess;
  readonly pid: number;
  readonly stream: Duplex;
  /** The end of what it wrote to standard error: empty unless it crashed. */
  complaint(): string;
};

export type GuardStart = {
  readonly daemonId: string;
  readonly leaseMs: number;
  readonly execPath: string;
  readonly useGroups: boolean;
};

const COMPLAINT_CHARACTERS_MAX = 2_000;
const ENVIRONMENT_NAMES = ["PATH", "HOME", "TMPDIR", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "LANG", "TZ"];

/** Null if the system refused; nothing runs then. */
export function startGuardProcess({ daemonId, leaseMs, execPath, useGroups }: GuardStart): StartedGuard | null {
  const owner = guardOwnerText({ daemonId, daemonPid: process.pid });
  const guard = spawn(execPath, [scriptPath(), daemonId, String(leaseMs), useGroups ? "groups" : "plain"], {
    detached: true,
    cwd: "/",
    stdio: ["ignore", "ignore", "pipe", "pipe"],
    env: { ...inheritedEnvironment(), [GUARD_VARIABLE]: owner },
  });
  guard.on("error", () => undefined);
  guard.unref();
  const stream = guard.stdio[3];
  if (guard.pid === undefined || !(stream instanceof Duplex)) return null;
  return { process: guard, pid: guard.pid, stream, complaint: collectComplaint(guard) };
}

/** Beside this file, in the form in which this file runs. */
function scriptPath(): string {
  const extension = import.meta.url.endsWith(".ts") ? "ts" : "js";
  return fileURLToPath(new URL(`./guard-process.${extension}`, import.meta.url));
}

function inheritedEnvironment(): Record<string, string> {
  const pairs = ENVIRONMENT_NAMES.map((name) => [name, process.env[name] ?? null] as const);
  return Object.fromEntries(pairs.filter((pair): pair is readonly [string, string] => pair[1] !== null));
}

function collectComplaint({ stderr }: ChildProcess): () => string {
  let text = "";
  stderr?.setEncoding("utf8");
  stderr?.on("error", () => undefined);
  stderr?.on("data", (part: string) => {
    text = (text + part).slice(-COMPLAINT_CHARACTERS_MAX);
  });
  return () => text;
}
