/**
 * The stop ladder: from asking politely to proof (contract §8).
 *
 * Rungs: close standard input and SIGTERM to every process group that holds a member, 3 s in which a member that shows up
 * is asked as well; then SIGKILL to all of them, pass by pass; until two passes in a row, 60 ms apart, find nobody, or 8 s
 * are over and who is left is named.
 *
 * Invariant: "proven" follows two empty passes in a row, so a process that forked while it was looked at is found.
 * Invariant: a pass that fails counts as a pass that found somebody.
 * Invariant: only groups of verified members are signalled. A group lies within one session, a member's session was opened
 * by the child or below it, so no foreigner is in it.
 */

import type { StopReport } from "../core/command.ts";
import type { ProofKind, Survivor } from "../core/task.ts";
import type { Clock } from "../ports/clock.ts";
import type { ChildGroup } from "./child-groups.ts";
import type { ProcessRow, ProcessTable } from "./process-table.ts";
import { nameProcesses, proven } from "./stop-proof.ts";
import { isAlive, type TreeRecord } from "./tree-record.ts";

export const LADDER_LIMITS = { graceMs: 3_000, totalMs: 8_000, betweenEmptyMs: 60 } as const;
/** Pauses between looks while asked processes may end by themselves; the last one repeats. */
const PAUSES_MS = [10, 15, 25, 50, 100] as const;

export type LadderWorld = { readonly table: ProcessTable; readonly clock: Clock };

export type LadderOrder = {
  readonly record: TreeRecord;
  readonly background: "reap" | "keep";
  readonly group: ChildGroup | null;
  /** Rows that must be gone too before anything is proven, ours or not: a guard that could still start the child. */
  readonly blockers: (rows: readonly ProcessRow[]) => readonly ProcessRow[];
  readonly closeStdin: () => void;
};

type Look = { readonly members: readonly ProcessRow[]; readonly blockers: readonly ProcessRow[]; readonly rows: readonly ProcessRow[] };

/** Resolves within about `totalMs` and one pass. Repeating it is harmless. Never rejects. */
export async function climbStopLadder(world: LadderWorld, order: LadderOrder): Promise<StopReport> {
  const { table, clock } = world;
  const startedMs = clock.monotonicMs();
  const asked = createAsking(table);
  let last: Look | null = null;
  for (let emptyPasses = 0, round = 0; ; round++) {
    const elapsedMs = clock.monotonicMs() - startedMs;
    const look = await lookOnce(table, order);
    last = look ?? last;
    const left = look === null ? null : [...look.members, ...look.blockers];
    if (look !== null && isLeftInPeace(order, look, table)) {
      return proven(table.evidence, await nameProcesses(look.members, table));
    }
    if (left?.length === 0 && order.group?.populated() !== true) {
      emptyPasses++;
      if (emptyPasses === 2) return conclude(order, table);
      await pause(clock, LADDER_LIMITS.betweenEmptyMs);
      continue;
    }
    emptyPasses = 0;
    if (elapsedMs >= LADDER_LIMITS.totalMs) return { kind: "survivors", survivors: await nameRest(last, order, table) };
    if (round === 0) order.closeStdin();
    if (elapsedMs < LADDER_LIMITS.graceMs) asked(look?.members ?? []);
    else killAll(left ?? [], order.group, table);
    await pause(clock, PAUSES_MS[Math.min(round, PAUSES_MS.length - 1)] ?? 0);
  }
}

async function lookOnce(table: ProcessTable, order: LadderOrder): Promise<Look | null> {
  try {
    const rows = await table.pass();
    const pids = order.group?.pids() ?? [];
    return { rows, members: order.record.observe(rows, { pids }), blockers: order.blockers(rows) };
  } catch {
    return null;
  }
}

/**
 * `keep` spares what a child left behind after its own end, nothing else: while the child itself runs, or if it is not known
 * which process it was, everything is stopped.
 */
function isLeftInPeace({ background, record }: LadderOrder, { members, rows, blockers }: Look, table: ProcessTable): boolean {
  const roots = record.roots();
  if (background !== "keep" || roots.length === 0 || members.length === 0 || blockers.length > 0) return false;
  return !roots.some((root) => isAlive(root, table.bootId, rows));
}

function conclude({ record, group }: LadderOrder, table: ProcessTable): StopReport {
  group?.remove();
  const proof: ProofKind = group === null ? table.evidence : "cgroup";
  return proven(record.everSeen() ? proof : "none_started");
}

/** Asks each member once: those there at first by their groups, later ones by themselves. */
function createAsking(table: ProcessTable): (members: readonly ProcessRow[]) => void {
  const groups = new Set<number>();
  const members = new Set<string>();
  return (rows) => {
    const fresh = rows.filter((row) => !members.has(`${row.pid} ${row.startTime}`));
    const late = fresh.filter((row) => groups.has(row.pgid));
    for (const pgid of new Set(fresh.map((row) => row.pgid))) if (!groups.has(pgid)) signal(table, -pgid, "SIGTERM");
    for (const row of late) signal(table, row.pid, "SIGTERM");
    for (const row of fresh) {
      groups.add(row.pgid);
      members.add(`${row.pid} ${row.startTime}`);
    }
  };
}

function killAll(rows: readonly ProcessRow[], group: ChildGroup | null, table: ProcessTable): void {
  group?.kill();
  for (const pgid of new Set(rows.map((row) => row.pgid))) signal(table, -pgid, "SIGKILL");
}

/** Group 0 would be our own, 1 everybody's; a process that is gone or not ours to signal shows in the next pass. */
function signal(table: ProcessTable, pid: number, name: "SIGTERM" | "SIGKILL"): void {
  if (Math.abs(pid) <= 1) return;
  try {
    table.signal(pid, name);
  } catch {
    return;
  }
}

/** Never empty: "survivors" without a name would say nothing. */
async function nameRest(last: Look | null, { record }: LadderOrder, table: ProcessTable): Promise<readonly Survivor[]> {
  const rows = last === null ? [] : [...last.members, ...last.blockers];
  if (rows.length > 0) return nameProcesses(rows, table);
  const why = last === null ? "[the process table cannot be read]" : "[processes of the child's control group]";
  return [{ pid: record.roots()[0]?.pid ?? 0, command: why }];
}

function pause(clock: Clock, delayMs: number): Promise<void> {
  return new Promise((resolve) => {
    clock.after(delayMs, resolve);
  });
}
