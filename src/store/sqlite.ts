/**
 * SQLite by way of `node:sqlite`: the only file that knows SQLite's own words.
 *
 * Invariant: what is committed is on the disk: WAL with synchronous=FULL (fullfsync where the system has it), set here and
 * read back, because the defaults differ from build to build.
 * Invariant: a transaction takes the write lock at its beginning (BEGIN IMMEDIATE), so that no work is refused half-way.
 * Invariant: statements are prepared once and kept, at most `STATEMENTS_MAX` of them.
 * Absent on purpose: more than one writing connection; SQLite has one writer.
 */

import { DatabaseSync, type SQLInputValue, type StatementSync } from "node:sqlite";
import {
  CompiledQuery,
  type Dialect,
  Kysely,
  SqliteAdapter,
  type SqliteDatabase,
  SqliteDriver,
  SqliteIntrospector,
  SqliteQueryCompiler,
  type SqliteStatement,
} from "kysely";
import type { Schema } from "./schema.ts";
import { type StorageCode, storageTrouble } from "./storage-trouble.ts";

/** Kept statements; more than the store has, lists by filter included. */
const STATEMENTS_MAX = 256;
/** A foreign program may hold the write lock this long (the event loop stands still meanwhile); then writes fail by name. */
export const BUSY_TIMEOUT_MS = 2_000;
/** The log of changes is cut back to this after a checkpoint. */
const WAL_BYTES_KEPT = 64 * 1024 * 1024;
const CACHE_KIB = 16 * 1024;

/** The connection that writes. `pagesMax` bounds the database (of 4 KiB pages); null leaves it to the disk. */
export function openWriter(path: string, pagesMax: number | null): Kysely<Schema> {
  const database = new DatabaseSync(path, { timeout: BUSY_TIMEOUT_MS, enableForeignKeyConstraints: true });
  try {
    set(database, "journal_mode", "wal", "wal");
    set(database, "synchronous", "full", 2);
    set(database, "foreign_keys", "on", 1);
    // Where fsync stops at the drive's own cache (macOS) these reach the medium; elsewhere they change nothing.
    set(database, "fullfsync", "on", 1);
    set(database, "checkpoint_fullfsync", "on", 1);
    set(database, "journal_size_limit", String(WAL_BYTES_KEPT), WAL_BYTES_KEPT);
    // Savepoints keep the pages that they might have to bring back: in memory, not in a temporary file.
    set(database, "temp_store", "memory", 2);
    set(database, "cache_size", String(-CACHE_KIB), -CACHE_KIB);
    if (pagesMax !== null) database.exec(`pragma max_page_count = ${pagesMax}`);
    return new Kysely<Schema>({ dialect: createDialect(database, { manyAtOnce: false }) });
  } catch (error) {
    database.close();
    throw error;
  }
}

/** A connection that can only read. It sees each commit from its next statement on and never waits for a writer. */
export function openReader(path: string): Kysely<Schema> {
  const database = new DatabaseSync(path, { timeout: BUSY_TIMEOUT_MS, readOnly: true });
  database.exec(`pragma cache_size = ${-CACHE_KIB}`);
  // Each statement runs to its end at once, so reads need not take turns.
  return new Kysely<Schema>({ dialect: createDialect(database, { manyAtOnce: true }) });
}

/** Sets a pragma and makes sure that it holds. */
function set(database: DatabaseSync, name: string, value: string, expected: string | number): void {
  database.exec(`pragma ${name} = ${value}`);
  const row = database.prepare(`pragma ${name}`).get();
  const actual = row === undefined ? undefined : Object.values(row)[0];
  if (actual !== expected)
    throw storageTrouble("not_durable", `${name}=${value} is refused; it stays ${String(actual)}`);
}

function createDialect(database: DatabaseSync, options: { readonly manyAtOnce: boolean }): Dialect {
  return {
    createAdapter: () => createAdapter(options.manyAtOnce),
    createDriver: () => createDriver(database),
    createIntrospector: (db) => new SqliteIntrospector(db),
    createQueryCompiler: () => new SqliteQueryCompiler(),
  };
}

function createAdapter(manyAtOnce: boolean): SqliteAdapter {
  // SQLite does run DDL in transactions; the stock adapter says no because of table rebuilds under foreign keys.
  return Object.defineProperties(new SqliteAdapter(), {
    supportsTransactionalDdl: { value: true },
    supportsMultipleConnections: { value: manyAtOnce },
  });
}

const BEGIN = CompiledQuery.raw("begin immediate");
const ROLLBACK = CompiledQuery.raw("rollback");
/** The one savepoint there is: works do not nest. */
const SAVEPOINT = CompiledQuery.raw("savepoint work");
const ROLLBACK_TO_SAVEPOINT = CompiledQuery.raw("rollback to work");
const RELEASE_SAVEPOINT = CompiledQuery.raw("release work");

function createDriver(database: DatabaseSync): SqliteDriver {
  const driver = new SqliteDriver({ database: withStatementCache(database) });
  driver.beginTransaction = async (connection) => {
    await connection.executeQuery(BEGIN);
  };
  driver.rollbackTransaction = async (connection) => {
    // SQLite itself may have ended the transaction already, for instance on a full disk.
    if (database.isTransaction) await connection.executeQuery(ROLLBACK);
  };
  driver.savepoint = async (connection) => {
    await connection.executeQuery(SAVEPOINT);
  };
  driver.rollbackToSavepoint = async (connection) => {
    await connection.executeQuery(ROLLBACK_TO_SAVEPOINT);
  };
  driver.releaseSavepoint = async (connection) => {
    await connection.executeQuery(RELEASE_SAVEPOINT);
  };
  return driver;
}

function withStatementCache(database: DatabaseSync): SqliteDatabase {
  const statements = new Map<string, SqliteStatement>();
  return {
    close: () => database.close(),
    prepare(sql) {
      const kept = statements.get(sql);
      if (kept !== undefined) return kept;
      const statement = wrap(database.prepare(sql));
      if (statements.size >= STATEMENTS_MAX) {
        for (const oldest of statements.keys()) {
          statements.delete(oldest);
          break;
        }
      }
      statements.set(sql, statement);
      return statement;
    },
  };
}

function wrap(statement: StatementSync): SqliteStatement {
  return {
    reader: statement.columns().length > 0,
    all: (parameters) => statement.all(...bindable(parameters)),
    run: (parameters) => statement.run(...bindable(parameters)),
    iterate: (parameters) => statement.iterate(...bindable(parameters)),
  };
}

function bindable(parameters: readonly unknown[]): SQLInputValue[] {
  return parameters.map((value) => {
    if (typeof value === "string" || typeof value === "number" || typeof value === "bigint" || value === null)
      return value;
    throw new Error(`invariant broken: ${typeof value} is no value for a column`);
  });
}

/** The storage's name for an error of SQLite, or null for a mistake of ours (a broken constraint, wrong SQL). */
export function storageCodeOf(error: unknown): StorageCode | null {
  if (!(error instanceof Error) || !("errcode" in error) || typeof error.errcode !== "number") return null;
  return STORAGE_CODES[error.errcode & 0xff] ?? null;
}

/** By SQLite's primary result code. */
const STORAGE_CODES: Readonly<Record<number, StorageCode>> = {
  5: "busy",
  6: "busy",
  7: "no_memory",
  8: "read_only",
  10: "io_error",
  11: "corrupt",
  13: "disk_full",
  14: "gone",
  15: "busy",
  26: "corrupt",
};
