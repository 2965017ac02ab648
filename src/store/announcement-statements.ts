/**
 * The fixed queries over announcements: which settlements nobody has read, and how many an audience has.
 *
 * Invariant: everything is asked by audience (a caller, and the task whose child asks), by an index, whatever others have.
 */

import { type Kysely, sql } from "kysely";
import { prepare } from "./prepared.ts";
import type { Schema } from "./schema.ts";

export function createAnnouncementStatements(db: Kysely<Schema>) {
  return { ...keeping(db), ...finding(db), ...counting(db) };
}

function keeping(db: Kysely<Schema>) {
  const columns: Schema["announcements"] = {
    task_id: "a",
    settlement: 1,
    caller: "b",
    parent_id: "c",
    conversation: "d",
    shown: 2,
    settled_ms: 3,
  };
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
  };
}

function finding(db: Kysely<Schema>) {
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
    announcedToAudience: prepare(
      { caller: "a", parent_id: "b", shown: 1, limit: 2 },
      ({ caller, parent_id, shown, limit }) =>
        announced(shown, limit)
          .where("announcements.caller", "=", caller)
          .where("announcements.parent_id", "=", parent_id),
    ),
    announcedToConversation: prepare(
      { caller: "a", parent_id: "b", conversation: "c", shown: 1, limit: 2 },
      ({ caller, parent_id, conversation, shown, limit }) =>
        announced(shown, limit)
          .where("announcements.conversation", "=", conversation)
          .where("announcements.caller", "=", caller)
          .where("announcements.parent_id", "=", parent_id),
    ),
  };
}

function counting(db: Kysely<Schema>) {
  return {
    addUnread: prepare({ caller: "a", parent_id: "b", unread: 1 }, (values) =>
      db
        .insertInto("unread_counts")
        .values(values)
        .onConflict((conflict) =>
          conflict
            .columns(["caller", "parent_id"])
            .doUpdateSet((eb) => ({ unread: eb("unread_counts.unread", "+", eb.ref("excluded.unread")) })),
        ),
    ),
    /** Audiences come and go with the children that delegate. */
    dropReadCount: prepare({ caller: "a", parent_id: "b" }, ({ caller, parent_id }) =>
      db
        .deleteFrom("unread_counts")
        .where("caller", "=", caller)
        .where("parent_id", "=", parent_id)
        .where("unread", "=", sql.lit(0)),
    ),
    unreadOfAudience: prepare({ caller: "a", parent_id: "b" }, ({ caller, parent_id }) =>
      db.selectFrom("unread_counts").select("unread").where("caller", "=", caller).where("parent_id", "=", parent_id),
    ),
  };
}
