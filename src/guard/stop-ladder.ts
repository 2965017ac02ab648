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

const LADDER_LIMITS = { graceMs: 3_000, totalMs: 8_000, betweenEmptyMs: 60 } as const;
const EMPTY_PASSES = 2;
/** Pauses between looks while something is left; the last one repeats. */
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

type Look = {
  readonly rows: readonly ProcessRow[];
  readonly members: readonly ProcessRow[];
  readonly blockers: readonly ProcessRow[];
};

/** Resolves within about `totalMs` and one pass. Repeating it is harmless. Never rejects. */
export async function climbStopLadder(world: LadderWorld, order: LadderOrder): Promise<StopReport> {
  const { table, clock } = world;
  const startedMs = clock.monotonicMs();
  const ask = createAsking(table);
  let last: Look | null = null;
  for (let emptyPasses = 0, round = 0; ; ) {
    const elapsedMs = clock.monotonicMs() - startedMs;
    const look = await lookOnce(table, order);
    last = look ?? last;
    if (look !== null && isLeftInPeace(order, look, table)) {
      return proven(table.evidence, await nameProcesses(look.members, table));
    }
    emptyPasses = isEmpty(look, order) ? emptyPasses + 1 : 0;
    if (emptyPasses === EMPTY_PASSES) return conclude(order, table);
    if (emptyPasses > 0) {
      await pause(clock, LADDER_LIMITS.betweenEmptyMs);
      continue;
    }
    if (elapsedMs >= LADDER_LIMITS.totalMs) return { kind: "survivors", survivors: await nameRest(last, order, table) };
    if (elapsedMs < LADDER_LIMITS.graceMs) ask(look, order);
    else killAll(look, order, table);
    await pause(clock, PAUSES_MS[Math.min(round++, PAUSES_MS.length - 1)] ?? 0);
  }
}

/** Null if it was not possible to look. */
async function lookOnce(table: ProcessTable, order: LadderOrder): Promise<Look | null> {
  try {
    const rows = await table.pass();
    const pids = order.group?.pids() ?? [];
    return { rows, members: order.record.observe(rows, { pids }), blockers: order.blockers(rows) };
  } catch {
    return null;
  }
}

function isEmpty(look: Look | null, { group }: LadderOrder): boolean {
  return look !== null && look.members.length + look.blockers.length === 0 && group?.populated() !== true;
}

/**
 * `keep` spares what a child left behind after its own end, nothing else: while the child itself runs, or if it is not known
 * which process it was, everything is stopped.
 */
function isLeftInPeace(
  { background, record }: LadderOrder,
  { members, rows, blockers }: Look,
  table: ProcessTable,
): boolean {
  const roots = record.roots();
  if (background !== "keep" || roots.length === 0 || members.length === 0 || blockers.length > 0) return false;
  return !roots.some((root) => isAlive(root, table.bootId, rows));
}

function conclude({ record, group }: LadderOrder, table: ProcessTable): StopReport {
  group?.remove();
  const proof: ProofKind = group === null ? table.evidence : "cgroup";
  return proven(record.everSeen() ? proof : "none_started");
}

/**
 * Asks each member once: those there at first by their groups, later ones by themselves. One that has since moved to another
 * group may have been missed in between, so it is asked there.
 */
function createAsking(table: ProcessTable): (look: Look | null, order: LadderOrder) => void {
  const groups = new Set<number>();
  const asked = new Set<string>();
  const nameOf = (row: ProcessRow): string => `${row.pid} ${row.startTime} ${row.pgid}`;
  return (look, order) => {
    const fresh = (look?.members ?? []).filter((row) => !asked.has(nameOf(row)));
    if (asked.size === 0) order.closeStdin();
    for (const row of fresh.filter((row) => groups.has(row.pgid))) signal(table, row.pid, "SIGTERM");
    for (const pgid of new Set(fresh.map((row) => row.pgid))) if (!groups.has(pgid)) signal(table, -pgid, "SIGTERM");
    for (const row of fresh) {
      asked.add(nameOf(row));
      groups.add(row.pgid);
    }
  };
}

function killAll(look: Look | null, { group }: LadderOrder, table: ProcessTable): void {
  group?.kill();
  const rows = look === null ? [] : [...look.members, ...look.blockers];
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
