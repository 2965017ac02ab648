/**
 * Reading a `tools/call` request: its shape, its parts, and the two refusals that need no tool.
 */

import { metaOf } from "./exchange.ts";
import { INVALID_PARAMS, isRecord, isRpcId, type RpcError, type RpcId, type RpcRequest, rpcError } from "./json-rpc.ts";
import type { Tool } from "./tool.ts";
import type { ToolTable } from "./tool-table.ts";

export type CallRead =
  | { readonly kind: "call"; readonly tool: Tool; readonly args: unknown }
  | { readonly kind: "refused"; readonly error: RpcError };

/** Finds the tool that a call names. Its arguments are left to the tool: mistakes in them are answers, not errors. */
export function readCall(request: RpcRequest, tools: ToolTable): CallRead {
  const name = request.params?.["name"];
  const args = request.params?.["arguments"] ?? {};
  if (typeof name !== "string" || !isRecord(args)) return { kind: "refused", error: malformedCall() };
  const tool = tools.get(name);
  return tool === undefined ? { kind: "refused", error: tools.unknownTool(name) } : { kind: "call", tool, args };
}

/** The token under which a client wants progress; null if it wants none. */
export function progressTokenOf(body: unknown): RpcId | null {
  const token = metaOf(body)?.["progressToken"];
  return isRpcId(token) ? token : null;
}

function malformedCall(): RpcError {
  return rpcError(INVALID_PARAMS, "tools/call needs a name, and arguments that are an object", {
    kind: "fix",
    change: "Send params {name: string, arguments: object}.",
  });
}
