/**
 * Migration 3: a task's events without its signs of life, which a busy child makes by the thousand.
 *
 * Invariant: never changed once released; what comes later is a migration of its own.
 */

import { type Kysely, sql } from "kysely";

export async function milestones(db: Kysely<unknown>): Promise<void> {
  // Pages of a conversation. Quotes inside of an event's own texts are escaped, so only its kind is meant.
  await db.schema
    .createIndex("milestones")
    .on("events")
    .columns(["task_id", "number"])
    .where(sql.ref("body"), "not like", sql.lit('%"kind":"ProgressRecorded"%'))
    .execute();
}
