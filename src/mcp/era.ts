/**
 * Which protocol era a request belongs to, and which one a client is offered.
 *
 * The SDK's classifier decides what is unusual (`initialize`, batches, bodies that are no message). It validates whole
 * messages with schemas, so ordinary messages are told apart before it by the two facts that it goes by itself: a
 * protocol version in the request's `_meta`, and a modern version in the header. A test compares both over generated
 * requests.
 *
 * Invariant: a request is classified exactly once, here; nothing after it looks at versions to choose a leg.
 * A request that is malformed goes to the modern leg, whose SDK handler has the exact refusals.
 */

import { classifyInboundRequest, PROTOCOL_VERSION_META_KEY } from "@modelcontextprotocol/server";
import { clientProfileOf, type Era } from "./client-profile.ts";
import { isNotification, isRecord, isRequest, type RpcNotification, type RpcRequest } from "./json-rpc.ts";
import type { ClientInfo } from "./tool.ts";

export type EraRequest = {
  readonly headers: Readonly<Record<string, string | readonly string[] | undefined>>;
  /** The parsed body of a POST. */
  readonly body: unknown;
};

/** Revisions are ISO dates; every date from here on is modern. */
export const FIRST_MODERN_VERSION = "2026-07-28";

export function eraOf(request: EraRequest): Era {
  const { body } = request;
  const version = single(request.headers["mcp-protocol-version"]);
  if (isOrdinary(body)) return claimsVersion(body) || isModern(version) ? "modern" : "legacy";
  const outcome = classifyInboundRequest({
    httpMethod: "POST",
    body,
    ...(version === undefined ? {} : { protocolVersionHeader: version }),
  });
  return outcome.kind === "legacy" ? "legacy" : "modern";
}

/** The era that `server/discover` offers: the operator's `clients.<name>.era`, else the table's. */
export function offeredEra(client: ClientInfo | null, override: Era | null): Era {
  return override ?? clientProfileOf(client).era;
}

function isOrdinary(body: unknown): body is RpcRequest | RpcNotification {
  const ordinary = (isRequest(body) && body.method !== "initialize") || isNotification(body);
  if (!ordinary) return false;
  const meta = body.params?.["_meta"];
  return meta === undefined || isRecord(meta);
}

function claimsVersion(message: RpcRequest | RpcNotification): boolean {
  const meta = message.params?.["_meta"];
  return isRecord(meta) && PROTOCOL_VERSION_META_KEY in meta;
}

function isModern(version: string | undefined): boolean {
  return version !== undefined && version.trim() >= FIRST_MODERN_VERSION;
}

function single(value: string | readonly string[] | undefined): string | undefined {
  return typeof value === "string" ? value : value?.[0];
}
