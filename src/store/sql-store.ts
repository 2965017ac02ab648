/**
 * The store over SQL, the same for every database.
 *
 * Invariant: reads see committed data only; they run beside the transaction of the works, never inside it.
 * Absent on purpose: SQL that only one database understands, and opening one; see `sqlite`.
 */

import type { Kysely } from "kysely";
import type { Store } from "../ports/store.ts";
import { createGroupCommit, type GroupCommitParts } from "./group-commit.ts";
import type { Schema } from "./schema.ts";
import { createOtherReads, createTaskReads } from "./sql-reads.ts";
import { messageOf, storageTrouble } from "./storage-trouble.ts";

export type SqlStoreParts = GroupCommitParts & {
  /** Connection for reads; may be the one for writes where the database has a pool. */
  readonly reads: Kysely<Schema>;
  /** Closes what the store was opened with; called once, after the last write. */
  readonly release: () => Promise<void>;
};

export function createSqlStore(parts: SqlStoreParts): Store {
  const commits = createGroupCommit(parts);
  const tasks = createTaskReads(parts.reads, parts.statements);
  const others = createOtherReads(parts.reads, parts.statements);
  let closing: Promise<void> | null = null;

  /** Names errors of the database; an error of ours passes as it is. */
  const named = <Args extends readonly unknown[], Result>(query: (...args: Args) => Promise<Result>) => {
    return async (...args: Args): Promise<Result> => {
      if (closing !== null) throw storageTrouble("closed", "the store is closed");
      try {
        return await query(...args);
      } catch (error) {
        const code = parts.storageCodeOf(error);
        throw code === null ? error : storageTrouble(code, messageOf(error), error);
      }
    };
  };

  return {
    write: commits.write,
    healthy: commits.healthy,
    task: named(tasks.task),
    tasks: named(tasks.tasks),
    taskIdOfThread: named(tasks.taskIdOfThread),
    list: named(tasks.list),
    unfinished: named(tasks.unfinished),
    unfinishedBelow: named(tasks.unfinishedBelow),
    settledBefore: named(tasks.settledBefore),
    transcriptsSettledBefore: named(tasks.transcriptsSettledBefore),
    counts: named(tasks.counts),
    receipt: named(others.receipt),
    pending: named(others.pending),
    text: named(others.text),
    events: named(others.events),
    milestones: named(others.milestones),
    transcript: named(others.transcript),
    dueNotices: named(others.dueNotices),
    nextNoticeAtMs: named(others.nextNoticeAtMs),
    async [Symbol.asyncDispose]() {
      closing ??= commits.close().then(parts.release);
      await closing;
    },
  };
}
