/**
 * Calls of the modern era that go past the SDK's handler, against the same calls with a field in `_meta` that makes them go
 * through it.
 */

import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ordinaryCallOf } from "../../src/mcp/ordinary-call.ts";
import type { Tool, ToolAnswer } from "../../src/mcp/tool.ts";
import { parsed } from "../support/json.ts";
import { callBody, messagesOf, modernHeaders, modernMeta, openStream, post } from "../support/raw-mcp.ts";
import { startWireServer, type WireServer } from "../support/wire-server.ts";

const PREFIX = "io.modelcontextprotocol/";
const HEADERS = { "content-type": "application/json", ...modernHeaders("tools/call", "echo") };

const TOOLS: readonly Tool[] = [
  tool("echo", async (args) => answerOf(`said ${JSON.stringify(args)}`)),
  tool("refuse", async () => ({ ...answerOf("no"), isError: true })),
  tool("break", async () => {
    throw new Error("broken");
  }),
  {
    ...tool("hold", async (_args, { progress, sliceMaxMs, streaming }) => {
      progress?.("holding");
      progress?.("still holding");
      return answerOf(`held for at most ${sliceMaxMs} ms, ${streaming ? "as a stream" : "as a whole"}`);
    }),
    mayHold: () => true,
  },
  {
    ...tool("break-held", async () => {
      throw new Error("broken");
    }),
    mayHold: () => true,
  },
];

let server: WireServer;
beforeAll(async () => {
  server = await startWireServer({ mcp: { tools: TOOLS } });
});
afterAll(() => server.stop());

type Call = { readonly body: object; readonly headers: Readonly<Record<string, string>> };

/** Status, content type and message; the order of fields means nothing, and the request's own number differs. */
async function answerTo({ body, headers }: Call): Promise<unknown> {
  const response = await post(server, body, { headers });
  const text = (await response.text()).replace(/"requestId":"\w+"/, '"requestId":"r"');
  return {
    status: response.status,
    type: response.headers.get("content-type"),
    message: text === "" ? "" : parsed(text),
  };
}

/** Status, headers and messages of an event stream; the values of progress are times. */
async function messagesTo({ body, headers }: Call): Promise<unknown> {
  await using stream = await openStream(server, body, { headers });
  const text = JSON.stringify(messagesOf(await stream.rest()));
  const named = ["content-type", "cache-control", "x-accel-buffering", "connection"];
  return {
    status: stream.response.status,
    headers: named.map((name) => stream.response.headers.get(name)),
    messages: parsed(text.replace(/"progress":[\d.]+/g, '"progress":0')),
  };
}

function callOf(name: string, args: Record<string, unknown>, meta: Record<string, unknown> = modernMeta()): Call {
  return { body: callBody(7, name, args, meta), headers: { ...HEADERS, "mcp-name": name } };
}

describe("an ordinary call", () => {
  it.each(["echo", "refuse", "break", "nothing"])(
    "is answered as the SDK's handler answers it: tool %s (P1)",
    async (name) => {
      const meta = { ...modernMeta(), "example.org/surplus": 1 };
      const through = callOf(name, { text: "grüß · dich" }, meta);
      expect(ordinaryCallOf(through)).toBeNull();
      const past = callOf(name, { text: "grüß · dich" });
      expect(ordinaryCallOf(past)).toMatchObject({ request: { id: 7 }, name, args: { text: "grüß · dich" } });
      expect(await answerTo(past)).toEqual(await answerTo(through));
    },
  );

  it.each([
    ["hold", {}],
    ["hold", { progressToken: "t" }],
    ["break-held", {}],
  ])("that is held is answered with the same messages on a stream: tool %s, meta %j (H5)", async (name, token) => {
    const past = callOf(name, { waitMs: 50 }, { ...modernMeta(), ...token });
    const through = callOf(name, { waitMs: 50 }, { ...modernMeta(), ...token, "example.org/surplus": 1 });
    expect([ordinaryCallOf(past) === null, ordinaryCallOf(through) === null]).toEqual([false, true]);
    expect(await messagesTo(past)).toEqual(await messagesTo(through));
    const whole = (call: Call): Call => ({ ...call, headers: { ...call.headers, accept: "application/json" } });
    expect(await answerTo(whole(past))).toEqual(await answerTo(whole(through)));
  });

  it("is told apart so strictly that nothing which the SDK refuses is ever run (P1)", async () => {
    const value = fc.constantFrom<unknown>(undefined, null, 1, 1.5, "", "echo", "2025-11-25", "2026-07-28", {}, [], {
      name: "x",
    });
    const change = fc.oneof(
      fc.record({ where: fc.constant("message"), field: fc.constantFrom("jsonrpc", "id", "method", "extra"), value }),
      fc.record({
        where: fc.constant("params"),
        field: fc.constantFrom("name", "arguments", "requestState", "task", "extra"),
        value,
      }),
      fc.record({
        where: fc.constant("meta"),
        field: fc.constantFrom(
          `${PREFIX}protocolVersion`,
          `${PREFIX}clientInfo`,
          `${PREFIX}clientCapabilities`,
          `${PREFIX}logLevel`,
          "progressToken",
          "threadId",
        ),
        value,
      }),
      fc.record({
        where: fc.constant("headers"),
        field: fc.constantFrom("content-type", "mcp-protocol-version", "mcp-method", "mcp-name"),
        value: fc.constantFrom<unknown>(
          undefined,
          "",
          "echo",
          " echo ",
          "tools/call",
          "tools/list",
          "2026-07-28",
          "2027-01-01",
          "application/json; charset=utf-8",
        ),
      }),
    );
    await fc.assert(
      fc.asyncProperty(fc.array(change, { maxLength: 2 }), async (changes) => {
        const plain = changed(changes, {});
        expect(await answerTo(plain)).toEqual(await answerTo(changed(changes, { "example.org/surplus": 1 })));
      }),
      { numRuns: 300 },
    );
  });
});

type Change = { readonly where: string; readonly field: string; readonly value: unknown };

function changed(changes: readonly Change[], surplus: Record<string, unknown>): Call {
  const at = (where: string): Record<string, unknown> =>
    Object.fromEntries(changes.filter((change) => change.where === where).map(({ field, value }) => [field, value]));
  const meta = { ...modernMeta(), ...surplus, ...at("meta") };
  const params = { name: "echo", arguments: { text: "hello" }, _meta: meta, ...at("params") };
  const body = { jsonrpc: "2.0", id: 7, method: "tools/call", params, ...at("message") };
  const headers = Object.entries({ ...HEADERS, ...at("headers") }).filter(([, value]) => value !== undefined);
  return { body, headers: Object.fromEntries(headers) };
}

function tool(name: string, call: Tool["call"]): Tool {
  return {
    name,
    title: name,
    description: name,
    inputSchema: { type: "object" },
    annotations: { readOnlyHint: true },
    mayHold: () => false,
    call,
  };
}

function answerOf(text: string): ToolAnswer {
  return { content: [{ type: "text", text }], structuredContent: { text } };
}
