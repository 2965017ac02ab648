/**
 * The two servers that are compared: the SDK's echo, and the daemon as it is packed (`bin`), each on a free loopback port.
 *
 * Invariant: a daemon has a home, a data directory and a configuration of its own and sees none of the person's.
 */

import { mkdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { z } from "zod";
import {
  type ServerProcess,
  type ServerStart,
  type StartedServer,
  startPlainServer,
  startServer,
} from "./server-process.ts";

export type Subject = ServerProcess & {
  readonly mcpUrl: URL;
  /** Null where no token is asked for. */
  readonly token: string | null;
};

export type DaemonOptions = {
  /** Holds everything of this daemon; may be used again by a later one. */
  readonly folder: string;
  readonly concurrentChildren: number;
  readonly profileTo: string | null;
};

const BIN = fileURLToPath(new URL("../../bin/delegate-mcp.js", import.meta.url));
const ECHO = fileURLToPath(new URL("./echo-server.ts", import.meta.url));
const TIMED_CHILD = fileURLToPath(new URL("./timed-child.ts", import.meta.url));
/** Longer than any bench; it is stopped with its daemon. */
const BLOCKED_S = 900;

const readySchema = z.object({ event: z.literal("ready"), mcpUrl: z.url(), tokenFile: z.string().nullable() });

/** `blocked` runs until it is stopped, `timed` ends at once and tells when. */
const AGENTS = {
  blocked: { driver: "command", command: ["/bin/sleep", String(BLOCKED_S)], default: true },
  timed: { driver: "command", command: [process.execPath, TIMED_CHILD] },
};

export async function startEcho(profileTo: string | null = null): Promise<Subject> {
  const env = { PATH: process.env["PATH"] ?? "" };
  return subjectOf(await startServer({ program: ECHO, args: [], cwd: "/", env }, profileTo));
}

export async function startDaemon(options: DaemonOptions): Promise<Subject> {
  return subjectOf(await startServer(daemonStart(options), options.profileTo));
}

/** Starts a daemon as users do and ends it again. */
export async function timeStart(options: DaemonOptions): Promise<Pick<StartedServer, "readyAfterMs" | "cpuToReadyMs">> {
  await using daemon = await startPlainServer(daemonStart(options));
  return daemon;
}

function daemonStart({ folder, concurrentChildren }: DaemonOptions): ServerStart {
  const home = join(folder, "home");
  const work = workFolder(folder);
  mkdirSync(home, { recursive: true });
  mkdirSync(work, { recursive: true });
  const env = {
    PATH: process.env["PATH"] ?? "",
    HOME: home,
    DELEGATE_MCP_DATA_DIR: dataFolder(folder),
    DELEGATE_MCP_SERVER_PORT: "0",
    DELEGATE_MCP_LOG_LEVEL: "error",
    DELEGATE_MCP_WORKSPACES_ROOTS: JSON.stringify([work]),
    DELEGATE_MCP_AGENTS: JSON.stringify(AGENTS),
    DELEGATE_MCP_LIMITS_CONCURRENT_CHILDREN: String(concurrentChildren),
    DELEGATE_MCP_LIMITS_QUEUE_MAX: "100000",
    DELEGATE_MCP_LIMITS_DELEGATIONS_PER_MINUTE: "100000",
  };
  return { program: BIN, args: ["serve", "--json"], cwd: work, env };
}

export function dataFolder(folder: string): string {
  return join(folder, "data");
}

/** Where the children of a daemon work. */
export function workFolder(folder: string): string {
  return join(folder, "work");
}

function subjectOf(server: ServerProcess): Subject {
  const { mcpUrl, tokenFile } = readySchema.parse(server.ready);
  const token = tokenFile === null ? null : readFileSync(tokenFile, "utf8").trim();
  return { ...server, mcpUrl: new URL(mcpUrl), token };
}
