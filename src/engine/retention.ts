/**
 * Removes what is past its time: transcripts, then whole tasks, then the keys of purged tasks (contract §3, §10).
 *
 * Invariant: only tasks that are settled and stopped are touched, in small transactions, so that nothing waits for it.
 * Invariant: a purged task's keys stay as tombstones until their own time is over: a late repeat starts nothing (D5).
 */

import type { Clock, Timer } from "../ports/clock.ts";
import { LIMITS } from "../core/limits.ts";
import type { Log } from "../ports/log.ts";
import type { EngineSettings } from "../ports/settings.ts";
import type { Store } from "../ports/store.ts";
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
      (taskId) => store.write((tx) => tx.dropTranscript(taskId)),
    );
  }

  async function tasks(): Promise<number> {
    return removeAll(
      () => store.settledBefore(before(retention.resultsMs), LIMITS.retentionBatch),
      (taskId) => store.write((tx) => tx.purge(taskId)),
    );
  }

  async function removeAll<Id>(find: () => Promise<readonly Id[]>, remove: (id: Id) => Promise<void>): Promise<number> {
    let removed = 0;
    for (let found = await find(); found.length > 0 && !stopping.signal.aborted; found = await find()) {
      for (const id of found) await remove(id);
      removed += found.length;
    }
    return removed;
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
