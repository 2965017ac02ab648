/**
 * The marks whose children a guard answers for, what is known of their trees, and their stop.
 *
 * A mark is open from the first spawn under it until its stop was proven.
 *
 * Invariant: the tree of every open mark is recorded every two seconds and at the moment a child ends, so that the proof
 * rests on more than what can be seen after the kill.
 */

import type { StopReport } from "../core/command.ts";
import type { Mark } from "../core/ids.ts";
import type { ProcessIdentity } from "../core/task.ts";
import type { Clock } from "../ports/clock.ts";
import type { ChildGroups } from "./child-groups.ts";
import type { GuardedChild } from "./guarded-child.ts";
import type { ProcessTable } from "./process-table.ts";
import { climbStopLadder } from "./stop-ladder.ts";
import { createTreeRecord, type TreeRecord } from "./tree-record.ts";

export type OpenMarks = {
  /** The entry of a mark; opens it if it is not open. */
  entryOf(mark: Mark): OpenMark;
  all(): Iterable<OpenMark>;
  /** Closes a mark under which nothing was ever started. */
  forget(mark: Mark): void;
  /** To be called when the end of a root was seen. */
  noteEnd(mark: Mark, root: ProcessIdentity): void;
  stop(mark: Mark, background: "reap" | "keep"): Promise<StopReport>;
  /** Stops all of them. Resolves with the number of marks that are still open. */
  stopAll(): Promise<number>;
};

export type OpenMark = { readonly record: TreeRecord; readonly children: Set<GuardedChild> };

export type OpenMarksWorld = {
  readonly table: ProcessTable;
  readonly groups: ChildGroups | null;
  readonly clock: Clock;
};

const SAMPLE_MS = 2_000;

export function createOpenMarks({ table, groups, clock }: OpenMarksWorld): OpenMarks {
  const open = new Map<Mark, OpenMark>();
  const except = new Set([process.pid, process.ppid]);

  const entryOf = (mark: Mark): OpenMark => {
    const known = open.get(mark);
    if (known !== undefined) return known;
    const fresh: OpenMark = { record: createTreeRecord({ mark, bootId: table.bootId, except }), children: new Set() };
    open.set(mark, fresh);
    return fresh;
  };
  /** A look that fails only records nothing; the next one comes. */
  const look = async (ended?: { readonly mark: Mark; readonly root: ProcessIdentity }): Promise<void> => {
    const rows = await table.pass().catch(() => []);
    if (rows.length === 0) return;
    for (const [mark, { record }] of open) record.observe(rows, mark === ended?.mark ? { justEnded: ended.root } : {});
  };
  const sample = (): void => {
    if (open.size > 0) void look();
    clock.after(SAMPLE_MS, sample);
  };
  const stop = async (mark: Mark, background: "reap" | "keep"): Promise<StopReport> => {
    const { record, children } = entryOf(mark);
    const closeStdin = (): void => children.forEach((child) => child.closeStdin());
    const order = { record, background, closeStdin, group: groups?.of(mark) ?? null, blockers: () => [] };
    const report = await climbStopLadder({ table, clock }, order);
    if (report.kind === "proven") open.delete(mark);
    return report;
  };
  clock.after(SAMPLE_MS, sample);

  return {
    entryOf,
    all: () => open.values(),
    forget: (mark) => void open.delete(mark),
    noteEnd: (mark, root) => void look({ mark, root }),
    stop,
    async stopAll() {
      await Promise.all([...open.keys()].map((mark) => stop(mark, "reap")));
      return open.size;
    },
  };
}
