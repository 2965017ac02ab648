/**
 * The fixed queries over transcripts.
 *
 * Invariant: a page is found by the key, wherever in a transcript it is; its size is worked out before a body is read.
 */

import { type Kysely, sql } from "kysely";
import { prepare } from "./prepared.ts";
import type { Schema } from "./schema.ts";

export function createTranscriptStatements(db: Kysely<Schema>) {
  return {
    ...reading(db),
    ...totals(db),
    insertTranscriptEntry: prepare(
      { task_id: "a", number: 1, role: "child", at_ms: 2, bytes: 3, dropped_entries: 4, dropped_bytes: 5, body: "b" },
      (values: Schema["transcript"]) => db.insertInto("transcript").values(values),
    ),
    transcriptSizesAfter: prepare({ taskId: "a", after: 1, limit: 2 }, ({ taskId, after, limit }) =>
      db
        .selectFrom("transcript")
        .select(["number", "bytes", "dropped_entries", "dropped_bytes"])
        .where("task_id", "=", taskId)
        .where("number", ">", after)
        .orderBy("number")
        .limit(limit),
    ),
    cutTranscript: prepare({ taskId: "a", after: 1, through: 2 }, ({ taskId, after, through }) =>
      db
        .deleteFrom("transcript")
        .where("task_id", "=", taskId)
        .where("number", ">", after)
        .where("number", "<=", through),
    ),
    markGap: prepare({ taskId: "a", number: 1, entries: 2, bytes: 3 }, ({ taskId, number, entries, bytes }) =>
      db
        .updateTable("transcript")
        .set({ dropped_entries: entries, dropped_bytes: bytes })
        .where("task_id", "=", taskId)
        .where("number", "=", number),
    ),
  };
}

function reading(db: Kysely<Schema>) {
  return {
    /** The first entry, and those after it as long as their bytes are within the page. */
    transcriptAfter: prepare({ taskId: "a", after: 1, limit: 2, bytesMax: 3 }, ({ taskId, after, limit, bytesMax }) =>
      db
        .with("sizes", (cte) =>
          cte
            .selectFrom("transcript")
            .select(["number", "bytes"])
            .where("task_id", "=", taskId)
            .where("number", ">", after)
            .orderBy("number")
            .limit(limit),
        )
        .with("page", (cte) =>
          cte
            .selectFrom("sizes")
            .select([
              "number",
              (eb) =>
                eb.fn
                  .sum<number>("bytes")
                  .over((over) => over.orderBy("number"))
                  .as("through"),
            ])
            .select((eb) =>
              eb.fn
                .agg<number>("row_number")
                .over((over) => over.orderBy("number"))
                .as("place"),
            ),
        )
        .selectFrom("page")
        .innerJoin("transcript", "transcript.number", "page.number")
        .select(["transcript.number", "role", "at_ms", "dropped_entries", "dropped_bytes", "body"])
        .where("transcript.task_id", "=", taskId)
        .where((eb) => eb.or([eb("page.through", "<=", bytesMax), eb("page.place", "=", sql.lit(1))]))
        .orderBy("page.number"),
    ),
    finishedTranscriptsBefore: prepare({ beforeMs: 1, limit: 2 }, ({ beforeMs, limit }) =>
      db
        .selectFrom("tasks")
        .select("task_id")
        .where("needs_look", "=", sql.lit(0))
        .where("has_transcript", "=", sql.lit(1))
        .where("settled_ms", "<", beforeMs)
        .orderBy("settled_ms")
        .orderBy("task_id")
        .limit(limit),
    ),
  };
}

function totals(db: Kysely<Schema>) {
  const columns: Schema["transcript_totals"] = {
    task_id: "a",
    last_number: 1,
    bytes: 2,
    head_number: 3,
    head_bytes: 4,
  };
  return {
    totalsOfTranscript: prepare({ taskId: "a" }, ({ taskId }) =>
      db
        .selectFrom("transcript_totals")
        .select(["last_number", "bytes", "head_number", "head_bytes"])
        .where("task_id", "=", taskId),
    ),
    putTranscriptTotals: prepare(columns, (values) =>
      db
        .insertInto("transcript_totals")
        .values(values)
        .onConflict((conflict) =>
          conflict.column("task_id").doUpdateSet((eb) => ({
            last_number: eb.ref("excluded.last_number"),
            bytes: eb.ref("excluded.bytes"),
            head_number: eb.ref("excluded.head_number"),
            head_bytes: eb.ref("excluded.head_bytes"),
          })),
        ),
    ),
    /** The entries go with it. */
    deleteTranscript: prepare({ taskId: "a" }, ({ taskId }) =>
      db.deleteFrom("transcript_totals").where("task_id", "=", taskId),
    ),
    flagTranscript: prepare({ taskId: "a", has: 1 }, ({ taskId, has }) =>
      db.updateTable("tasks").set({ has_transcript: has }).where("task_id", "=", taskId),
    ),
  };
}
