/**
 * The ordinary tool call of the modern era, told apart from everything that the SDK's handler has to see.
 *
 * The handler gives every message a request, a response, a server and several schemas of its own, and a held one two
 * streams. This costs as much again as the call itself (`docs/benchmarks.md`), and nothing of it changes the answer.
 *
 * Invariant: a call is ordinary only if the SDK's own classifier accepts it and its handler would do nothing with it but
 * hand it to the tool. Whatever is missing, surplus or odd goes to the handler, which has the exact refusals.
 * Invariant: an answer is the one that the handler would have sent; a test compares both.
 */

import {
  CLIENT_CAPABILITIES_META_KEY,
  CLIENT_INFO_META_KEY,
  classifyInboundRequest,
  PROTOCOL_VERSION_META_KEY,
  SERVER_INFO_META_KEY,
} from "@modelcontextprotocol/server";
import type { CallOutcome } from "./call.ts";
import { type EraRequest, FIRST_MODERN_VERSION } from "./era.ts";
import { errorText, isRecord, isRequest, isRpcId, type RpcId, type RpcRequest, resultText } from "./json-rpc.ts";
import type { ServerInfo } from "./server.ts";

export type OrdinaryCall = {
  readonly request: RpcRequest;
  readonly name: string;
  readonly args: Readonly<Record<string, unknown>>;
};

const METHOD = "tools/call";
const MESSAGE_FIELDS: ReadonlySet<string> = new Set(["jsonrpc", "id", "method", "params"]);
const PARAMETERS: ReadonlySet<string> = new Set(["name", "arguments", "_meta"]);
/** Checked by the classifier, by this file (`progressToken`), or only read by us (`threadId`). */
const META_FIELDS: ReadonlySet<string> = new Set([
  PROTOCOL_VERSION_META_KEY,
  CLIENT_INFO_META_KEY,
  CLIENT_CAPABILITIES_META_KEY,
  "progressToken",
  "threadId",
]);

/** The call in this request, or null if it is anything but ordinary. */
export function ordinaryCallOf({ headers, body }: EraRequest): OrdinaryCall | null {
  if (!isRequest(body) || body.method !== METHOD || !hasOnly(body, MESSAGE_FIELDS)) return null;
  const { params } = body;
  if (params === undefined || !hasOnly(params, PARAMETERS)) return null;
  const { name, arguments: args = {}, _meta: meta } = params;
  if (typeof name !== "string" || !isRecord(args) || !isOrdinaryMeta(meta)) return null;
  if (!namesCall(headers, name)) return null;
  const outcome = classifyInboundRequest({
    httpMethod: "POST",
    body,
    protocolVersionHeader: FIRST_MODERN_VERSION,
    mcpMethodHeader: METHOD,
    mcpNameHeader: name,
  });
  return outcome.kind === "modern" ? { request: body, name, args } : null;
}

/** An answer as a message; it travels with status 200, an error of a tool included. */
export function ordinaryAnswer(id: RpcId, outcome: CallOutcome, serverInfo: ServerInfo): string {
  if (outcome.kind === "error") return errorText(id, outcome.error);
  const stamp = { resultType: "complete", _meta: { [SERVER_INFO_META_KEY]: serverInfo } };
  return resultText(id, { ...outcome.answer, ...stamp });
}

/** The headers that have to repeat the body do so in the plainest form. */
function namesCall(headers: EraRequest["headers"], name: string): boolean {
  return (
    headers["content-type"] === "application/json" &&
    headers["mcp-protocol-version"] === FIRST_MODERN_VERSION &&
    headers["mcp-method"] === METHOD &&
    headers["mcp-name"] === name
  );
}

function isOrdinaryMeta(meta: unknown): boolean {
  if (!isRecord(meta) || !hasOnly(meta, META_FIELDS)) return false;
  return meta["progressToken"] === undefined || isRpcId(meta["progressToken"]);
}

function hasOnly(record: object, names: ReadonlySet<string>): boolean {
  for (const name of Object.keys(record)) if (!names.has(name)) return false;
  return true;
}
