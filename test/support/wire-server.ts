/**
 * The product's HTTP app and MCP wire with the two wire tools, listening on loopback.
 *
 * Tokens are `token-of-<name>`; `revoked` and everything else are refused.
 */

import type { FastifyPluginAsync } from "fastify";
import type { Caller } from "../../src/core/caller.ts";
import { type Authenticate, callerOf } from "../../src/http/auth.ts";
import { createHttpApp, type HttpAppOptions } from "../../src/http/http-app.ts";
import { createMcpPlugin, type McpPluginOptions, type McpSurface } from "../../src/mcp/mcp-plugin.ts";
import { createWallClock } from "../../src/system/wall-clock.ts";
import { textAt } from "./json.ts";
import { createQuietLog, type QuietLog } from "./quiet-log.ts";
import { createWireTools, type WireTools } from "./wire-tools.ts";

export type WireServer = AsyncDisposable & {
  readonly origin: string;
  readonly mcpUrl: string;
  readonly port: number;
  readonly wire: WireTools;
  readonly mcp: McpSurface;
  readonly log: QuietLog;
  /** Every request to `/mcp` so far. */
  readonly requests: readonly McpRequest[];
  /** Stops as the daemon does: open calls are answered first. */
  stop(): Promise<void>;
};

export type McpRequest = {
  readonly atMs: number;
  readonly http: string;
  /** JSON-RPC method and, for a call, the tool. */
  readonly method: string;
  readonly tool: string;
  readonly resumes: boolean;
  readonly userAgent: string;
};

export type WireServerOptions = {
  readonly sessionKey?: Buffer;
  readonly port?: number;
  readonly noAuth?: boolean;
  readonly mcp?: Partial<McpPluginOptions>;
  readonly http?: Partial<HttpAppOptions>;
  readonly people?: readonly FastifyPluginAsync[];
};

export const SESSION_KEY: Buffer = Buffer.alloc(32, 7);
export const TOKEN = "token-of-alice";

export async function startWireServer(options: WireServerOptions = {}): Promise<WireServer> {
  const clock = createWallClock();
  const log = createQuietLog();
  const wire = createWireTools(clock);
  const mcp = createMcpPlugin({
    tools: wire.tools,
    instructions: "Two tools for the wire.",
    serverInfo: { name: "wire-under-test", version: "1.0.0" },
    sessionKey: options.sessionKey ?? SESSION_KEY,
    callerOf,
    clock,
    log,
    ...options.mcp,
  });
  const requests: McpRequest[] = [];
  const recorded: FastifyPluginAsync = async (scope) => {
    scope.addHook("preHandler", async (request) => {
      requests.push({
        atMs: performance.now(),
        http: request.method,
        method: textAt(request.body, "method"),
        tool: textAt(request.body, "params", "name"),
        resumes: request.headers["last-event-id"] !== undefined,
        userAgent: request.headers["user-agent"] ?? "",
      });
    });
    await scope.register(mcp.plugin);
  };
  const app = await createHttpApp({
    allowedHosts: [],
    allowedOrigins: [],
    authenticate: options.noAuth === true ? () => callerNamed("local") : authenticate,
    isReady: () => true,
    mcp: recorded,
    people: options.people ?? [],
    log,
    ...options.http,
  });
  const origin = await app.listen({ host: "127.0.0.1", port: options.port ?? 0 });
  const stop = async (): Promise<void> => {
    await mcp.shutDown();
    await app.close();
  };
  return {
    origin,
    mcpUrl: `${origin}/mcp`,
    port: Number(new URL(origin).port),
    wire,
    mcp,
    log,
    requests,
    stop,
    [Symbol.asyncDispose]: stop,
  };
}

export function callerNamed(name: string): Caller {
  return { name, scopes: ["read", "delegate"], kind: "caller", conversation: null };
}

const authenticate: Authenticate = (token) => {
  if (token === null) return { problem: "missing" };
  if (token === "token-of-revoked") return { problem: "revoked" };
  const name = /^token-of-(\w+)$/.exec(token)?.[1];
  return name === undefined ? { problem: "unknown" } : callerNamed(name);
};
