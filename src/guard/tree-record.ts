/**
 * Which processes belong to one child: the second evidence of the stop proof, beside the mark.
 *
 * A process belongs if it carries the mark, if it was recorded before and still is the same process, if its parent belongs,
 * or if it is in the session or process group that the child leads. Whatever once belonged stays recorded until it is gone,
 * so a process that clears its environment, rewrites its title or forbids reading it is still known by its ancestry.
 *
 * Invariant: membership follows identities (pid and start time): a foreign process that got a recorded pid is not one (C3).
 * Invariant: a session or group counts as the child's only while its leader is there with the recorded start time, or in the
 * very moment in which the leader's end was seen; a number alone could be another's by then.
 * Known escape: a process that left the session, cleared its environment and lost its parent between two passes.
 */

import type { Mark } from "../core/ids.ts";
import type { ProcessIdentity } from "../core/task.ts";
import type { ProcessRow } from "./process-table.ts";

export type TreeRecord = {
  /** The processes started under the mark, as far as they are known. */
  roots(): readonly ProcessIdentity[];
  addRoot(root: ProcessIdentity): void;
  /** Takes in one pass and returns the living members, the roots among them. */
  observe(rows: readonly ProcessRow[], also?: Also): readonly ProcessRow[];
  /** True if there ever was a process: a root is known, or a member was seen. */
  everSeen(): boolean;
};

export type Also = {
  /** The end of this root was seen just now, so its session and group are still its own. */
  readonly justEnded?: ProcessIdentity;
  /** Further pids that belong, as a control group lists them. */
  readonly pids?: readonly number[];
};

export type TreeRecordOptions = {
  readonly mark: Mark;
  readonly bootId: string;
  /** Processes that are never members: ourselves and those above us. */
  readonly except: ReadonlySet<number>;
};

export function createTreeRecord({ mark, bootId, except }: TreeRecordOptions): TreeRecord {
  const roots = new Map<string, ProcessIdentity>();
  let recorded = new Map<number, string>();
  let seen = false;

  const isSeed = (row: ProcessRow, groups: ReadonlySet<number>, pids: ReadonlySet<number>): boolean =>
    row.mark === mark ||
    recorded.get(row.pid) === row.startTime ||
    pids.has(row.pid) ||
    groups.has(row.sid) ||
    groups.has(row.pgid);

  return {
    roots: () => [...roots.values()],
    addRoot(root) {
      seen = true;
      roots.set(`${root.bootId} ${root.pid} ${root.startTime}`, root);
      if (root.bootId === bootId) recorded.set(root.pid, root.startTime);
    },
    observe(rows, also = {}) {
      const ours = [...roots.values()].filter(
        (root) => root.bootId === bootId && leadsStill(root, rows, also.justEnded),
      );
      const groups = new Set(ours.map((root) => root.pid));
      const pids = new Set(also.pids);
      const eligible = rows.filter((row) => !except.has(row.pid) && row.pid > 1);
      const seeds = eligible.filter((row) => isSeed(row, groups, pids));
      const members = withDescendants(seeds, eligible);
      recorded = new Map(members.map((row) => [row.pid, row.startTime]));
      const living = members.filter((row) => !row.zombie);
      seen ||= living.length > 0;
      return living;
    },
    everSeen: () => seen,
  };
}

/** True if the process of this identity is alive in the pass. */
export function isAlive(identity: ProcessIdentity, bootId: string, rows: readonly ProcessRow[]): boolean {
  return (
    identity.bootId === bootId &&
    rows.some((row) => row.pid === identity.pid && row.startTime === identity.startTime && !row.zombie)
  );
}

function leadsStill(
  root: ProcessIdentity,
  rows: readonly ProcessRow[],
  justEnded: ProcessIdentity | undefined,
): boolean {
  const row = rows.find((row) => row.pid === root.pid);
  if (row !== undefined) return row.startTime === root.startTime;
  return justEnded?.pid === root.pid && justEnded.startTime === root.startTime;
}

function withDescendants(seeds: readonly ProcessRow[], rows: readonly ProcessRow[]): readonly ProcessRow[] {
  const byParent = Map.groupBy(rows, (row) => row.ppid);
  const members = new Map(seeds.map((row) => [row.pid, row]));
  const queue = [...seeds];
  for (let row = queue.pop(); row !== undefined; row = queue.pop()) {
    for (const child of byParent.get(row.pid) ?? []) {
      if (members.has(child.pid)) continue;
      members.set(child.pid, child);
      queue.push(child);
    }
  }
  return [...members.values()];
}
