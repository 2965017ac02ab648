/**
 * Every fixed query of the store, by name. Families of queries are in `task-list` and `claims`.
 *
 * Invariant: what runs for each request is found by an index and takes the same time with 100,000 finished tasks as with
 * none (a test asks the query planner).
 */

import { type Kysely, sql } from "kysely";
import { createAnnouncementStatements } from "./announcement-statements.ts";
import { createClaimQueries } from "./claims.ts";
import { createNoticeStatements } from "./notice-statements.ts";
import { prepare } from "./prepared.ts";
import type { Schema } from "./schema.ts";
import { createTaskQueries, createTaskWrites } from "./task-statements.ts";
import { createListQueries, createTasksByIds } from "./task-list.ts";
import { createTranscriptStatements } from "./transcript-statements.ts";

/** Word for word what the index of milestones is made by. */
const SIGN_OF_LIFE = '%"kind":"ProgressRecorded"%';

export type Statements = ReturnType<typeof createStatements>;

/** `db` only compiles here; each statement is run on whatever connection or transaction it is given. */
export function createStatements(db: Kysely<Schema>) {
  return {
    ...createTaskQueries(db),
    ...createTaskWrites(db),
    ...belongings(db),
    ...receiptStatements(db),
    ...createAnnouncementStatements(db),
    ...createTranscriptStatements(db),
    ...createNoticeStatements(db),
    ...meta(db),
    claims: createClaimQueries(db),
    lists: createListQueries(db),
    tasksByIds: createTasksByIds(db),
  };
}

function belongings(db: Kysely<Schema>) {
  return {
    insertEvent: prepare({ task_id: "a", number: 1, body: "b" }, (values) => db.insertInto("events").values(values)),
    eventsAfter: prepare({ taskId: "a", after: 1, limit: 2 }, ({ taskId, after, limit }) =>
      db
        .selectFrom("events")
        .select(["number", "body"])
        .where("task_id", "=", taskId)
        .where("number", ">", after)
        .orderBy("number")
        .limit(limit),
    ),
    milestonesAfter: prepare({ taskId: "a", after: 1, limit: 2 }, ({ taskId, after, limit }) =>
      db
        .selectFrom("events")
        .select(["number", "body"])
        .where("task_id", "=", taskId)
        .where("number", ">", after)
        .where("body", "not like", sql.lit(SIGN_OF_LIFE))
        .orderBy("number")
        .limit(limit),
    ),
    putText: prepare({ task_id: "a", name: "b", body: "c" }, (values) =>
      db
        .insertInto("texts")
        .values(values)
        .onConflict((conflict) =>
          conflict.columns(["task_id", "name"]).doUpdateSet((eb) => ({ body: eb.ref("excluded.body") })),
        ),
    ),
    textOfTask: prepare({ taskId: "a", name: "b" }, ({ taskId, name }) =>
      db.selectFrom("texts").select("body").where("task_id", "=", taskId).where("name", "=", name),
    ),
    putClaim: prepare({ task_id: "a", caller: "b", path: "c", since_ms: 1 }, (values) =>
      db
        .insertInto("claims")
        .values(values)
        .onConflict((conflict) =>
          conflict.column("task_id").doUpdateSet((eb) => ({
            caller: eb.ref("excluded.caller"),
            path: eb.ref("excluded.path"),
            since_ms: eb.ref("excluded.since_ms"),
          })),
        ),
    ),
    claimOfTask: prepare({ taskId: "a" }, ({ taskId }) =>
      db.selectFrom("claims").select("since_ms").where("task_id", "=", taskId),
    ),
    dropClaim: prepare({ taskId: "a" }, ({ taskId }) => db.deleteFrom("claims").where("task_id", "=", taskId)),
  };
}

function receiptStatements(db: Kysely<Schema>) {
  const row = {
    caller: "a",
    client_request_id: "b",
    tool: "c",
    parent_id: "d",
    about_id: "e",
    fingerprint: "f",
    fingerprint_version: 1,
    field_digests: "g",
    task_id: "h",
    thread_id: "i",
    created_ms: 2,
    settled_ms: 3,
  };
  const columns: Schema["receipts"] = row;
  const { caller, client_request_id, tool, parent_id, about_id } = columns;
  const keyOfReceipt = { caller, client_request_id, tool, parent_id, about_id };
  return {
    insertReceipt: prepare(columns, (values) => db.insertInto("receipts").values(values)),
    receiptByKey: prepare(keyOfReceipt, (key) =>
      db
        .selectFrom("receipts")
        .selectAll()
        .where("caller", "=", key.caller)
        .where("client_request_id", "=", key.client_request_id)
        .where("tool", "=", key.tool)
        .where("parent_id", "=", key.parent_id)
        .where("about_id", "=", key.about_id),
    ),
    buryReceipts: prepare({ taskId: "a", settledMs: 1 }, ({ taskId, settledMs }) =>
      db.updateTable("receipts").set({ settled_ms: settledMs }).where("task_id", "=", taskId),
    ),
    deleteTombstones: prepare({ beforeMs: 1, limit: 2 }, ({ beforeMs, limit }) =>
      db
        .deleteFrom("receipts")
        .where("task_id", "in", (eb) =>
          eb
            .selectFrom("receipts as old")
            .select("old.task_id")
            .where("old.settled_ms", "<", beforeMs)
            .orderBy("old.settled_ms")
            .orderBy("old.task_id")
            .limit(limit),
        ),
    ),
  };
}

function meta(db: Kysely<Schema>) {
  return {
    putMeta: prepare({ name: "a", value: "b" }, (values) =>
      db
        .insertInto("meta")
        .values(values)
        .onConflict((conflict) => conflict.column("name").doUpdateSet((eb) => ({ value: eb.ref("excluded.value") }))),
    ),
  };
}
