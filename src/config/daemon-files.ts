/**
 * What a daemon leaves in its data directory for itself and for the command line: its stable id, the key that signs
 * session ids, and where it listens.
 *
 * Invariant: id and key are made once and outlive every restart.
 * Invariant: `daemon.json` is a hint. It may be stale after a crash; whoever reads it checks that the process lives.
 */

import { randomBytes, randomInt } from "node:crypto";
import { rmSync } from "node:fs";
import path from "node:path";
import { z } from "zod";
import {
  codeOf,
  DAEMON_ID_FILE,
  type DataDirRefusal,
  malformed,
  readPrivateFile,
  unwritable,
  writePrivateFile,
} from "./private-files.ts";

const CROCKFORD = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";
const SESSION_KEY_BYTES = 32;

/** `dm_` and 26 Crockford base-32 characters; the first half of every child's mark. Made when absent. */
export function openDaemonId(dataDir: string): { readonly kind: "opened"; readonly daemonId: string } | DataDirRefusal {
  const file = path.join(dataDir, DAEMON_ID_FILE);
  const read = readPrivateFile(file);
  if (read.kind === "refused") return read;
  if (read.kind === "absent") {
    const daemonId = `dm_${Array.from({ length: 26 }, () => CROCKFORD.charAt(randomInt(CROCKFORD.length))).join("")}`;
    return written(file, `${daemonId}\n`) ?? { kind: "opened", daemonId };
  }
  const daemonId = read.bytes.toString("utf8").trim();
  return /^dm_[0-9A-HJKMNP-TV-Z]{26}$/.test(daemonId) ? { kind: "opened", daemonId } : malformed(file);
}

/** 32 random bytes that sign session and resume ids. Made when absent. */
export function openSessionKey(
  dataDir: string,
): { readonly kind: "opened"; readonly key: Uint8Array } | DataDirRefusal {
  const file = path.join(dataDir, "session.key");
  const read = readPrivateFile(file);
  if (read.kind === "refused") return read;
  if (read.kind === "read")
    return read.bytes.length === SESSION_KEY_BYTES ? { kind: "opened", key: read.bytes } : malformed(file);
  const key = randomBytes(SESSION_KEY_BYTES);
  return written(file, key) ?? { kind: "opened", key };
}

const daemonInfoSchema = z.object({
  pid: z.int().positive(),
  /** Origin of the daemon, such as `http://127.0.0.1:4517`. */
  url: z.url(),
  mcpUrl: z.url(),
  version: z.string(),
  /** ISO 8601. */
  startedAt: z.string(),
});

export type DaemonInfo = z.output<typeof daemonInfoSchema>;

export type DaemonFile =
  | { readonly kind: "found"; readonly info: DaemonInfo }
  | { readonly kind: "absent" }
  | DataDirRefusal;

/** Null if it was written. */
export function writeDaemonFile(dataDir: string, info: DaemonInfo): DataDirRefusal | null {
  return written(daemonFile(dataDir), `${JSON.stringify(info)}\n`);
}

export function readDaemonFile(dataDir: string): DaemonFile {
  const file = daemonFile(dataDir);
  const read = readPrivateFile(file);
  if (read.kind !== "read") return read;
  const parsed = daemonInfoSchema.safeParse(jsonOf(read.bytes.toString("utf8")));
  return parsed.success ? { kind: "found", info: parsed.data } : malformed(file);
}

/** Removes the file if it is still that of process `pid`: a successor may have written its own. */
export function removeDaemonFile(dataDir: string, pid: number): void {
  const found = readDaemonFile(dataDir);
  if (found.kind === "found" && found.info.pid === pid) rmSync(daemonFile(dataDir), { force: true });
}

/** True while a process with this pid runs, whoever owns it. */
export function isProcessAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return codeOf(error) === "EPERM";
  }
}

function written(file: string, content: string | Uint8Array): DataDirRefusal | null {
  try {
    writePrivateFile(file, content);
    return null;
  } catch (error) {
    return unwritable(path.dirname(file), codeOf(error));
  }
}

function daemonFile(dataDir: string): string {
  return path.join(dataDir, "daemon.json");
}

function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
