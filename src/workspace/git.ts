/**
 * Runs the `git` program of this machine on folders that nobody vouches for.
 *
 * Invariant: the program is never one from below a root: a child could have put it there, and `npx` puts a project's own
 * folder of programs first on the search path.
 * Invariant: nothing of the machine's, the user's or the daemon's own environment and configuration gets in, and nothing is
 * fetched, asked at a terminal or locked. A repository's own configuration is still read here: commands that could run a
 * program named there belong into a shadow repository.
 */

import { execFile } from "node:child_process";
import { constants } from "node:fs";
import { access, realpath } from "node:fs/promises";
import { delimiter, dirname, isAbsolute, join } from "node:path";

import { isAtOrBelow } from "../core/workspace-claim.ts";

export type Git = (args: readonly string[], options: GitOptions) => Promise<GitResult>;

export type GitOptions = {
  readonly cwd: string;
  readonly timeoutMs: number;
  /** Default: 64 KiB, for answers of a line. */
  readonly bytesMax?: number;
  readonly stdin?: string | Buffer;
  /** Added to the environment: which repository. */
  readonly env?: Readonly<Record<string, string>>;
};

export type GitResult =
  /** `cut`: it would have written more than `bytesMax`, and was ended. */
  | { readonly kind: "done"; readonly output: Buffer; readonly cut: boolean }
  /** `timedOut`: it was ended, and has said nothing about what it was asked. */
  | { readonly kind: "failed"; readonly message: string; readonly timedOut: boolean };

const SYSTEM_FOLDERS: readonly string[] = ["/usr/local/bin", "/usr/bin", "/bin", "/opt/homebrew/bin"];
const ANSWER_BYTES_MAX = 64 * 1024;
/** What the shadow makes impossible is turned off by name as well. The check of owners would refuse mounted folders. */
const SETTINGS = [
  "core.hooksPath=/dev/null",
  "core.fsmonitor=false",
  "core.untrackedCache=false",
  "core.pager=cat",
  "core.quotePath=false",
  "core.bigFileThreshold=4m",
  "diff.external=",
  "safe.directory=*",
];
const ENVIRONMENT = {
  /** A home in which nothing can ever be. */
  HOME: "/dev/null",
  LC_ALL: "C",
  LANG: "C",
  GIT_CONFIG_NOSYSTEM: "1",
  GIT_CONFIG_GLOBAL: "/dev/null",
  GIT_ATTR_NOSYSTEM: "1",
  GIT_OPTIONAL_LOCKS: "0",
  GIT_TERMINAL_PROMPT: "0",
  GIT_NO_LAZY_FETCH: "1",
  GIT_NO_REPLACE_OBJECTS: "1",
  GIT_PAGER: "cat",
};

export type GitPlaces = {
  /** As in `PATH`; null: the usual folders of programs. */
  readonly searchPath: string | null;
  readonly roots: readonly string[];
};

/** Null if there is no git. */
export async function findGit({ searchPath, roots }: GitPlaces): Promise<Git | null> {
  const wanted = searchPath === null ? SYSTEM_FOLDERS : searchPath.split(delimiter);
  const unsafe = [...roots, ...(await Promise.all(roots.map((root) => realpath(root).catch(() => root))))];
  for (const folder of wanted.filter((folder) => isAbsolute(folder))) {
    const program = await realpath(join(folder, "git")).catch(() => null);
    if (program === null || !(await isProgram(program))) continue;
    const ofSystem = SYSTEM_FOLDERS.includes(folder);
    const below = unsafe.some((root) => isAtOrBelow(folder, root) || isAtOrBelow(program, root));
    if (ofSystem || !below) return (args, options) => run(join(folder, "git"), args, options);
  }
  return null;
}

async function isProgram(path: string): Promise<boolean> {
  return access(path, constants.X_OK).then(
    () => true,
    () => false,
  );
}

function run(program: string, args: readonly string[], options: GitOptions): Promise<GitResult> {
  const { cwd, timeoutMs, bytesMax = ANSWER_BYTES_MAX, stdin = "", env = {} } = options;
  const all = ["--no-pager", "--literal-pathspecs", ...SETTINGS.flatMap((setting) => ["-c", setting]), ...args];
  const settings = {
    cwd,
    env: { ...ENVIRONMENT, PATH: [dirname(program), "/usr/bin", "/bin"].join(delimiter), ...env },
    timeout: Math.max(1, Math.ceil(timeoutMs)),
    killSignal: "SIGKILL",
    maxBuffer: bytesMax,
    encoding: "buffer",
  } as const;
  return new Promise((resolve) => {
    const child = execFile(program, all, settings, (error, output, complaint) => {
      const cut = error?.code === "ERR_CHILD_PROCESS_STDIO_MAXBUFFER";
      if (error === null || cut) resolve({ kind: "done", output, cut });
      else resolve({ kind: "failed", message: complaint.toString("utf8"), timedOut: error.killed === true });
    });
    // A git that ends before it has read everything has said why.
    child.stdin?.on("error", () => {});
    child.stdin?.end(stdin);
  });
}
