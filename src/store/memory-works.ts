/**
 * The works of a memory store, one after another.
 *
 * Invariant: only promises are used to take turns, no timer and no immediate: a simulated world stays in its own time.
 * Invariant: after a crash nothing that a work does counts, however late it wakes up.
 */

import type { Faults } from "../ports/fault.ts";
import type { StoreWriter } from "../ports/store.ts";
import { createDraft, type Draft } from "./memory-draft.ts";
import type { Tables } from "./memory-tables.ts";
import { isStorageTrouble, messageOf, type StorageCode, storageTrouble } from "./storage-trouble.ts";

export type Works = {
  write<T>(work: (tx: StoreWriter) => Promise<T>): Promise<T>;
  healthy(): boolean;
  /** Throws, with the reason, once no calls are taken any more. */
  assertOpen(): void;
  /** Takes no more works; resolves when those handed over are done. */
  close(): Promise<void>;
  /** Rejects all works in flight and takes no more. */
  crash(): void;
};

type Ending = { readonly code: StorageCode; readonly detail: string };

export function createWorks(tables: Tables, faults: Faults | null): Works {
  let ending: Ending | null = null;
  let isHealthy = true;
  let turn: Promise<unknown> = Promise.resolve();
  const unsettled = new Set<(reason: unknown) => void>();
  const hasCrashed = (): boolean => ending?.code === "crashed";

  const assertOpen = (): void => {
    if (ending !== null) throw storageTrouble(ending.code, ending.detail);
  };

  /** Commits a draft between the two fault points. Rejects with StorageTrouble. */
  const commit = async (draft: Draft): Promise<void> => {
    try {
      await faults?.at("before_commit");
      if (hasCrashed()) return;
      draft.commit();
      await faults?.at("after_commit");
      isHealthy = true;
    } catch (error) {
      isHealthy = false;
      throw isStorageTrouble(error) ? error : storageTrouble("commit_failed", messageOf(error), error);
    }
  };

  const perform = async <T>(work: (tx: StoreWriter) => Promise<T>): Promise<T> => {
    const draft = createDraft(tables);
    const result = await work(draft.tx).finally(draft.end);
    if (!hasCrashed()) await commit(draft);
    return result;
  };

  return {
    async write<T>(work: (tx: StoreWriter) => Promise<T>): Promise<T> {
      assertOpen();
      return new Promise<T>((resolve, reject) => {
        unsettled.add(reject);
        turn = turn.then(async () => {
          if (hasCrashed()) return;
          await perform(work).then(resolve, reject);
          unsettled.delete(reject);
        });
      });
    },
    healthy: () => isHealthy,
    assertOpen,
    async close() {
      ending ??= { code: "closed", detail: "the store is closed" };
      if (!hasCrashed()) await turn;
    },
    crash() {
      ending = { code: "crashed", detail: "the daemon was killed" };
      for (const reject of unsettled) reject(storageTrouble(ending.code, ending.detail));
      unsettled.clear();
    },
  };
}
