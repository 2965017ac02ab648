/**
 * The fixed queries over the table of tasks, by name.
 *
 * Invariant: each is found by an index; a flag in a condition is a constant, never a parameter, because only so can a
 * partial index serve it.
 */

import { type Kysely, sql } from "kysely";
import { prepare } from "./prepared.ts";
import type { Schema, TaskColumns } from "./schema.ts";

/** Finding tasks. */
export function createTaskQueries(db: Kysely<Schema>) {
  return {
    snapshotOfTask: prepare({ taskId: "a" }, ({ taskId }) =>
      db.selectFrom("tasks").select("snapshot").where("task_id", "=", taskId),
    ),
    taskOfThread: prepare({ threadId: "a" }, ({ threadId }) =>
      db.selectFrom("tasks").select("task_id").where("thread_id", "=", threadId),
    ),
    unfinishedTasks: prepare({}, () =>
      db.selectFrom("tasks").select("snapshot").where("needs_look", "=", sql.lit(1)).orderBy("task_id"),
    ),
    unfinishedBelow: prepare({ root: "a", from: "b", to: "c" }, ({ root, from, to }) =>
      db
        .selectFrom("tasks")
        .select("snapshot")
        .where("root_id", "=", root)
        .where("lineage", ">=", from)
        .where("lineage", "<", to)
        .where("needs_look", "=", sql.lit(1)),
    ),
    tasksByStatus: prepare({}, () =>
      db
        .selectFrom("tasks")
        .select(["status", (eb) => eb.fn.countAll<number>().as("tasks")])
        .groupBy("status"),
    ),
    finishedBefore: prepare({ beforeMs: 1, limit: 2 }, ({ beforeMs, limit }) =>
      db
        .selectFrom("tasks")
        .select("task_id")
        .where("needs_look", "=", sql.lit(0))
        .where("settled_ms", "<", beforeMs)
        .orderBy("settled_ms")
        .orderBy("task_id")
        .limit(limit),
    ),
    load: prepare({ caller: "a", rootId: "b", sinceMs: 1 }, ({ caller, rootId, sinceMs }) =>
      db.selectNoFrom((eb) => [
        eb
          .selectFrom("tasks")
          .select(eb.fn.countAll<number>().as("n"))
          .where("is_open", "=", sql.lit(1))
          .as("open_tasks"),
        eb
          .selectFrom("tasks")
          .select(eb.fn.countAll<number>().as("n"))
          .where("root_id", "=", rootId)
          .where("lineage", "is not", null)
          .as("tasks_in_tree"),
        eb
          .selectFrom("tasks")
          .select(eb.fn.countAll<number>().as("n"))
          .where("caller", "=", caller)
          .where("created_ms", ">=", sinceMs)
          .as("delegations_since"),
      ]),
    ),
  };
}

/** Writing tasks. */
export function createTaskWrites(db: Kysely<Schema>) {
  const row = {
    task_id: "a",
    thread_id: "b",
    caller: "c",
    conversation: "d",
    parent_id: "e",
    root_id: "f",
    lineage: "g",
    status: "h",
    is_open: 1,
    is_unread: 2,
    needs_look: 3,
    created_ms: 4,
    settled_ms: 5,
    version: 6,
    snapshot: "i",
  };
  // Types of the arguments; the values stand in for them while a query is built.
  const columns: TaskColumns = row;
  const { task_id, status, is_open, is_unread, needs_look, settled_ms, version, snapshot } = columns;
  const replacement = { task_id, status, is_open, is_unread, needs_look, settled_ms, version, snapshot, expected: 7 };
  return {
    insertTask: prepare(columns, (values) =>
      db
        .insertInto("tasks")
        .values(values)
        .onConflict((conflict) => conflict.column("task_id").doNothing()),
    ),
    /** For the many changes that leave a task where it is found: no index is touched. */
    replaceSnapshot: prepare(
      { task_id: "a", status: "b", expected: 1, version: 2, snapshot: "c" },
      ({ task_id, status, expected, ...values }) =>
        db
          .updateTable("tasks")
          .set(values)
          .where("task_id", "=", task_id)
          .where("version", "=", expected)
          .where("status", "=", status)
          .where("is_open", "=", sql.lit(1)),
    ),
    /** What stands in no change (handle, origin, time of acceptance) is left alone. */
    replaceTask: prepare(replacement, ({ task_id, expected, ...values }) =>
      db.updateTable("tasks").set(values).where("task_id", "=", task_id).where("version", "=", expected),
    ),
    flagsOfTask: prepare({ taskId: "a" }, ({ taskId }) =>
      db.selectFrom("tasks").select(["caller", "parent_id", "needs_look", "settled_ms"]).where("task_id", "=", taskId),
    ),
    deleteTask: prepare({ taskId: "a" }, ({ taskId }) => db.deleteFrom("tasks").where("task_id", "=", taskId)),
  };
}
