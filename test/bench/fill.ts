/**
 * A data directory with finished tasks in it, written by the store's own code.
 *
 * Most belong to the caller of the first token and are read; some belong to a second caller, are unread, and have been
 * announced as often as anything ever is.
 */

import { administerTokens } from "../../src/config/tokens.ts";
import { thisProcess } from "../../src/system/this-process.ts";
import { createWallClock } from "../../src/system/wall-clock.ts";
import { LIMITS } from "../../src/core/limits.ts";
import type { TaskId } from "../../src/core/ids.ts";
import type { Store, TaskChange } from "../../src/ports/store.ts";
import { openTestStore } from "../support/test-store.ts";
import { sampleAccepted, sampleAcked, sampleReceipt, sampleSettled, sampleStarted } from "../support/sample-task.ts";
import { dataFolder, workFolder } from "./subjects.ts";

export type Filled = {
  /** Finished and read, of the first token's caller. */
  readonly read: readonly TaskId[];
  /** Those of the second caller. */
  readonly foreign: readonly TaskId[];
  /** Token of the caller whose finished tasks are unread. */
  readonly readerToken: string;
};

const FIRST_CALLER = "default";
const READER = "reader";
const DAY_MS = 86_400_000;
/** Works that share a commit. */
const TOGETHER = 256;

export async function fillFinished(folder: string, readCount: number, unreadCount: number): Promise<Filled> {
  const store = await openTestStore({ dataDir: dataFolder(folder), clock: createWallClock(), ...thisProcess });
  const read: TaskId[] = [];
  const foreign: TaskId[] = [];
  try {
    for (let n = 0; n < readCount + unreadCount; n += TOGETHER) {
      const many = Math.min(TOGETHER, readCount + unreadCount - n);
      const written = Array.from({ length: many }, (_, at) => writeOne(store, folder, n + at, n + at < readCount));
      for (const { taskId, isRead } of await Promise.all(written)) (isRead ? read : foreign).push(taskId);
    }
  } finally {
    await store[Symbol.asyncDispose]();
  }
  return { read, foreign, readerToken: await addReader(folder) };
}

async function writeOne(store: Store, folder: string, n: number, isRead: boolean) {
  const change = finished(n, folder, isRead);
  const { taskId } = change.task.handle;
  await store.write(async (tx) => {
    await tx.append(change);
    await tx.putReceipt(sampleReceipt(change.task));
    const showings = isRead ? 0 : LIMITS.pendingShownMax;
    for (let shown = 0; shown < showings; shown += 1) await tx.countShown([{ taskId, settlement: 1 }]);
  });
  return { taskId, isRead };
}

/** The whole life of a task as one change. */
function finished(n: number, folder: string, isRead: boolean): TaskChange {
  // Younger than any retention, older than what counts for a limit by the minute.
  const createdAtMs = Date.now() - DAY_MS - n;
  const caller = isRead ? FIRST_CALLER : READER;
  const accepted = sampleAccepted(n, { caller, createdAtMs, cwd: workFolder(folder), prompt: PROMPT });
  const started = sampleStarted(accepted.task);
  const settled = sampleSettled(started.task);
  const steps = [accepted, started, settled, ...(isRead ? [sampleAcked(settled.task)] : [])];
  return {
    task: steps.at(-1)?.task ?? accepted.task,
    events: steps.flatMap((step) => step.events),
    expectedVersion: 0,
    texts: [...accepted.texts, { name: "result.r1", body: RESULT }],
  };
}

async function addReader(folder: string): Promise<string> {
  const opened = administerTokens(dataFolder(folder));
  if (opened.kind === "refused") throw new Error(opened.message);
  const added = await opened.tokens.add(READER, ["read"]);
  if (added.kind === "refused") throw new Error(added.message);
  return added.token;
}

const PROMPT = "Look through the modules and report what is unfinished in them. ".repeat(5);
/** As long as samples say. */
const RESULT = "It is done.\n";
