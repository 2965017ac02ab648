/**
 * The demo's daemon: the real one, in a process of its own, with a data directory in the demo's folder.
 */

import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import path from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { z } from "zod";

import type { DemoChild } from "./demo-child.ts";

export type DemoDaemon = AsyncDisposable & {
  readonly mcpUrl: string;
  readonly port: number;
  readonly pid: number;
  readonly token: string;
  /** SIGKILL: the daemon gets no chance to tidy up. */
  kill(): void;
  /** SIGTERM, and waits for the end. */
  stop(): Promise<void>;
  readonly gone: Promise<unknown>;
};

export type DemoDaemonOptions = {
  readonly folder: string;
  readonly child: DemoChild;
  /** 0: a free one. */
  readonly port: number;
  readonly env: Readonly<Record<string, string | undefined>>;
};

const readySchema = z.object({ event: z.literal("ready"), mcpUrl: z.url(), tokenFile: z.string() });

export async function startDemoDaemon({ folder, child, port, env }: DemoDaemonOptions): Promise<DemoDaemon> {
  const agents = { demo: { driver: "command", command: child.command, onLoss: "rerun" } };
  const settings = {
    DELEGATE_MCP_DATA_DIR: path.join(folder, "data"),
    DELEGATE_MCP_PORT: String(port),
    DELEGATE_MCP_WORKSPACES_ROOTS: JSON.stringify([folder]),
    DELEGATE_MCP_AGENTS: JSON.stringify(agents),
    DELEGATE_MCP_LOG_LEVEL: "error",
  };
  const program = fileURLToPath(new URL("./run.js", import.meta.url));
  const daemon = spawn(process.execPath, [program, "serve", "--json"], {
    cwd: folder,
    env: { ...withoutOurs(env), ...settings },
    stdio: ["ignore", "pipe", "inherit"],
  });
  const gone = once(daemon, "exit");
  const ready = readySchema.parse(JSON.parse(await firstLine(daemon.stdout, gone)));
  const stop = async (): Promise<void> => {
    if (daemon.exitCode !== null || daemon.signalCode !== null) return;
    daemon.kill("SIGTERM");
    await gone;
  };
  return {
    mcpUrl: ready.mcpUrl,
    port: Number(new URL(ready.mcpUrl).port),
    pid: daemon.pid ?? 0,
    token: readFileSync(ready.tokenFile, "utf8").trim(),
    kill: () => void daemon.kill("SIGKILL"),
    stop,
    gone,
    [Symbol.asyncDispose]: stop,
  };
}

async function firstLine(stdout: NodeJS.ReadableStream, gone: Promise<unknown>): Promise<string> {
  const lines = createInterface({ input: stdout });
  const line = once(lines, "line").then(([text]) => String(text));
  const ended = gone.then(() => {
    throw new Error("the daemon ended before it was ready");
  });
  return Promise.race([line, ended]);
}

/** The person's own settings and daemon are none of the demo's business. */
function withoutOurs(env: DemoDaemonOptions["env"]): Record<string, string | undefined> {
  return Object.fromEntries(Object.entries(env).filter(([name]) => !name.startsWith("DELEGATE_")));
}
