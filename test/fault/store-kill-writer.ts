/**
 * A daemon's store and nothing else, in a process of its own that is there to be killed.
 *
 * Opens the data directory, then accepts and settles tasks without end, several at a time. Each line on stdout is written
 * after its promise has resolved and before anything else happens: what is printed was acknowledged.
 *
 * Arguments: data directory, number of the first task. Lines: `open`, `refused <reason>`, `accepted <n>`, `settled <n>`.
 */

import { writeSync } from "node:fs";
import { sampleAccepted, sampleReceipt, sampleSettled, sampleStarted } from "../support/sample-task.ts";
import { sqliteOptions } from "../support/test-store.ts";
import { openSqliteStore } from "../../src/store/open-sqlite-store.ts";
import type { Store } from "../../src/ports/store.ts";

const WRITERS = 8;
/** Nobody needs more; a writer that was forgotten ends by itself. */
const TASKS_MAX = 20_000;

const [, , dataDir = "", first = "1"] = process.argv;
process.umask(0o022);
const opened = await openSqliteStore(sqliteOptions({ dataDir }));
if (opened.kind === "refused") {
  say(`refused ${opened.reason}`);
} else {
  say("open");
  let next = Number(first);
  const last = next + TASKS_MAX;
  const writer = async (): Promise<void> => {
    while (next < last) await acceptAndSettle(opened.store, next++);
  };
  await Promise.all(Array.from({ length: WRITERS }, writer));
}

async function acceptAndSettle(store: Store, n: number): Promise<void> {
  const accepted = sampleAccepted(n, { prompt: `prompt of ${n} — ${"词".repeat(n % 2_000)}` });
  const { taskId } = accepted.task.handle;
  await store.write(async (tx) => {
    await tx.append(accepted);
    await tx.putReceipt(sampleReceipt(accepted.task));
    await tx.putClaim({ taskId, caller: "alice", path: accepted.task.spec.cwd, sinceMs: n });
  });
  say(`accepted ${n}`);
  const started = sampleStarted(accepted.task);
  const settled = sampleSettled(started.task);
  await store.write(async (tx) => {
    await tx.append(started);
    await tx.append({ ...settled, texts: [{ name: "result.r1", body: `result of ${n}` }] });
    await tx.dropClaim(taskId);
  });
  say(`settled ${n}`);
}

function say(line: string): void {
  writeSync(1, `${line}\n`);
}
