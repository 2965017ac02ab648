/**
 * Opens a store in a data directory, or says by name why not.
 *
 * Invariant: one process a directory; the lock is taken before anything else is looked at and given back last.
 * Invariant: a database that a newer version has written is left untouched.
 * Invariant: a store that is returned has just written: a full or read-only directory is refused here, not at the first
 * delegation.
 * Beware: once a store is open, this process must not open or read its files by other means (see `lock`).
 */

import { statSync } from "node:fs";
import { isAbsolute, join, resolve } from "node:path";
import { DatabaseSync } from "node:sqlite";
import type { Kysely } from "kysely";
import { refusedMount } from "../core/mount.ts";
import type { Clock } from "../ports/clock.ts";
import type { Faults } from "../ports/fault.ts";
import type { Log } from "../ports/log.ts";
import type { Store } from "../ports/store.ts";
import { RECORD_VERSIONS } from "./codec.ts";
import { codeOf, prepareDirectory, prepareFile } from "./data-directory.ts";
import { nearestExisting, readMountTable } from "./filesystem.ts";
import { type Holder, lockDirectory } from "./lock.ts";
import { MIGRATION_NAMES, MIGRATION_TABLE, migrateToNewest } from "./migrations/migrations.ts";
import type { Schema } from "./schema.ts";
import { createSqlStore } from "./sql-store.ts";
import { BUSY_TIMEOUT_MS, openReader, openWriter, storageCodeOf } from "./sqlite.ts";
import { createStatements } from "./statements.ts";
import { isStorageTrouble, messageOf } from "./storage-trouble.ts";

/** The database in the data directory; SQLite puts `-wal` and `-shm` beside it, with the same rights. */
export const STORE_FILE = "delegate.sqlite";

export type SqliteStoreOptions = {
  /** Absolute path; made if absent. */
  readonly dataDir: string;
  readonly clock: Clock;
  readonly log: Log;
  /** This process, for whoever finds the directory locked. */
  readonly pid: number;
  /** Calls `run` once, in the next turn of the event loop, after the I/O of this one (`setImmediate`). */
  readonly nextTurn: (run: () => void) => void;
  readonly faults?: Faults;
  /** Bound of the database in pages of 4 KiB; unbounded if absent. At it, writes are refused as `disk_full`. */
  readonly pagesMax?: number;
  /** Text of the mount table, in place of the system's own. */
  readonly mountTable?: string;
};

export type OpenedStore = { readonly kind: "open"; readonly store: Store } | StoreRefusal;

export type StoreRefusal = {
  readonly kind: "refused";
  /** The directory or file that is meant. */
  readonly path: string;
  /** What is wrong, for a person. */
  readonly detail: string;
} & (
  | { readonly reason: "locked"; readonly holder: Holder }
  /** `found`: migrations or record versions that this version does not know. */
  | { readonly reason: "newer_schema"; readonly found: readonly string[] }
  | { readonly reason: "network_mount"; readonly filesystem: string; readonly mountPoint: string }
  /** `code`: the system's error code or the storage's own (`disk_full`, `read_only`, `io_error`). */
  | { readonly reason: "unwritable"; readonly code: string }
  | { readonly reason: "corrupt" }
);

export async function openSqliteStore(options: SqliteStoreOptions): Promise<OpenedStore> {
  const { log } = options;
  if (!isAbsolute(options.dataDir)) return unwritable(options.dataDir, "EINVAL", "not an absolute path");
  const dataDir = resolve(options.dataDir);
  const mount = refusedMount(nearestExisting(dataDir), options.mountTable ?? readMountTable());
  if (mount !== null) {
    const detail = `${mount.filesystem} at ${mount.mountPoint} is a network or FUSE file system; use a local disk`;
    return { kind: "refused", reason: "network_mount", path: dataDir, detail, ...mount };
  }
  const unfit = prepareDirectory(dataDir, log);
  if (unfit !== null) return unwritable(dataDir, unfit.code, unfit.detail);

  try {
    const locked = lockDirectory(dataDir, options.pid);
    if (locked.kind === "held") return await openLocked({ ...options, dataDir }, locked.lock);
    const detail = `another process (pid ${locked.holder.pid ?? "unknown"}) uses this data directory`;
    return { kind: "refused", reason: "locked", path: dataDir, detail, holder: locked.holder };
  } catch (error) {
    return refusalOf(error, dataDir);
  }
}

/** Opens the database under the lock; gives the lock back if that fails. */
async function openLocked(options: SqliteStoreOptions, lock: Disposable): Promise<OpenedStore> {
  const path = join(options.dataDir, STORE_FILE);
  let writer: Kysely<Schema> | null = null;
  try {
    prepareFile(path);
    const found = unknownIn(path);
    if (found.length > 0) {
      lock[Symbol.dispose]();
      const detail = `written by a newer version (${found.join(", ")}); this version leaves it untouched`;
      return { kind: "refused", reason: "newer_schema", path, detail, found };
    }
    writer = openWriter(path, options.pagesMax ?? null);
    const migrated = await migrateToNewest(writer);
    const statements = createStatements(writer);
    await signIn(writer, statements, options.clock);
    const store = await assemble(options, { path, writer, statements, lock });
    options.log.debug("store_opened", { path, migrations: migrated.join(",") });
    return { kind: "open", store };
  } catch (error) {
    await writer?.destroy();
    lock[Symbol.dispose]();
    return refusalOf(error, path);
  }
}

type Opened = {
  readonly path: string;
  readonly writer: Kysely<Schema>;
  readonly statements: ReturnType<typeof createStatements>;
  readonly lock: Disposable;
};

async function assemble(options: SqliteStoreOptions, opened: Opened): Promise<Store> {
  const { path, writer, statements, lock } = opened;
  const reads = openReader(path);
  // Kysely closes a connection only once it has been used.
  await statements.unreadOfAudience.run(reads, { caller: "", parent_id: "" });
  return createSqlStore({
    db: writer,
    reads,
    statements,
    storageCodeOf,
    nextTurn: options.nextTurn,
    clock: options.clock,
    log: options.log,
    faults: options.faults ?? null,
    release: async () => {
      // The writer goes last: only it can move the log of changes into the database.
      await reads.destroy();
      await writer.destroy();
      lock[Symbol.dispose]();
      options.log.debug("store_closed", { path });
    },
  });
}

/** Migrations and record versions in the database that this version does not know. Opens it for reading only. */
function unknownIn(path: string): readonly string[] {
  if (statSync(path).size === 0) return [];
  const database = new DatabaseSync(path, { readOnly: true, timeout: BUSY_TIMEOUT_MS });
  try {
    const tables = textsOf(database, "select name from sqlite_master where type = 'table'");
    const migrations = tables.includes(MIGRATION_TABLE) ? textsOf(database, `select name from ${MIGRATION_TABLE}`) : [];
    const unknown = migrations.filter((name) => !MIGRATION_NAMES.includes(name));
    if (tables.includes("meta")) unknown.push(...newerRecords(database));
    return unknown;
  } finally {
    database.close();
  }
}

function newerRecords(database: DatabaseSync): readonly string[] {
  return Object.entries(RECORD_VERSIONS).flatMap(([name, known]) => {
    const stored = database.prepare("select value from meta where name = ?").get(`${name}_version`)?.["value"];
    return Number(stored ?? 0) > known ? [`${name} records of version ${String(stored)}`] : [];
  });
}

function textsOf(database: DatabaseSync, sql: string): string[] {
  return database
    .prepare(sql)
    .all()
    .flatMap((row) => (typeof row["name"] === "string" ? [row["name"]] : []));
}

/** Writes which records this version makes, and so finds out whether the directory takes writes at all. */
async function signIn(
  db: Kysely<Schema>,
  statements: ReturnType<typeof createStatements>,
  clock: Clock,
): Promise<void> {
  await db.transaction().execute(async (trx) => {
    for (const [name, version] of Object.entries(RECORD_VERSIONS)) {
      await statements.putMeta.run(trx, { name: `${name}_version`, value: String(version) });
    }
    await statements.putMeta.run(trx, { name: "opened_ms", value: String(clock.wallMs()) });
  });
}

/** What a failed opening means. An error that is neither the storage's nor the system's is a defect and goes on. */
function refusalOf(error: unknown, path: string): StoreRefusal {
  const storageCode = isStorageTrouble(error) ? error.storageCode : storageCodeOf(error);
  if (storageCode === "corrupt") return { kind: "refused", reason: "corrupt", path, detail: messageOf(error) };
  const code = storageCode ?? codeOf(error);
  if (code === "") throw error;
  return unwritable(path, code, messageOf(error));
}

function unwritable(path: string, code: string, detail: string): StoreRefusal {
  return { kind: "refused", reason: "unwritable", path, code, detail };
}
