/**
 * Removes what is past its time: transcripts, then whole tasks, then the keys of purged tasks (contract §3, §10).
 *
 * Invariant: only tasks that are settled and stopped are touched, in small transactions, so that nothing waits for it.
 * Invariant: a purged task's keys stay as tombstones until their own time is over: a late repeat starts nothing (D5).
 */

import type { TaskId } from "../core/ids.ts";
import { LIMITS } from "../core/limits.ts";
import { isUnfinished } from "../core/plan.ts";
import type { Clock, Timer } from "../ports/clock.ts";
import type { Log } from "../ports/log.ts";
import type { EngineSettings } from "../ports/settings.ts";
import type { Store, StoreWriter } from "../ports/store.ts";
import type { PruneReport } from "../ports/upkeep.ts";

export type Retention = Disposable & {
  /** Removes now and every hour. */
  start(): void;
  prune(request: { readonly dryRun: boolean }): Promise<PruneReport>;
};

/** A dry run counts up to here. */
const COUNT_MAX = 100_000;

export function createRetention(world: {
  readonly store: Store;
  readonly clock: Clock;
  readonly log: Log;
  readonly retention: EngineSettings["retention"];
}): Retention {
  const { store, clock, log, retention } = world;
  let timer: Timer | null = null;
  const stopping = new AbortController();

  const before = (keptMs: number): number => clock.wallMs() - keptMs;

  async function transcripts(): Promise<number> {
    return removeAll(
      () => store.transcriptsSettledBefore(before(retention.transcriptsMs), LIMITS.retentionBatch),
      (tx, taskId) => tx.dropTranscript(taskId),
      retention.transcriptsMs,
    );
  }

  async function tasks(): Promise<number> {
    return removeAll(
      () => store.settledBefore(before(retention.resultsMs), LIMITS.retentionBatch),
      (tx, taskId) => tx.purge(taskId),
      retention.resultsMs,
    );
  }

  /** A batch of which nothing could be removed is the last: what it holds has just been continued. */
  async function removeAll(
    find: () => Promise<readonly TaskId[]>,
    remove: (tx: StoreWriter, taskId: TaskId) => Promise<void>,
    keptMs: number,
  ): Promise<number> {
    let removed = 0;
    for (let more = true; more && !stopping.signal.aborted; ) {
      let ofBatch = 0;
      for (const taskId of await find()) {
        if (stopping.signal.aborted) break;
        if (await removeIfOver(remove, taskId, keptMs)) ofBatch += 1;
      }
      removed += ofBatch;
      more = ofBatch > 0;
    }
    return removed;
  }

  /** Whoever continued the task since it was found has begun its time anew. */
  async function removeIfOver(
    remove: (tx: StoreWriter, taskId: TaskId) => Promise<void>,
    taskId: TaskId,
    keptMs: number,
  ): Promise<boolean> {
    return store.write(async (tx) => {
      const task = await tx.task(taskId);
      if (task === null || isUnfinished(task)) return false;
      if ((task.lastSettlement?.atMs ?? Number.POSITIVE_INFINITY) >= before(keptMs)) return false;
      await remove(tx, taskId);
      return true;
    });
  }

  async function receipts(): Promise<number> {
    let forgotten = 0;
    for (;;) {
      const batch = LIMITS.retentionBatch;
      const count = await store.write((tx) => tx.forgetReceipts(before(retention.tombstonesMs), batch));
      forgotten += count;
      if (count < batch || stopping.signal.aborted) return forgotten;
    }
  }

  async function prune({ dryRun }: { readonly dryRun: boolean }): Promise<PruneReport> {
    if (dryRun) {
      const settled = await store.settledBefore(before(retention.resultsMs), COUNT_MAX);
      const told = await store.transcriptsSettledBefore(before(retention.transcriptsMs), COUNT_MAX);
      return { dryRun, tasks: settled.length, transcripts: told.length, receipts: null };
    }
    const report = { dryRun, transcripts: await transcripts(), tasks: await tasks(), receipts: await receipts() };
    if (report.tasks + report.transcripts + report.receipts > 0) log.info("retention_pruned", { ...report });
    return report;
  }

  function soon(): void {
    prune({ dryRun: false })
      .catch((error: unknown) => log.error("retention_failed", { error: String(error) }))
      .finally(() => {
        if (!stopping.signal.aborted) timer = clock.after(LIMITS.retentionEveryMs, soon);
      });
  }

  return {
    prune,
    start: soon,
    [Symbol.dispose]() {
      stopping.abort();
      timer?.[Symbol.dispose]();
    },
  };
}
