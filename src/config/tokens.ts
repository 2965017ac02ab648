/**
 * The callers' tokens: who may ask, by which name, with which scopes.
 *
 * Invariant: a token is written down in clear in one place only, the file `token` of the first start; all others are shown
 * once and kept as a SHA-256.
 * Invariant: a change by another process holds from the next request on, and a file that has become unreadable or open to
 * others admits nobody.
 * Invariant: comparing takes the same time for every token that is wrong.
 * Absent on purpose: credentials of children, and expiry. A token holds until it is revoked.
 */

import { createHash, randomBytes, timingSafeEqual } from "node:crypto";
import { closeSync, openSync, rmSync, statSync } from "node:fs";
import path from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { z } from "zod";
import { SCOPES, type Scope } from "../core/caller.ts";
import {
  codeOf,
  type DataDirRefusal,
  malformed,
  preparePrivateDir,
  readPrivateFile,
  refusal,
  unwritable,
  writePrivateFile,
} from "./private-files.ts";

export type TokenStore = {
  /** Who shows this token. One look at the file's status; the file is read again only after it has changed. */
  authenticate(token: string): Authentication;
  /** Makes a token. Several may have one name; they are the same caller. */
  add(name: string, scopes: readonly Scope[]): Promise<AddedToken | DataDirRefusal>;
  /** The tokens that hold, oldest first. */
  list(): readonly TokenInfo[];
  /** Revokes the token with this id, or all of this name. Returns those that held until now. */
  revoke(
    nameOrId: string,
  ): Promise<{ readonly kind: "revoked"; readonly tokens: readonly TokenInfo[] } | DataDirRefusal>;
};

export type Authentication =
  | { readonly kind: "known"; readonly id: string; readonly name: string; readonly scopes: readonly Scope[] }
  | { readonly kind: "revoked"; readonly name: string }
  | { readonly kind: "unknown" };

export type TokenInfo = {
  readonly id: string;
  readonly name: string;
  readonly scopes: readonly Scope[];
  /** ISO 8601. */
  readonly createdAt: string;
};

export type AddedToken = { readonly kind: "added"; readonly token: string; readonly info: TokenInfo };

/** Name of the token in the file `token`. */
const FIRST_TOKEN_NAME = "default";
export const TOKEN_NAME = /^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/;

const TOKEN_PREFIX = "dmcp_";
/**
 * Source of a RegExp that finds callers' tokens anywhere in a text, for masking. One of which the end was cut off is found
 * too, as long as what is left would help to guess it.
 */
export const CALLER_TOKEN_PATTERN = `${TOKEN_PREFIX}[A-Za-z0-9_-]{20,43}`;
/** What all of them begin with and how long they are, for finding them where they are encoded. */
export const CALLER_TOKEN_SHAPE = { prefix: TOKEN_PREFIX, charactersMax: 48 } as const;
const TOKEN_CHARACTERS_MAX = 1_024;
const TOKENS_MAX = 1_000;
/** Revoked tokens that are remembered, so that their holders can be told why they are refused. */
const REVOKED_MAX = 200;
const LOCK_WAIT_MS = 2_000;
/** Holding the lock takes milliseconds; one this old was left by a process that died. */
const LOCK_STALE_MS = 10_000;

const entrySchema = z.object({
  id: z.string(),
  name: z.string(),
  scopes: z.array(z.enum(SCOPES)),
  sha256: z.string().regex(/^[0-9a-f]{64}$/),
  createdAt: z.string(),
  /** The token that stands in the file `token`. */
  file: z.literal(true).optional(),
  revokedAt: z.string().optional(),
});
const fileSchema = z.object({ tokens: z.array(entrySchema) });
type Entry = z.output<typeof entrySchema>;

export function tokenFileOf(dataDir: string): string {
  return path.join(dataDir, "token");
}

/** The token of the file `token`, for the command line of the same user; null if there is none. */
export function readTokenFile(
  dataDir: string,
): { readonly kind: "read"; readonly token: string | null } | DataDirRefusal {
  const read = readPrivateFile(tokenFileOf(dataDir));
  if (read.kind === "refused") return read;
  if (read.kind === "absent") return { kind: "read", token: null };
  const token = read.bytes.toString("utf8").trim();
  return /^\S{20,512}$/.test(token) ? { kind: "read", token } : malformed(tokenFileOf(dataDir));
}

/**
 * Opens the tokens of a data directory for a starting daemon. The first start makes the file `token`; a file that somebody
 * put there counts, and takes the place of the one before it.
 */
export async function openTokens(
  dataDir: string,
): Promise<{ readonly kind: "opened"; readonly tokens: TokenStore } | DataDirRefusal> {
  const prepared = preparePrivateDir(dataDir);
  if (prepared.kind === "refused") return prepared;
  const settled = await change(dataDir, (entries) => {
    const read = readTokenFile(dataDir);
    if (read.kind === "refused") return read;
    return { kind: "changed", entries: withFileToken(entries, read.token, dataDir), result: null };
  });
  return settled.kind === "refused" ? settled : { kind: "opened", tokens: tokenStoreOf(dataDir) };
}

/** The tokens of a data directory for the `token` verbs, which need no daemon. Makes the directory, but no first token. */
export function administerTokens(
  dataDir: string,
): { readonly kind: "opened"; readonly tokens: TokenStore } | DataDirRefusal {
  const prepared = preparePrivateDir(dataDir);
  if (prepared.kind === "refused") return prepared;
  const read = readEntries(dataDir);
  return read.kind === "refused" ? read : { kind: "opened", tokens: tokenStoreOf(dataDir) };
}

function tokenStoreOf(dataDir: string): TokenStore {
  const current = watchEntries(dataDir);
  return {
    authenticate: (token) => authenticate(current(), token),
    async add(name, scopes) {
      const { entry, token } = newEntry(name, scopes);
      const added = await change(dataDir, (entries) => {
        if (entries.filter(holds).length >= TOKENS_MAX) return tooMany(dataDir);
        return { kind: "changed", entries: [...entries, entry], result: null };
      });
      return added.kind === "refused" ? added : { kind: "added", token, info: infoOf(entry) };
    },
    list: () => current().filter(holds).map(infoOf),
    async revoke(nameOrId) {
      const revoked = await change(dataDir, (entries) => {
        const meant = (entry: Entry): boolean => holds(entry) && (entry.id === nameOrId || entry.name === nameOrId);
        return {
          kind: "changed",
          entries: entries.map((entry) => (meant(entry) ? ended(entry) : entry)),
          result: entries.filter(meant),
        };
      });
      if (revoked.kind === "refused") return revoked;
      return { kind: "revoked", tokens: revoked.result.map(infoOf) };
    },
  };
}

function authenticate(entries: readonly Entry[], token: string): Authentication {
  if (token.length > TOKEN_CHARACTERS_MAX) return { kind: "unknown" };
  const shown = digestOf(token);
  let match: Entry | undefined;
  for (const entry of entries) {
    if (timingSafeEqual(shown, Buffer.from(entry.sha256, "hex"))) match = entry;
  }
  if (match === undefined) return { kind: "unknown" };
  if (!holds(match)) return { kind: "revoked", name: match.name };
  return { kind: "known", id: match.id, name: match.name, scopes: match.scopes };
}

/** Entries as they are on the disk now. */
function watchEntries(dataDir: string): () => readonly Entry[] {
  const file = tokensFile(dataDir);
  let seen: string | null = null;
  let entries: readonly Entry[] = [];
  return () => {
    const stamp = stampOf(file);
    if (stamp !== seen) {
      const read = readEntries(dataDir);
      entries = read.kind === "refused" ? [] : read.entries;
      // A refusal is looked at again each time: it may be a passing want of descriptors.
      seen = read.kind === "refused" ? null : stamp;
    }
    return entries;
  };
}

/** Changes whenever the file does: every write makes a new inode, and changes of mode move its change time. */
function stampOf(file: string): string {
  const stats = statSync(file, { bigint: true, throwIfNoEntry: false });
  return stats === undefined ? "absent" : `${stats.ino}.${stats.size}.${stats.mtimeNs}.${stats.ctimeNs}`;
}

function withFileToken(entries: readonly Entry[], token: string | null, dataDir: string): readonly Entry[] {
  if (token === null) {
    const known = entries.some((entry) => entry.file === true || entry.name === FIRST_TOKEN_NAME);
    if (known) return entries;
    const made = newEntry(FIRST_TOKEN_NAME, SCOPES);
    // The clear text first: a crash in between leaves a file that the next start takes in.
    writePrivateFile(tokenFileOf(dataDir), `${made.token}\n`);
    return [...entries, { ...made.entry, file: true }];
  }
  const sha256 = digestOf(token).toString("hex");
  if (entries.some((entry) => entry.sha256 === sha256)) return entries;
  const others = entries.map((entry) => (entry.file === true && holds(entry) ? ended(entry) : entry));
  return [...others, { ...newEntry(FIRST_TOKEN_NAME, SCOPES).entry, sha256, file: true }];
}

type Change<Result> = { readonly kind: "changed"; readonly entries: readonly Entry[]; readonly result: Result };

/** Reads, changes and writes the entries while no other process does. */
async function change<Result>(
  dataDir: string,
  apply: (entries: readonly Entry[]) => Change<Result> | DataDirRefusal,
): Promise<Change<Result> | DataDirRefusal> {
  const lock = path.join(dataDir, "tokens.lock");
  const taken = await takeLock(lock);
  if (taken !== "taken" && taken !== "busy") return unwritable(dataDir, taken);
  if (taken === "busy") {
    return refusal(
      "locked",
      lock,
      `${lock} is held by another process`,
      "Try again; if no delegate-mcp runs, remove that file.",
    );
  }
  try {
    const read = readEntries(dataDir);
    if (read.kind === "refused") return read;
    const changed = apply(read.entries);
    if (changed.kind === "refused") return changed;
    if (changed.entries !== read.entries) writeEntries(dataDir, changed.entries);
    return changed;
  } catch (error) {
    return unwritable(dataDir, codeOf(error));
  } finally {
    rmSync(lock, { force: true });
  }
}

/** `taken`, `busy`, or the system's error code. */
async function takeLock(lock: string): Promise<string> {
  for (const deadlineMs = Date.now() + LOCK_WAIT_MS; Date.now() < deadlineMs; ) {
    try {
      closeSync(openSync(lock, "wx", 0o600));
      return "taken";
    } catch (error) {
      if (codeOf(error) !== "EEXIST") return codeOf(error);
    }
    const takenMs = statSync(lock, { throwIfNoEntry: false })?.mtimeMs;
    if (takenMs !== undefined && Date.now() - takenMs > LOCK_STALE_MS) rmSync(lock, { force: true });
    else await delay(20);
  }
  return "busy";
}

function readEntries(dataDir: string): { readonly kind: "read"; readonly entries: readonly Entry[] } | DataDirRefusal {
  const read = readPrivateFile(tokensFile(dataDir));
  if (read.kind === "refused") return read;
  if (read.kind === "absent") return { kind: "read", entries: [] };
  const parsed = fileSchema.safeParse(jsonOf(read.bytes.toString("utf8")));
  return parsed.success ? { kind: "read", entries: parsed.data.tokens } : malformed(tokensFile(dataDir));
}

function writeEntries(dataDir: string, entries: readonly Entry[]): void {
  const forgotten = new Set(entries.filter((entry) => !holds(entry)).slice(0, -REVOKED_MAX));
  const tokens = entries.filter((entry) => !forgotten.has(entry));
  writePrivateFile(tokensFile(dataDir), `${JSON.stringify({ tokens }, null, 2)}\n`);
}

function newEntry(name: string, scopes: readonly Scope[]): { readonly entry: Entry; readonly token: string } {
  const token = `${TOKEN_PREFIX}${randomBytes(32).toString("base64url")}`;
  const sha256 = digestOf(token).toString("hex");
  const id = `tk_${randomBytes(5).toString("hex")}`;
  return { token, entry: { id, name, scopes: [...scopes], sha256, createdAt: new Date().toISOString() } };
}

function tooMany(dataDir: string): DataDirRefusal {
  return refusal(
    "locked",
    tokensFile(dataDir),
    `there are ${TOKENS_MAX} tokens already`,
    "Revoke some: `delegate-mcp token list`, `token revoke`.",
  );
}

function ended(entry: Entry): Entry {
  return { ...entry, revokedAt: new Date().toISOString() };
}

function holds(entry: Entry): boolean {
  return entry.revokedAt === undefined;
}

function infoOf({ id, name, scopes, createdAt }: Entry): TokenInfo {
  return { id, name, scopes, createdAt };
}

function digestOf(token: string): Buffer {
  return createHash("sha256").update(token).digest();
}

function tokensFile(dataDir: string): string {
  return path.join(dataDir, "tokens.json");
}

function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
