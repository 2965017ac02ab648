/**
 * Every fixed query of the store, by name. Families of queries are in `task-list` and `claims`.
 *
 * Invariant: what runs for each request is found by an index and takes the same time with 100,000 finished tasks as with
 * none (a test asks the query planner).
 */

import { type Kysely, sql } from "kysely";
import { createClaimQueries } from "./claims.ts";
import { prepare } from "./prepared.ts";
import type { Schema } from "./schema.ts";
import { createTaskQueries, createTaskWrites } from "./task-statements.ts";
import { createListQueries, createTasksByIds } from "./task-list.ts";

export type Statements = ReturnType<typeof createStatements>;

/** `db` only compiles here; each statement is run on whatever connection or transaction it is given. */
export function createStatements(db: Kysely<Schema>) {
  return {
    ...createTaskQueries(db),
    ...createTaskWrites(db),
    ...belongings(db),
    ...receiptStatements(db),
    ...announcements(db),
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
    receiptByRequestId: prepare({ caller, client_request_id, tool }, (key) =>
      db
        .selectFrom("receipts")
        .selectAll()
        .where("caller", "=", key.caller)
        .where("client_request_id", "=", key.client_request_id)
        .where("tool", "=", key.tool)
        .orderBy("created_ms", "desc")
        .orderBy("task_id", "desc")
        .limit(sql.lit(1)),
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

function announcements(db: Kysely<Schema>) {
  const columns: Schema["announcements"] = {
    task_id: "a",
    settlement: 1,
    caller: "b",
    conversation: "c",
    shown: 2,
    settled_ms: 3,
  };
  const announced = (shown: number, limit: number) =>
    db
      .selectFrom("announcements")
      .innerJoin("tasks", "tasks.task_id", "announcements.task_id")
      .select(["announcements.task_id", "announcements.settled_ms", "tasks.snapshot"])
      .where("announcements.shown", "=", shown)
      .orderBy("announcements.settled_ms")
      .orderBy("announcements.task_id")
      .limit(limit);
  return {
    announce: prepare(columns, (values) =>
      db
        .insertInto("announcements")
        .values(values)
        .onConflict((conflict) => conflict.column("task_id").doNothing()),
    ),
    announceAnew: prepare({ task_id: "a", settlement: 1, settled_ms: 2, shown: 0 }, (values) =>
      db
        .updateTable("announcements")
        .set({ settlement: values.settlement, settled_ms: values.settled_ms, shown: values.shown })
        .where("task_id", "=", values.task_id)
        .where("settlement", "<>", values.settlement),
    ),
    silence: prepare({ taskId: "a" }, ({ taskId }) => db.deleteFrom("announcements").where("task_id", "=", taskId)),
    countShown: prepare({ taskId: "a", settlement: 1 }, ({ taskId, settlement }) =>
      db
        .updateTable("announcements")
        .set((eb) => ({ shown: eb("shown", "+", sql.lit(1)) }))
        .where("task_id", "=", taskId)
        .where("settlement", "=", settlement),
    ),
    announcedToCaller: prepare({ caller: "a", shown: 1, limit: 2 }, ({ caller, shown, limit }) =>
      announced(shown, limit).where("announcements.caller", "=", caller),
    ),
    announcedToConversation: prepare(
      { caller: "a", conversation: "b", shown: 1, limit: 2 },
      ({ caller, conversation, shown, limit }) =>
        announced(shown, limit)
          .where("announcements.conversation", "=", conversation)
          .where("announcements.caller", "=", caller),
    ),
    addUnread: prepare({ caller: "a", unread: 1 }, (values) =>
      db
        .insertInto("unread_counts")
        .values(values)
        .onConflict((conflict) =>
          conflict
            .column("caller")
            .doUpdateSet((eb) => ({ unread: eb("unread_counts.unread", "+", eb.ref("excluded.unread")) })),
        ),
    ),
    unreadOfCaller: prepare({ caller: "a" }, ({ caller }) =>
      db.selectFrom("unread_counts").select("unread").where("caller", "=", caller),
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
