/**
 * The SDK's low-level `Server`, made anew for every message it serves, and the one-message transport of the legacy leg.
 *
 * Which leg uses what, decided by measurement (`docs/wire.md`): a legacy `tools/call` never comes here, it is answered by
 * `legacy-leg` at a fraction of the cost; everything else of the legacy era (`initialize`, `ping`, `tools/list`, unknown
 * methods) is rare and goes through the SDK, so that version negotiation and error shapes are the SDK's. Of the modern era
 * only ordinary calls go past it (`ordinary-call`); its header, envelope and capability checks for everything else
 * are not worth a second copy.
 *
 * Invariant: no `Server` is shared between two requests, so no answer can reach another client (M1).
 */

import {
  type CallToolResult,
  type JSONRPCMessage,
  type JSONRPCRequest,
  Server,
  type ServerContext,
  type ServerOptions,
  type Transport,
} from "@modelcontextprotocol/server";
import { INVALID_REQUEST } from "./json-rpc.ts";
import type { ToolTable } from "./tool-table.ts";

export type ServerInfo = {
  readonly name: string;
  readonly version: string;
  readonly title?: string;
  readonly websiteUrl?: string;
};

export type ModernCall = (name: string, args: unknown, context: ServerContext) => Promise<CallToolResult>;

export type ServerFactory = {
  /** A server that answers everything but `tools/call`. */
  plain(): Server;
  /** A server that also answers `tools/call`, through `call`. */
  calling(call: ModernCall): Server;
};

export type ServerFactoryOptions = {
  readonly tools: ToolTable;
  readonly serverInfo: ServerInfo;
  readonly instructions: string;
};

/** How long a modern client may keep the tool list; a new version of the daemon is noticed after this time at the latest. */
const LIST_TTL_MS = 300_000;

export function createServerFactory(options: ServerFactoryOptions): ServerFactory {
  const { listed } = options.tools;
  // The list and the texts are the same for everybody, but they are behind a token: no shared cache may keep them.
  const hint = { ttlMs: LIST_TTL_MS, cacheScope: "private" } as const;
  const serverOptions: ServerOptions = {
    capabilities: { tools: {} },
    instructions: options.instructions,
    cacheHints: { "tools/list": hint, "server/discover": hint },
    // Only elicitation would validate with it; a shared one spares making a validator for every request.
    jsonSchemaValidator: {
      getValidator: () => (input) => ({ valid: false, data: undefined, errorMessage: String(input) }),
    },
  };

  function plain(): Server {
    const server = new Server({ ...options.serverInfo }, serverOptions);
    server.setRequestHandler("tools/list", () => listed);
    return server;
  }

  return {
    plain,
    calling(call) {
      const server = plain();
      server.setRequestHandler("tools/call", (request, context) =>
        call(request.params.name, request.params.arguments ?? {}, context),
      );
      return server;
    },
  };
}

/**
 * Lets a fresh server answer one request; resolves with its answer, a result or an error. What the SDK takes for no request at
 * all it only complains of to itself; here that is an answer too. The server is dropped afterwards: it holds nothing that
 * needs closing.
 */
export async function answerOnce(server: Server, request: JSONRPCRequest): Promise<JSONRPCMessage> {
  const { promise, resolve } = Promise.withResolvers<JSONRPCMessage>();
  const transport = createOneMessageTransport(resolve);
  const { id } = request;
  server.onerror = () => resolve({ jsonrpc: "2.0", id, error: { code: INVALID_REQUEST, message: "Invalid request" } });
  await server.connect(transport);
  transport.onmessage?.(request);
  return promise;
}

function createOneMessageTransport(answered: (message: JSONRPCMessage) => void): Transport {
  const transport: Transport = {
    start: async () => undefined,
    async send(message) {
      if ("result" in message || "error" in message) answered(message);
    },
    async close() {
      transport.onclose?.();
    },
  };
  return transport;
}
