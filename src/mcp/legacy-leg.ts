/**
 * The legacy era on `/mcp`: requests of the revisions before 2026-07-28, without a session on the server.
 *
 * `tools/call` is read, checked and answered here, past the SDK: a call that may be held becomes our own event stream, any
 * other plain JSON. The rest goes to a fresh SDK server (see `server`).
 *
 * Invariant: whatever a session id looks like, the request is served (contract §4).
 * Invariant: a held call that is cancelled is still answered on its stream: clients built on SDK 1.x resume a stream that
 * ended without an answer, and would wait again for something that nobody wants.
 * Absent on purpose: requests from the server to the client, and the standing GET stream.
 */

import { SUPPORTED_PROTOCOL_VERSIONS } from "@modelcontextprotocol/server";
import type { FastifyReply } from "fastify";
import type { Clock } from "../ports/clock.ts";
import type { Log } from "../ports/log.ts";
import { type CallOutcome, runCall, type SliceSettings, sliceMaxMsOf } from "./call.ts";
import type { Exchange } from "./exchange.ts";
import type { Heartbeat } from "./heartbeat.ts";
import {
  errorText,
  INVALID_PARAMS,
  INVALID_REQUEST,
  isNotification,
  isRecord,
  isRequest,
  isResponse,
  isRpcId,
  type RpcError,
  type RpcId,
  type RpcNotification,
  type RpcRequest,
  resultText,
  rpcError,
  withNext,
} from "./json-rpc.ts";
import type { OpenCalls } from "./open-calls.ts";
import { createProgress, type Progress } from "./progress.ts";
import type { HeldCall, ResumeIds } from "./resume-id.ts";
import { answerOnce, type ServerFactory } from "./server.ts";
import { clientInfoOf, type SessionIds } from "./session-id.ts";
import { type EventStream, openEventStream } from "./stream.ts";
import type { ClientInfo, Tool } from "./tool.ts";
import type { ToolTable } from "./tool-table.ts";

export type LegacyLegOptions = {
  readonly tools: ToolTable;
  readonly servers: ServerFactory;
  readonly sessionIds: SessionIds;
  readonly resumeIds: ResumeIds;
  readonly openCalls: OpenCalls;
  readonly heartbeat: Heartbeat;
  readonly slices: SliceSettings;
  /** How soon this client should try again after a broken stream. */
  readonly retryMsOf: (client: ClientInfo | null) => number;
  readonly clock: Clock;
  readonly log: Log;
};

export type LegacyLeg = {
  /** Answers a POST. `version` is the header `MCP-Protocol-Version`. */
  post(body: unknown, version: string | undefined, exchange: Exchange, reply: FastifyReply): Promise<FastifyReply>;
  /** Answers a GET with `Last-Event-ID`. */
  resume(lastEventId: string, exchange: Exchange, reply: FastifyReply): Promise<FastifyReply>;
};

/** A held call that is about to run, for the first time or again. */
type RunningHold = HeldCall & { readonly remainingMs: number; readonly resumed: boolean };

const BATCH_MAX = 100;

export function createLegacyLeg(options: LegacyLegOptions): LegacyLeg {
  const { tools, servers, sessionIds, resumeIds, openCalls, heartbeat, slices, retryMsOf, clock, log } = options;

  return {
    async post(body, version, exchange, reply) {
      if (version !== undefined && !SUPPORTED_PROTOCOL_VERSIONS.includes(version) && !isInitialize(body)) {
        return sendError(reply, 400, unsupportedVersion(version));
      }
      if (Array.isArray(body)) return batch(body, exchange, reply);
      if (isRequest(body)) {
        const held = heldToolOf(body);
        if (held !== null && exchange.acceptsStream)
          return stream(heldCallOf(body, held, exchange), held, exchange, reply);
        if (body.method === "initialize") reply.header("mcp-session-id", mintSessionId(body));
        return sendJson(reply, 200, await answer(body, exchange, reply));
      }
      if (isNotification(body)) note(body, exchange);
      else if (!isResponse(body)) return sendError(reply, 400, notAMessage());
      return reply.code(202).send();
    },

    async resume(lastEventId, exchange, reply) {
      const nowMs = clock.wallMs();
      const held = resumeIds.read(lastEventId, exchange.caller.name, nowMs);
      const tool = held === null ? undefined : tools.get(held.tool);
      if (held !== null && tool !== undefined) {
        return stream(
          { ...held, resumed: true, remainingMs: Math.max(0, held.deadlineMs - nowMs) },
          tool,
          exchange,
          reply,
        );
      }
      reply.hijack();
      openEventStream(reply.raw, null).end();
      return reply;
    },
  };

  /** The tool of a call that may be held; null for every other request. */
  function heldToolOf(request: RpcRequest): Tool | null {
    if (request.method !== "tools/call" || !hasCallShape(request)) return null;
    const tool = tools.get(String(request.params?.["name"]));
    return tool?.mayHold(argsOf(request)) === true ? tool : null;
  }

  function heldCallOf(request: RpcRequest, tool: Tool, exchange: Exchange): RunningHold {
    const progressToken = progressTokenOf(request);
    const args = argsOf(request);
    const startMs = clock.wallMs();
    const remainingMs = sliceMaxMsOf(args, exchange, slices, { streaming: true, progressToken });
    return {
      caller: exchange.caller.name,
      requestId: request.id,
      tool: tool.name,
      args,
      startMs,
      deadlineMs: startMs + remainingMs,
      progressToken,
      remainingMs,
      resumed: false,
    };
  }

  /** Holds a call on an event stream of its own until the tool answers. */
  async function stream(held: RunningHold, tool: Tool, exchange: Exchange, reply: FastifyReply): Promise<FastifyReply> {
    const { args, resumed, remainingMs: sliceMaxMs } = held;
    const id = resumeIds.mint(held);
    reply.hijack();
    const events = openEventStream(reply.raw, id === null ? null : { id, retryMs: retryMsOf(exchange.client) });
    const open = openCalls.open(exchange.owner, held.requestId);
    reply.raw.once("close", () => open.end("closed"));
    const progress = progressOn(events, held);
    using _beat = heartbeat.add(() => (progress === null ? events.comment() : progress.repeat()));
    const call = { tool, args, exchange, open, progress, streaming: true, sliceMaxMs, resumed };
    events.end(outcomeText(held.requestId, await runCall(call, log)));
    return reply;
  }

  function progressOn(events: EventStream, held: HeldCall): Progress | null {
    if (held.progressToken === null) return null;
    return createProgress({
      token: held.progressToken,
      startMs: held.startMs,
      wallMs: clock.wallMs,
      write: (notification) => events.message(JSON.stringify(notification)),
    });
  }

  /** Answers one request as JSON text, whatever goes wrong. */
  async function answer(request: RpcRequest, exchange: Exchange, reply: FastifyReply): Promise<string> {
    if (request.method !== "tools/call") return answerBySdk(request);
    if (!hasCallShape(request)) return errorText(request.id, malformedCall());
    const name = request.params?.["name"];
    const tool = tools.get(String(name));
    if (tool === undefined) return errorText(request.id, tools.unknownTool(name));
    const args = argsOf(request);
    const open = openCalls.open(exchange.owner, request.id);
    reply.raw.once("close", () => open.end("closed"));
    const wire = { streaming: false, progressToken: null };
    const sliceMaxMs = tool.mayHold(args) ? sliceMaxMsOf(args, exchange, slices, wire) : 0;
    const call = { tool, args, exchange, open, progress: null, streaming: false, sliceMaxMs, resumed: false };
    return outcomeText(request.id, await runCall(call, log));
  }

  async function answerBySdk(request: RpcRequest): Promise<string> {
    const message = await answerOnce(servers.plain(), { ...request, params: { ...request.params } });
    if ("error" in message) return errorText(request.id, withNext(message.error));
    return JSON.stringify(message);
  }

  /** Revision 2025-03-26 allows several messages in one body; calls in it are answered without being held as streams. */
  async function batch(messages: readonly unknown[], exchange: Exchange, reply: FastifyReply): Promise<FastifyReply> {
    const usable = messages.length > 0 && messages.length <= BATCH_MAX && messages.every(isBatchable);
    if (!usable) return sendError(reply, 400, badBatch());
    const answers = messages.map((message) => {
      if (isRequest(message)) return answer(message, exchange, reply);
      if (isNotification(message)) note(message, exchange);
      return null;
    });
    const texts = await Promise.all(answers.filter((text) => text !== null));
    return texts.length === 0 ? reply.code(202).send() : sendJson(reply, 200, `[${texts.join(",")}]`);
  }

  /** A cancel notice ends the wait that it names, if that is still open; all other notifications change nothing here. */
  function note(notification: RpcNotification, exchange: Exchange): void {
    if (notification.method !== "notifications/cancelled") return;
    const requestId = notification.params?.["requestId"];
    if (isRpcId(requestId)) openCalls.cancel(exchange.owner, requestId);
  }

  function mintSessionId(request: RpcRequest): string {
    return sessionIds.mint(clientInfoOf(request.params?.["clientInfo"]));
  }
}

function outcomeText(id: RpcId, outcome: CallOutcome): string {
  return outcome.kind === "answer" ? resultText(id, outcome.answer) : errorText(id, outcome.error);
}

function sendJson(reply: FastifyReply, status: number, text: string): FastifyReply {
  return reply.code(status).type("application/json").send(text);
}

function sendError(reply: FastifyReply, status: number, error: RpcError): FastifyReply {
  return sendJson(reply, status, errorText(null, error));
}

function isInitialize(body: unknown): boolean {
  return isRequest(body) && body.method === "initialize";
}

function isBatchable(message: unknown): boolean {
  return (isRequest(message) && message.method !== "initialize") || isNotification(message) || isResponse(message);
}

function hasCallShape(request: RpcRequest): boolean {
  const args = request.params?.["arguments"];
  return typeof request.params?.["name"] === "string" && (args === undefined || isRecord(args));
}

function argsOf(request: RpcRequest): unknown {
  return request.params?.["arguments"] ?? {};
}

function progressTokenOf(request: RpcRequest): RpcId | null {
  const meta = request.params?.["_meta"];
  const token = isRecord(meta) ? meta["progressToken"] : null;
  return isRpcId(token) ? token : null;
}

function unsupportedVersion(version: string): RpcError {
  const supported = SUPPORTED_PROTOCOL_VERSIONS.join(", ");
  const change = `Send MCP-Protocol-Version with one of: ${supported}; or leave it out.`;
  return rpcError(INVALID_REQUEST, `Unsupported protocol version: ${version.slice(0, 40)}`, { kind: "fix", change });
}

function notAMessage(): RpcError {
  return rpcError(INVALID_REQUEST, "The body is no JSON-RPC message", {
    kind: "fix",
    change: "Send one well-formed JSON-RPC 2.0 message as the body.",
  });
}

function malformedCall(): RpcError {
  return rpcError(INVALID_PARAMS, "tools/call needs a name, and arguments that are an object", {
    kind: "fix",
    change: "Send params {name: string, arguments: object}.",
  });
}

function badBatch(): RpcError {
  return rpcError(INVALID_REQUEST, `A batch holds 1 to ${BATCH_MAX} messages, none of them initialize`, {
    kind: "fix",
    change: "Send the messages one by one.",
  });
}
