/**
 * A data directory with one finished task of a very long life: 50 MB of transcript, 100,000 signs of life.
 */

import { createWallClock } from "../../src/system/wall-clock.ts";
import { thisProcess } from "../../src/system/this-process.ts";
import type { TaskEvent } from "../../src/core/event.ts";
import { evolve } from "../../src/core/evolve.ts";
import type { TaskId } from "../../src/core/ids.ts";
import { LIMITS } from "../../src/core/limits.ts";
import type { Task } from "../../src/core/task.ts";
import type { Store, TaskChange } from "../../src/ports/store.ts";
import { sampleAccepted, sampleSettled, sampleStarted } from "../support/sample-task.ts";
import { openTestStore } from "../support/test-store.ts";
import { dataFolder, workFolder } from "./subjects.ts";

export const SIGNS = 100_000;
export const ENTRIES = 12_800;
const ENTRY_BYTES = 4_096;
const TOGETHER = 500;
/** Once in so many entries. */
export const NEEDLE = "needle in the haystack";
const NEEDLE_EVERY = 3_000;

export async function fillLongThread(folder: string): Promise<TaskId> {
  const store = await openTestStore({ dataDir: dataFolder(folder), clock: createWallClock(), ...thisProcess });
  try {
    const accepted = sampleAccepted(1, {
      caller: "default",
      createdAtMs: Date.now() - 86_400_000,
      cwd: workFolder(folder),
    });
    await write(store, accepted);
    const started = sampleStarted(accepted.task);
    await write(store, started);
    const lived = await live(store, started.task);
    await write(store, sampleSettled(lived));
    return lived.handle.taskId;
  } finally {
    await store[Symbol.asyncDispose]();
  }
}

async function write(store: Store, change: TaskChange): Promise<void> {
  await store.write((tx) => tx.append(change));
}

/** Signs of life and what it said, spread over the same time. */
async function live(store: Store, started: Task): Promise<Task> {
  let task = started;
  const startedAtMs = task.createdAtMs + 1_000;
  for (let sign = 0; sign < SIGNS; sign += TOGETHER) {
    const before = task;
    const events = Array.from({ length: TOGETHER }, (_, at): TaskEvent => {
      return { atMs: startedAtMs + sign + at, kind: "ProgressRecorded", epoch: 1, steps: 1, toolRunningSinceMs: null };
    });
    const after = events.reduce<Task | null>(evolve, before) ?? before;
    task = after;
    const first = Math.floor((sign * ENTRIES) / SIGNS);
    const last = Math.floor(((sign + TOGETHER) * ENTRIES) / SIGNS);
    const entries = Array.from({ length: last - first }, (_, at) => entryOf(first + at, startedAtMs + sign));
    await store.write(async (tx) => {
      await tx.append({ task: after, events, expectedVersion: before.version, texts: [] });
      await tx.appendTranscript(after.handle.taskId, entries, LIMITS.transcriptBytesMax);
    });
  }
  return task;
}

function entryOf(n: number, atMs: number) {
  const words = `Step ${n}: I read the next module and note what is unfinished in it. `;
  const text = words.repeat(Math.ceil(ENTRY_BYTES / words.length)).slice(0, ENTRY_BYTES);
  return { role: "child", atMs, text: n % NEEDLE_EVERY === 1 ? `${text}\n${NEEDLE}` : text } as const;
}
