/**
 * `serve`: starts the daemon, says where it is, and ends it in two grades.
 *
 * Invariant: standard output holds the ready line and nothing else.
 * Invariant: after the first signal the process ends within `STOP_MAX_MS`, whatever hangs; after a second one at once.
 * Invariant: a daemon never runs with a child's mark in its environment: its own children would be taken for that child's,
 * and it would be stopped together with it.
 */

import { CONTRACT_VERSION } from "../config/contract-version.ts";
import { readDaemonFile } from "../config/daemon-files.ts";
import { configFileOf, type LoadedConfig } from "../config/load-config.ts";
import { tokenFileOf } from "../config/tokens.ts";
import type { Command } from "./command.ts";
import type { Ready, StartDaemon, StartDaemonResult, StopMode } from "./daemon.ts";
import { EXIT } from "./exit-codes.ts";
import { fail, note } from "./failure.ts";
import { isChild } from "./find-daemon.ts";
import type { Io, Signal } from "./io.ts";
import { colorsFor, line, printJson } from "./print.ts";
import { loadSettings, type SettingsOptions } from "./settings.ts";

const STOP_MAX_MS = 9_500;
/**
 * npm and npx pass a Ctrl-C on to a process that the terminal has already sent it to, so it arrives twice within
 * milliseconds. The same signal counts again only after this time.
 */
const ECHO_MS = 300;

export async function serve(
  command: Command,
  given: SettingsOptions,
  startDaemon: StartDaemon,
  stopMaxMs = STOP_MAX_MS,
): Promise<number> {
  const { io, options } = command;
  if (isChild(io.env)) io.restart(environmentWithoutMarks(io.env));
  const loaded = loadSettings(command, given);
  if ("kind" in loaded) return fail(io, options, loaded);
  const { version } = command;
  const stopping = awaitSignal(io);
  const result = await startDaemon({ loaded, version, stderr: io.stderr });
  if (result.kind === "refused") {
    stopping.dispose();
    return refused(command, result, loaded.config.dataDir);
  }
  announce(command, result.ready, loaded);
  const signal = await stopping.first;
  note(io, options, "Stopping. Children are stopped now; the next start sees to their tasks.");
  const orderly = await withinTime(result.stop(modeOf(signal)), stopMaxMs);
  if (!orderly) note(io, options, "Stopped without waiting any longer; nothing that was accepted is lost.");
  stopping.dispose();
  return EXIT.ok;
}

type Refused = Extract<StartDaemonResult, { readonly kind: "refused" }>;

function refused(command: Command, result: Refused, dataDir: string): number {
  const { io, options } = command;
  if (result.reason === "already_running") return alreadyRunning(command, result, dataDir);
  const { exitCode, advice } = KNOWN_REASONS[result.reason] ?? { exitCode: EXIT.usage, advice: "" };
  const failure = {
    code: result.reason,
    exitCode,
    what: `${result.message}${advice}`,
    why: null,
    fix: result.fix ?? null,
  };
  return fail(io, options, { kind: "failure", ...failure });
}

/** Reasons with an exit code of their own; `advice` goes on the same line, as supervisors show the last one. */
const KNOWN_REASONS: Readonly<Record<string, { readonly exitCode: number; readonly advice: string }>> = {
  port_busy: { exitCode: EXIT.busy, advice: "; stop what listens there, or choose another port with --port" },
  locked: { exitCode: EXIT.busy, advice: "; stop what holds it, or name another directory with --data-dir" },
  file_open: { exitCode: EXIT.auth, advice: "" },
  directory_open: { exitCode: EXIT.auth, advice: "" },
};

/** Whoever starts a second daemon on the same directory wants the one that runs. */
function alreadyRunning(command: Command, { url }: Refused, dataDir: string): number {
  const { io, options } = command;
  const file = readDaemonFile(dataDir);
  const info = file.kind === "found" ? file.info : null;
  const mcpUrl = info?.mcpUrl ?? url;
  if (options.json === true) {
    const ready = {
      mcpUrl,
      dashboardUrl: info === null ? null : `${info.url}/`,
      dataDir,
      tokenFile: tokenFileOf(dataDir),
    };
    const which = { pid: info?.pid ?? null, version: info?.version ?? null, contractVersion: CONTRACT_VERSION };
    printJson(io.stdout, { event: "already_running", ...ready, ...which });
  } else {
    note(
      io,
      options,
      `Already running: ${mcpUrl ?? "at an address that it has not left"}${info === null ? "" : ` (process ${info.pid})`}.`,
    );
  }
  return EXIT.ok;
}

function announce(command: Command, ready: Ready, loaded: LoadedConfig): void {
  const { io, options } = command;
  if (options.json === true) {
    printJson(io.stdout, { event: "ready", ...ready });
    return;
  }
  const colors = colorsFor(io.stderr, io.env, options.color === false);
  const rows = bannerRows(ready, loaded);
  io.stderr.write(`${colors.bold("delegate-mcp")} ${ready.version}\n`);
  for (const [name, text] of rows) io.stderr.write(`  ${colors.dim(name.padEnd(7))} ${line(text)}\n`);
}

/** At most 11 rows under the title. */
function bannerRows(ready: Ready, { config, configFile }: LoadedConfig): readonly (readonly [string, string])[] {
  const agents = Object.entries(config.agents).map(([name, agent]) => `${name} (${agent.driver})`);
  const { concurrentChildren, depthMax } = config.limits;
  const levels = depthMax === 0 ? "delegation is off" : `${depthMax} ${depthMax === 1 ? "level" : "levels"}`;
  return [
    ["MCP", ready.mcpUrl],
    [
      "token",
      config.server.auth === "none"
        ? "none asked for: whoever reaches this port on this machine can start agents"
        : ready.tokenFile,
    ],
    ["data", ready.dataDir],
    ["agents", agents.length === 0 ? "none yet" : agents.join(", ")],
    ["roots", config.workspaces.roots.join(", ")],
    ["limits", `${concurrentChildren} ${concurrentChildren === 1 ? "child" : "children"} at a time, ${levels}`],
    ["stop", "Ctrl-C; children are stopped too, the next start sees to their tasks"],
    agents.length === 0
      ? ["do", `add one under "agents" in ${configFileOf(configFile)}, and start again`]
      : ["try", 'delegate-mcp delegate "Say hello" --wait'],
  ];
}

function modeOf(signal: Signal): StopMode {
  return signal === "SIGINT" ? "stop" : "hand_over";
}

/** The first signal is waited for; a second one ends the process. */
function awaitSignal(io: Io): { readonly first: Promise<Signal>; dispose(): void } {
  const { promise, resolve } = Promise.withResolvers<Signal>();
  let taken: { readonly signal: Signal; readonly atMs: number } | null = null;
  const handler = io.onSignals(["SIGINT", "SIGTERM", "SIGHUP"], (signal) => {
    const nowMs = performance.now();
    if (taken === null) {
      taken = { signal, atMs: nowMs };
      resolve(signal);
    } else if (taken.signal !== signal || nowMs - taken.atMs > ECHO_MS) {
      io.exitNow(EXIT.interrupted);
    }
  });
  return { first: promise, dispose: () => handler[Symbol.dispose]() };
}

async function withinTime(work: Promise<void>, maxMs: number): Promise<boolean> {
  const { promise: late, resolve } = Promise.withResolvers<boolean>();
  const timer = setTimeout(() => resolve(false), maxMs);
  try {
    return await Promise.race([work.then(() => true), late]);
  } finally {
    clearTimeout(timer);
  }
}

function environmentWithoutMarks(env: Io["env"]): Record<string, string> {
  const clean: Record<string, string> = {};
  for (const [name, value] of Object.entries(env)) {
    if (value !== undefined && !name.startsWith("DELEGATE_CHILD_")) clean[name] = value;
  }
  return clean;
}
