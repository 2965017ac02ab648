/**
 * The process table of Linux, from /proc: one pass reads `stat` and `environ` of every process, a few milliseconds for a
 * few hundred of them. Reads are synchronous: /proc never waits for a disk, and a pass that is interrupted by our own other
 * work would see less of one moment.
 *
 * Invariant: a file that is gone or forbidden is an answer; any other error (too many open files) fails the pass.
 */

import { closeSync, openSync, readdirSync, readFileSync, readSync } from "node:fs";
import { GUARD_VARIABLE, MARK_VARIABLE, variableIn } from "./marker.ts";
import type { ProcessRow, ProcessTable } from "./process-table.ts";

/** A longer environment counts as one that cannot be read. */
const ENVIRONMENT_BYTES_MAX = 8 * 1024 * 1024;
const ABSENT = new Set(["ENOENT", "ESRCH", "EACCES", "EPERM"]);

export function createLinuxProcessTable(): ProcessTable {
  const bootId = readFileSync("/proc/sys/kernel/random/boot_id", "utf8").trim();
  const read = createReader();
  const rowOf = createLinuxRowReader(read);
  return {
    bootId,
    evidence: "marker+tree",
    async pass() {
      return linuxPids()
        .map(rowOf)
        .filter((row) => row !== null);
    },
    async identify(pid) {
      const stat = read(`/proc/${pid}/stat`);
      const row = stat === null ? null : parseStat(stat.toString("latin1"));
      return row === null ? null : { pid, startTime: row.startTime, bootId };
    },
    async commandOf(pid) {
      const line = (read(`/proc/${pid}/cmdline`)?.toString("utf8") ?? "").replaceAll("\0", " ").trim();
      return line === "" ? `[${(read(`/proc/${pid}/comm`)?.toString("utf8") ?? "?").trim()}]` : line;
    },
    signal: (pid, signal) => void process.kill(pid, signal),
  };
}

export function linuxPids(): readonly number[] {
  return readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .map(Number);
}

/** Reads one process, for those who cannot afford a whole pass at once; null if there is none. */
export function createLinuxRowReader(read = createReader()): (pid: number) => ProcessRow | null {
  return (pid) => {
    const stat = read(`/proc/${pid}/stat`);
    const row = stat === null ? null : parseStat(stat.toString("latin1"));
    if (row === null || row.zombie) return row;
    const environment = read(`/proc/${pid}/environ`);
    if (environment === null) return row;
    return { ...row, mark: variableIn(environment, MARK_VARIABLE), guardOf: variableIn(environment, GUARD_VARIABLE) };
  };
}

/**
 * One line of /proc/PID/stat. The name in parentheses may itself hold spaces and parentheses. A leader that has ended while
 * its other threads run shows as a zombie with more than one thread, and is alive.
 */
export function parseStat(line: string): ProcessRow | null {
  const nameEnds = line.lastIndexOf(")");
  const pid = Number.parseInt(line, 10);
  const fields = line.slice(nameEnds + 2).split(" ");
  const [state, ppid, pgid, sid] = fields;
  const threads = Number(fields[17]);
  const startTime = fields[19];
  if (nameEnds < 0 || state === undefined || startTime === undefined || !Number.isInteger(pid)) return null;
  const ended = state === "X" || (state === "Z" && !(threads > 1));
  return {
    pid,
    ppid: Number(ppid),
    pgid: Number(pgid),
    sid: Number(sid),
    startTime,
    zombie: ended,
    mark: null,
    guardOf: null,
  };
}

/** Reads whole files of unknown size into one buffer that grows and is used again: the result is valid until the next call. */
function createReader(): (path: string) => Buffer | null {
  let buffer = Buffer.allocUnsafe(64 * 1024);
  return (path) => {
    const file = attempt(() => openSync(path, "r"));
    if (file === null) return null;
    try {
      for (let length = 0; ; ) {
        const at = length;
        const count = attempt(() => readSync(file, buffer, at, buffer.length - at, null));
        if (count === null) return null;
        length += count;
        if (count === 0) return buffer.subarray(0, length);
        if (length < buffer.length) continue;
        if (length >= ENVIRONMENT_BYTES_MAX) return null;
        buffer = Buffer.concat([buffer, Buffer.allocUnsafe(buffer.length)]);
      }
    } finally {
      closeSync(file);
    }
  };
}

function attempt(work: () => number): number | null {
  try {
    return work();
  } catch (error) {
    if (error instanceof Error && "code" in error && ABSENT.has(String(error.code))) return null;
    throw error;
  }
}
