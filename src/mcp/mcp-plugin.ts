/**
 * `/mcp` as a Fastify plugin: both protocol eras on one route, no session on the server.
 *
 * For the composition root: `createMcpPlugin(options)` gives `{plugin, shutDown, openCallCount}`. The plugin expects that
 * the app has authenticated the request (`callerOf` reads the outcome) and renders thrown errors. At shutdown call
 * `shutDown()` before closing the app: every held call is answered first (`endReason() === "shutdown"`).
 *
 * Invariant: one classification per request (`era`), then exactly one leg.
 * Invariant: the wire knows tools only through `Tool`; swapping the table changes nothing else.
 */

import type { FastifyPluginAsync, FastifyReply, FastifyRequest } from "fastify";
import type { Caller } from "../core/caller.ts";
import type { Clock } from "../ports/clock.ts";
import type { Log } from "../ports/log.ts";
import { type AnswerText, outcomeText, type SliceSettings } from "./call.ts";
import { clientProfileOf, type Era } from "./client-profile.ts";
import { eraOf } from "./era.ts";
import { exchangeOf } from "./exchange.ts";
import { createHeartbeat } from "./heartbeat.ts";
import { createHeldCalls } from "./held-calls.ts";
import { echoableId, errorText, type RpcNext, rpcError } from "./json-rpc.ts";
import { createLegacyLeg } from "./legacy-leg.ts";
import { createModernLeg } from "./modern-leg.ts";
import { createOpenCalls } from "./open-calls.ts";
import { ordinaryAnswer } from "./ordinary-call.ts";
import { createResumeIds } from "./resume-id.ts";
import { createServerFactory, type ServerInfo } from "./server.ts";
import { createSessionIds } from "./session-id.ts";
import type { ClientInfo, Tool } from "./tool.ts";
import { createToolTable } from "./tool-table.ts";

export type McpPluginOptions = {
  readonly tools: readonly Tool[];
  readonly instructions: string;
  readonly serverInfo: ServerInfo;
  /** At least 32 random bytes, kept in the data directory: session ids and broken waits outlive a restart by it. */
  readonly sessionKey: Buffer;
  /** The caller that the app's authentication found for this request. */
  readonly callerOf: (request: FastifyRequest) => Caller;
  readonly clock: Clock;
  readonly log: Log;
  /** The operator's `clients.<name>.waitSliceMs`, and what was learned; default: none. */
  readonly slices?: SliceSettings;
  /** The operator's `clients.<name>.era`; default: none. */
  readonly eraOverride?: (client: ClientInfo | null) => Era | null;
  /** Silence on an open stream never lasts longer than this. */
  readonly heartbeatMs?: number;
  /** How soon every client should try again after a broken stream; default: what its profile says. */
  readonly retryMs?: number;
};

export type McpSurface = {
  /** Registers `/mcp`. */
  readonly plugin: FastifyPluginAsync;
  /**
   * Has every open call answered now and resolves when the answers are written; calls that come later see the same end
   * at once. Bounded: resolves also if a tool does not obey.
   */
  shutDown(): Promise<void>;
  openCallCount(): number;
};

/** Under the idle limit of every client and proxy that was measured. */
const HEARTBEAT_MS = 10_000;
const SHUTDOWN_MAX_MS = 3_000;
const NO_SETTINGS: SliceSettings = { overrideMs: () => null, learnedMs: () => null };

export function createMcpPlugin(options: McpPluginOptions): McpSurface {
  const { clock, log, callerOf, sessionKey } = options;
  const heartbeatMs = options.heartbeatMs ?? HEARTBEAT_MS;
  const tools = createToolTable(options.tools);
  const servers = createServerFactory({ tools, serverInfo: options.serverInfo, instructions: options.instructions });
  const openCalls = createOpenCalls();
  const sessionIds = createSessionIds(sessionKey);
  const heartbeat = createHeartbeat(clock, heartbeatMs);
  const slices = options.slices ?? NO_SETTINGS;
  const eraOverride = options.eraOverride ?? (() => null);
  const answerText: AnswerText = (id, outcome, { era }) =>
    era === "legacy" ? outcomeText(id, outcome) : ordinaryAnswer(id, outcome, options.serverInfo);
  const shared = { tools, servers, openCalls, heartbeat, slices, answerText, clock, log };
  const retryMsOf = (client: ClientInfo | null): number => options.retryMs ?? clientProfileOf(client).retryMs;
  const heldCalls = createHeldCalls({ ...shared, resumeIds: createResumeIds(sessionKey), retryMsOf });
  const legacy = createLegacyLeg({ ...shared, sessionIds, heldCalls });
  const modern = createModernLeg({ ...shared, heldCalls, heartbeatMs, eraOverride });

  async function post(request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> {
    const era = eraOf(request);
    const session = era === "legacy" ? sessionIds.read(header(request, "mcp-session-id")) : null;
    const exchange = exchangeOf(request, era, callerOf(request), session);
    if (era === "modern") return modern.post(request, exchange, reply);
    return legacy.post(request.body, header(request, "mcp-protocol-version"), exchange, reply);
  }

  async function get(request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> {
    const lastEventId = header(request, "last-event-id");
    if (lastEventId === undefined) return methodNotAllowed(request, reply);
    const session = sessionIds.read(header(request, "mcp-session-id"));
    return heldCalls.resume(lastEventId, exchangeOf(request, "legacy", callerOf(request), session), reply);
  }

  return {
    plugin: async (app) => {
      app.post("/mcp", post);
      app.get("/mcp", { exposeHeadRoute: false }, get);
      app.route({ method: ["DELETE", "PUT", "PATCH"], url: "/mcp", handler: methodNotAllowed });
      app.addHook("onClose", () => modern.close());
    },
    async shutDown() {
      const { promise: late, resolve } = Promise.withResolvers<void>();
      using _limit = clock.after(SHUTDOWN_MAX_MS, resolve);
      const answered = openCalls.shutDown().then(() => modern.settled());
      await Promise.race([answered, late]);
    },
    openCallCount: () => openCalls.count(),
  };
}

/** No standing stream and no session to delete: clients that were measured take this as "not offered" and go on. */
async function methodNotAllowed(request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> {
  const next: RpcNext = { kind: "fix", change: "Send JSON-RPC messages with POST." };
  const error = rpcError(METHOD_NOT_ALLOWED, "Method not allowed", next);
  return reply
    .code(METHOD_NOT_ALLOWED)
    .header("allow", "POST")
    .type("application/json")
    .send(errorText(echoableId(request.body), error));
}

const METHOD_NOT_ALLOWED = 405;

function header(request: FastifyRequest, name: string): string | undefined {
  const value = request.headers[name];
  return typeof value === "string" ? value : undefined;
}
