/**
 * The folder that the store lives in: made, narrowed to its owner, or refused with a reason.
 *
 * Invariant: what is made here is open to its owner alone (0700, files 0600), whatever the umask says (X3).
 * Invariant: a folder of somebody else, or one that everybody may write to, is never taken over.
 */

import { chmodSync, closeSync, existsSync, mkdirSync, openSync, statSync } from "node:fs";
import { userInfo } from "node:os";
import { dirname } from "node:path";
import type { Log } from "../ports/log.ts";
import { messageOf } from "./storage-trouble.ts";

const DIRECTORY_MODE = 0o700;
const FILE_MODE = 0o600;
const FOR_OTHERS = 0o077;
const FOR_EVERYBODY_TO_WRITE = 0o002;

/** Null if the directory is ready, else why it is not (`code`: the system's error code). */
export function prepareDirectory(dataDir: string, log: Log): { readonly code: string; readonly detail: string } | null {
  try {
    const isNew = !existsSync(dataDir);
    if (isNew) makeDirectory(dataDir, DIRECTORY_MODE);
    const { mode, uid } = statSync(dataDir);
    const isOurs = uid === userInfo().uid;
    if ((mode & FOR_EVERYBODY_TO_WRITE) !== 0 && !(isOurs && (mode & 0o1000) === 0)) {
      return { code: "EPERM", detail: "everybody may write to this directory; give the store one of its own" };
    }
    if (isNew || (isOurs && (mode & FOR_OTHERS) !== 0)) chmodSync(dataDir, DIRECTORY_MODE);
    else if ((mode & FOR_OTHERS) !== 0)
      log.warn("data_dir_of_other_owner", { dataDir, mode: (mode & 0o777).toString(8) });
    return null;
  } catch (error) {
    const code = codeOf(error);
    if (code === "") throw error;
    return { code, detail: messageOf(error) };
  }
}

/** Parents first, one by one: the recursive form of the system's call never ends where the kernel says that a parent is not there. */
function makeDirectory(path: string, mode: number): void {
  const parent = dirname(path);
  if (parent !== path && !existsSync(parent)) makeDirectory(parent, mode);
  try {
    mkdirSync(path, { mode });
  } catch (error) {
    if (codeOf(error) !== "EEXIST") throw error;
  }
}

/**
 * Makes the file if it is absent, and closes it to others, before anything opens it by name. A file that exists is not
 * opened here: closing it again would end this process's locks on it.
 */
export function prepareFile(path: string): void {
  if (existsSync(path)) chmodSync(path, FILE_MODE);
  else closeSync(openSync(path, "wx", FILE_MODE));
}

/** The system's error code of a failed call (`ENOSPC`, `EACCES`, …), or "" if it has none. */
export function codeOf(error: unknown): string {
  if (!(error instanceof Error) || !("code" in error) || typeof error.code !== "string") return "";
  return /^E[A-Z0-9]+$/.test(error.code) ? error.code : "";
}
