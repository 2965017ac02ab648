/**
 * That a commit is on the disk, as far as SQLite can be asked.
 */

import { join } from "node:path";
import { sql } from "kysely";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { openReader, openWriter, storageCodeOf } from "../../src/store/sqlite.ts";
import { createTempDirectory, type TempDirectory } from "../support/test-store.ts";

describe("a connection that writes", () => {
  let directory: TempDirectory;
  let path: string;

  beforeEach(() => {
    directory = createTempDirectory();
    path = join(directory.path, "some.sqlite");
  });
  afterEach(() => directory[Symbol.dispose]());

  it.each([
    ["journal_mode", "wal"],
    ["synchronous", 2],
    ["foreign_keys", 1],
    ["fullfsync", 1],
    ["checkpoint_fullfsync", 1],
    ["temp_store", 2],
  ])("has %s = %s (P4)", async (name, expected) => {
    const db = openWriter(path, null);
    const { rows } = await sql<Record<string, unknown>>`pragma ${sql.raw(name)}`.execute(db);

    expect(Object.values(rows[0] ?? {})).toEqual([expected]);
    await db.destroy();
  });

  it("takes the write lock at the beginning of a transaction, not half-way (E5)", async () => {
    const db = openWriter(path, null);
    const other = openWriter(path, null);
    const transaction = await db.startTransaction().execute();
    const second = other.startTransaction().execute();

    await expect(second).rejects.toSatisfy((error) => storageCodeOf(error) === "busy");
    await transaction.rollback().execute();
    const later = await other.startTransaction().execute();
    await later.rollback().execute();
    await Promise.all([db.destroy(), other.destroy()]);
  });

  it("keeps numbers up to 2^53 exact", async () => {
    const db = openWriter(path, null);
    const { rows } = await sql<{ n: number }>`select ${Number.MAX_SAFE_INTEGER} + 0 as n`.execute(db);

    expect(rows).toEqual([{ n: Number.MAX_SAFE_INTEGER }]);
    await db.destroy();
  });

  it("lets a connection for reading change nothing", async () => {
    const writer = openWriter(path, null);
    await sql`create table t (a integer)`.execute(writer);
    const reader = openReader(path);

    await expect(sql`insert into t values (1)`.execute(reader)).rejects.toSatisfy(
      (error) => storageCodeOf(error) === "read_only",
    );
    await Promise.all([reader.destroy(), writer.destroy()]);
  });

  it("tells trouble of the storage from mistakes of ours", async () => {
    const db = openWriter(path, null);
    const mistake = sql`select nonsense`.execute(db);

    await expect(mistake).rejects.toSatisfy((error) => storageCodeOf(error) === null);
    expect(storageCodeOf(new Error("anything"))).toBeNull();
    await db.destroy();
  });
});
