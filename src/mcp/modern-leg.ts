/**
 * The modern era on `/mcp` (2026-07-28 and later): an ordinary call goes straight to its tool (see `ordinary-call`), every
 * other request through the SDK's handler, with two things of ours around it: the first byte of a held call leaves at
 * once, and every error says what to do next.
 *
 * Invariant: a socket that closes ends the call's wait (the era has no other cancel), and nothing else.
 * Absent on purpose: resuming; this era has no event ids. What a client lost it asks for again with the same key.
 */

import {
  type CallToolResult,
  createMcpHandler,
  type McpRequestContext,
  ProtocolError,
  type ServerContext,
} from "@modelcontextprotocol/server";
import type { FastifyReply, FastifyRequest } from "fastify";
import type { Clock } from "../ports/clock.ts";
import type { Log } from "../ports/log.ts";
import { type AnswerText, type CallOutcome, runCall, type SliceSettings, sliceMaxMsOf } from "./call.ts";
import { progressTokenOf, readCall } from "./call-request.ts";
import type { Era } from "./client-profile.ts";
import { offeredEra } from "./era.ts";
import type { Exchange } from "./exchange.ts";
import type { Heartbeat } from "./heartbeat.ts";
import type { HeldCalls } from "./held-calls.ts";
import { errorText, isRequest, METHOD_NOT_FOUND, type RpcError, type RpcId, rpcError } from "./json-rpc.ts";
import type { OpenCalls } from "./open-calls.ts";
import { type OrdinaryCall, ordinaryCallOf } from "./ordinary-call.ts";
import { createProgress, type Progress } from "./progress.ts";
import type { ServerFactory } from "./server.ts";
import type { ClientInfo, Tool, ToolAnswer } from "./tool.ts";
import type { ToolTable } from "./tool-table.ts";
import { webRequestOf, writeWebResponse } from "./web-response.ts";

export type ModernLegOptions = {
  readonly tools: ToolTable;
  readonly servers: ServerFactory;
  readonly heldCalls: HeldCalls;
  readonly answerText: AnswerText;
  readonly openCalls: OpenCalls;
  readonly heartbeat: Heartbeat;
  readonly heartbeatMs: number;
  readonly slices: SliceSettings;
  readonly eraOverride: (client: ClientInfo | null) => Era | null;
  readonly clock: Clock;
  readonly log: Log;
};

export type ModernLeg = {
  post(request: FastifyRequest, exchange: Exchange, reply: FastifyReply): Promise<FastifyReply>;
  /** Resolves when every answer that is under way has been written. */
  settled(): Promise<void>;
  /** Ends, without an answer, whatever is still in flight; requests after this fail. */
  close(): Promise<void>;
};

/** What travels beside a request through the SDK. */
type Companion = {
  readonly exchange: Exchange;
  readonly reply: FastifyReply;
  readonly held: boolean;
  readonly progressToken: RpcId | null;
};

type AskedTool = {
  readonly tool: Tool;
  readonly args: unknown;
  readonly id: RpcId;
  readonly progress: Progress | null;
};

export function createModernLeg(options: ModernLegOptions): ModernLeg {
  const { tools, servers, heldCalls, answerText } = options;
  const companions = new WeakMap<Request, Companion>();
  const underWay = new Set<Promise<FastifyReply>>();
  const callTool = createSdkCall(options);
  const serverFor = ({ requestInfo }: McpRequestContext) => {
    const companion = requestInfo === undefined ? undefined : companions.get(requestInfo);
    if (companion === undefined) return servers.plain();
    return servers.calling((name, args, server) => callTool(name, args, server, companion));
  };
  const common = { legacy: "reject", keepAliveMs: options.heartbeatMs } as const;
  const plain = createMcpHandler(serverFor, common);
  // Only this mode opens the stream before the tool has said anything.
  const streaming = createMcpHandler(serverFor, { ...common, responseMode: "sse" });

  function isHeld(body: unknown): boolean {
    if (!isRequest(body) || body.method !== "tools/call") return false;
    const read = readCall(body, tools);
    return read.kind === "call" && read.tool.mayHold(read.args);
  }

  async function answerOrdinary(
    { request, tool, args }: OrdinaryCall & { readonly tool: Tool },
    exchange: Exchange,
    reply: FastifyReply,
  ): Promise<FastifyReply> {
    if (exchange.acceptsStream && tool.mayHold(args)) return heldCalls.hold(request, { tool, args }, exchange, reply);
    const { id } = request;
    const companion = { exchange, reply, held: false, progressToken: null };
    const outcome = await runTool({ tool, args, id, progress: null }, companion, options);
    return reply.type("application/json").send(answerText(id, outcome, exchange));
  }

  async function serve(request: FastifyRequest, exchange: Exchange, reply: FastifyReply): Promise<FastifyReply> {
    const { body } = request;
    if (isRequest(body) && body.method === "server/discover") {
      if (offeredEra(exchange.client, options.eraOverride(exchange.client)) === "legacy")
        return refuseEra(body.id, reply);
    }
    const ordinary = ordinaryCallOf(request);
    const tool = ordinary === null ? undefined : tools.get(ordinary.name);
    if (ordinary !== null && tool !== undefined) return answerOrdinary({ ...ordinary, tool }, exchange, reply);
    const held = exchange.acceptsStream && isHeld(body);
    const gone = new AbortController();
    // A socket also closes after an answered request; aborting then would only cost time.
    reply.raw.once("close", () => reply.raw.writableFinished || gone.abort());
    const asked = webRequestOf(request, gone.signal);
    companions.set(asked, { exchange, reply, held, progressToken: held ? progressTokenOf(body) : null });
    const response = await (held ? streaming : plain).fetch(asked, { parsedBody: body });
    return gone.signal.aborted ? reply.hijack() : writeWebResponse(response, body, reply);
  }

  return {
    post(request, exchange, reply) {
      const served = serve(request, exchange, reply);
      underWay.add(served);
      const done = (): void => void underWay.delete(served);
      served.then(done, done);
      return served;
    },
    async settled() {
      await Promise.allSettled(underWay);
    },
    async close() {
      await Promise.all([plain.close(), streaming.close()]);
    },
  };
}

type SdkCall = (name: string, args: unknown, server: ServerContext, companion: Companion) => Promise<CallToolResult>;

/** Runs a tool inside the SDK's handler. */
function createSdkCall(options: ModernLegOptions): SdkCall {
  const { tools, heartbeat, clock, log } = options;

  function progressOn(server: ServerContext, token: RpcId | null): Progress | null {
    if (token === null) return null;
    return createProgress({
      token,
      startMs: clock.wallMs(),
      wallMs: clock.wallMs,
      write({ method, params }) {
        server.mcpReq.notify({ method, params }).catch(() => log.debug("progress_not_sent"));
      },
    });
  }

  return async (name, args, server, companion) => {
    const tool = tools.get(name);
    if (tool === undefined) throw protocolError(tools.unknownTool(name));
    const progress = progressOn(server, companion.progressToken);
    // The SDK keeps the stream alive with comments; some clients take only progress for a sign of life.
    using _beat = progress === null ? null : heartbeat.add(() => progress.repeat());
    const outcome = await runTool({ tool, args, id: server.mcpReq.id, progress }, companion, options);
    if (outcome.kind === "error") throw protocolError(outcome.error);
    return resultOf(outcome.answer);
  };
}

/** Runs a tool for as long as its socket is open. */
function runTool(asked: AskedTool, companion: Companion, options: ModernLegOptions): Promise<CallOutcome> {
  const { tool, args, id, progress } = asked;
  const { exchange, reply, held, progressToken } = companion;
  const open = options.openCalls.open(exchange.owner, id);
  reply.raw.once("close", () => open.end("closed"));
  const wire = { streaming: held, progressToken };
  const sliceMaxMs = tool.mayHold(args) ? sliceMaxMsOf(args, exchange, options.slices, wire) : 0;
  return runCall({ tool, args, exchange, open, progress, streaming: held, sliceMaxMs, resumed: false }, options.log);
}

/** The client is known to speak the legacy era better: it takes this answer as "not modern" and initialises at once. */
function refuseEra(id: RpcId, reply: FastifyReply): FastifyReply {
  const error = rpcError(METHOD_NOT_FOUND, "Method not found", { kind: "fix", change: "Open with initialize." });
  return reply.code(200).type("application/json").send(errorText(id, error));
}

function protocolError({ code, message, data }: RpcError): ProtocolError {
  return new ProtocolError(code, message, data);
}

function resultOf(answer: ToolAnswer): CallToolResult {
  const content = answer.content.map(({ type, text }) => ({ type, text }));
  const isError = answer.isError === undefined ? {} : { isError: answer.isError };
  return { content, structuredContent: { ...answer.structuredContent }, ...isError };
}
