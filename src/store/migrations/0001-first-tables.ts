/**
 * Migration 1: all tables and their indexes.
 *
 * Invariant: never changed once released; what comes later is a migration of its own.
 * Invariant: each index serves the query named beside it, and every query over tasks, events or receipts has one.
 */

import { type Kysely, sql } from "kysely";

export async function firstTables(db: Kysely<unknown>): Promise<void> {
  await createTasks(db);
  await createBelongings(db);
  await createReceipts(db);
  await createAnnouncements(db);
  await db.schema
    .createTable("meta")
    .addColumn("name", "text", (column) => column.primaryKey())
    .addColumn("value", "text", (column) => column.notNull())
    .execute();
}

async function createTasks(db: Kysely<unknown>): Promise<void> {
  await db.schema
    .createTable("tasks")
    .addColumn("task_id", "text", (column) => column.primaryKey())
    .addColumn("thread_id", "text", (column) => column.notNull().unique())
    .addColumn("caller", "text", (column) => column.notNull())
    .addColumn("conversation", "text")
    .addColumn("parent_id", "text")
    .addColumn("root_id", "text", (column) => column.notNull())
    .addColumn("status", "text", (column) => column.notNull())
    .addColumn("is_open", "integer", (column) => column.notNull())
    .addColumn("is_unread", "integer", (column) => column.notNull())
    .addColumn("needs_look", "integer", (column) => column.notNull())
    .addColumn("created_ms", "bigint", (column) => column.notNull())
    .addColumn("settled_ms", "bigint")
    .addColumn("version", "integer", (column) => column.notNull())
    .addColumn("snapshot", "text", (column) => column.notNull())
    .execute();

  const one = sql.lit(1);
  const index = (name: string) => db.schema.createIndex(name).on("tasks");
  // Lists: by caller, and by each filter with and without one.
  await index("tasks_by_caller").columns(["caller", "task_id"]).execute();
  await index("tasks_by_caller_status").columns(["caller", "status", "task_id"]).execute();
  await index("tasks_by_status").columns(["status", "task_id"]).execute();
  await index("tasks_by_conversation")
    .columns(["conversation", "caller", "task_id"])
    .where(sql.ref("conversation"), "is not", null)
    .execute();
  await index("tasks_by_parent")
    .columns(["parent_id", "caller", "task_id"])
    .where(sql.ref("parent_id"), "is not", null)
    .execute();
  await index("open_tasks_by_caller").columns(["caller", "task_id"]).where(sql.ref("is_open"), "=", one).execute();
  await index("unread_tasks_by_caller").columns(["caller", "task_id"]).where(sql.ref("is_unread"), "=", one).execute();
  await index("unread_tasks").columns(["task_id"]).where(sql.ref("is_unread"), "=", one).execute();
  // The supervisor's look, and lists of open tasks of all callers.
  await index("tasks_to_look_at").columns(["task_id"]).where(sql.ref("needs_look"), "=", one).execute();
  // The limits of a delegation.
  await index("tasks_by_caller_created").columns(["caller", "created_ms"]).execute();
  await index("tasks_below_root").columns(["root_id"]).where(sql.ref("parent_id"), "is not", null).execute();
  // Retention.
  await index("finished_tasks_by_age")
    .columns(["settled_ms", "task_id"])
    .where(sql.ref("needs_look"), "=", sql.lit(0))
    .execute();
}

async function createBelongings(db: Kysely<unknown>): Promise<void> {
  const taskId = (table: string) =>
    db.schema
      .createTable(table)
      .addColumn("task_id", "text", (column) => column.notNull().references("tasks.task_id").onDelete("cascade"));
  await taskId("events")
    .addColumn("number", "integer", (column) => column.notNull())
    .addColumn("body", "text", (column) => column.notNull())
    .addPrimaryKeyConstraint("events_key", ["task_id", "number"])
    .execute();
  await taskId("texts")
    .addColumn("name", "text", (column) => column.notNull())
    .addColumn("body", "text", (column) => column.notNull())
    .addPrimaryKeyConstraint("texts_key", ["task_id", "name"])
    .execute();
  await taskId("claims")
    .addColumn("caller", "text", (column) => column.notNull())
    .addColumn("path", "text", (column) => column.notNull())
    .addColumn("since_ms", "bigint", (column) => column.notNull())
    .addPrimaryKeyConstraint("claims_key", ["task_id"])
    .execute();
  await db.schema.createIndex("claims_by_path").on("claims").columns(["path", "since_ms"]).execute();
}

async function createReceipts(db: Kysely<unknown>): Promise<void> {
  await db.schema
    .createTable("receipts")
    .addColumn("caller", "text", (column) => column.notNull())
    .addColumn("client_request_id", "text", (column) => column.notNull())
    .addColumn("tool", "text", (column) => column.notNull())
    .addColumn("parent_id", "text", (column) => column.notNull())
    .addColumn("about_id", "text", (column) => column.notNull())
    .addColumn("fingerprint", "text", (column) => column.notNull())
    .addColumn("fingerprint_version", "integer", (column) => column.notNull())
    .addColumn("field_digests", "text", (column) => column.notNull())
    .addColumn("task_id", "text", (column) => column.notNull())
    .addColumn("thread_id", "text", (column) => column.notNull())
    .addColumn("created_ms", "bigint", (column) => column.notNull())
    .addColumn("settled_ms", "bigint")
    // In this order the key also finds a request id whatever its parent.
    .addPrimaryKeyConstraint("receipts_key", ["caller", "client_request_id", "tool", "parent_id", "about_id"])
    .execute();
  await db.schema.createIndex("receipts_by_task").on("receipts").columns(["task_id"]).execute();
  await db.schema
    .createIndex("tombstones_by_age")
    .on("receipts")
    .columns(["settled_ms", "task_id"])
    .where(sql.ref("settled_ms"), "is not", null)
    .execute();
}

async function createAnnouncements(db: Kysely<unknown>): Promise<void> {
  await db.schema
    .createTable("announcements")
    .addColumn("task_id", "text", (column) => column.primaryKey().references("tasks.task_id").onDelete("cascade"))
    .addColumn("settlement", "integer", (column) => column.notNull())
    .addColumn("caller", "text", (column) => column.notNull())
    .addColumn("conversation", "text")
    .addColumn("shown", "integer", (column) => column.notNull())
    .addColumn("settled_ms", "bigint", (column) => column.notNull())
    .execute();
  const index = (name: string) => db.schema.createIndex(name).on("announcements");
  await index("announcements_by_caller").columns(["caller", "shown", "settled_ms", "task_id"]).execute();
  await index("announcements_by_conversation")
    .columns(["conversation", "caller", "shown", "settled_ms", "task_id"])
    .where(sql.ref("conversation"), "is not", null)
    .execute();
  await db.schema
    .createTable("unread_counts")
    .addColumn("caller", "text", (column) => column.primaryKey())
    .addColumn("unread", "integer", (column) => column.notNull())
    .execute();
}
