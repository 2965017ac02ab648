/**
 * The modern era on `/mcp` (2026-07-28 and later): an ordinary call that is answered at once goes straight to its tool (see
 * `ordinary-call`), every other request through the SDK's handler, with two things of ours around it: the first byte of a
 * held call leaves at once, and every error says what to do next.
 *
 * Invariant: a socket that closes ends the call's wait (the era has no other cancel), and nothing else.
 * Absent on purpose: resuming; this era has no event ids. What a client lost it asks for again with the same key.
 */

import {
  type CallToolResult,
  createMcpHandler,
  type McpHttpHandler,
  type McpRequestContext,
  ProtocolError,
  type ServerContext,
} from "@modelcontextprotocol/server";
import type { FastifyReply, FastifyRequest } from "fastify";
import type { Clock } from "../ports/clock.ts";
import type { Log } from "../ports/log.ts";
import { type CallOutcome, runCall, type SliceSettings, sliceMaxMsOf } from "./call.ts";
import type { Era } from "./client-profile.ts";
import { offeredEra } from "./era.ts";
import { type Exchange, metaOf } from "./exchange.ts";
import type { Heartbeat } from "./heartbeat.ts";
import {
  echoableId,
  errorText,
  isRecord,
  isRequest,
  isRpcId,
  METHOD_NOT_FOUND,
  type RpcId,
  rpcError,
  withNext,
} from "./json-rpc.ts";
import type { OpenCalls } from "./open-calls.ts";
import { ordinaryAnswer, ordinaryCallOf } from "./ordinary-call.ts";
import { createProgress, type Progress } from "./progress.ts";
import type { ServerFactory, ServerInfo } from "./server.ts";
import { COMMENT } from "./stream.ts";
import type { ClientInfo, Tool, ToolAnswer } from "./tool.ts";
import type { ToolTable } from "./tool-table.ts";

export type ModernLegOptions = {
  readonly tools: ToolTable;
  readonly servers: ServerFactory;
  readonly serverInfo: ServerInfo;
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
  readonly body: unknown;
  readonly held: boolean;
};

type AskedTool = {
  readonly tool: Tool;
  readonly args: unknown;
  readonly id: RpcId;
  readonly progress: Progress | null;
  readonly progressToken: RpcId | null;
};

export function createModernLeg(options: ModernLegOptions): ModernLeg {
  const { tools, servers, serverInfo, openCalls, heartbeat, slices, clock, log } = options;
  const companions = new WeakMap<Request, Companion>();
  const underWay = new Set<Promise<FastifyReply>>();
  const common = { legacy: "reject", keepAliveMs: options.heartbeatMs } as const;
  const plain = createMcpHandler(serverFor, common);
  // Only this mode opens the stream before the tool has said anything.
  const streaming = createMcpHandler(serverFor, { ...common, responseMode: "sse" });

  function serverFor(context: McpRequestContext) {
    const companion = context.requestInfo === undefined ? undefined : companions.get(context.requestInfo);
    if (companion === undefined) return servers.plain();
    return servers.calling((name, args, server) => callTool(name, args, server, companion));
  }

  async function callTool(
    name: string,
    args: unknown,
    server: ServerContext,
    companion: Companion,
  ): Promise<CallToolResult> {
    const tool = tools.get(name);
    if (tool === undefined) {
      const { code, message, data } = tools.unknownTool(name);
      throw new ProtocolError(code, message, data);
    }
    const progressToken = companion.held ? progressTokenOf(companion.body) : null;
    const progress = progressOn(server, progressToken);
    // The SDK keeps the stream alive with comments; some clients take only progress for a sign of life.
    using _beat = progress === null ? null : heartbeat.add(() => progress.repeat());
    const outcome = await run({ tool, args, id: server.mcpReq.id, progress, progressToken }, companion);
    if (outcome.kind === "answer") return resultOf(outcome.answer);
    throw new ProtocolError(outcome.error.code, outcome.error.message, outcome.error.data);
  }

  /** Runs a tool for as long as its socket is open. */
  function run(asked: AskedTool, { exchange, reply, held }: Omit<Companion, "body">): Promise<CallOutcome> {
    const { tool, args, id, progress, progressToken } = asked;
    const open = openCalls.open(exchange.owner, id);
    reply.raw.once("close", () => open.end("closed"));
    const wire = { streaming: held, progressToken };
    const sliceMaxMs = tool.mayHold(args) ? sliceMaxMsOf(args, exchange, slices, wire) : 0;
    return runCall({ tool, args, exchange, open, progress, streaming: held, sliceMaxMs, resumed: false }, log);
  }

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

  function isHeld(body: unknown): boolean {
    if (!isRequest(body) || body.method !== "tools/call") return false;
    const tool = tools.get(String(body.params?.["name"]));
    return tool?.mayHold(body.params?.["arguments"] ?? {}) === true;
  }

  async function serve(request: FastifyRequest, exchange: Exchange, reply: FastifyReply): Promise<FastifyReply> {
    const { body } = request;
    if (isRequest(body) && body.method === "server/discover") {
      if (offeredEra(exchange.client, options.eraOverride(exchange.client)) === "legacy")
        return refuseEra(body.id, reply);
    }
    const held = exchange.acceptsStream && isHeld(body);
    const ordinary = held ? null : ordinaryCallOf(request);
    const tool = ordinary === null ? undefined : tools.get(ordinary.name);
    if (ordinary !== null && tool !== undefined) {
      const { id, args } = ordinary;
      const outcome = await run({ tool, args, id, progress: null, progressToken: null }, { exchange, reply, held });
      return reply.type("application/json").send(ordinaryAnswer(id, outcome, serverInfo));
    }
    const gone = new AbortController();
    // A socket also closes after an answered request; aborting then would only cost time.
    reply.raw.once("close", () => reply.raw.writableFinished || gone.abort());
    const asked = webRequestOf(request, gone.signal);
    companions.set(asked, { exchange, reply, body, held });
    const handler: McpHttpHandler = held ? streaming : plain;
    const response = await handler.fetch(asked, { parsedBody: body });
    if (gone.signal.aborted) return reply.hijack();
    const isStream = response.headers.get("content-type")?.startsWith("text/event-stream") === true;
    return isStream ? pump(response, reply) : sendWhole(response, body, reply);
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

/** Only the headers that the SDK reads; the body goes in already parsed. */
function webRequestOf(request: FastifyRequest, signal: AbortSignal): Request {
  const headers = new Headers();
  for (const name of ["content-type", "accept", "mcp-protocol-version", "mcp-method", "mcp-name"]) {
    const value = request.headers[name];
    if (typeof value === "string") headers.set(name, value);
  }
  return new Request("http://localhost/mcp", { method: "POST", headers, signal });
}

/** The client is known to speak the legacy era better: it takes this answer as "not modern" and initialises at once. */
function refuseEra(id: RpcId, reply: FastifyReply): FastifyReply {
  const next = { kind: "fix", change: "Open with initialize." } as const;
  const error = rpcError(METHOD_NOT_FOUND, "Method not found", next);
  return reply.code(200).type("application/json").send(errorText(id, error));
}

/** Passes an event stream on; the first bytes leave now, whenever its first event comes. */
async function pump(response: Response, reply: FastifyReply): Promise<FastifyReply> {
  reply.hijack();
  const { raw } = reply;
  raw.writeHead(response.status, Object.fromEntries(response.headers));
  raw.write(COMMENT);
  const reader = response.body?.getReader();
  raw.once("close", () => void reader?.cancel().catch(() => undefined));
  for (let chunk = await reader?.read(); chunk?.done === false; chunk = await reader?.read()) {
    if (!raw.destroyed && !raw.write(chunk.value)) await drained(raw);
  }
  if (!raw.destroyed) raw.end();
  return reply;
}

async function drained(raw: FastifyReply["raw"]): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  raw.once("drain", resolve);
  raw.once("close", resolve);
  await promise;
  raw.off("drain", resolve);
  raw.off("close", resolve);
}

async function sendWhole(response: Response, body: unknown, reply: FastifyReply): Promise<FastifyReply> {
  reply.code(response.status);
  const allow = response.headers.get("allow");
  if (allow !== null) reply.header("allow", allow);
  const text = await response.text();
  if (text === "") return reply.send();
  return reply.type("application/json").send(response.ok && !text.includes('"error"') ? text : explained(text, body));
}

/** An error of the SDK, with what to do next; everything else unchanged. */
function explained(text: string, body: unknown): string {
  const message: unknown = JSON.parse(text);
  if (!isRecord(message) || !isRecord(message["error"])) return text;
  const id = message["id"];
  return errorText(isRpcId(id) ? id : echoableId(body), withNext(message["error"]));
}

function progressTokenOf(body: unknown): RpcId | null {
  const token = metaOf(body)?.["progressToken"];
  return isRpcId(token) ? token : null;
}

function resultOf(answer: ToolAnswer): CallToolResult {
  const content = answer.content.map(({ type, text }) => ({ type, text }));
  const isError = answer.isError === undefined ? {} : { isError: answer.isError };
  return { content, structuredContent: { ...answer.structuredContent }, ...isError };
}
