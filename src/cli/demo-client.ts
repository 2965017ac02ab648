/**
 * The demo's MCP client: the official one, over HTTP, with progress.
 */

import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { z } from "zod";

/** The fields of an answer that the demo looks at. */
const answerSchema = z
  .object({
    say: z.string(),
    next: z.object({ arguments: z.record(z.string(), z.unknown()).optional() }),
    status: z.string(),
    phase: z.string(),
    taskId: z.string(),
    childThreadId: z.string(),
    nodeId: z.string(),
    created: z.string().optional(),
    fromChild: z.object({ result: z.object({ text: z.string() }).optional() }).optional(),
  })
  .transform(({ next, fromChild, ...rest }) => ({
    ...rest,
    nextArguments: next.arguments ?? {},
    text: fromChild?.result?.text ?? "",
  }));

export type Answer = z.output<typeof answerSchema>;

export type Outcome =
  | { readonly kind: "answered"; readonly answer: Answer }
  | { readonly kind: "failed"; readonly message: string };

export type DemoClient = AsyncDisposable & {
  call(tool: string, args: Readonly<Record<string, unknown>>, onProgress?: (message: string) => void): Promise<Outcome>;
};

const CALL_LIMIT_MS = 15_000;

export async function connect(mcpUrl: string, token: string): Promise<DemoClient> {
  const client = new Client({ name: "delegate-mcp-demo", version: "1.0.0" });
  // No reconnection: the demo shows what is left to a caller whose client gives up at once.
  const transport = new StreamableHTTPClientTransport(new URL(mcpUrl), {
    requestInit: { headers: { authorization: `Bearer ${token}` } },
    reconnectionOptions: {
      maxRetries: 0,
      initialReconnectionDelay: 1,
      maxReconnectionDelay: 1,
      reconnectionDelayGrowFactor: 1,
    },
  });
  await client.connect(transport);
  return {
    async call(tool, args, onProgress) {
      const broken = new AbortController();
      client.onerror = (error) => broken.abort(error);
      const onprogress = (progress: { message?: string | undefined }): void => onProgress?.(progress.message ?? "");
      const options = { timeout: CALL_LIMIT_MS, signal: broken.signal, onprogress };
      try {
        const result = await client.callTool({ name: tool, arguments: { ...args } }, undefined, options);
        return { kind: "answered", answer: answerSchema.parse(result.structuredContent) };
      } catch (error) {
        return { kind: "failed", message: error instanceof Error ? error.message : String(error) };
      }
    },
    async [Symbol.asyncDispose]() {
      await client.close();
    },
  };
}
