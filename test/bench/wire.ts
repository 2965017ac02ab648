/**
 * Tool calls as bytes, in both eras of the protocol, by no client library: what a client spends is not measured.
 */

import { z } from "zod";

export type Era = "legacy" | "modern";

export const ERAS: readonly Era[] = ["legacy", "modern"];

export type Call = { readonly headers: Readonly<Record<string, string>>; readonly body: string };

export type Wire = { call(tool: string, args: Readonly<Record<string, unknown>>): Call };

const LEGACY_VERSION = "2025-11-25";
const MODERN_VERSION = "2026-07-28";
const CLIENT = { name: "bench", version: "1.0.0" };
/** As of a client that waits for five minutes. */
const CLIENT_WAITS_MS = "300000";

const answerSchema = z.object({ result: z.object({ structuredContent: z.record(z.string(), z.unknown()) }) });

/** Opens a conversation where the era has one. */
export async function openWire(
  server: { readonly mcpUrl: URL; readonly token: string | null },
  era: Era,
): Promise<Wire> {
  const common = {
    "content-type": "application/json",
    accept: "application/json, text/event-stream",
    "x-request-timeout-ms": CLIENT_WAITS_MS,
    ...(server.token === null ? {} : { authorization: `Bearer ${server.token}` }),
  };
  let id = 0;
  if (era === "modern") {
    const _meta = {
      "io.modelcontextprotocol/protocolVersion": MODERN_VERSION,
      "io.modelcontextprotocol/clientInfo": CLIENT,
      "io.modelcontextprotocol/clientCapabilities": {},
    };
    const modern = { ...common, "mcp-protocol-version": MODERN_VERSION, "mcp-method": "tools/call" };
    return {
      call: (name, args) => ({
        headers: { ...modern, "mcp-name": name },
        body: bodyOf((id += 1), "tools/call", { name, arguments: args, _meta }),
      }),
    };
  }
  const session = await initialize(server.mcpUrl, common);
  const legacy = {
    ...common,
    "mcp-protocol-version": LEGACY_VERSION,
    ...(session === null ? {} : { "mcp-session-id": session }),
  };
  return {
    call: (name, args) => ({ headers: legacy, body: bodyOf((id += 1), "tools/call", { name, arguments: args }) }),
  };
}

/** What a tool answered, out of a JSON body or an event stream. */
export function structuredContentOf(text: string): Readonly<Record<string, unknown>> {
  const json = text.startsWith("{") ? text : (text.split("\n").findLast((line) => line.startsWith("data: {")) ?? "");
  return answerSchema.parse(JSON.parse(json.replace(/^data: /, ""))).result.structuredContent;
}

async function initialize(url: URL, headers: Readonly<Record<string, string>>): Promise<string | null> {
  const params = { protocolVersion: LEGACY_VERSION, capabilities: {}, clientInfo: CLIENT };
  const response = await fetch(url, { method: "POST", headers, body: bodyOf(0, "initialize", params) });
  await response.text();
  if (!response.ok) throw new Error(`initialize was answered with ${response.status}`);
  return response.headers.get("mcp-session-id");
}

function bodyOf(id: number, method: string, params: object): string {
  return JSON.stringify({ jsonrpc: "2.0", id, method, params });
}
