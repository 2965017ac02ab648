/**
 * What the daemon is compared with: the SDK's bare low-level `Server` on Fastify, both eras, no authentication, two tools
 * that keep nothing. `echo` answers at once, `hold` after a time.
 *
 * Absent on purpose: everything that makes the daemon cost more.
 */

import { toNodeHandler } from "@modelcontextprotocol/node";
import { createMcpHandler, Server } from "@modelcontextprotocol/server";
import Fastify from "fastify";
import { z } from "zod";

const objectSchema = { type: "object" } as const;
const listed = ["echo", "hold"].map((name) => ({ name, inputSchema: objectSchema, outputSchema: objectSchema }));
const holdSchema = z.object({ holdMs: z.number() });

let held = 0;

function createServer(): Server {
  const server = new Server({ name: "echo", version: "1.0.0" }, { capabilities: { tools: {} } });
  server.setRequestHandler("tools/list", () => ({ tools: listed }));
  server.setRequestHandler("tools/call", async ({ params }, { mcpReq }) => {
    if (params.name === "hold") await hold(holdSchema.parse(params.arguments).holdMs, mcpReq.signal);
    const structuredContent = { ...params.arguments };
    return { content: [{ type: "text", text: JSON.stringify(structuredContent) }], structuredContent };
  });
  return server;
}

async function hold(holdMs: number, signal: AbortSignal): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  const timer = setTimeout(resolve, holdMs);
  signal.addEventListener("abort", () => resolve(), { once: true });
  held += 1;
  await promise;
  held -= 1;
  clearTimeout(timer);
}

async function* nothing(): AsyncGenerator<never> {}

const handle = toNodeHandler(createMcpHandler(createServer));
const app = Fastify();
app.post("/mcp", async (request, reply) => {
  reply.hijack();
  // The adapter reads nothing else of a request whose body is parsed.
  const { url, headers, body } = request;
  await handle({ method: "POST", url, headers, [Symbol.asyncIterator]: nothing }, reply.raw, body);
});
app.get("/held", () => ({ held }));
process.once("SIGINT", () => process.exit(0));
const origin = await app.listen({ host: "127.0.0.1", port: 0 });
process.stdout.write(`${JSON.stringify({ event: "ready", mcpUrl: `${origin}/mcp`, tokenFile: null })}\n`);
