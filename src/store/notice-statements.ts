/**
 * The fixed queries over the outbox of notices.
 */

import { type Kysely, sql } from "kysely";
import { prepare } from "./prepared.ts";
import type { Schema } from "./schema.ts";

export function createNoticeStatements(db: Kysely<Schema>) {
  const row = {
    notice_id: "a",
    task_id: "b",
    settlement: 1,
    status: "completed",
    target: "c",
    settled_ms: 2,
    due_ms: 3,
    tries: 4,
  } as const;
  const columns: Schema["notices"] = row;
  return {
    putNotice: prepare(columns, (values) =>
      db
        .insertInto("notices")
        .values(values)
        .onConflict((conflict) => conflict.column("notice_id").doNothing()),
    ),
    dropNotice: prepare({ noticeId: "a" }, ({ noticeId }) =>
      db.deleteFrom("notices").where("notice_id", "=", noticeId),
    ),
    delayNotice: prepare({ noticeId: "a", dueMs: 1 }, ({ noticeId, dueMs }) =>
      db
        .updateTable("notices")
        .set((eb) => ({ due_ms: dueMs, tries: eb("tries", "+", sql.lit(1)) }))
        .where("notice_id", "=", noticeId),
    ),
    noticesDue: prepare({ nowMs: 1, limit: 2 }, ({ nowMs, limit }) =>
      db
        .selectFrom("notices")
        .selectAll()
        .where("due_ms", "<=", nowMs)
        .orderBy("due_ms")
        .orderBy("notice_id")
        .limit(limit),
    ),
    nextNotice: prepare({}, () => db.selectFrom("notices").select("due_ms").orderBy("due_ms").limit(sql.lit(1))),
  };
}
