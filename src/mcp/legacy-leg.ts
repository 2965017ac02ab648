/**
 * The legacy era on `/mcp`: requests of the revisions before 2026-07-28, without a session on the server.
 *
 * `tools/call` is read, checked and answered past the SDK: a call that may be held becomes an event stream of ours (see
 * `held-calls`), any other plain JSON. The rest goes to a fresh SDK server (see `server`).
 *
 * Invariant: whatever a session id looks like, the request is served (contract §4).
 * Absent on purpose: requests from the server to the client, and the standing GET stream.
 */

import { isJSONRPCRequest, SUPPORTED_PROTOCOL_VERSIONS } from "@modelcontextprotocol/server";
import type { FastifyReply } from "fastify";
import type { Log } from "../ports/log.ts";
import { outcomeText, runCall, type SliceSettings, sliceMaxMsOf } from "./call.ts";
import { readCall } from "./call-request.ts";
import type { Exchange } from "./exchange.ts";
import type { HeldCalls } from "./held-calls.ts";
import {
  errorText,
  INVALID_PARAMS,
  INVALID_REQUEST,
  isNotification,
  isRequest,
  isResponse,
  isRpcId,
  type RpcError,
  type RpcNotification,
  type RpcRequest,
  rpcError,
  withNext,
} from "./json-rpc.ts";
import type { OpenCalls } from "./open-calls.ts";
import { answerOnce, type ServerFactory } from "./server.ts";
import { clientInfoOf, type SessionIds } from "./session-id.ts";
import type { ToolTable } from "./tool-table.ts";

export type LegacyLegOptions = {
  readonly tools: ToolTable;
  readonly servers: ServerFactory;
  readonly sessionIds: SessionIds;
  readonly heldCalls: HeldCalls;
  readonly openCalls: OpenCalls;
  readonly slices: SliceSettings;
  readonly log: Log;
};

export type LegacyLeg = {
  /** Answers a POST. `version` is the header `MCP-Protocol-Version`. */
  post(body: unknown, version: string | undefined, exchange: Exchange, reply: FastifyReply): Promise<FastifyReply>;
};

const BATCH_MAX = 100;

export function createLegacyLeg(options: LegacyLegOptions): LegacyLeg {
  const { tools, servers, sessionIds, heldCalls, openCalls, slices, log } = options;

  async function one(request: RpcRequest, exchange: Exchange, reply: FastifyReply): Promise<FastifyReply> {
    if (request.method === "initialize") {
      reply.header("mcp-session-id", sessionIds.mint(clientInfoOf(request.params?.["clientInfo"])));
    }
    if (request.method === "tools/call" && exchange.acceptsStream) {
      const read = readCall(request, tools);
      if (read.kind === "call" && read.tool.mayHold(read.args)) {
        return heldCalls.hold(request, read, exchange, reply);
      }
    }
    return sendJson(reply, 200, await answer(request, exchange, reply));
  }

  /** Answers one request as JSON text, whatever goes wrong. */
  async function answer(request: RpcRequest, exchange: Exchange, reply: FastifyReply): Promise<string> {
    if (request.method !== "tools/call") return answerBySdk(request, servers);
    const read = readCall(request, tools);
    if (read.kind === "refused") return errorText(request.id, read.error);
    const { tool, args } = read;
    const open = openCalls.open(exchange.owner, request.id);
    reply.raw.once("close", () => open.end("closed"));
    const wire = { streaming: false, progressToken: null };
    const sliceMaxMs = tool.mayHold(args) ? sliceMaxMsOf(args, exchange, slices, wire) : 0;
    const call = { tool, args, exchange, open, progress: null, streaming: false, sliceMaxMs, resumed: false };
    return outcomeText(request.id, await runCall(call, log));
  }

  /** Revision 2025-03-26 allows several messages in one body; calls in it are answered without streams. */
  async function batch(messages: readonly unknown[], exchange: Exchange, reply: FastifyReply): Promise<FastifyReply> {
    const usable = messages.length > 0 && messages.length <= BATCH_MAX && messages.every(isBatchable);
    if (!usable) return sendError(reply, badBatch());
    const answers = messages.map((message) => {
      if (isRequest(message)) return answer(message, exchange, reply);
      if (isNotification(message)) note(message, exchange);
      return null;
    });
    const texts = await Promise.all(answers.filter((text) => text !== null));
    return texts.length === 0 ? reply.code(202).send() : sendJson(reply, 200, `[${texts.join(",")}]`);
  }

  /** A cancel notice ends the wait that it names, if that is still open; other notifications change nothing here. */
  function note(notification: RpcNotification, exchange: Exchange): void {
    if (notification.method !== "notifications/cancelled") return;
    const requestId = notification.params?.["requestId"];
    if (isRpcId(requestId)) openCalls.cancel(exchange.owner, requestId);
  }

  return {
    async post(body, version, exchange, reply) {
      if (version !== undefined && !SUPPORTED_PROTOCOL_VERSIONS.includes(version) && !isInitialize(body)) {
        return sendError(reply, unsupportedVersion(version));
      }
      if (Array.isArray(body)) return batch(body, exchange, reply);
      if (isRequest(body)) return one(body, exchange, reply);
      if (isNotification(body)) note(body, exchange);
      else if (!isResponse(body)) return sendError(reply, notAMessage());
      return reply.code(202).send();
    },
  };
}

async function answerBySdk(request: RpcRequest, servers: ServerFactory): Promise<string> {
  const asked = { ...request, params: { ...request.params } };
  // What the SDK does not take for a request it never answers.
  if (!isJSONRPCRequest(asked)) return errorText(request.id, malformedParams());
  const message = await answerOnce(servers.plain(), asked);
  return "error" in message ? errorText(request.id, withNext(message.error)) : JSON.stringify(message);
}

function sendJson(reply: FastifyReply, status: number, text: string): FastifyReply {
  return reply.code(status).type("application/json").send(text);
}

function sendError(reply: FastifyReply, error: RpcError): FastifyReply {
  return sendJson(reply, 400, errorText(null, error));
}

function isInitialize(body: unknown): boolean {
  return isRequest(body) && body.method === "initialize";
}

function isBatchable(message: unknown): boolean {
  return (isRequest(message) && message.method !== "initialize") || isNotification(message) || isResponse(message);
}

function unsupportedVersion(version: string): RpcError {
  const supported = SUPPORTED_PROTOCOL_VERSIONS.join(", ");
  const change = `Send MCP-Protocol-Version with one of: ${supported}; or leave it out.`;
  return rpcError(INVALID_REQUEST, `Unsupported protocol version: ${version.slice(0, 40)}`, { kind: "fix", change });
}

function malformedParams(): RpcError {
  return rpcError(INVALID_PARAMS, "The parameters of this request do not have the shape that MCP gives them", {
    kind: "fix",
    change: "Correct params._meta: a progressToken is a string or a whole number.",
  });
}

function notAMessage(): RpcError {
  return rpcError(INVALID_REQUEST, "The body is no JSON-RPC message", {
    kind: "fix",
    change: "Send one well-formed JSON-RPC 2.0 message as the body.",
  });
}

function badBatch(): RpcError {
  return rpcError(INVALID_REQUEST, `A batch holds 1 to ${BATCH_MAX} messages, none of them initialize`, {
    kind: "fix",
    change: "Send the messages one by one.",
  });
}
