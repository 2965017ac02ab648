/**
 * MCP by plain fetch, for what no well-behaved client does, and a reader of event streams that shows every line.
 */

import { TOKEN } from "./wire-server.ts";

/** Whatever answers at `/mcp`. */
export type McpServer = { readonly mcpUrl: string };

export type StreamEvent = {
  readonly id?: string;
  readonly retry?: string;
  readonly data?: string;
  /** True for a block that holds nothing but a comment. */
  readonly comment?: boolean;
};

export type RawStream = AsyncDisposable & {
  readonly response: Response;
  /** The next block of the stream; null at its end. */
  next(): Promise<StreamEvent | null>;
  /** Blocks up to the end of the stream. */
  rest(): Promise<readonly StreamEvent[]>;
  abort(): void;
};

export type RawOptions = {
  readonly token?: string | null;
  readonly session?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly query?: string;
  readonly signal?: AbortSignal;
};

export const CLAUDE = { name: "claude-code", version: "2.1.332" } as const;

export function callBody(
  id: string | number,
  name: string,
  args: Record<string, unknown>,
  meta?: Record<string, unknown>,
) {
  const params = { name, arguments: args, ...(meta === undefined ? {} : { _meta: meta }) };
  return { jsonrpc: "2.0", id, method: "tools/call", params };
}

export function cancelBody(requestId: string | number) {
  return { jsonrpc: "2.0", method: "notifications/cancelled", params: { requestId, reason: "test" } };
}

/** The envelope that every request of the modern era carries. */
export function modernMeta(
  client: { readonly name: string; readonly version: string } = { name: "raw", version: "1" },
) {
  return {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": client,
    "io.modelcontextprotocol/clientCapabilities": {},
  };
}

export function modernHeaders(method: string, name?: string): Record<string, string> {
  const base = { "mcp-protocol-version": "2026-07-28", "mcp-method": method };
  return name === undefined ? base : { ...base, "mcp-name": name };
}

export function post(server: McpServer, body: unknown, options: RawOptions = {}): Promise<Response> {
  return send(server, "POST", options, typeof body === "string" ? body : JSON.stringify(body));
}

export function send(server: McpServer, method: string, options: RawOptions = {}, body?: string): Promise<Response> {
  const token = options.token === undefined ? TOKEN : options.token;
  return fetch(`${server.mcpUrl}${options.query ?? ""}`, {
    method,
    headers: {
      accept: "application/json, text/event-stream",
      ...(body === undefined ? {} : { "content-type": "application/json" }),
      ...(token === null ? {} : { authorization: `Bearer ${token}` }),
      ...(options.session === undefined ? {} : { "mcp-session-id": options.session }),
      ...options.headers,
    },
    ...(body === undefined ? {} : { body }),
    ...(options.signal === undefined ? {} : { signal: options.signal }),
  });
}

/** Opens a legacy conversation; its session id. */
export async function initialize(
  server: McpServer,
  client = { name: "raw", version: "1" },
  token?: string,
): Promise<string> {
  const params = { protocolVersion: "2025-11-25", capabilities: {}, clientInfo: client };
  const body = { jsonrpc: "2.0", id: 0, method: "initialize", params };
  const response = await post(server, body, token === undefined ? {} : { token });
  await response.text();
  const id = response.headers.get("mcp-session-id");
  if (id === null) throw new Error("initialize gave no session id");
  return id;
}

/** Sends a call and reads its answer as a stream. */
export async function openStream(server: McpServer, body: unknown, options: RawOptions = {}): Promise<RawStream> {
  const control = new AbortController();
  const response = await post(server, body, { ...options, signal: control.signal });
  return readStream(response, control);
}

/** Resumes a broken stream. */
export async function resumeStream(
  server: McpServer,
  lastEventId: string,
  options: RawOptions = {},
): Promise<RawStream> {
  const control = new AbortController();
  const headers = { ...options.headers, "last-event-id": lastEventId };
  const response = await send(server, "GET", { ...options, headers, signal: control.signal });
  return readStream(response, control);
}

function readStream(response: Response, control: AbortController): RawStream {
  const blocks = blocksOf(response);
  return {
    response,
    async next() {
      const { value, done } = await blocks.next();
      return done === true ? null : value;
    },
    async rest() {
      const all: StreamEvent[] = [];
      for await (const block of blocks) all.push(block);
      return all;
    },
    abort: () => control.abort(),
    async [Symbol.asyncDispose]() {
      control.abort();
    },
  };
}

/** Messages of a stream, parsed. */
export function messagesOf(events: readonly StreamEvent[]): readonly Record<string, unknown>[] {
  return events.flatMap((event) => (event.data === undefined || event.data === "" ? [] : [jsonObject(event.data)]));
}

export function jsonObject(text: string): Record<string, unknown> {
  const value: unknown = JSON.parse(text);
  if (typeof value !== "object" || value === null) throw new Error(`no object: ${text}`);
  return { ...value };
}

async function* blocksOf(response: Response): AsyncGenerator<StreamEvent, undefined> {
  if (response.body === null) return;
  const decoder = new TextDecoder();
  let text = "";
  for await (const chunk of response.body) {
    text += decoder.decode(chunk, { stream: true });
    for (let end = text.indexOf("\n\n"); end >= 0; end = text.indexOf("\n\n")) {
      yield eventOf(text.slice(0, end));
      text = text.slice(end + 2);
    }
  }
}

function eventOf(block: string): StreamEvent {
  const fields = new Map<string, string>();
  for (const line of block.split("\n")) {
    const colon = line.indexOf(":");
    fields.set(line.slice(0, colon), line.slice(colon + 1).replace(/^ /, ""));
  }
  const [id, retry, data] = [fields.get("id"), fields.get("retry"), fields.get("data")];
  return {
    ...(id === undefined ? {} : { id }),
    ...(retry === undefined ? {} : { retry }),
    ...(data === undefined ? {} : { data }),
    ...(id === undefined && data === undefined ? { comment: true } : {}),
  };
}
