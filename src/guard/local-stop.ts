/**
 * The stop of a child by the daemon itself, for the times when there is no guard: after a restart, and after the guard died.
 *
 * Invariant: a guard of the mark's daemon whose own daemon is gone could still start or be stopping the child, so nothing is
 * proven while such a guard lives. It normally ends by itself within moments; after the ladder's grace it is killed.
 */

import type { StopReport } from "../core/command.ts";
import type { Mark } from "../core/ids.ts";
import type { StopTarget } from "../ports/children.ts";
import type { Clock } from "../ports/clock.ts";
import { type ChildGroups, findChildGroups } from "./child-groups.ts";
import { daemonIdOf, parseGuardOwner } from "./marker.ts";
import { type ProcessRow, type ProcessTable, sharePasses } from "./process-table.ts";
import { climbStopLadder } from "./stop-ladder.ts";
import { createSystemProcessTable } from "./system-process-table.ts";
import { createTreeRecord } from "./tree-record.ts";

export type LocalStopOptions = { readonly clock: Clock; readonly useGroups: boolean };

export function createLocalStop({ clock, useGroups }: LocalStopOptions): (target: StopTarget) => Promise<StopReport> {
  let table: Promise<ProcessTable> | null = null;
  const groups: ChildGroups | null = useGroups ? findChildGroups() : null;
  const except = new Set([process.pid, process.ppid]);
  return async ({ mark, process: root, background }) => {
    table ??= createSystemProcessTable().then((table) => sharePasses(table, clock.after));
    const processes = await table;
    const record = createTreeRecord({ mark, bootId: processes.bootId, except });
    if (root !== null) record.addRoot(root);
    const blockers = (rows: readonly ProcessRow[]): readonly ProcessRow[] => orphanedGuards(mark, rows);
    const group = groups?.of(mark) ?? null;
    const order = { record, background, group, blockers, closeStdin: () => undefined };
    return climbStopLadder({ table: processes, clock }, order);
  };
}

export function orphanedGuards(mark: Mark, rows: readonly ProcessRow[]): readonly ProcessRow[] {
  const daemonId = daemonIdOf(mark);
  return rows.filter((row) => {
    const owner = row.zombie ? null : parseGuardOwner(row.guardOf);
    return owner?.daemonId === daemonId && owner.daemonPid !== row.ppid;
  });
}
