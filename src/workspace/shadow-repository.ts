/**
 * A repository of our own, for one look at somebody else's: their objects, read only; a copy of their index; none of their
 * configuration.
 *
 * A configuration can name programs in a dozen places (filters, textconv, external diffs, fsmonitor, hooks, a promised
 * object's remote), and git has no switch that turns all of them off: attributes pick them by names of the repository's own
 * choosing. So git is told of another repository, in which none of those names means anything.
 *
 * Invariant: nothing is written but here: an own index, and an own place for objects before theirs.
 * Invariant: of their settings only those come along that are needed to compare files rightly, and of these only plain words.
 * Invariant: what is read is a plain file of bounded size; a pipe in its place would never end.
 */

import { constants } from "node:fs";
import { type FileHandle, mkdir, mkdtemp, open, readdir, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";

import type { Git } from "./git.ts";

export type TheirRepository = {
  /** Of this working tree: where HEAD and the index are. */
  readonly gitDir: string;
  readonly topLevel: string;
};

export type ShadowRepository = AsyncDisposable & {
  /** Tells git of the shadow. */
  readonly env: Readonly<Record<string, string>>;
  /** Whether they have an index: a fresh or damaged repository may have none. */
  readonly hasIndex: boolean;
};

const SMALL_BYTES_MAX = 1024 * 1024;
/** Of an index together with its bases. */
const INDEX_BYTES_MAX = 256 * 1024 * 1024;
const CHUNK_BYTES = 1024 * 1024;
/** Opening a pipe does not wait for whoever writes into it. */
const PLAIN = constants.O_RDONLY | constants.O_NONBLOCK;
/** A split index has one base; more are remains. */
const INDEX_BASES_MAX = 8;
const SETTINGS = "core\\.(autocrlf|eol|filemode|ignorecase|precomposeunicode|symlinks)|extensions\\.objectformat";
const PLAIN_WORD = /^[a-z0-9]{0,16}$/i;

export async function openShadow(
  git: Git,
  { gitDir, topLevel }: TheirRepository,
  timeoutMs: number,
): Promise<ShadowRepository> {
  const path = await mkdtemp(join(tmpdir(), "delegate-git-"));
  const close = (): Promise<void> => rm(path, { recursive: true, force: true });
  try {
    const commonDir = await commonDirOf(gitDir);
    await Promise.all(["refs", "objects/info", "info"].map((folder) => mkdir(join(path, folder), { recursive: true })));
    await symlink(join(commonDir, "objects"), join(path, "theirs"));
    const put = (name: string, text: string): Promise<void> => writeFile(join(path, name), text);
    await Promise.all([
      put("HEAD", "ref: refs/heads/none\n"),
      put("objects/info/alternates", `${join(path, "theirs")}\n`),
      put("config", OUR_SETTINGS),
      copy(join(commonDir, "info/exclude"), join(path, "info/exclude"), SMALL_BYTES_MAX),
    ]);
    const env = { GIT_DIR: path, GIT_WORK_TREE: topLevel };
    await put("config", OUR_SETTINGS + (await theirSettings(git, join(commonDir, "config"), { path, timeoutMs })));
    return { env, hasIndex: await copyIndex(gitDir, path), [Symbol.asyncDispose]: close };
  } catch (error) {
    await close();
    throw error;
  }
}

const OUR_SETTINGS = "[core]\n\trepositoryformatversion = 1\n\tbare = false\n";

/** In a linked working tree most of the repository is elsewhere. */
async function commonDirOf(gitDir: string): Promise<string> {
  const link = await readPlain(join(gitDir, "commondir"), SMALL_BYTES_MAX);
  return link === null ? gitDir : resolve(gitDir, link.toString("utf8").replace(/\n$/, ""));
}

async function theirSettings(
  git: Git,
  file: string,
  { path, timeoutMs }: { readonly path: string; readonly timeoutMs: number },
): Promise<string> {
  const args = ["config", "--file", file, "--no-includes", "-z", "--get-regexp", `^(${SETTINGS})$`];
  const found = await git(args, { cwd: path, env: { GIT_DIR: path }, timeoutMs });
  if (found.kind === "failed") return "";
  return found.output
    .toString("utf8")
    .split("\0")
    .map((entry) => /^(\w+)\.(\w+)\n(.*)$/s.exec(entry) ?? [])
    .filter(([, , , value = "-"]) => PLAIN_WORD.test(value))
    .map(([, section, name, value]) => `[${section}]\n\t${name} = ${value}\n`)
    .join("");
}

async function copyIndex(gitDir: string, path: string): Promise<boolean> {
  const bases = (await readdir(gitDir)).filter((name) => /^sharedindex\.[0-9a-f]{40,64}$/.test(name));
  const own = await copy(join(gitDir, "index"), join(path, "index"), INDEX_BYTES_MAX);
  let left = INDEX_BYTES_MAX - (own ?? 0);
  for (const name of bases.slice(0, INDEX_BASES_MAX))
    left -= (await copy(join(gitDir, name), join(path, name), left)) ?? 0;
  return own !== null;
}

/** Bytes that were copied, a little at a time; null if there is nothing that may be. */
async function copy(from: string, to: string, bytesMax: number): Promise<number | null> {
  const source = await openPlain(from, bytesMax);
  if (source === null) return null;
  const { file, size } = source;
  await using _source = file;
  await using copied = await open(to, "w", 0o600);
  const chunk = Buffer.alloc(Math.min(size, CHUNK_BYTES));
  // What is written to it meanwhile is not followed.
  for (let at = 0; at < size; ) {
    const { bytesRead } = await file.read(chunk, 0, Math.min(chunk.length, size - at), at);
    if (bytesRead === 0) break;
    await copied.write(chunk, 0, bytesRead, at);
    at += bytesRead;
  }
  return size;
}

async function openPlain(path: string, bytesMax: number): Promise<{ file: FileHandle; size: number } | null> {
  const file = await open(path, PLAIN).catch(() => null);
  const found = await file?.stat().catch(() => null);
  if (file !== null && found?.isFile() === true && found.size <= bytesMax) return { file, size: found.size };
  await file?.close();
  return null;
}

async function readPlain(path: string, bytesMax: number): Promise<Buffer | null> {
  try {
    await using file = await open(path, PLAIN);
    const found = await file.stat();
    return found.isFile() && found.size <= bytesMax ? await file.readFile() : null;
  } catch {
    return null;
  }
}
