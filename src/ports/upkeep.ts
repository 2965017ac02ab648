/**
 * What operators and people do besides delegating: look at everything kept of a task, remove what is past its time, follow
 * what happens, see what runs where. By `/api` only, never offered to models.
 */

import type { Caller } from "../core/caller.ts";
import type { TaskEvent } from "../core/event.ts";
import type { TaskId } from "../core/ids.ts";
import type { Phase, Status, Task } from "../core/task.ts";
import type { TranscriptEntry } from "./store.ts";

export type Upkeep = {
  /** Everything that is kept of a task, as lines; null if it is none of the caller's. `id`: any of its three ids. */
  exportTask(id: string, caller: Caller): Promise<AsyncIterable<ExportLine> | null>;
  /** Removes (or with `dryRun` counts) what is past its retention, now instead of at the next hour. For admins. */
  prune(request: { readonly dryRun: boolean }): Promise<PruneReport>;
  /** This daemon and what it runs. */
  host(): HostReport;
  /** Tells of every change of a task that the caller may see, after its commit, until disposed. */
  follow(caller: Caller, onChange: (change: TaskChangeNote) => void): Disposable;
};

/** First line `head`, last line `end`: a file without it is incomplete. */
export type ExportLine =
  | { readonly kind: "head"; readonly format: 1; readonly exportedAt: string; readonly taskId: TaskId }
  | { readonly kind: "task"; readonly task: Task }
  | { readonly kind: "event"; readonly number: number; readonly event: TaskEvent }
  | { readonly kind: "text"; readonly name: string; readonly body: string }
  | { readonly kind: "transcript"; readonly entry: TranscriptEntry }
  | { readonly kind: "end"; readonly events: number; readonly texts: number; readonly entries: number };

export type PruneReport = {
  readonly dryRun: boolean;
  readonly tasks: number;
  readonly transcripts: number;
  /** Receipts of purged tasks that are forgotten; not counted by a dry run (null). */
  readonly receipts: number | null;
};

export type HostReport = {
  readonly daemonId: string;
  readonly running: readonly { readonly taskId: TaskId; readonly attemptId: string; readonly pid: number | null }[];
  readonly queued: number;
  readonly waiting: number;
};

export type TaskChangeNote = {
  readonly taskId: TaskId;
  readonly nodeId: string;
  readonly status: Status;
  readonly phase: Phase;
  readonly settlements: number;
  readonly version: number;
  readonly atMs: number;
};
