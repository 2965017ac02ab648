/**
 * A store whose calls are timed.
 *
 * Invariant: nothing else changes: calls reach the store in the turn in which they were made, with the same arguments, and
 * the promises are its own.
 */

import type { Clock } from "../ports/clock.ts";
import type { Meter } from "../ports/meter.ts";
import type { Store } from "../ports/store.ts";

export function createMeteredStore(store: Store, meter: Meter, clock: Clock): Store {
  function timed<T>(operation: "read" | "write", call: () => Promise<T>): Promise<T> {
    const sinceMs = clock.monotonicMs();
    const took = (): void => meter.storeTook(operation, clock.monotonicMs() - sinceMs);
    const result = call();
    // What it failed with is for the caller, who has the same promise.
    result.then(took, took);
    return result;
  }
  const read =
    <Args extends readonly unknown[], T>(query: (...args: Args) => Promise<T>) =>
    (...args: Args): Promise<T> =>
      timed("read", () => query(...args));
  return {
    write: (work) => timed("write", () => store.write(work)),
    task: read(store.task),
    tasks: read(store.tasks),
    taskIdOfThread: read(store.taskIdOfThread),
    receipt: read(store.receipt),
    list: read(store.list),
    unfinished: read(store.unfinished),
    unfinishedBelow: read(store.unfinishedBelow),
    settledBefore: read(store.settledBefore),
    transcriptsSettledBefore: read(store.transcriptsSettledBefore),
    pending: read(store.pending),
    text: read(store.text),
    events: read(store.events),
    milestones: read(store.milestones),
    transcript: read(store.transcript),
    counts: read(store.counts),
    dueNotices: read(store.dueNotices),
    nextNoticeAtMs: read(store.nextNoticeAtMs),
    healthy: () => store.healthy(),
    [Symbol.asyncDispose]: () => store[Symbol.asyncDispose](),
  };
}
