/** What has changed in a directory, by real repositories, also such as would run programs in whoever looks at them. */

import { execFileSync, type ExecFileSyncOptions } from "node:child_process";
import {
  appendFileSync,
  chmodSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  realpathSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { createGitChanges } from "../../src/workspace/git-changes.ts";
import { createStepClock } from "../support/step-clock.ts";
import { createTempDirectory, type TempDirectory } from "../support/test-store.ts";

let directory: TempDirectory;
let base = "";
let repo = "";

beforeEach(() => {
  directory = createTempDirectory();
  base = realpathSync(directory.path);
  repo = join(base, "repo");
  mkdirSync(repo);
  git("init", "--quiet");
});
afterEach(() => {
  vi.unstubAllEnvs();
  directory[Symbol.dispose]();
});

const { head, changes } = createGitChanges({ roots: [tmpdir()], clock: createStepClock(), searchPath: null });

/** Git as a careless user runs it: whatever the repository's configuration says happens. */
function git(...args: readonly string[]): string {
  const author = { GIT_AUTHOR_NAME: "a", GIT_AUTHOR_EMAIL: "a@b", GIT_COMMITTER_NAME: "a", GIT_COMMITTER_EMAIL: "a@b" };
  const env = { PATH: process.env["PATH"], HOME: base, GIT_CONFIG_NOSYSTEM: "1", ...author };
  const options: ExecFileSyncOptions = { cwd: repo, env, stdio: ["ignore", "pipe", "ignore"], timeout: 5_000 };
  return execFileSync("git", args, options).toString().trimEnd();
}

function put(name: string, text: string | Buffer): string {
  const path = join(repo, name);
  mkdirSync(join(path, ".."), { recursive: true });
  writeFileSync(path, text);
  return path;
}

function commit(files: Readonly<Record<string, string | Buffer>>): string {
  for (const [name, text] of Object.entries(files)) put(name, text);
  git("add", "--all");
  git("commit", "--quiet", "--no-verify", "--allow-empty", "-m", "x");
  return git("rev-parse", "HEAD");
}

async function changed(since: string, cwd = repo) {
  const found = await changes(cwd, since);
  return found.kind === "changes" ? found : expect.fail(found.reason);
}

describe("the commit of a directory", () => {
  it("is that of its repository, in a folder within it and in a linked working tree too", async () => {
    const first = commit({ "inner/a": "1\n" });
    expect(await head(repo)).toBe(first);
    expect(await head(join(repo, "inner"))).toBe(first);
    git("worktree", "add", "--quiet", "-b", "side", join(base, "side"));
    const second = commit({ "inner/a": "2\n" });
    expect(await head(join(base, "side"))).toBe(first);
    expect(await head(repo)).toBe(second);
  });

  it("is nothing without a commit, a repository, a folder or git", async () => {
    expect(await head(repo)).toBeNull();
    expect(await head(base)).toBeNull();
    expect(await head(join(base, "gone"))).toBeNull();
    commit({ a: "1\n" });
    const without = createGitChanges({ roots: [], clock: createStepClock(), searchPath: base });
    expect(await without.head(repo)).toBeNull();
  });
});

describe("the changes of a directory", () => {
  it("are all there are since the commit: committed, staged, only written, and new files", async () => {
    const since = commit({ a: "1\n", b: "1\n", c: "1\n", gone: "1\n", ".gitignore": "*.log\n" });
    commit({ a: "2\n" });
    put("b", "2\n");
    git("add", "b");
    put("c", "2\n");
    rmSync(join(repo, "gone"));
    put("new/file", "hello\n");
    put("noise.log", "x\n");
    const { patch, files, truncated } = await changed(since);
    expect(files).toEqual(["a", "b", "c", "gone", "new/file"]);
    expect(truncated).toBe(false);
    for (const name of ["a", "b", "c"]) expect(patch).toContain(`--- a/${name}\n+++ b/${name}\n@@ -1 +1 @@\n-1\n+2\n`);
    expect(patch).toContain("deleted file mode 100644");
    expect(patch).toContain(
      "new file mode 100644\nindex 0000000..ce01362\n--- /dev/null\n+++ b/new/file\n@@ -0,0 +1 @@\n+hello\n",
    );
  });

  it("are none where nothing has changed", async () => {
    const since = commit({ a: "1\n" });
    expect(await changed(since)).toEqual({ kind: "changes", patch: "", truncated: false, files: [] });
  });

  it("are told by name, mode and kind: moved, made executable, linked, binary", async () => {
    const since = commit({ "old name": "a\nb\nc\nd\ne\n", tool: "x\n", picture: Buffer.from([0, 1, 2]) });
    renameSync(join(repo, "old name"), join(repo, "new name"));
    chmodSync(join(repo, "tool"), 0o755);
    put("picture", Buffer.from([0, 3]));
    put("new picture", Buffer.from([0, 4]));
    symlinkSync("/etc/hostname", join(repo, "link"));
    const { patch, files } = await changed(since);
    expect(files).toEqual(["link", "new name", "new picture", "old name", "picture", "tool"]);
    expect(patch).toContain("similarity index 100%\nrename from old name\nrename to new name\n");
    expect(patch).toContain("old mode 100644\nnew mode 100755\n");
    expect(patch).toContain("Binary files a/picture and b/picture differ");
    expect(patch).toContain("Binary files /dev/null and b/new picture differ");
    expect(patch).toContain("+/etc/hostname\n");
  });

  it("keep every name what it is, and none of them can pass for a line of the patch (P17)", async () => {
    const names = ["ümlaut 雪", 'quo"te', "two\nlines", ":(top)x", "-dash", "*star", "tab\tbed"];
    const since = commit(Object.fromEntries(names.slice(0, 4).map((name) => [name, "1\n"])));
    for (const name of names) put(name, "2\n");
    const { patch, files } = await changed(since);
    expect(files).toEqual(names.toSorted());
    expect(patch).toContain('+++ "b/two\\nlines"');
    expect(patch).toContain("+++ b/ümlaut 雪\t\n");
    expect(patch.split("\n").filter((line) => line.startsWith("diff --git"))).toHaveLength(names.length);
    expect(patch).not.toMatch(/^lines/m);
  });

  it("are those below the directory only, with names as seen from it", async () => {
    const since = commit({ "inner/a": "1\n", outer: "1\n" });
    put("inner/a", "2\n");
    put("inner/new", "1\n");
    put("outer", "2\n");
    put("also outer", "1\n");
    const { patch, files } = await changed(since, join(repo, "inner"));
    expect(files).toEqual(["a", "new"]);
    expect(patch).toContain("diff --git a/a b/a");
    expect(patch).not.toContain("outer");
  });

  it("are found in a linked working tree, by its own index", async () => {
    const since = commit({ a: "1\n" });
    git("worktree", "add", "--quiet", "-b", "side", join(base, "side"));
    writeFileSync(join(base, "side/a"), "2\n");
    put("other", "1\n");
    expect((await changed(since, join(base, "side"))).files).toEqual(["a"]);
  });

  it("are found in a repository of the longer hashes, with a split index, and without any", async () => {
    rmSync(join(repo, ".git"), { recursive: true });
    git("init", "--quiet", "--object-format=sha256");
    const since = commit({ a: "1\n", b: "1\n" });
    git("update-index", "--split-index");
    put("a", "2\n");
    expect((await changed(since)).files).toEqual(["a"]);
    for (const name of readdirSync(join(repo, ".git")).filter((name) => name.includes("index"))) {
      rmSync(join(repo, ".git", name));
    }
    expect((await changed(since)).files).toEqual(["a"]);
  });

  it("do not go into submodules and repositories within the repository, which only are named", async () => {
    const since = commit({ a: "1\n" });
    mkdirSync(join(repo, "nested"));
    execFileSync("git", ["init", "--quiet", join(repo, "nested")]);
    const run = (...args: readonly string[]) => git("-C", join(repo, "nested"), ...args);
    put("nested/inside", "1\n");
    run("add", "inside");
    run("commit", "--quiet", "-m", "x");
    const nested = await changed(since);
    expect(nested.files).toEqual(["nested/"]);
    expect(nested.patch).toBe("");
    git("-c", "advice.addEmbeddedRepo=false", "add", "nested");
    const added = await changed(since);
    expect(added.files).toEqual(["nested"]);
    expect(added.patch).toContain("+Subproject commit ");
    expect(added.patch).not.toContain("inside");
  });

  it("change nothing themselves: no index, no object, no lock, nothing left behind", async () => {
    const since = commit({ a: "1\n" });
    put("a", "2\n");
    put("new", "1\n");
    const before = snapshotOf(join(repo, ".git"));
    mkdirSync(join(base, "tmp"));
    vi.stubEnv("TMPDIR", join(base, "tmp"));
    await changed(since);
    expect(snapshotOf(join(repo, ".git"))).toEqual(before);
    expect(git("status", "--porcelain")).toBe(" M a\n?? new");
    expect(readdirSync(join(base, "tmp"))).toEqual([]);
  });
});

/** Every file with its content and time. */
function snapshotOf(folder: string): readonly string[] {
  return readdirSync(folder, { recursive: true, encoding: "utf8" })
    .toSorted()
    .map((name) => {
      const found = statSync(join(folder, name));
      return `${name} ${found.mtimeMs} ${found.isFile() ? readFileSync(join(folder, name), "base64") : ""}`;
    });
}

describe("changes that cannot be told", () => {
  it("say why: no folder, no repository, no such commit, no git", async () => {
    const none = (reason: string) => ({ kind: "none", reason });
    const since = commit({ a: "1\n" });
    expect(await changes(join(base, "gone"), since)).toEqual(none("missing"));
    expect(await changes(join(repo, "a"), since)).toEqual(none("missing"));
    expect(await changes(base, since)).toEqual(none("not_a_repository"));
    expect(await changes(join(repo, ".git"), since)).toEqual(none("not_a_repository"));
    expect(
      await changes(
        repo,
        since.replace(/^./, (digit) => (digit === "0" ? "1" : "0")),
      ),
    ).toEqual(none("unknown_commit"));
    expect(await changes(repo, `--output=${join(base, "written")}`)).toEqual(none("unknown_commit"));
    const without = createGitChanges({ roots: [], clock: createStepClock(), searchPath: base });
    expect(await without.changes(repo, since)).toEqual(none("git_failed"));
    writeFileSync(join(repo, ".git/index"), "no index at all, but long enough to be taken for one");
    expect(await changes(repo, since)).toEqual(none("git_failed"));
  });

  it("say so of a commit that has been collected", async () => {
    commit({ a: "1\n" });
    const since = commit({ a: "2\n" });
    git("reset", "--quiet", "--hard", "HEAD~1");
    git("reflog", "expire", "--expire=now", "--all");
    git("gc", "--quiet", "--prune=now");
    expect(await changes(repo, since)).toEqual({ kind: "none", reason: "unknown_commit" });
  });
});

describe("the limits of changes", () => {
  it("cut a long patch after a whole line and still name every file (P15)", async () => {
    const since = commit({ a: "1\n", z: "1\n" });
    put("a", "é is a letter\n".repeat(200_000));
    put("z", "2\n");
    const { patch, files, truncated } = await changed(since);
    expect(truncated).toBe(true);
    expect(Buffer.byteLength(patch)).toBeLessThanOrEqual(2 * 1024 * 1024);
    expect(Buffer.byteLength(patch)).toBeGreaterThan(2 * 1024 * 1024 - 100);
    expect(patch.endsWith("\n+é is a letter\n")).toBe(true);
    expect(files).toEqual(["a", "z"]);
  });

  it("hold also for bytes that are no text (P15)", async () => {
    const since = commit({ a: "1\n" });
    writeFileSync(join(repo, "a"), Buffer.from(`${"\u00E9".repeat(50)}\n`.repeat(30_000), "latin1"));
    const { patch, truncated } = await changed(since);
    expect(truncated).toBe(true);
    expect(Buffer.byteLength(patch)).toBeLessThanOrEqual(2 * 1024 * 1024);
  });

  it("only name new files that are too large or too many (P15)", async () => {
    const since = commit({ a: "1\n" });
    put("large", "x\n".repeat(200_000));
    for (let at = 100; at < 350; at += 1) put(`new-${at}`, "1\n");
    const { patch, files, truncated } = await changed(since);
    expect(truncated).toBe(true);
    expect(files).toHaveLength(251);
    expect(patch.match(/^new file mode/gm)).toHaveLength(199);
    expect(patch).not.toContain("large");
  });

  it("only name tracked files of many megabytes (P15)", async () => {
    const since = commit({ a: "1\n" });
    put("a", "x\n".repeat(3_000_000));
    const { patch, files } = await changed(since);
    expect(files).toEqual(["a"]);
    expect(patch).toContain("Binary files a/a and b/a differ");
  });
});

describe("a repository that would run programs", () => {
  const traps = (): readonly string[] => readdirSync(base).filter((name) => name.startsWith("ran-"));
  /** A program that leaves a file behind when it runs. */
  function trap(name: string, rest = "cat"): string {
    const path = join(base, `trap-${name}`);
    writeFileSync(path, `#!/bin/sh\ntouch '${join(base, "ran-")}${name}'\n${rest}\n`, { mode: 0o755 });
    return path;
  }

  it("runs none of them: filters, textconv, external diffs, fsmonitor, hooks, pagers (P18)", async () => {
    const since = commit({
      a: "1\n",
      b: "1\n",
      ".gitattributes": "a filter=trap\nb diff=trap\nnew filter=trap diff=trap\n",
    });
    for (const hook of ["post-index-change", "post-checkout", "pre-commit"]) {
      renameSync(trap(`hook-${hook}`), join(repo, ".git/hooks", hook));
    }
    const config: Record<string, string> = {
      "core.fsmonitor": trap("fsmonitor"),
      "core.pager": trap("pager"),
      "diff.external": trap("external"),
      "diff.trap.textconv": trap("textconv"),
      "diff.trap.command": trap("command"),
      "filter.trap.clean": trap("clean"),
      "filter.trap.smudge": trap("smudge"),
      "filter.trap.process": trap("process"),
      "filter.trap.required": "true",
      "core.alternateRefsCommand": trap("alternates"),
    };
    for (const [key, value] of Object.entries(config)) git("config", key, value);
    put("a", "2\n");
    put("b", "2\n");
    put("new", "1\n");
    expect(await head(repo)).toBe(since);
    const { patch, files } = await changed(since);
    expect(traps()).toEqual([]);
    expect(files).toEqual(["a", "b", "new"]);
    expect(patch.match(/^\+2$/gm)).toHaveLength(2);

    // The traps are real: whoever looks in the usual way steps into them.
    git("config", "--unset", "filter.trap.process");
    git("diff", since);
    git("diff", "--no-ext-diff", "--no-textconv", since);
    git("config", "--unset", "diff.external");
    git("config", "--unset", "diff.trap.command");
    git("diff", since);
    expect(traps()).toEqual(expect.arrayContaining(["ran-clean", "ran-external", "ran-fsmonitor", "ran-textconv"]));
  });

  it("runs none either that its submodules name (P18)", async () => {
    execFileSync("git", ["init", "--quiet", join(repo, "sub")]);
    put("sub/inside", "1\n");
    put("sub/.gitattributes", "inside filter=trap\n");
    git("-C", "sub", "add", "--all");
    git("-C", "sub", "commit", "--quiet", "-m", "x");
    git("-c", "advice.addEmbeddedRepo=false", "add", "sub");
    const since = commit({});
    git("-C", "sub", "config", "filter.trap.clean", trap("clean"));
    git("-C", "sub", "config", "core.fsmonitor", trap("fsmonitor"));
    put("sub/inside", "2\n");
    expect((await changed(since)).files).toEqual([]);
    expect(traps()).toEqual([]);
    git("diff", since);
    expect(traps()).not.toEqual([]);
  });

  it("fetches nothing, where an object was promised by a remote that is a program (P18)", async () => {
    const since = commit({ a: "1\n" });
    const blob = git("rev-parse", "HEAD:a");
    put("a", "2\n");
    git("config", "core.repositoryFormatVersion", "1");
    git("config", "extensions.partialClone", "origin");
    git("config", "remote.origin.promisor", "true");
    git("config", "protocol.ext.allow", "always");
    git("config", "remote.origin.url", `ext::${trap("remote", "exit 1")}`);
    rmSync(join(repo, ".git/objects", blob.slice(0, 2), blob.slice(2)));
    expect(await head(repo)).toBe(since);
    expect(await changes(repo, since)).toEqual({ kind: "none", reason: "git_failed" });
    expect(traps()).toEqual([]);
    expect(() => git("diff", since)).toThrow("Command failed");
    expect(traps()).toEqual(["ran-remote"]);
  });

  it("does not lead to a git of its own on the search path (P18)", async () => {
    const since = commit({ a: "1\n" });
    const programs = join(repo, "node_modules/.bin");
    mkdirSync(programs, { recursive: true });
    renameSync(trap("git"), join(programs, "git"));
    const usual = ["/usr/local/bin", "/usr/bin", "/opt/homebrew/bin"].find((folder) => existsSync(join(folder, "git")));
    const searchPath = `${programs}:.:node_modules/.bin:${usual}`;
    const careful = createGitChanges({ roots: [repo], clock: createStepClock(), searchPath });
    expect(await careful.head(repo)).toBe(since);
    expect(traps()).toEqual([]);
    const careless = createGitChanges({ roots: [], clock: createStepClock(), searchPath });
    expect(await careless.head(repo)).toBeNull();
    expect(traps()).toEqual(["ran-git"]);
  });

  it("does not hold us up by a pipe in the place of its index or its exclusions (P15, P18)", async () => {
    const since = commit({ a: "1\n" });
    put("a", "2\n");
    for (const name of ["index", "info/exclude"]) {
      rmSync(join(repo, ".git", name), { force: true });
      execFileSync("mkfifo", [join(repo, ".git", name)]);
    }
    expect((await changed(since)).files).toEqual(["a"]);
  });

  it("keeps its settings of how files compare, if they are plain words", async () => {
    const since = commit({ a: "1\n", b: "1\n" });
    git("config", "core.autocrlf", "true");
    git("config", "core.fileMode", "false");
    appendFileSync(join(repo, ".git/config"), '[core]\n\teol = "lf\\n[filter \\"x\\"]"\n');
    put("a", "1\r\n");
    chmodSync(join(repo, "b"), 0o755);
    expect((await changed(since)).files).toEqual([]);
  });
});
