/**
 * Files of the data directory that only their owner may read.
 *
 * Invariant: the directory has mode 0700 and every file written here 0600, whatever the umask (X3).
 * Invariant: a file is replaced whole or not at all, and is on the disk when the call returns.
 * Invariant: a secret that others could have read is never used silently: the answer is a refusal that says what to do.
 * Absent on purpose: a check of the file system (network and FUSE mounts); the store knows what it can bear.
 */

import { randomBytes } from "node:crypto";
import {
  chmodSync,
  closeSync,
  existsSync,
  fsyncSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeSync,
} from "node:fs";
import path from "node:path";

/** Why the data directory cannot be used, in words for an operator. */
export type DataDirRefusal = {
  readonly kind: "refused";
  readonly reason:
    | "directory_unusable"
    | "directory_open"
    | "file_open"
    | "file_unreadable"
    | "file_malformed"
    | "locked"
    | "full";
  readonly path: string;
  /** What is wrong. */
  readonly message: string;
  /** What to do. */
  readonly fix: string;
};

/** The file that marks a directory as ours. */
export const DAEMON_ID_FILE = "daemon-id";
const FILE_BYTES_MAX = 4 * 1024 * 1024;
const OTHERS = 0o077;
const HAS_MODES = process.platform !== "win32";

/** Parents first, one by one: the recursive call never ends where the kernel says that a parent is not there (`/proc`). */
function makeDirectory(dir: string): void {
  if (existsSync(dir)) return;
  makeDirectory(path.dirname(dir));
  mkdirSync(dir, { mode: 0o700 });
}

/**
 * Makes the data directory, or closes one of ours that others can enter. A directory that holds anything else is left as
 * it is: `--data-dir` may have been a mistake.
 */
export function preparePrivateDir(dir: string): { readonly kind: "ready" } | DataDirRefusal {
  try {
    makeDirectory(dir);
    if (!HAS_MODES || (statSync(dir).mode & OTHERS) === 0) return { kind: "ready" };
    const names = readdirSync(dir);
    if (names.length > 0 && !names.includes(DAEMON_ID_FILE)) {
      const fix = "Name a directory of its own with --data-dir, or `chmod 700` this one if it is meant.";
      return refusal("directory_open", dir, `${dir} can be read by others and holds other files`, fix);
    }
    chmodSync(dir, 0o700);
    return { kind: "ready" };
  } catch (error) {
    return unwritable(dir, codeOf(error));
  }
}

export type PrivateRead =
  | { readonly kind: "read"; readonly bytes: Buffer }
  | { readonly kind: "absent" }
  | DataDirRefusal;

/** Reads a file that must be its owner's alone. */
export function readPrivateFile(file: string): PrivateRead {
  try {
    const stats = statSync(file);
    if (HAS_MODES && (stats.mode & OTHERS) !== 0) return openFileRefusal(file, stats.mode);
    if (!stats.isFile() || stats.size > FILE_BYTES_MAX) return malformed(file);
    return { kind: "read", bytes: readFileSync(file) };
  } catch (error) {
    if (codeOf(error) === "ENOENT") return { kind: "absent" };
    return refusal(
      "file_unreadable",
      file,
      `${file} cannot be read (${codeOf(error)})`,
      "Make it readable for the user that runs the daemon.",
    );
  }
}

/** Replaces a file: written beside it, synced, renamed, and the directory synced. Throws what the file system throws. */
export function writePrivateFile(file: string, content: string | Uint8Array): void {
  const temporary = path.join(
    path.dirname(file),
    `.${path.basename(file)}.${process.pid}.${randomBytes(6).toString("hex")}`,
  );
  try {
    const descriptor = openSync(temporary, "wx", 0o600);
    try {
      writeAll(descriptor, typeof content === "string" ? Buffer.from(content) : content);
      fsyncSync(descriptor);
    } finally {
      closeSync(descriptor);
    }
    renameSync(temporary, file);
  } catch (error) {
    rmSync(temporary, { force: true });
    throw error;
  }
  syncDirectory(path.dirname(file));
}

export function unwritable(dir: string, code: string): DataDirRefusal {
  const fix = "Name a directory that this user can write, with room on its disk: --data-dir DIR.";
  return refusal("directory_unusable", dir, `${dir} cannot be used as data directory (${code})`, fix);
}

export function malformed(file: string): DataDirRefusal {
  const fix = "Restore it from a backup, or move it away: it is then made anew.";
  return refusal("file_malformed", file, `${file} is not what delegate-mcp writes there`, fix);
}

export function refusal(reason: DataDirRefusal["reason"], file: string, message: string, fix: string): DataDirRefusal {
  return { kind: "refused", reason, path: file, message, fix };
}

export function codeOf(error: unknown): string {
  return error instanceof Error && "code" in error ? String(error.code) : "error";
}

function openFileRefusal(file: string, mode: number): DataDirRefusal {
  const shown = (mode & 0o777).toString(8).padStart(4, "0");
  const fix = `Run \`chmod 600 ${file}\`. If others use this machine, take the secret in it for known and replace it.`;
  return refusal("file_open", file, `${file} can be read by others (mode ${shown})`, fix);
}

function writeAll(descriptor: number, bytes: Uint8Array): void {
  for (let written = 0; written < bytes.length; ) written += writeSync(descriptor, bytes, written);
}

function syncDirectory(dir: string): void {
  if (!HAS_MODES) return;
  const descriptor = openSync(dir, "r");
  try {
    fsyncSync(descriptor);
  } finally {
    closeSync(descriptor);
  }
}
