/**
 * What processes there are, as the stop ladder sees them.
 *
 * Invariant: a process is named by pid, start time and boot id. A pid alone is never signalled: the pass that names it is
 * at most milliseconds old and its start time was compared.
 * Invariant: a pass that could not look says so by rejecting; "cannot see" is never "is not there".
 */

import type { ProcessIdentity } from "../core/task.ts";

export type ProcessTable = {
  readonly bootId: string;
  /** What an empty pass is worth: `marker+tree` where environments can be read, else `tree`. */
  readonly evidence: "marker+tree" | "tree";
  /** One look at all processes. */
  pass(): Promise<readonly ProcessRow[]>;
  /** The identity of a process that runs now or was not yet waited for; null if there is none. */
  identify(pid: number): Promise<ProcessIdentity | null>;
  /** The command line as the process shows it, not sanitised; its short name in brackets if it shows none. */
  commandOf(pid: number): Promise<string>;
  /** Sends a signal to a process, or to a process group if `pid` is negative. */
  signal(pid: number, signal: "SIGTERM" | "SIGKILL"): void;
};

export type ProcessRow = {
  readonly pid: number;
  readonly ppid: number;
  readonly pgid: number;
  /** Session; 0 where the system does not tell. */
  readonly sid: number;
  readonly startTime: string;
  /** Dead, only not yet waited for. */
  readonly zombie: boolean;
  /** Value of `DELEGATE_CHILD_MARK`; null if it has none, or if its environment cannot be read. */
  readonly mark: string | null;
  /** Value of `DELEGATE_GUARD_OF`, likewise. */
  readonly guardOf: string | null;
};

/** A table whose passes are shared by everybody who asked before one began, and are at least `gapMs` apart. */
export function sharePasses(
  table: ProcessTable,
  after: (delayMs: number, fire: () => void) => Disposable,
  gapMs = 15,
): ProcessTable {
  let next: Promise<readonly ProcessRow[]> | null = null;
  let resting: Promise<void> = Promise.resolve();
  const rest = (): Promise<void> =>
    new Promise((resolve) => {
      after(gapMs, resolve);
    });
  return {
    ...table,
    pass() {
      next ??= resting.then(() => {
        next = null;
        const rows = table.pass();
        resting = rows.then(rest, rest);
        return rows;
      });
      return next;
    },
  };
}
