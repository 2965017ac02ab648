/**
 * One isolated instance of a real agent harness: run headless as an MCP client, or as an executable that a daemon starts
 * as a child.
 *
 * Invariant: every instance has its own home and temporary folder, and talks to loopback only.
 * Invariant: only process groups that were started here are ended, by their id, at the latest when this process exits.
 */

import { type ChildProcess, spawn } from "node:child_process";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { setUpClaude } from "./harness/claude.ts";
import { setUpCodex } from "./harness/codex.ts";
import { setUpGemini } from "./harness/gemini.ts";
import { type HarnessName, installHarness } from "./harness/install.ts";
import { setUpOpencode } from "./harness/opencode.ts";
import { setUpPi } from "./harness/pi.ts";
import { type HarnessSetUp, type McpTarget, type SetUpInput, writeConfig } from "./harness/setup.ts";
import { parsed } from "./json.ts";

export type HarnessOptions = {
  /** URL of the model server. */
  readonly models: string;
  /** Given: it is an MCP client of this server. */
  readonly mcp?: McpTarget;
  /** True: its own settings ask before a shell command runs. */
  readonly ask?: boolean;
  /** Additional environment variables. */
  readonly env?: Readonly<Record<string, string>>;
};

export type Harness = {
  readonly name: HarnessName;
  readonly dir: string;
  readonly home: string;
  /** Runs it headless with a prompt and ends it at the limit. */
  run(prompt: string, options?: RunOptions): Promise<HarnessRun>;
  /** Writes a program that starts it with its own settings and notes each start. */
  executable(): HarnessExecutable;
};

export type RunOptions = {
  readonly timeoutMs?: number;
  readonly cwd?: string;
  readonly onStart?: (child: ChildProcess) => void;
};

export type HarnessRun = {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
  readonly ms: number;
  readonly timedOut: boolean;
  /** The lines of stdout that are JSON. */
  readonly lines: readonly unknown[];
  /** The final answer. */
  readonly final: string;
};

export type HarnessExecutable = {
  readonly command: readonly string[];
  readonly driver: HarnessSetUp["driver"];
  /** Starts as a child so far; probes (unmarked, or asking for a version) are left out. */
  starts(): readonly HarnessStart[];
};

export type HarnessStart = {
  readonly pid: number;
  readonly mark: string | null;
  readonly marks: string;
  readonly args: string;
};

const SET_UPS: Readonly<Record<HarnessName, (input: SetUpInput) => HarnessSetUp>> = {
  claude: setUpClaude,
  codex: setUpCodex,
  opencode: setUpOpencode,
  gemini: setUpGemini,
  pi: setUpPi,
};

const RUN_MAX_MS = 120_000;
const KILL_AFTER_MS = 3_000;
const PROBE = /^(-v|-V|--version|version|--help|doctor\b.*|models\b.*|auth\b.*)$/;
const groups = new Set<number>();
const scratchFolders = new Set<string>();

process.on("exit", () => {
  for (const pid of groups) signalGroup(pid, "SIGKILL");
  if (process.env["HARNESS_KEEP"] !== undefined) return;
  for (const folder of scratchFolders) fs.rmSync(folder, { recursive: true, force: true });
});

/** A new scratch folder with a short path (some harnesses put sockets below it); removed at exit unless HARNESS_KEEP is set. */
export function harnessScratch(tag: string): string {
  const folder = fs.realpathSync(fs.mkdtempSync(path.join(os.tmpdir(), `hz-${tag.slice(0, 12)}-`)));
  scratchFolders.add(folder);
  return folder;
}

export async function makeHarness(name: HarnessName, options: HarnessOptions): Promise<Harness> {
  const program = await installHarness(name);
  const dir = harnessScratch(name);
  const home = path.join(dir, "home");
  const temporary = path.join(dir, "t");
  fs.mkdirSync(home, { recursive: true });
  fs.mkdirSync(temporary, { recursive: true });
  const mcp = options.mcp ?? null;
  const authorization = mcp?.token === undefined ? {} : { Authorization: `Bearer ${mcp.token}` };
  const headers = { ...authorization, ...mcp?.headers };
  const node = process.execPath;
  const ask = options.ask ?? false;
  const setUp = SET_UPS[name]({ program, node, dir, home, models: options.models, mcp, headers, ask });
  const env = { ...quietEnv(node, home, temporary), ...setUp.env, ...options.env };
  return {
    name,
    dir,
    home,
    run: (prompt, run = {}) => runHeadless(setUp, env, prompt, { cwd: dir, ...run }),
    executable: () => writeExecutable(`${dir}/${name}`, setUp, env),
  };
}

function quietEnv(node: string, home: string, temporary: string): Record<string, string> {
  return {
    PATH: `${path.dirname(node)}:${process.env["PATH"] ?? ""}`,
    HOME: home,
    TMPDIR: temporary,
    LANG: "C.UTF-8",
    TERM: "dumb",
    NO_COLOR: "1",
    CI: "1",
    NO_PROXY: "127.0.0.1,localhost",
    no_proxy: "127.0.0.1,localhost",
    XDG_CONFIG_HOME: `${home}/.config`,
    XDG_DATA_HOME: `${home}/.local/share`,
    XDG_CACHE_HOME: `${home}/.cache`,
    XDG_STATE_HOME: `${home}/.local/state`,
  };
}

function runHeadless(
  setUp: HarnessSetUp,
  env: Readonly<Record<string, string>>,
  prompt: string,
  options: RunOptions & { readonly cwd: string },
): Promise<HarnessRun> {
  const startedMs = performance.now();
  const [command = "", ...first] = setUp.base;
  const args = [...first, ...setUp.clientArgs(prompt)];
  const child = spawn(command, args, { cwd: options.cwd, env, stdio: ["ignore", "pipe", "pipe"], detached: true });
  const { pid } = child;
  if (pid !== undefined) groups.add(pid);
  let stdout = "";
  let stderr = "";
  let timedOut = false;
  child.stdout.on("data", (chunk: Buffer) => {
    stdout += chunk.toString();
  });
  child.stderr.on("data", (chunk: Buffer) => {
    stderr += chunk.toString();
  });
  const limit = setTimeout(() => {
    timedOut = true;
    signalGroup(pid, "SIGTERM");
    setTimeout(() => signalGroup(pid, "SIGKILL"), KILL_AFTER_MS).unref();
  }, options.timeoutMs ?? RUN_MAX_MS);
  options.onStart?.(child);
  const { promise, resolve } = Promise.withResolvers<HarnessRun>();
  const finish = (code: number | null): void => {
    clearTimeout(limit);
    signalGroup(pid, "SIGKILL");
    if (pid !== undefined) groups.delete(pid);
    const lines = stdout.split("\n").flatMap((line) => parsed(line) ?? []);
    const ms = Math.round(performance.now() - startedMs);
    resolve({ code, stdout, stderr, ms, timedOut, lines, final: setUp.finalText(lines) });
  };
  child.on("error", (error) => {
    stderr += String(error);
    finish(null);
  });
  child.on("close", finish);
  return promise;
}

function signalGroup(pid: number | undefined, signal: NodeJS.Signals): void {
  if (pid === undefined) return;
  try {
    process.kill(-pid, signal);
  } catch {
    // The group is gone.
  }
}

function writeExecutable(file: string, setUp: HarnessSetUp, env: Readonly<Record<string, string>>): HarnessExecutable {
  const startsFile = `${file}.starts.log`;
  fs.writeFileSync(startsFile, "");
  const own = Object.entries(env).filter(([name]) => !["CI", "TERM", "PATH"].includes(name));
  const lines = [
    "#!/bin/sh",
    ...own.map(([name, value]) => `export ${name}=${quoted(value)}`),
    `PATH=${quoted(path.dirname(process.execPath))}:"$PATH"; export PATH`,
    'm=$(env | grep "^DELEGATE_" | tr "\\n\\t" "  ")',
    `printf '%s\\t%s\\t%s\\n' "$$" "$m" "$*" >> ${quoted(startsFile)}`,
    `exec ${setUp.base.map(quoted).join(" ")} "$@"`,
    "",
  ];
  writeConfig(file, lines.join("\n"));
  fs.chmodSync(file, 0o755);
  return { command: [file, ...setUp.childArgs], driver: setUp.driver, starts: () => readStarts(startsFile) };
}

function readStarts(file: string): readonly HarnessStart[] {
  const all = fs
    .readFileSync(file, "utf8")
    .split("\n")
    .filter((line) => line !== "")
    .map((line): HarnessStart => {
      const [pid = "", marks = "", ...args] = line.split("\t");
      const mark = /DELEGATE_CHILD_MARK=(\S+)/.exec(marks)?.[1] ?? null;
      return { pid: Number(pid), mark, marks: marks.trim(), args: args.join(" ").trim() };
    })
    .filter(({ args }) => !PROBE.test(args));
  const marked = all.filter(({ marks }) => marks !== "");
  return marked.length > 0 ? marked : all;
}

function quoted(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`;
}
