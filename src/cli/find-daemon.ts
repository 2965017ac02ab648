/**
 * Where the daemon is, and which token to show it.
 *
 * Invariant: the token file's token goes only to the daemon of the same data directory, whose process is alive; an address
 * that somebody named gets the token that was named with it, or none.
 * Invariant: a delegated child never uses the token of the person whose machine it runs on, nor an address that the person
 * has set, and talks to no other daemon than its own (P18).
 */

import path from "node:path";
import { isProcessAlive, readDaemonFile } from "../config/daemon-files.ts";
import { loadConfig, platformFolders } from "../config/load-config.ts";
import { describeProblem } from "../config/problem.ts";
import type { DataDirRefusal } from "../config/private-files.ts";
import { readTokenFile } from "../config/tokens.ts";
import { EXIT } from "./exit-codes.ts";
import type { Failure, GlobalOptions } from "./failure.ts";
import type { Io } from "./io.ts";

export type DaemonAddress = {
  readonly kind: "found";
  /** Without a slash at the end; paths are appended. */
  readonly base: string;
  readonly token: string | null;
};

export function findDaemon(io: Io, options: GlobalOptions): DaemonAddress | Failure {
  const refused = refuseChild(io, "this command");
  if (refused !== null) return refused;
  const token = io.env["DELEGATE_MCP_TOKEN"] ?? "";
  const named = options.url ?? io.env["DELEGATE_MCP_URL"] ?? "";
  if (named !== "") return addressOf(named, token === "" ? null : token);
  const dataDir = findDataDir(io, options);
  return dataDir.kind === "failure" ? dataDir : localDaemon(dataDir.dataDir, token);
}

/** Where a delegated child's own credential is good. */
export type ChildAddress = { readonly kind: "child"; readonly mcpUrl: string; readonly token: string };

/** How a delegated child reaches the daemon, or why it cannot; null outside of one. */
export function findChildAddress(io: Io, options: GlobalOptions): ChildAddress | Failure | null {
  if (!isChild(io.env)) return null;
  const mcpUrl = io.env["DELEGATE_CHILD_URL"] ?? "";
  const token = io.env["DELEGATE_CHILD_TOKEN"] ?? "";
  if (mcpUrl === "" || token === "" || !URL.canParse(mcpUrl)) {
    const why = "It was given no credential of its own: its depth leaves no room for children.";
    return { ...CHILD, what: "This is a delegated child: it cannot reach the daemon.", why };
  }
  if (options.url !== undefined && !isSameDaemon(options.url, mcpUrl)) {
    const why = "--url names another daemon than the one that runs this child.";
    return { ...CHILD, what: "A delegated child talks to its own daemon only.", why, fix: "Leave out --url." };
  }
  return { kind: "child", mcpUrl, token };
}

function isSameDaemon(named: string, mcpUrl: string): boolean {
  const address = addressOf(named, null);
  const own = addressOf(mcpUrl, null);
  return address.kind === "found" && own.kind === "found" && address.base === own.base;
}

/** The answer to a delegated child that would act as the person; null outside of one. `what`: "`export`". */
export function refuseChild(io: Io, what: string): Failure | null {
  return isChild(io.env) ? { ...CHILD, what: `This is a delegated child: ${what} is not for it.` } : null;
}

const CHILD: Failure = {
  kind: "failure",
  code: "child",
  exitCode: EXIT.auth,
  what: "This is a delegated child.",
  why: "Its environment carries DELEGATE_CHILD_ variables; it may use what it was given, and nothing of the person's.",
  fix: "Do the work here, or ask for it in the final message.",
};

export function isChild(env: Io["env"]): boolean {
  return Object.entries(env).some(([name, value]) => name.startsWith("DELEGATE_CHILD_") && value !== undefined);
}

/** The data directory by `--data-dir`, the environment, the configuration file or the platform. */
export function findDataDir(
  io: Io,
  options: GlobalOptions,
): { readonly kind: "found"; readonly dataDir: string } | Failure {
  const { dataDir: flag, config } = options;
  const result = loadConfig({
    flags: flag === undefined ? {} : { dataDir: { name: "--data-dir", value: path.resolve(io.cwd, flag) } },
    environment: io.env,
    envFile: null,
    configFile: config ?? null,
    cwd: io.cwd,
    folders: platformFolders(),
  });
  const dataDir = result.kind === "loaded" ? result.loaded.config.dataDir : result.dataDir;
  if (dataDir !== null) return { kind: "found", dataDir };
  return {
    kind: "failure",
    code: "configuration",
    exitCode: EXIT.usage,
    what: "The configuration does not say where the data directory is.",
    details: result.kind === "invalid" ? result.problems.map(describeProblem) : [],
    why: null,
    fix: "Correct it, or name the directory: --data-dir DIR.",
  };
}

/** A refusal of the data directory, for the command line. */
export function failureOfRefusal(refused: DataDirRefusal): Failure {
  const { reason, message, fix } = refused;
  return { kind: "failure", code: reason, exitCode: EXIT.auth, what: message, why: null, fix };
}

function addressOf(named: string, token: string | null): DaemonAddress | Failure {
  const failure = (why: string): Failure => ({
    kind: "failure",
    code: "bad_url",
    exitCode: EXIT.usage,
    what: "That is no address of a daemon.",
    why,
    fix: "Give its address or its MCP URL, such as http://127.0.0.1:4517/mcp; its token goes into DELEGATE_MCP_TOKEN.",
  });
  if (!URL.canParse(named)) return failure("It is not a URL.");
  const url = new URL(named);
  if (url.protocol !== "http:" && url.protocol !== "https:") return failure("It is neither http nor https.");
  if (url.username !== "" || url.password !== "" || url.search !== "")
    return failure("It carries more than an address.");
  const base = `${url.origin}${url.pathname}`.replace(/\/+$/, "").replace(/\/mcp$/, "");
  return { kind: "found", base, token };
}

function localDaemon(dataDir: string, namedToken: string): DaemonAddress | Failure {
  const file = readDaemonFile(dataDir);
  if (file.kind === "refused") return failureOfRefusal(file);
  if (file.kind === "absent") return notRunning(`No daemon has left its address in ${dataDir}.`);
  if (!isProcessAlive(file.info.pid)) {
    return notRunning(`The daemon of ${dataDir} (process ${file.info.pid}) is gone. Its tasks are kept.`);
  }
  const base = file.info.url.replace(/\/+$/, "");
  if (namedToken !== "") return { kind: "found", base, token: namedToken };
  const read = readTokenFile(dataDir);
  return read.kind === "refused" ? failureOfRefusal(read) : { kind: "found", base, token: read.token };
}

function notRunning(why: string): Failure {
  return {
    kind: "failure",
    code: "unreachable",
    exitCode: EXIT.unreachable,
    what: "No daemon is running here.",
    why,
    fix: "Start one: delegate-mcp serve. For one elsewhere: --url URL and DELEGATE_MCP_TOKEN.",
  };
}
