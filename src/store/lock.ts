/**
 * One daemon a data directory.
 *
 * Invariant: the lock is the operating system's own, on a tiny database of its own, held open for the life of the process:
 * it ends with the process, however that ends, so there is no stale lock to judge and a reused pid deceives nobody.
 * Invariant: whoever is refused learns the holder's pid. It stands in the header of the lock's database, which stays
 * readable while locked.
 * Beware: on POSIX systems a process loses its locks on a file when it closes any handle of that file. Nothing else in the
 * daemon may open `lock.sqlite` or the store's own file by other means than SQLite.
 */

import { readFileSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { prepareFile } from "./data-directory.ts";
import { storageCodeOf } from "./sqlite.ts";

const LOCK_FILE = "lock.sqlite";
/** Where a running daemon says how to reach it. */
const DAEMON_FILE = "daemon.json";
/** Tries at the moment between writing the pid and locking for good, when another one may come in between. */
const TRIES_MAX = 5;

export type Holder = {
  /** Process id as the holder sees it (in a container: the container's), or null if it could not be read. */
  readonly pid: number | null;
  /** Where it serves, if `daemon.json` is of that very process. */
  readonly url: string | null;
};

export type LockResult =
  | { readonly kind: "held"; readonly lock: Disposable }
  | { readonly kind: "taken"; readonly holder: Holder };

/** Takes the directory for this process. Throws what SQLite throws where the directory cannot be written. */
export function lockDirectory(dataDir: string, pid: number): LockResult {
  const path = join(dataDir, LOCK_FILE);
  prepareFile(path);
  const database = new DatabaseSync(path, { timeout: 0 });
  try {
    for (let tries = 0; tries < TRIES_MAX; tries++) {
      if (!begin(database)) return taken(dataDir, database);
      if (pidIn(database) === pid) return { kind: "held", lock: { [Symbol.dispose]: () => database.close() } };
      database.exec(`pragma user_version = ${pid}; commit`);
    }
    return taken(dataDir, database);
  } catch (error) {
    database.close();
    throw error;
  }
}

/** True if the write lock is ours now. */
function begin(database: DatabaseSync): boolean {
  try {
    database.exec("begin immediate");
    return true;
  } catch (error) {
    if (storageCodeOf(error) === "busy") return false;
    throw error;
  }
}

function taken(dataDir: string, database: DatabaseSync): LockResult {
  const pid = holderPid(database);
  database.close();
  return { kind: "taken", holder: { pid, url: pid === null ? null : urlOf(dataDir, pid) } };
}

function holderPid(database: DatabaseSync): number | null {
  try {
    return pidIn(database) || null;
  } catch {
    return null;
  }
}

function pidIn(database: DatabaseSync): number {
  const pid = database.prepare("pragma user_version").get()?.["user_version"];
  return typeof pid === "number" ? pid : 0;
}

function urlOf(dataDir: string, pid: number): string | null {
  try {
    const daemon: unknown = JSON.parse(readFileSync(join(dataDir, DAEMON_FILE), "utf8"));
    if (typeof daemon !== "object" || daemon === null || !("pid" in daemon) || daemon.pid !== pid) return null;
    return "mcpUrl" in daemon && typeof daemon.mcpUrl === "string" ? daemon.mcpUrl : null;
  } catch {
    return null;
  }
}
