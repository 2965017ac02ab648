/**
 * How SQLite means to find things: by an index, never by reading a table from end to end.
 */

import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import type { Kysely } from "kysely";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { TaskQuery } from "../../src/ports/store.ts";
import { STORE_FILE } from "../../src/store/open-sqlite-store.ts";
import type { Schema } from "../../src/store/schema.ts";
import { openReader } from "../../src/store/sqlite.ts";
import { createStatements, type Statements } from "../../src/store/statements.ts";
import { sampleTaskId } from "../support/sample-task.ts";
import { createTempDirectory, openTestStore, type TempDirectory } from "../support/test-store.ts";

const ANY: TaskQuery = {
  caller: null,
  below: null,
  open: false,
  unread: false,
  conversation: null,
  status: null,
  parentTaskId: null,
  idPrefix: null,
  limit: 20,
  before: null,
};

const FILTERS: readonly Partial<TaskQuery>[] = [
  {},
  { open: true },
  { unread: true },
  { conversation: "talk" },
  { status: "completed" },
  { parentTaskId: sampleTaskId(1) },
  { parentTaskId: "root" },
  { idPrefix: "dt_01K" },
];

describe("the query planner", () => {
  let directory: TempDirectory;
  let database: DatabaseSync;
  let reader: Kysely<Schema>;
  let statements: Statements;

  beforeAll(async () => {
    directory = createTempDirectory();
    const store = await openTestStore({ dataDir: directory.path });
    await store[Symbol.asyncDispose]();
    const path = join(directory.path, STORE_FILE);
    database = new DatabaseSync(path);
    reader = openReader(path);
    statements = createStatements(reader);
  });
  afterAll(() => {
    database.close();
    directory[Symbol.dispose]();
  });

  const planOf = (sql: string): readonly string[] =>
    database
      .prepare(`explain query plan ${sql}`)
      .all()
      .map((row) => String(row["detail"]));

  const lists = FILTERS.flatMap((filter) =>
    [{}, { caller: "alice" }].flatMap((caller) =>
      [{}, { before: sampleTaskId(9) }].map((before) => ({ ...ANY, ...filter, ...caller, ...before })),
    ),
  );

  it.each(lists.map((query) => [filtersIn(query), query] as const))(
    "finds the page of a list by an index that knows its order: %s (P15)",
    (_, query) => {
      const plan = planOf(statements.lists(query).text.sql);

      expect(
        plan.filter((step) => step.startsWith("SCAN") && !isScanOfFew(step) && !isScanOfPage(step, query)),
      ).toEqual([]);
      // Sorting is for what is few by nature: one parent's children, one conversation across callers.
      const sortsFew = query.caller === null && (isOfOneParent(query) || query.conversation !== null);
      expect(plan.some((step) => step.includes("TEMP B-TREE"))).toBe(sortsFew);
    },
  );

  const within = lists.map((query) => ({ ...query, below: [sampleTaskId(1), sampleTaskId(2)] }));

  it.each(within.map((query) => [filtersIn(query), query] as const))(
    "reads of a list below a task no more than its tree, whatever else its caller has: %s (P15, P16)",
    (_, query) => {
      const [found, ...rest] = planOf(statements.lists(query).text.sql);

      expect(found).toBe("SEARCH tasks USING INDEX tasks_by_lineage (root_id=? AND lineage>? AND lineage<?)");
      expect(rest).toEqual(["USE TEMP B-TREE FOR ORDER BY"]);
    },
  );

  it.each([
    [{ caller: null, below: null }, 1],
    [{ caller: null, below: null }, 30],
    [{ caller: "alice", below: null }, 30],
    [{ caller: null, below: [sampleTaskId(1)] }, 1],
    [{ caller: null, below: [sampleTaskId(1)] }, 30],
    [{ caller: "alice", below: [sampleTaskId(1)] }, 1],
    [{ caller: "alice", below: [sampleTaskId(1), sampleTaskId(2)] }, 30],
  ])("looks tasks up by their ids, whatever the reach: %o, %i ids (P16)", async (reach, count) => {
    const ids = Array.from({ length: count }, (_, index) => sampleTaskId(index));
    const plan = planOf(statements.tasksByIds(ids, reach).text.sql);

    expect(plan).toHaveLength(1);
    expect(plan[0]).toMatch(/^SEARCH tasks USING INDEX \S+ \((caller=\? AND )?task_id=\?\)$/);
  });

  it("uses for each single filter the index that is made for it", () => {
    const indexOf = (query: Partial<TaskQuery>) =>
      / INDEX (\w+)/.exec(planOf(statements.lists({ ...ANY, ...query }).text.sql).join())?.[1];

    expect(indexOf({ caller: "a" })).toBe("tasks_by_caller");
    expect(indexOf({ caller: "a", open: true })).toBe("open_tasks_by_caller");
    expect(indexOf({ open: true })).toBe("tasks_to_look_at");
    expect(indexOf({ caller: "a", unread: true })).toBe("unread_tasks_by_caller");
    expect(indexOf({ unread: true })).toBe("unread_tasks");
    expect(indexOf({ caller: "a", conversation: "c" })).toBe("tasks_by_conversation");
    expect(indexOf({ caller: "a", status: "failed" })).toBe("tasks_by_caller_status");
    expect(indexOf({ status: "failed" })).toBe("tasks_by_status");
    expect(indexOf({ caller: "a", parentTaskId: sampleTaskId(1) })).toBe("tasks_by_parent");
  });

  it("finds milestones by their own index, however many signs of life lie between (P15)", () => {
    const plan = planOf(statements.milestonesAfter.sql);

    expect(plan).toEqual(["SEARCH events USING INDEX milestones (task_id=? AND number>?)"]);
  });

  it("reads no table from end to end for any fixed query but the count by status (P15)", () => {
    const scans: string[] = [];
    let asked = 0;
    for (const [name, statement] of Object.entries(statements)) {
      if (!("sql" in statement)) continue;
      asked += 1;
      const steps = planOf(statement.sql).filter((step) => step.startsWith("SCAN") && !isScanOfFew(step));
      if (steps.length > 0) scans.push(`${name}: ${steps.join()}`);
    }

    expect(asked).toBeGreaterThan(40);
    expect(scans).toEqual([
      "tasksByStatus: SCAN tasks USING COVERING INDEX tasks_by_status",
      // Of the index in the order of time, the first entry.
      "nextNotice: SCAN notices USING COVERING INDEX notices_by_due",
    ]);
  });

  it("finds by an index that knows the order what is due, what is old and what is unread (P9, D5)", () => {
    const ordered = [
      [statements.noticesDue, "notices_by_due (due_ms<?)"],
      [statements.finishedTranscriptsBefore, "finished_transcripts_by_age (settled_ms<?)"],
      [statements.announcedToAudience, "announcements_by_audience (caller=? AND parent_id=? AND shown=?)"],
      [
        statements.announcedToConversation,
        "announcements_by_conversation (conversation=? AND caller=? AND parent_id=? AND shown=?)",
      ],
    ] as const;
    for (const [{ sql }, index] of ordered) {
      const plan = planOf(sql);
      expect(plan[0]).toContain(index);
      expect(plan.join()).not.toContain("TEMP B-TREE");
    }
  });

  it("finds what is below a task as a range of its tree, and the limits of a tree without reading a row (P15)", () => {
    const range = "tasks_by_lineage (root_id=? AND lineage>? AND lineage<?)";

    expect(planOf(statements.unfinishedBelow.sql)).toEqual([`SEARCH tasks USING INDEX ${range}`]);
    expect(planOf(statements.load.sql)).toContain(
      "SEARCH tasks USING COVERING INDEX tasks_by_lineage (root_id=? AND lineage>?)",
    );
  });

  it("finds a page of a transcript, and what has to go of one, by the key (P15)", () => {
    const byKey =
      /^SEARCH transcript USING (COVERING )?INDEX sqlite_autoindex_transcript_1 \(task_id=\? AND number[=>]/;
    for (const { sql } of [
      statements.transcriptAfter,
      statements.transcriptSizesAfter,
      statements.cutTranscript,
      statements.markGap,
    ]) {
      const steps = planOf(sql).filter((step) => / transcript\b/.test(step));
      expect(steps).not.toEqual([]);
      for (const step of steps) expect(step).toMatch(byKey);
    }
  });

  it("finds tasks by ids and claims around a path by index (P10, P16)", () => {
    const texts = [statements.claims.below.sql, statements.claims.above("1").sql, statements.claims.above("6").sql];
    for (const text of texts) expect(planOf(text).filter((step) => step.startsWith("SCAN"))).toEqual([]);
  });
});

/** Partial indexes over what is few: open tasks and unread ones, a query without a table, a page that was found before. */
function isScanOfFew(step: string): boolean {
  return (
    / INDEX (tasks_to_look_at|open_tasks_by_caller|unread_tasks)\b/.test(step) ||
    /^SCAN (CONSTANT ROW|sizes|page|\(subquery-\d+\))$/.test(step)
  );
}

/**
 * Without any filter the newest tasks are simply the end of the key: a page is read, no more. So it is for tasks without a
 * parent; the others between them are as many as the trees of a page hold.
 */
function isScanOfPage(step: string, query: TaskQuery): boolean {
  const filters = filtersIn(isOfOneParent(query) ? query : { ...query, parentTaskId: null });
  return filters === "no filter" && /^SCAN tasks USING INDEX sqlite_autoindex_tasks_\d$/.test(step);
}

function isOfOneParent({ parentTaskId }: TaskQuery): boolean {
  return parentTaskId !== null && parentTaskId !== "root";
}

function filtersIn(query: TaskQuery): string {
  const { limit: _, ...filters } = query;
  const names = Object.entries(filters).flatMap(([name, value]) => (value === null || value === false ? [] : [name]));
  return names.length === 0 ? "no filter" : names.join(" ");
}
