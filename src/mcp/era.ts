/**
 * Which protocol era a request belongs to, and which one a client is offered.
 *
 * The SDK's classifier decides. It validates whole messages with schemas, so the one request that has to be cheap, a
 * legacy `tools/call`, is recognised before it by the two facts that the classifier goes by: no protocol version in the
 * request's `_meta`, and no modern version in the header. A test compares both over generated requests.
 *
 * Invariant: a request is classified exactly once, here; nothing after it looks at versions to choose a leg.
 * A request that is malformed goes to the modern leg, whose SDK handler has the exact refusals.
 */

import { classifyInboundRequest, PROTOCOL_VERSION_META_KEY } from "@modelcontextprotocol/server";
import { clientProfileOf, type Era } from "./client-profile.ts";
import { isRecord, isRequest } from "./json-rpc.ts";
import type { ClientInfo } from "./tool.ts";

export type EraRequest = {
  readonly headers: Readonly<Record<string, string | readonly string[] | undefined>>;
  /** The parsed body of a POST. */
  readonly body: unknown;
};

/** Revisions are ISO dates; every date from here on is modern. */
const FIRST_MODERN_VERSION = "2026-07-28";

export function eraOf(request: EraRequest): Era {
  const version = single(request.headers["mcp-protocol-version"]);
  if (isPlainLegacyCall(request.body, version)) return "legacy";
  const method = single(request.headers["mcp-method"]);
  const name = single(request.headers["mcp-name"]);
  const outcome = classifyInboundRequest({
    httpMethod: "POST",
    body: request.body,
    ...(version === undefined ? {} : { protocolVersionHeader: version }),
    ...(method === undefined ? {} : { mcpMethodHeader: method }),
    ...(name === undefined ? {} : { mcpNameHeader: name }),
  });
  return outcome.kind === "legacy" ? "legacy" : "modern";
}

/** The era that `server/discover` offers: the operator's `clients.<name>.era`, else the table's. */
export function offeredEra(client: ClientInfo | null, override: Era | null): Era {
  return override ?? clientProfileOf(client).era;
}

function isPlainLegacyCall(body: unknown, version: string | undefined): boolean {
  if (version !== undefined && version.trim() >= FIRST_MODERN_VERSION) return false;
  if (!isRequest(body) || body.method !== "tools/call") return false;
  const meta = body.params?.["_meta"];
  return meta === undefined || (isRecord(meta) && !(PROTOCOL_VERSION_META_KEY in meta));
}

function single(value: string | readonly string[] | undefined): string | undefined {
  return typeof value === "string" ? value : value?.[0];
}
