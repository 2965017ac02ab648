/**
 * What git knows of a directory: the commit that it stands at, and what has changed below it since a commit.
 *
 * Invariant: nothing is changed, no index, no object, no lock; and no program runs but git, whatever the repository's
 * configuration and attributes say (P18). Filters do not run either: a file that a filter would have cleaned shows as it is.
 * Invariant: every answer is bounded in time and size (P15), and what is left out of the patch is still named.
 * Absent on purpose: what goes on inside submodules; only that their commit changed.
 */

import { lstat, realpath, stat } from "node:fs/promises";

import type { Clock } from "../ports/clock.ts";
import type { Changes, Workspace } from "../ports/workspace.ts";
import { findGit, type Git, type GitOptions, type GitPlaces, type GitResult } from "./git.ts";
import { openShadow, type ShadowRepository, type TheirRepository } from "./shadow-repository.ts";

export type GitChangesOptions = GitPlaces & { readonly clock: Clock };

const HEAD_MS_MAX = 5_000;
const CHANGES_MS_MAX = 10_000;
const PATCH_BYTES_MAX = 2 * 1024 * 1024;
const NAMES_BYTES_MAX = 4 * 1024 * 1024;
const NEW_FILES_MAX = 200;
const NEW_FILE_BYTES_MAX = 256 * 1024;
const COMMIT = /^(?:[0-9a-f]{40}|[0-9a-f]{64})$/;

type NoChanges = Extract<Changes, { kind: "none" }>;
/** Git in one repository and directory, within what is left of the time. */
type Ask = (args: readonly string[], options?: Partial<GitOptions>) => Promise<GitResult>;

export function createGitChanges({ clock, ...places }: GitChangesOptions): Pick<Workspace, "head" | "changes"> {
  return {
    async head(cwd) {
      const git = await findGit(places);
      const found = await git?.(["rev-parse", "--verify", "--quiet", "HEAD"], { cwd, timeoutMs: HEAD_MS_MAX });
      const commit = found?.kind === "done" ? lineOf(found.output) : "";
      return COMMIT.test(commit) ? commit : null;
    },
    async changes(cwd, since) {
      const endsMs = clock.monotonicMs() + CHANGES_MS_MAX;
      const leftMs = (): number => endsMs - clock.monotonicMs();
      const real = await realDirectory(cwd);
      if (real === null) return none("missing");
      const git = await findGit(places);
      if (git === null) return none("git_failed");
      try {
        return await changesBelow(git, real, { since, leftMs });
      } catch {
        return none("git_failed");
      }
    },
  };
}

type Look = { readonly since: string; readonly leftMs: () => number };

async function changesBelow(git: Git, cwd: string, { since, leftMs }: Look): Promise<Changes> {
  const theirs = await locate(git, cwd, leftMs());
  if ("kind" in theirs) return theirs;
  if (!COMMIT.test(since)) return none("unknown_commit");
  await using shadow = await openShadow(git, theirs, leftMs());
  const ask: Ask = (args, options) => git(args, { cwd, timeoutMs: leftMs(), env: shadow.env, ...options });
  const known = await ask(["cat-file", "-e", `${since}^{commit}`]);
  if (known.kind === "failed") return none(known.timedOut ? "git_failed" : "unknown_commit");
  return (await patchOf(ask, { since, cwd, shadow })) ?? none("git_failed");
}

/** Apart, because a path may hold a line end. */
async function locate(git: Git, cwd: string, timeoutMs: number): Promise<TheirRepository | NoChanges> {
  const [topLevel, gitDir] = await Promise.all(
    ["--show-toplevel", "--absolute-git-dir"].map((what) => git(["rev-parse", what], { cwd, timeoutMs })),
  );
  if (topLevel?.kind === "done" && gitDir?.kind === "done") {
    return { topLevel: lineOf(topLevel.output), gitDir: lineOf(gitDir.output) };
  }
  const message = topLevel?.kind === "failed" ? topLevel.message : "";
  return none(/not a git repository|must be run in a work tree/.test(message) ? "not_a_repository" : "git_failed");
}

type Order = { readonly since: string; readonly cwd: string; readonly shadow: ShadowRepository };

async function patchOf(ask: Ask, { since, cwd, shadow }: Order): Promise<Changes | null> {
  if (!shadow.hasIndex && (await ask(["read-tree", since])).kind === "failed") return null;
  const untracked = await ask(["ls-files", "--others", "--exclude-standard", "-z", "--", "."], {
    bytesMax: NAMES_BYTES_MAX,
  });
  if (untracked.kind === "failed") return null;
  const newFiles = namesIn(untracked);
  const shown = await showable(cwd, newFiles.slice(0, NEW_FILES_MAX));
  const announced = await announce(ask, shown);
  const [changed, patch] = await Promise.all([
    ask(diff(since, "--no-renames", "--name-only", "-z"), { bytesMax: NAMES_BYTES_MAX }),
    ask(diff(since, "--find-renames", "-l400", "--patch"), { bytesMax: PATCH_BYTES_MAX }),
  ]);
  if (changed.kind === "failed" || patch.kind === "failed") return null;
  const files = new Set([...namesIn(changed), ...newFiles].map((name) => name.toString("utf8")));
  const text = bounded(patch.output, patch.cut);
  const whole = announced && shown.length === newFiles.length && !untracked.cut && !changed.cut && !text.cut;
  return { kind: "changes", patch: text.text, truncated: !whole, files: [...files].toSorted() };
}

function diff(since: string, ...form: readonly string[]): readonly string[] {
  const plain = ["--no-color", "--no-ext-diff", "--no-textconv", "--ignore-submodules=dirty", "--submodule=short"];
  return ["diff", ...plain, "--relative", ...form, since, "--", "."];
}

/** Of new files: those that are small, or links. A folder in this list is a repository within the repository. */
async function showable(cwd: string, names: readonly Buffer[]): Promise<readonly Buffer[]> {
  const fits = await Promise.all(
    names.map(async (name) => {
      const found = await lstat(Buffer.concat([Buffer.from(`${cwd}/`), name])).catch(() => null);
      return found !== null && (found.isSymbolicLink() || (found.isFile() && found.size <= NEW_FILE_BYTES_MAX));
    }),
  );
  return names.filter((_, at) => fits[at]);
}

/** Tells the shadow's index of new files, so that one diff shows them too. False if it could not take all of them. */
async function announce(ask: Ask, names: readonly Buffer[]): Promise<boolean> {
  if (names.length === 0) return true;
  const stdin = Buffer.concat(names.flatMap((name) => [name, Buffer.of(0)]));
  const args = ["add", "--intent-to-add", "--ignore-errors", "--pathspec-from-file=-", "--pathspec-file-nul"];
  return (await ask(args, { stdin })).kind === "done";
}

/** Names that end in NUL; the last one of a cut list may be half a name. */
function namesIn(listed: Extract<GitResult, { kind: "done" }>): readonly Buffer[] {
  const names = listed.output.toString("latin1").split("\0").slice(0, -1);
  return names.map((name) => Buffer.from(name, "latin1"));
}

/** As text, whole lines within the limit. Bytes that are no UTF-8 grow when they become text. */
function bounded(output: Buffer, cut: boolean): { readonly text: string; readonly cut: boolean } {
  const bytes = Buffer.from(output.toString("utf8"));
  if (!cut && bytes.length <= PATCH_BYTES_MAX) return { text: bytes.toString("utf8"), cut };
  const end = bytes.subarray(0, PATCH_BYTES_MAX).lastIndexOf("\n") + 1;
  return { text: bytes.toString("utf8", 0, end), cut: true };
}

function lineOf(output: Buffer): string {
  return output.toString("utf8").replace(/\n$/, "");
}

async function realDirectory(path: string): Promise<string | null> {
  try {
    return (await stat(path)).isDirectory() ? await realpath(path) : null;
  } catch {
    return null;
  }
}

function none(reason: NoChanges["reason"]): NoChanges {
  return { kind: "none", reason };
}
