/**
 * What `doctor` sees on this machine without asking a daemon.
 *
 * Invariant: files are looked at and never written; the directory itself is not made.
 */

import { execFile } from "node:child_process";
import { accessSync, constants, readFileSync, realpathSync, statfsSync, statSync } from "node:fs";
import path from "node:path";
import { promisify } from "node:util";
import { configFileOf, type LoadResult } from "../config/load-config.ts";
import { describeProblem } from "../config/problem.ts";
import type { AgentConfig } from "../config/schema.ts";
import { refusedMount } from "../core/mount.ts";
import { type Check, failed, ok, warn } from "./doctor-check.ts";
import { EXIT } from "./exit-codes.ts";
import type { Io } from "./io.ts";
import { findProgram } from "./program-search.ts";

const NODE_MIN = [22, 19] as const;
const MIB = 1024 * 1024;
/** With less than this the next task may not be kept; with less than `ROOM_WARN_BYTES` that is near. */
const ROOM_MIN_BYTES = 64 * MIB;
const ROOM_WARN_BYTES = 1024 * MIB;
const GIT_MAX_MS = 2_000;

/** `version`: as `process.versions.node`. */
export function checkNode(version: string): Check {
  const [major = 0, minor = 0] = version.split(".").map(Number);
  const isEnough = major > NODE_MIN[0] || (major === NODE_MIN[0] && minor >= NODE_MIN[1]);
  if (isEnough) return ok("node", version);
  return failed("node", `${version} is too old`, `Use Node ${NODE_MIN.join(".")} or newer.`, EXIT.usage);
}

export function checkConfiguration(loaded: LoadResult): Check {
  const name = "configuration";
  if (loaded.kind === "loaded")
    return ok(
      name,
      loaded.loaded.configFile ?? `no file ${configFileOf(null)}: defaults, and what the environment says`,
    );
  const { problems } = loaded;
  const found = problems.length === 1 ? "1 mistake" : `${problems.length} mistakes`;
  const fix = "Correct it; the daemon does not start like this.";
  return { ...failed(name, found, fix, EXIT.usage), details: problems.map(describeProblem) };
}

/** The data directory: is it there, whose is it, and can a database live in it. */
export function checkDataDir(dataDir: string): readonly Check[] {
  const existing = nearestExisting(dataDir);
  const isThere = existing !== null && statSync(dataDir, { throwIfNoEntry: false }) !== undefined;
  const checks = [isThere ? checkRights(dataDir) : absent(dataDir, existing)];
  if (existing === null) return checks;
  const mount = refusedMount(existing, mountTable());
  checks.push(
    mount === null
      ? ok("file system", "local")
      : failed(
          "file system",
          `${mount.mountPoint} is ${mount.filesystem}, which keeps no database whole`,
          "Name a directory on a local disk: --data-dir DIR.",
          EXIT.usage,
        ),
  );
  return [...checks, checkRoom(existing)];
}

function absent(dataDir: string, existing: string | null): Check {
  const name = "data directory";
  if (existing !== null && isAllowed(existing, constants.W_OK | constants.X_OK))
    return warn(name, `${dataDir} is not there yet`, "The first start makes it: delegate-mcp serve");
  return failed(name, `${dataDir} is not there and cannot be made`, CANNOT_WRITE, EXIT.auth);
}

const CANNOT_WRITE = "Name a directory that this user can write: --data-dir DIR.";

function checkRights(dataDir: string): Check {
  const name = "data directory";
  const stats = statSync(dataDir);
  if (!stats.isDirectory()) return failed(name, `${dataDir} is no directory`, "Move it away.", EXIT.auth);
  const own = process.getuid?.();
  if (own !== undefined && stats.uid !== own)
    return failed(name, `${dataDir} belongs to another user`, "Run this as the user that runs the daemon.", EXIT.auth);
  if (!isAllowed(dataDir, constants.R_OK | constants.W_OK | constants.X_OK))
    return failed(name, `${dataDir} cannot be written`, CANNOT_WRITE, EXIT.auth);
  const mode = stats.mode & 0o777;
  if (process.platform !== "win32" && (mode & 0o077) !== 0) {
    const shown = mode.toString(8).padStart(4, "0");
    return failed(name, `${dataDir} is open to others (mode ${shown})`, `chmod 700 ${dataDir}`, EXIT.auth);
  }
  return ok(name, dataDir);
}

function checkRoom(folder: string): Check {
  const { bavail, bsize } = statfsSync(folder);
  const free = bavail * bsize;
  const found = `${Math.floor(free / MIB)} MiB free`;
  if (free < ROOM_MIN_BYTES)
    return failed("disk", found, "Make room: new tasks are refused on a full disk.", EXIT.unreachable);
  return free < ROOM_WARN_BYTES ? warn("disk", found, "Make room soon.") : ok("disk", found);
}

/** The programs of the configured agents, on the path that a child gets. `file`: the configuration file, if one was read. */
export function checkAgents(
  agents: Readonly<Record<string, AgentConfig>>,
  searchPath: string,
  file: string | null,
): readonly Check[] {
  const named = Object.entries(agents);
  if (named.length === 0)
    return [
      warn("agents", "none is configured", `Add one under "agents" in ${configFileOf(file)}, and start serve again.`),
    ];
  return named.map(([name, agent]) => checkAgent(`agent ${name}`, agent, searchPath));
}

/** Drivers that start no program. */
const WITHOUT_PROGRAM: readonly string[] = ["fake", "model"];

function checkAgent(name: string, agent: AgentConfig, searchPath: string): Check {
  const { driver } = agent;
  if (WITHOUT_PROGRAM.includes(driver)) return ok(name, `driver ${driver}: no program needed`);
  const program = agent.command?.[0] ?? driver;
  if (program.includes("/") && !path.isAbsolute(program)) {
    const fix = "Write the whole path, or a name that is found on PATH.";
    return warn(name, `driver ${driver}: ${program} depends on the directory of each task`, fix);
  }
  const found = findProgram(program, searchPath);
  if (found !== null) return ok(name, `driver ${driver}: ${found}`);
  const fix = `Install it, or write its path into agents.${name.slice("agent ".length)}.command.`;
  const where = path.isAbsolute(program) ? "is not there or cannot be run" : "is not found on this PATH";
  return failed(name, `driver ${driver}: ${program} ${where}`, fix, EXIT.notFound);
}

export async function checkGit(env: Io["env"]): Promise<Check> {
  const program = findProgram("git", env["PATH"] ?? "");
  const fix = "Install git: without it writers cannot have worktrees of their own, and no changes are shown.";
  if (program === null) return warn("git", "not found on this PATH", fix);
  try {
    const { stdout } = await promisify(execFile)(program, ["--version"], { timeout: GIT_MAX_MS, env: { ...env } });
    return ok("git", stdout.trim());
  } catch {
    return warn("git", `${program} cannot be run`, fix);
  }
}

/** `limits`: by name; null if they are not known. */
export function checkLimits(limits: Readonly<Record<string, unknown>> | null): readonly Check[] {
  if (limits === null) return [];
  const shown = Object.entries(limits).map(([name, value]) => `${name} ${String(value)}`);
  return [ok("limits", shown.join(", "))];
}

function isAllowed(folder: string, mode: number): boolean {
  try {
    accessSync(folder, mode);
    return true;
  } catch {
    return false;
  }
}

/** The real path of the nearest folder that exists at or above `folder`; null if none can be looked at. */
function nearestExisting(folder: string): string | null {
  for (let candidate = folder; ; candidate = path.dirname(candidate)) {
    try {
      return realpathSync(candidate);
    } catch {
      if (path.dirname(candidate) === candidate) return null;
    }
  }
}

function mountTable(): string {
  try {
    return readFileSync("/proc/self/mountinfo", "utf8");
  } catch {
    return "";
  }
}
