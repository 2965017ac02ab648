/**
 * Writing transcripts, in SQL.
 *
 * Invariant: appending takes the same time however long a transcript is: what has to be known of it is in its totals.
 */

import type { Kysely } from "kysely";
import type { TaskId } from "../core/ids.ts";
import type { NewTranscriptEntry, StoreWriter } from "../ports/store.ts";
import type { Schema } from "./schema.ts";
import type { Statements } from "./statements.ts";
import { cutOf, EMPTY_TOTALS, type TranscriptTotals, withEntry, withoutCut } from "./transcript-cap.ts";

/** Entries whose sizes are read at a time to find out which have to go; mostly the first few are enough. */
const LOOK_AT = 32;

type TranscriptWrites = Pick<StoreWriter, "appendTranscript" | "dropTranscript">;

export function createTranscriptWrites(trx: Kysely<Schema>, statements: Statements): TranscriptWrites {
  const writes = { trx, statements };
  return {
    async appendTranscript(taskId, entries, bytesMax) {
      if (entries.length === 0) return;
      const before = (await totalsOf(writes, taskId)) ?? (await begin(writes, taskId));
      if (before === null) return;
      const grown = await insert(writes, taskId, entries, { totals: before, bytesMax });
      await putTotals(writes, taskId, await shorten(writes, taskId, { totals: grown, bytesMax }));
    },
    async dropTranscript(taskId) {
      const { numAffectedRows } = await statements.deleteTranscript.run(trx, { taskId });
      if (numAffectedRows === 1n) await statements.flagTranscript.run(trx, { taskId, has: 0 });
    },
  };
}

type Writes = { readonly trx: Kysely<Schema>; readonly statements: Statements };
type Bounded = { readonly totals: TranscriptTotals; readonly bytesMax: number };

async function totalsOf({ trx, statements }: Writes, taskId: TaskId): Promise<TranscriptTotals | null> {
  const { rows } = await statements.totalsOfTranscript.run(trx, { taskId });
  const [row] = rows;
  if (row === undefined) return null;
  return { lastNumber: row.last_number, bytes: row.bytes, headNumber: row.head_number, headBytes: row.head_bytes };
}

async function putTotals({ trx, statements }: Writes, taskId: TaskId, totals: TranscriptTotals): Promise<void> {
  await statements.putTranscriptTotals.run(trx, {
    task_id: taskId,
    last_number: totals.lastNumber,
    bytes: totals.bytes,
    head_number: totals.headNumber,
    head_bytes: totals.headBytes,
  });
}

/** The totals of a transcript without entries; null if there is no such task. */
async function begin(writes: Writes, taskId: TaskId): Promise<TranscriptTotals | null> {
  const { numAffectedRows } = await writes.statements.flagTranscript.run(writes.trx, { taskId, has: 1 });
  if (numAffectedRows !== 1n) return null;
  await putTotals(writes, taskId, EMPTY_TOTALS);
  return EMPTY_TOTALS;
}

async function insert(
  { trx, statements }: Writes,
  taskId: TaskId,
  entries: readonly NewTranscriptEntry[],
  before: Bounded,
): Promise<TranscriptTotals> {
  let { totals } = before;
  for (const { role, atMs, text } of entries) {
    const bytes = Buffer.byteLength(text);
    totals = withEntry(totals, bytes, before.bytesMax);
    await statements.insertTranscriptEntry.run(trx, {
      task_id: taskId,
      number: totals.lastNumber,
      role,
      at_ms: atMs,
      bytes,
      dropped_entries: 0,
      dropped_bytes: 0,
      body: text,
    });
  }
  return totals;
}

/** Drops what the bound asks for, a few entries at a time. */
async function shorten(writes: Writes, taskId: TaskId, { totals, bytesMax }: Bounded): Promise<TranscriptTotals> {
  const cut = totals.bytes > bytesMax ? cutOf(totals, await afterHead(writes, taskId, totals), bytesMax) : null;
  if (cut === null) return totals;
  const { trx, statements } = writes;
  const { through, dropped } = cut;
  await statements.cutTranscript.run(trx, { taskId, after: totals.headNumber, through });
  await statements.markGap.run(trx, { taskId, number: through + 1, ...dropped });
  return shorten(writes, taskId, { totals: withoutCut(totals, cut), bytesMax });
}

async function afterHead({ trx, statements }: Writes, taskId: TaskId, { headNumber }: TranscriptTotals) {
  const { rows } = await statements.transcriptSizesAfter.run(trx, { taskId, after: headNumber, limit: LOOK_AT });
  return rows.map(({ number, bytes, dropped_entries, dropped_bytes }) => ({
    number,
    bytes,
    dropped: { entries: dropped_entries, bytes: dropped_bytes },
  }));
}
