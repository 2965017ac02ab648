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
      const sortsFew = query.caller === null && (query.parentTaskId !== null || query.conversation !== null);
      expect(plan.some((step) => step.includes("TEMP B-TREE"))).toBe(sortsFew);
    },
  );

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

  it("reads no table from end to end for any fixed query but the count by status (P15)", () => {
    const scans: string[] = [];
    let asked = 0;
    for (const [name, statement] of Object.entries(statements)) {
      if (!("sql" in statement)) continue;
      asked += 1;
      const steps = planOf(statement.sql).filter((step) => step.startsWith("SCAN") && !isScanOfFew(step));
      if (steps.length > 0) scans.push(`${name}: ${steps.join()}`);
    }

    expect(asked).toBeGreaterThan(25);
    expect(scans).toEqual(["tasksByStatus: SCAN tasks USING COVERING INDEX tasks_by_status"]);
  });

  it("finds tasks by ids and claims around a path by index (P10, P16)", () => {
    const texts = [statements.claims.below.sql, statements.claims.above("1").sql, statements.claims.above("6").sql];
    for (const text of texts) expect(planOf(text).filter((step) => step.startsWith("SCAN"))).toEqual([]);
  });
});

/** Partial indexes over what is few: open tasks and unread ones, and the single row of a query without a table. */
function isScanOfFew(step: string): boolean {
  return / INDEX (tasks_to_look_at|open_tasks_by_caller|unread_tasks)\b/.test(step) || step === "SCAN CONSTANT ROW";
}

/** Without any filter the newest tasks are simply the end of the key: a page is read, no more. */
function isScanOfPage(step: string, query: TaskQuery): boolean {
  return filtersIn(query) === "no filter" && /^SCAN tasks USING INDEX sqlite_autoindex_tasks_\d$/.test(step);
}

function filtersIn(query: TaskQuery): string {
  const { limit: _, ...filters } = query;
  const names = Object.entries(filters).flatMap(([name, value]) => (value === null || value === false ? [] : [name]));
  return names.length === 0 ? "no filter" : names.join(" ");
}
