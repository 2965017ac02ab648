/**
 * What `doctor` learns from the daemon: is it there, is it this version, does the token open it, does it take work.
 *
 * Invariant: one handshake and three reads, each for a few seconds at most; no task is looked at, nothing is started.
 */

import { z } from "zod";
import { isProcessAlive, readDaemonFile } from "../config/daemon-files.ts";
import { readProblem } from "./answer.ts";
import { jsonOf, unreachable } from "./api-client.ts";
import type { Command } from "./command.ts";
import { type Check, failed, ok, warn } from "./doctor-check.ts";
import { EXIT } from "./exit-codes.ts";
import { type DaemonAddress, findDaemon } from "./find-daemon.ts";

export type DaemonChecks = {
  /** `daemon` first. */
  readonly checks: readonly Check[];
  /** The limits in force there, if it says them. */
  readonly limits: Readonly<Record<string, unknown>> | null;
};

const ANSWER_MAX_MS = 3_000;
const ANSWER_BYTES_MAX = 1024 * 1024;
const NOT_CHECKED = "not checked: no daemon was reached";

/** `dataDir`: null if the configuration does not say. */
export async function checkDaemon(command: Command, dataDir: string | null): Promise<DaemonChecks> {
  const address = findDaemon(command.io, command.options);
  if (address.kind === "failure") {
    const { what, why, fix, exitCode } = address;
    return unreached(failed("daemon", [what, why ?? ""].join(" ").trim(), fix, exitCode));
  }
  const ask = await createAsk(address, command.version);
  const [live, ready, handshake, agents] = await Promise.all([
    ask("GET", "/livez", null),
    ask("GET", "/readyz", null),
    ask("POST", "/mcp", initialize(command.version)),
    ask("GET", "/api/agents", null),
  ]);
  if (live.kind === "unreachable") return unreached(failed("daemon", live.what, live.fix, EXIT.unreachable));
  if (live.status !== 200) {
    const found = `what answers at ${address.base} is not delegate-mcp (HTTP ${live.status})`;
    return unreached(failed("daemon", found, "Check --url or DELEGATE_MCP_URL.", EXIT.unreachable));
  }
  return {
    checks: [
      ok("daemon", `${address.base}${processOf(command, dataDir)}`),
      versionCheck(handshake, command.version),
      tokenCheck(handshake, agents, address),
      readyCheck(ready),
    ],
    limits: limitsIn(agents),
  };
}

function unreached(daemon: Check): DaemonChecks {
  const rest = ["version", "token", "ready"].map((name) => warn(name, NOT_CHECKED, null));
  return { checks: [daemon, ...rest], limits: null };
}

/** Which process it is, where it is the one of the data directory. */
function processOf({ io, options }: Command, dataDir: string | null): string {
  const isNamed = options.url !== undefined || (io.env["DELEGATE_MCP_URL"] ?? "") !== "";
  const file = isNamed || dataDir === null ? null : readDaemonFile(dataDir);
  if (file?.kind !== "found" || !isProcessAlive(file.info.pid)) return "";
  return `, process ${file.info.pid} since ${file.info.startedAt}`;
}

function versionCheck(handshake: Asked, own: string): Check {
  const server = handshake.kind === "answered" ? serverIn(handshake.text) : null;
  if (server === null) return warn("version", "the daemon did not say its version", null);
  if (server.name !== "delegate-mcp")
    return failed("version", `the MCP server there is ${server.name}`, "Check --url.", EXIT.unreachable);
  if (server.version === own) return ok("version", own);
  return warn(
    "version",
    `the daemon is ${server.version}, this command is ${own}`,
    "Restart the daemon: delegate-mcp serve",
  );
}

function tokenCheck(handshake: Asked, agents: Asked, { token }: DaemonAddress): Check {
  const refused = [handshake, agents].find((asked) => asked.kind === "answered" && [401, 403].includes(asked.status));
  if (refused?.kind === "answered") {
    const problem = readProblem(jsonOf(refused.text));
    const told = problem?.message ?? `HTTP ${refused.status}`;
    const found = token === null ? `none was found to show: ${told}` : told;
    const fix = problem?.change ?? "Make one: delegate-mcp token add NAME";
    return failed("token", found, fix, EXIT.auth);
  }
  if ([handshake, agents].some((asked) => asked.kind === "unreachable"))
    return warn("token", "the daemon did not answer in time", "Try again, and look at the daemon's log.");
  return ok("token", token === null ? "none is asked for" : "accepted");
}

function readyCheck(ready: Asked): Check {
  if (ready.kind === "answered" && ready.status === 200) return ok("ready", "takes new work");
  const fix = "Look at the daemon's log, and at room and rights of the data directory.";
  return failed("ready", "does not take new work", fix, EXIT.unreachable);
}

const limitsSchema = z.looseObject({ limits: z.record(z.string(), z.unknown()) });

function limitsIn(agents: Asked): Readonly<Record<string, unknown>> | null {
  const parsed = agents.kind === "answered" ? limitsSchema.safeParse(jsonOf(agents.text)) : null;
  return parsed?.success === true ? parsed.data.limits : null;
}

const initializedSchema = z.looseObject({
  result: z.looseObject({ serverInfo: z.looseObject({ name: z.string(), version: z.string() }) }),
});

/** The answer comes as JSON or as one event of a stream. */
function serverIn(text: string): { readonly name: string; readonly version: string } | null {
  const bodies = [text, ...[...text.matchAll(/^data: (.+)$/gm)].map((match) => match[1] ?? "")];
  for (const body of bodies) {
    const parsed = initializedSchema.safeParse(jsonOf(body));
    if (parsed.success) return parsed.data.result.serverInfo;
  }
  return null;
}

function initialize(version: string): object {
  const clientInfo = { name: "delegate-mcp-doctor", version };
  return {
    jsonrpc: "2.0",
    id: 1,
    method: "initialize",
    params: { protocolVersion: "2025-11-25", capabilities: {}, clientInfo },
  };
}

type Asked =
  | { readonly kind: "answered"; readonly status: number; readonly text: string }
  | { readonly kind: "unreachable"; readonly what: string; readonly fix: string | null };

type Ask = (method: "GET" | "POST", path: string, body: object | null) => Promise<Asked>;

async function createAsk(address: DaemonAddress, version: string): Promise<Ask> {
  const { Agent, request } = await import("undici");
  return async (method, path, body) => {
    const agent = new Agent({ maxResponseSize: ANSWER_BYTES_MAX, connections: 1 });
    try {
      const response = await request(`${address.base}${path}`, {
        method,
        dispatcher: agent,
        signal: AbortSignal.timeout(ANSWER_MAX_MS),
        headers: {
          accept: "application/json, text/event-stream",
          "user-agent": `delegate-mcp-cli/${version}`,
          ...(body === null ? {} : { "content-type": "application/json" }),
          ...(address.token === null ? {} : { authorization: `Bearer ${address.token}` }),
        },
        body: body === null ? null : JSON.stringify(body),
      });
      return { kind: "answered", status: response.statusCode, text: await response.body.text() };
    } catch (error) {
      const { what, why, fix } = unreachable(address, error);
      return { kind: "unreachable", what: [what, why ?? ""].join(" ").trim(), fix };
    } finally {
      await agent.destroy();
    }
  };
}
