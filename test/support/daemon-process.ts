/**
 * The real daemon in a process of its own, as it is built: `serve --json` with a data directory and a workspace of the
 * test's, a free port, and the fake agent as its only agent.
 *
 * Invariant: ends with the test, by pid; a daemon that was killed can be started again on the same directory and port.
 */

import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, mkdtempSync, readFileSync, realpathSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { text } from "node:stream/consumers";
import { fileURLToPath } from "node:url";

import { openClient, type TestClient } from "./mcp-clients.ts";
import { AGENT_COMMAND } from "./processes.ts";
import { firstLineOf } from "./first-line.ts";

export type DaemonOptions = {
  readonly agents?: Readonly<Record<string, unknown>>;
  /** More `DELEGATE_MCP_*` settings. */
  readonly settings?: Readonly<Record<string, string>>;
  /** More of the environment that the daemon is started with. */
  readonly env?: Readonly<Record<string, string>>;
};

export type DaemonProcess = AsyncDisposable & {
  readonly folder: string;
  /** The only root; children work here. */
  readonly work: string;
  readonly dataDir: string;
  readonly mcpUrl: string;
  readonly origin: string;
  readonly port: number;
  readonly pid: number;
  readonly token: string;
  /** Milliseconds from the start of the process to its ready line. */
  readonly readyMs: number;
  client(name?: string): Promise<TestClient>;
  /** SIGKILL, and waits until it is gone. */
  kill(): Promise<void>;
  signal(signal: NodeJS.Signals): void;
  /** Waits for the end: exit code, or null after a signal. */
  ended(): Promise<number | null>;
  /** Starts it again on the same directory and port. */
  restart(): Promise<DaemonProcess>;
  /** All that it has written to standard error. */
  stderr(): string;
};

const PROGRAM = fileURLToPath(new URL("../../bin/delegate-mcp.js", import.meta.url));
const FAKE_AGENT = { fake: { driver: "command", command: AGENT_COMMAND, onLoss: "rerun", default: true } };

export async function startDaemonProcess(options: DaemonOptions = {}): Promise<DaemonProcess> {
  const folder = realpathSync(mkdtempSync(path.join(tmpdir(), "daemon-")));
  mkdirSync(path.join(folder, "work"));
  return await start(folder, 0, options);
}

/** Runs one command of the program to its end. */
export async function runCommand(
  args: readonly string[],
  env: Readonly<Record<string, string>>,
  cwd: string = tmpdir(),
): Promise<{ readonly code: number | null; readonly stdout: string; readonly stderr: string }> {
  const child = spawn(process.execPath, [PROGRAM, ...args], {
    cwd,
    env: { ...cleanEnv(), ...env },
    stdio: ["ignore", "pipe", "pipe"],
  });
  const [stdout, stderr, [code]] = await Promise.all([text(child.stdout), text(child.stderr), once(child, "exit")]);
  return { code, stdout, stderr };
}

async function start(folder: string, port: number, options: DaemonOptions): Promise<DaemonProcess> {
  const dataDir = path.join(folder, "data");
  const work = path.join(folder, "work");
  const startedMs = performance.now();
  const child = spawn(process.execPath, [PROGRAM, "serve", "--json"], {
    cwd: work,
    env: { ...cleanEnv(), ...settingsOf(dataDir, work, port, options), ...options.env },
    stdio: ["ignore", "pipe", "pipe"],
  });
  let complaints = "";
  child.stderr.on("data", (chunk: Buffer) => {
    complaints += chunk.toString();
  });
  const gone = once(child, "exit").then(([code]) => (typeof code === "number" ? code : null));
  const line = await firstLineOf(child.stdout, gone, () => complaints);
  const { mcpUrl, tokenFile } = JSON.parse(line);
  const token = readFileSync(String(tokenFile), "utf8").trim();
  const end = async (): Promise<void> => {
    await terminate(child, gone);
    rmSync(folder, { recursive: true, force: true, maxRetries: 10, retryDelay: 50 });
  };
  return {
    folder,
    work,
    dataDir,
    mcpUrl,
    origin: new URL(mcpUrl).origin,
    port: Number(new URL(mcpUrl).port),
    pid: child.pid ?? 0,
    token,
    readyMs: performance.now() - startedMs,
    client: (name = "daemon-test") => openClient("1.x", { url: mcpUrl, token, name }),
    async kill() {
      child.kill("SIGKILL");
      await gone;
    },
    signal: (signal) => void child.kill(signal),
    ended: () => gone,
    restart: () => start(folder, Number(new URL(mcpUrl).port), options),
    stderr: () => complaints,
    [Symbol.asyncDispose]: end,
  };
}

async function terminate(child: ChildProcess, gone: Promise<unknown>): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  child.kill("SIGCONT");
  child.kill("SIGTERM");
  await gone;
}

function settingsOf(dataDir: string, work: string, port: number, options: DaemonOptions): Record<string, string> {
  return {
    DELEGATE_MCP_DATA_DIR: dataDir,
    DELEGATE_MCP_PORT: String(port),
    DELEGATE_MCP_WORKSPACES_ROOTS: JSON.stringify([work]),
    DELEGATE_MCP_AGENTS: JSON.stringify(options.agents ?? FAKE_AGENT),
    DELEGATE_MCP_LOG_LEVEL: "info",
    ...options.settings,
  };
}

function cleanEnv(): Record<string, string | undefined> {
  return Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith("DELEGATE_")));
}
