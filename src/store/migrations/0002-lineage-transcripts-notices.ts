/**
 * Migration 2: what is below a task, transcripts, notices on their way, and announcements by audience.
 *
 * Invariant: never changed once released; what comes later is a migration of its own.
 * Invariant: each index serves the query named beside it.
 */

import { type Kysely, sql } from "kysely";

/** What the steps here that read and write rows see of the tables. */
type Old = {
  readonly tasks: { readonly task_id: string; readonly parent_id: string | null; readonly lineage: string | null };
  readonly announcements: { readonly task_id: string; readonly caller: string; readonly parent_id: string };
  readonly unread_counts: { readonly caller: string; readonly parent_id: string; readonly unread: number };
};

export async function lineageTranscriptsNotices(db: Kysely<unknown>): Promise<void> {
  await addLineage(db);
  await createTranscripts(db);
  await createNotices(db);
  await addAudiences(db);
}

async function addLineage(db: Kysely<unknown>): Promise<void> {
  await db.schema.alterTable("tasks").addColumn("lineage", "text").execute();
  // Until now a child could not delegate, so its parent is all that is above it.
  await typed(db)
    .updateTable("tasks")
    .set((eb) => ({ lineage: eb(eb.ref("parent_id"), "||", sql.lit("/")) }))
    .where("parent_id", "is not", null)
    .execute();
  // What is below a task, and (in place of its forerunner) how many tasks are below a root.
  await db.schema.dropIndex("tasks_below_root").execute();
  await db.schema
    .createIndex("tasks_by_lineage")
    .on("tasks")
    .columns(["root_id", "lineage"])
    .where(sql.ref("lineage"), "is not", null)
    .execute();
}

async function createTranscripts(db: Kysely<unknown>): Promise<void> {
  await db.schema
    .createTable("transcript_totals")
    .addColumn("task_id", "text", (column) => column.primaryKey().references("tasks.task_id").onDelete("cascade"))
    .addColumn("last_number", "integer", (column) => column.notNull())
    .addColumn("bytes", "bigint", (column) => column.notNull())
    .addColumn("head_number", "integer", (column) => column.notNull())
    .addColumn("head_bytes", "bigint", (column) => column.notNull())
    .execute();
  await db.schema
    .createTable("transcript")
    .addColumn("task_id", "text", (column) =>
      column.notNull().references("transcript_totals.task_id").onDelete("cascade"),
    )
    .addColumn("number", "integer", (column) => column.notNull())
    .addColumn("role", "text", (column) => column.notNull())
    .addColumn("at_ms", "bigint", (column) => column.notNull())
    .addColumn("bytes", "integer", (column) => column.notNull())
    .addColumn("dropped_entries", "integer", (column) => column.notNull())
    .addColumn("dropped_bytes", "bigint", (column) => column.notNull())
    // The body comes last: sizes are read without it.
    .addColumn("body", "text", (column) => column.notNull())
    .addPrimaryKeyConstraint("transcript_key", ["task_id", "number"])
    .execute();
  await db.schema
    .alterTable("tasks")
    .addColumn("has_transcript", "integer", (column) => column.notNull().defaultTo(0))
    .execute();
  // Retention of transcripts.
  await db.schema
    .createIndex("finished_transcripts_by_age")
    .on("tasks")
    .columns(["settled_ms", "task_id"])
    .where(sql.ref("needs_look"), "=", sql.lit(0))
    .where(sql.ref("has_transcript"), "=", sql.lit(1))
    .execute();
}

async function createNotices(db: Kysely<unknown>): Promise<void> {
  await db.schema
    .createTable("notices")
    .addColumn("notice_id", "text", (column) => column.primaryKey())
    .addColumn("task_id", "text", (column) => column.notNull().references("tasks.task_id").onDelete("cascade"))
    .addColumn("settlement", "integer", (column) => column.notNull())
    .addColumn("status", "text", (column) => column.notNull())
    .addColumn("target", "text", (column) => column.notNull())
    .addColumn("settled_ms", "bigint", (column) => column.notNull())
    .addColumn("due_ms", "bigint", (column) => column.notNull())
    .addColumn("tries", "integer", (column) => column.notNull())
    .execute();
  // What is due, and when the next one is.
  await db.schema.createIndex("notices_by_due").on("notices").columns(["due_ms", "notice_id"]).execute();
  // A task that is purged takes its notices with it.
  await db.schema.createIndex("notices_by_task").on("notices").columns(["task_id"]).execute();
}

/** An audience is a caller, and the task whose child asks ("" for the root caller). */
async function addAudiences(db: Kysely<unknown>): Promise<void> {
  await db.schema
    .alterTable("announcements")
    .addColumn("parent_id", "text", (column) => column.notNull().defaultTo(""))
    .execute();
  await typed(db)
    .updateTable("announcements")
    .set((eb) => ({
      parent_id: eb.fn.coalesce(
        eb.selectFrom("tasks").select("tasks.parent_id").whereRef("tasks.task_id", "=", "announcements.task_id"),
        sql.lit(""),
      ),
    }))
    .execute();
  await db.schema.dropIndex("announcements_by_caller").execute();
  await db.schema.dropIndex("announcements_by_conversation").execute();
  const index = (name: string) => db.schema.createIndex(name).on("announcements");
  const order = ["shown", "settled_ms", "task_id"];
  await index("announcements_by_audience")
    .columns(["caller", "parent_id", ...order])
    .execute();
  await index("announcements_by_conversation")
    .columns(["conversation", "caller", "parent_id", ...order])
    .where(sql.ref("conversation"), "is not", null)
    .execute();

  await db.schema.dropTable("unread_counts").execute();
  await db.schema
    .createTable("unread_counts")
    .addColumn("caller", "text", (column) => column.notNull())
    .addColumn("parent_id", "text", (column) => column.notNull())
    .addColumn("unread", "integer", (column) => column.notNull())
    .addPrimaryKeyConstraint("unread_counts_key", ["caller", "parent_id"])
    .execute();
  await typed(db)
    .insertInto("unread_counts")
    .columns(["caller", "parent_id", "unread"])
    .expression((eb) =>
      eb
        .selectFrom("announcements")
        .select(["caller", "parent_id", (count) => count.fn.countAll<number>().as("unread")])
        .groupBy(["caller", "parent_id"]),
    )
    .execute();
}

function typed(db: Kysely<unknown>): Kysely<Old> {
  return db.$extendTables<Old>();
}
