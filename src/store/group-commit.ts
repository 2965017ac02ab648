/**
 * One commit for all works of an event-loop turn.
 *
 * Invariant: works run one after another in one transaction, each under a savepoint of its own: one that throws leaves no
 * trace and does not touch the others.
 * Invariant: nobody hears anything, success or rejection, before the commit stands: even a refusal may name what another
 * work of the same commit has written (P4).
 * Invariant: a commit that fails rejects all of its works with StorageTrouble and leaves nothing behind; `healthy` turns
 * false until a later commit that wrote something succeeds.
 */

import type { ControlledTransaction, Kysely } from "kysely";
import type { Clock } from "../ports/clock.ts";
import type { Faults } from "../ports/fault.ts";
import type { Log } from "../ports/log.ts";
import type { StorageTrouble, StoreWriter } from "../ports/store.ts";
import type { Schema } from "./schema.ts";
import { createSqlWriter } from "./sql-writer.ts";
import type { Statements } from "./statements.ts";
import { isStorageTrouble, messageOf, type StorageCode, storageTrouble } from "./storage-trouble.ts";

/** Works in one commit: enough to make the sync cheap for each, few enough to hold the event loop for milliseconds only. */
export const WORKS_PER_COMMIT_MAX = 256;
/** Works that may wait; beyond, a write is refused by name. */
export const WORKS_WAITING_MAX = 10_000;

export type GroupCommit = {
  write<T>(work: (tx: StoreWriter) => Promise<T>): Promise<T>;
  healthy(): boolean;
  /** Refuses further works and resolves when those that wait are committed. */
  close(): Promise<void>;
};

export type GroupCommitParts = {
  readonly db: Kysely<Schema>;
  readonly statements: Statements;
  /** Calls `run` once, after what is ready in this turn of the event loop has run. */
  readonly nextTurn: (run: () => void) => void;
  /** The storage's name for an error of the database, or null for an error of ours. */
  readonly storageCodeOf: (error: unknown) => StorageCode | null;
  readonly clock: Clock;
  readonly log: Log;
  readonly faults: Faults | null;
};

/** `nothing_to_commit`: the only work failed by its own doing, which says nothing about the storage. */
type CommitEnd =
  | { readonly kind: "committed" | "nothing_to_commit" }
  | { readonly kind: "trouble"; readonly trouble: StorageTrouble };

type Work = {
  /** Runs the work and keeps how it ended. True if it succeeded. Never rejects. */
  run(tx: StoreWriter): Promise<boolean>;
  /** Tells the caller how the work ended. */
  settle(): void;
  /** Tells the caller that it did not count. */
  fail(trouble: StorageTrouble): void;
};

export function createGroupCommit(parts: GroupCommitParts): GroupCommit {
  const waiting: Work[] = [];
  let running = false;
  let closed = false;
  let isHealthy = true;
  let onIdle: (() => void) | null = null;

  const schedule = (): void => {
    if (running) return;
    running = true;
    parts.nextTurn(() => void drain());
  };

  const drain = async (): Promise<void> => {
    const works = waiting.splice(0, WORKS_PER_COMMIT_MAX);
    const end = await commitTogether(parts, works, isHealthy);
    note(end);
    for (const work of works) {
      if (end.kind === "trouble") work.fail(end.trouble);
      else work.settle();
    }
    running = false;
    if (waiting.length > 0) schedule();
    else onIdle?.();
  };

  const note = (end: CommitEnd): void => {
    if (end.kind === "trouble") {
      isHealthy = false;
      parts.log.error("commit_failed", { storageCode: end.trouble.storageCode, detail: end.trouble.message });
    } else if (end.kind === "committed" && !isHealthy) {
      isHealthy = true;
      parts.log.warn("storage_recovered");
    }
  };

  return {
    write<T>(body: (tx: StoreWriter) => Promise<T>): Promise<T> {
      if (closed) return Promise.reject(storageTrouble("closed", "the store is closed"));
      if (waiting.length >= WORKS_WAITING_MAX) {
        return Promise.reject(storageTrouble("queue_full", `${WORKS_WAITING_MAX} writes wait already`));
      }
      return new Promise<T>((resolve, reject) => {
        waiting.push(createWork(body, resolve, reject));
        schedule();
      });
    },
    healthy: () => isHealthy,
    close() {
      closed = true;
      if (!running) return Promise.resolve();
      return new Promise((resolve) => {
        onIdle = resolve;
      });
    },
  };
}

function createWork<T>(
  body: (tx: StoreWriter) => Promise<T>,
  resolve: (value: T) => void,
  reject: (reason: unknown) => void,
): Work {
  let settle = (): void => undefined;
  return {
    async run(tx) {
      try {
        const value = await body(tx);
        settle = () => resolve(value);
        return true;
      } catch (error) {
        settle = () => reject(error);
        return false;
      }
    },
    settle: () => settle(),
    fail: reject,
  };
}

/** Never rejects. */
async function commitTogether(parts: GroupCommitParts, works: readonly Work[], isHealthy: boolean): Promise<CommitEnd> {
  let trx: ControlledTransaction<Schema> | null = null;
  try {
    trx = await parts.db.startTransaction().execute();
    if (!isHealthy) await probe(parts, trx);
    const changed = await runWorks(parts, trx, works);
    await parts.faults?.at("before_commit");
    await (changed ? trx.commit() : trx.rollback()).execute();
    trx = null;
    await parts.faults?.at("after_commit");
    return { kind: changed ? "committed" : "nothing_to_commit" };
  } catch (error) {
    if (trx !== null) await rollBack(trx, parts.log);
    return { kind: "trouble", trouble: troubleFrom(error, parts) };
  }
}

/** Makes the commit write something, so that it succeeds only if the storage takes writes again. */
async function probe(parts: GroupCommitParts, trx: Kysely<Schema>): Promise<void> {
  await parts.statements.putMeta.run(trx, { name: "probed_ms", value: String(parts.clock.wallMs()) });
}

/** Runs the works in order. False if the only work failed: then the whole transaction is undone in place of a savepoint. */
async function runWorks(
  parts: GroupCommitParts,
  trx: ControlledTransaction<Schema>,
  works: readonly Work[],
): Promise<boolean> {
  const [only, ...others] = works;
  if (only !== undefined && others.length === 0) return runWork(parts, trx, only);
  for (const work of works) {
    const inWork = await trx.savepoint("work").execute();
    const succeeded = await runWork(parts, trx, work);
    if (!succeeded) await inWork.rollbackToSavepoint("work").execute();
    await inWork.releaseSavepoint("work").execute();
  }
  return true;
}

async function runWork(parts: GroupCommitParts, trx: Kysely<Schema>, work: Work): Promise<boolean> {
  const lent = lend(createSqlWriter(trx, parts.statements), parts.storageCodeOf);
  const succeeded = await work.run(lent.tx);
  await lent.takeBack();
  return succeeded;
}

/**
 * Lends a writer to one work: calls after the work has ended are refused, calls that it did not wait for are waited for, and
 * an error of the storage ends the whole commit even if the work swallowed it.
 */
function lend(writer: StoreWriter, storageCodeOf: GroupCommitParts["storageCodeOf"]) {
  let open = true;
  let inFlight = 0;
  let onQuiet: (() => void) | null = null;
  let trouble: StorageTrouble | null = null;

  const guarded = <Args extends readonly unknown[], Result>(call: (...args: Args) => Promise<Result>) => {
    return async (...args: Args): Promise<Result> => {
      if (!open) throw new Error("invariant broken: a transaction is used after its work has ended");
      inFlight += 1;
      try {
        return await call(...args);
      } catch (error) {
        const code = storageCodeOf(error);
        if (code === null) throw error;
        trouble ??= storageTrouble(code, messageOf(error), error);
        throw trouble;
      } finally {
        inFlight -= 1;
        if (inFlight === 0) onQuiet?.();
      }
    };
  };

  const tx: StoreWriter = {
    task: guarded(writer.task),
    receipt: guarded(writer.receipt),
    putReceipt: guarded(writer.putReceipt),
    append: guarded(writer.append),
    claimHolder: guarded(writer.claimHolder),
    putClaim: guarded(writer.putClaim),
    hasClaim: guarded(writer.hasClaim),
    dropClaim: guarded(writer.dropClaim),
    unfinishedBelow: guarded(writer.unfinishedBelow),
    appendTranscript: guarded(writer.appendTranscript),
    dropTranscript: guarded(writer.dropTranscript),
    putNotices: guarded(writer.putNotices),
    dropNotice: guarded(writer.dropNotice),
    delayNotice: guarded(writer.delayNotice),
    load: guarded(writer.load),
    countShown: guarded(writer.countShown),
    purge: guarded(writer.purge),
    forgetReceipts: guarded(writer.forgetReceipts),
  };
  return {
    tx,
    async takeBack(): Promise<void> {
      open = false;
      if (inFlight > 0) {
        await new Promise<void>((resolve) => {
          onQuiet = resolve;
        });
      }
      if (trouble !== null) throw trouble;
    },
  };
}

async function rollBack(trx: ControlledTransaction<Schema>, log: Log): Promise<void> {
  try {
    await trx.rollback().execute();
  } catch (error) {
    log.error("rollback_failed", { detail: messageOf(error) });
  }
}

function troubleFrom(error: unknown, parts: GroupCommitParts): StorageTrouble {
  if (isStorageTrouble(error)) return error;
  return storageTrouble(parts.storageCodeOf(error) ?? "commit_failed", messageOf(error), error);
}
