/**
 * MCP clients as harnesses embed them: SDK 1.x (what most of today's harnesses use) and SDK 2.x in its three ways to
 * choose an era.
 */

import { Client as LegacySdkClient } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport as LegacySdkTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import type { Transport as LegacyTransport } from "@modelcontextprotocol/sdk/shared/transport.js";
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { TOKEN } from "./wire-server.ts";

export type ClientKind = "1.x" | "2.x legacy" | "2.x auto" | "2.x modern";

export const CLIENT_KINDS: readonly ClientKind[] = ["1.x", "2.x legacy", "2.x auto", "2.x modern"];

export type TestClient = AsyncDisposable & {
  readonly kind: ClientKind;
  /** Names of the listed tools, in order. */
  listTools(): Promise<readonly string[]>;
  call(name: string, args: Record<string, unknown>, options?: CallOptions): Promise<ToolResult>;
  readonly instructions: () => string | undefined;
  readonly sessionId: () => string | undefined;
  /** What the transport complained about. */
  readonly faults: readonly string[];
};

export type CallOptions = {
  readonly timeoutMs?: number;
  readonly signal?: AbortSignal;
  /** Given: a progress token is sent. */
  readonly onProgress?: (progress: number, message: string | undefined) => void;
};

export type ToolResult = {
  readonly text: string;
  readonly structured: Readonly<Record<string, unknown>>;
  readonly isError: boolean;
};

export type ClientOptions = {
  readonly url: string;
  readonly token?: string | null;
  readonly name?: string;
  readonly version?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly fetch?: typeof fetch;
};

const CALL_TIMEOUT_MS = 60_000;

export function openClient(kind: ClientKind, options: ClientOptions): Promise<TestClient> {
  return kind === "1.x" ? openLegacySdkClient(options) : openModernSdkClient(kind, options);
}

async function openLegacySdkClient(options: ClientOptions): Promise<TestClient> {
  const faults: string[] = [];
  const client = new LegacySdkClient(infoOf(options));
  const transport = new LegacySdkTransport(new URL(options.url), transportOptionsOf(options));
  client.onerror = (error) => faults.push(error.message);
  await client.connect(asTransport(transport));
  return {
    kind: "1.x",
    faults,
    instructions: () => client.getInstructions(),
    sessionId: () => transport.sessionId,
    async listTools() {
      const { tools } = await client.listTools();
      return tools.map((tool) => tool.name);
    },
    async call(name, args, call = {}) {
      return resultOf(await client.callTool({ name, arguments: args }, undefined, requestOptionsOf(call)));
    },
    [Symbol.asyncDispose]: () => client.close(),
  };
}

/** The SDK's own class does not fit its own interface under exactOptionalPropertyTypes. */
function asTransport(inner: LegacySdkTransport): LegacyTransport {
  const outer: LegacyTransport = {
    start: () => inner.start(),
    send: (message) => inner.send(message),
    close: () => inner.close(),
    setProtocolVersion: (version) => inner.setProtocolVersion(version),
  };
  inner.onmessage = (message) => outer.onmessage?.(message);
  inner.onerror = (error) => outer.onerror?.(error);
  inner.onclose = () => outer.onclose?.();
  return outer;
}

async function openModernSdkClient(kind: ClientKind, options: ClientOptions): Promise<TestClient> {
  const faults: string[] = [];
  const mode = kind === "2.x auto" ? "auto" : kind === "2.x modern" ? { pin: "2026-07-28" } : "legacy";
  const client = new Client(infoOf(options), { versionNegotiation: { mode } });
  const transport = new StreamableHTTPClientTransport(new URL(options.url), transportOptionsOf(options));
  client.onerror = (error) => faults.push(error.message);
  await client.connect(transport);
  return {
    kind,
    faults,
    instructions: () => client.getInstructions(),
    sessionId: () => transport.sessionId,
    async listTools() {
      const { tools } = await client.listTools();
      return tools.map((tool) => tool.name);
    },
    async call(name, args, call = {}) {
      return resultOf(await client.callTool({ name, arguments: args }, requestOptionsOf(call)));
    },
    [Symbol.asyncDispose]: () => client.close(),
  };
}

function infoOf(options: ClientOptions): { name: string; version: string } {
  return { name: options.name ?? "wire-test", version: options.version ?? "1.0.0" };
}

function transportOptionsOf(options: ClientOptions) {
  const token = options.token === undefined ? TOKEN : options.token;
  const authorization = token === null ? {} : { authorization: `Bearer ${token}` };
  return {
    requestInit: { headers: { ...authorization, ...options.headers } },
    ...(options.fetch === undefined ? {} : { fetch: options.fetch }),
  };
}

function requestOptionsOf(call: CallOptions) {
  const { onProgress, signal } = call;
  return {
    timeout: call.timeoutMs ?? CALL_TIMEOUT_MS,
    ...(signal === undefined ? {} : { signal }),
    ...(onProgress === undefined
      ? {}
      : {
          resetTimeoutOnProgress: true,
          onprogress: (progress: { progress: number; message?: string | undefined }) =>
            onProgress(progress.progress, progress.message),
        }),
  };
}

function resultOf(result: Readonly<Record<string, unknown>>): ToolResult {
  const content: unknown = result["content"];
  const structured: unknown = result["structuredContent"];
  const texts = Array.isArray(content) ? content.map(textOf) : [];
  return {
    text: texts.join("\n"),
    structured: typeof structured === "object" && structured !== null ? { ...structured } : {},
    isError: result["isError"] === true,
  };
}

function textOf(block: unknown): string {
  return typeof block === "object" && block !== null && "text" in block && typeof block.text === "string"
    ? block.text
    : "";
}
