/**
 * The process table of macOS and other systems without /proc, from `ps`. Environments cannot be relied on there, so an
 * empty pass is worth `tree` only.
 *
 * Invariant: a `ps` that fails or takes longer than two seconds fails the pass.
 */

import { execFile } from "node:child_process";
import { promisify } from "node:util";
import type { ProcessRow, ProcessTable } from "./process-table.ts";

const PS_MS_MAX = 2_000;
const PS_BYTES_MAX = 8 * 1024 * 1024;
const run = promisify(execFile);

export async function createPsProcessTable(): Promise<ProcessTable> {
  const bootId = await firstLine("sysctl", ["-n", "kern.bootsessionuuid"]).catch(() => "unknown-boot");
  const rows = async (): Promise<readonly ProcessRow[]> => {
    const output = await runQuietly("ps", ["-A", "-o", "pid=,ppid=,pgid=,stat=,lstart="]);
    return output.split("\n").flatMap((line) => parsePsLine(line) ?? []);
  };
  return {
    bootId,
    evidence: "tree",
    pass: rows,
    async identify(pid) {
      const row = parsePsLine(
        await firstLine("ps", ["-p", String(pid), "-o", "pid=,ppid=,pgid=,stat=,lstart="]).catch(() => ""),
      );
      return row === null ? null : { pid, startTime: row.startTime, bootId };
    },
    commandOf: (pid) => firstLine("ps", ["-p", String(pid), "-o", "command="]).catch(() => "[?]"),
    signal: (pid, signal) => void process.kill(pid, signal),
  };
}

/** `  501   1   501 Ss   Tue Dec  1 07:44:13 2026`, in the C locale. */
export function parsePsLine(line: string): ProcessRow | null {
  const match = /^\s*(\d+)\s+(\d+)\s+(\d+)\s+(\S+)\s+(\S.*\S)\s*$/.exec(line);
  const [, pid, ppid, pgid, state, startTime] = match ?? [];
  if (pid === undefined || state === undefined || startTime === undefined) return null;
  return {
    pid: Number(pid),
    ppid: Number(ppid),
    pgid: Number(pgid),
    sid: 0,
    startTime: startTime.replaceAll(/\s+/g, " "),
    zombie: state.startsWith("Z"),
    mark: null,
    guardOf: null,
  };
}

async function firstLine(program: string, args: readonly string[]): Promise<string> {
  return (await runQuietly(program, args)).split("\n", 1)[0]?.trim() ?? "";
}

async function runQuietly(program: string, args: readonly string[]): Promise<string> {
  const env = { PATH: "/usr/bin:/bin:/usr/sbin:/sbin", LC_ALL: "C" };
  const { stdout } = await run(program, [...args], { timeout: PS_MS_MAX, maxBuffer: PS_BYTES_MAX, env });
  return stdout;
}
