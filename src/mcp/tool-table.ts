/**
 * The tools by name, and the answer to `tools/list`, put together once.
 *
 * Invariant: the list is the same in every answer (order, text), so clients and prompt caches may keep it.
 */

import type { ListToolsResult } from "@modelcontextprotocol/server";
import { assert } from "../core/assert.ts";
import { INVALID_PARAMS, type RpcError, rpcError } from "./json-rpc.ts";
import type { Tool } from "./tool.ts";

export type ToolTable = {
  get(name: string): Tool | undefined;
  readonly listed: ListToolsResult;
  unknownTool(name: unknown): RpcError;
};

export function createToolTable(tools: readonly Tool[]): ToolTable {
  const byName = new Map(tools.map((tool) => [tool.name, tool]));
  assert(byName.size === tools.length, "tool names are unique");
  const names = [...byName.keys()].join(", ");
  return {
    get: (name) => byName.get(name),
    listed: { tools: tools.map(listedTool) },
    unknownTool(name) {
      const shown = typeof name === "string" ? JSON.stringify(name.slice(0, 100)) : "without a name";
      return rpcError(INVALID_PARAMS, `Unknown tool ${shown}`, { kind: "fix", change: `Name one of: ${names}.` });
    },
  };
}

function listedTool(tool: Tool): ListToolsResult["tools"][number] {
  const { name, title, description, inputSchema, outputSchema, annotations, meta } = tool;
  return {
    name,
    title,
    description,
    inputSchema: { ...inputSchema },
    ...(outputSchema === undefined ? {} : { outputSchema: { ...outputSchema } }),
    annotations: { ...annotations },
    ...(meta === undefined ? {} : { _meta: { ...meta } }),
  };
}
