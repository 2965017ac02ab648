/** Both protocol eras on one endpoint, with the SDK clients that harnesses embed and with plain fetch. */

import { classifyInboundRequest } from "@modelcontextprotocol/server";
import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { eraOf } from "../../src/mcp/era.ts";
import { at, parsed, textAt } from "../support/json.ts";
import { CLIENT_KINDS, openClient } from "../support/mcp-clients.ts";
import { callBody, CLAUDE, initialize, modernHeaders, modernMeta, post, send } from "../support/raw-mcp.ts";
import { startWireServer, type WireServer } from "../support/wire-server.ts";

let server: WireServer;
beforeAll(async () => {
  server = await startWireServer();
});
afterAll(() => server.stop());

async function json(response: Response): Promise<unknown> {
  return parsed(await response.text());
}

describe.each(CLIENT_KINDS)("SDK client %s", (kind) => {
  it("lists the tools in their order, reads the instructions and gets text and structured content", async () => {
    await using client = await openClient(kind, { url: server.mcpUrl });
    expect(await client.listTools()).toEqual(["echo", "hold"]);
    expect(client.instructions()).toBe("Two tools for the wire.");
    expect(await client.call("echo", { text: "grüß dich" })).toEqual({
      text: "grüß dich",
      structured: { text: "grüß dich" },
      isError: false,
    });
  });

  it("gets the answer of a held call, and progress that strictly increases and stops with it (H5)", async () => {
    await using client = await openClient(kind, { url: server.mcpUrl });
    const values: number[] = [];
    const messages: (string | undefined)[] = [];
    const heard = Promise.withResolvers<void>();
    const call = client.call(
      "hold",
      { name: `progress ${kind}` },
      {
        onProgress(value, message) {
          values.push(value);
          messages.push(message);
          if (values.length === 2) heard.resolve();
        },
      },
    );
    const hold = await server.wire.arrived(`progress ${kind}`);
    hold.context.progress?.("second");
    await heard.promise;
    hold.release("done");
    expect((await call).structured).toMatchObject({ end: "released", text: "done" });
    hold.context.progress?.("too late");
    await client.call("echo", { text: "after" });
    expect(messages).toEqual([`holding progress ${kind}`, "second"]);
    expect(values[1]).toBeGreaterThan(values[0] ?? Number.NaN);
    expect(client.faults).toEqual([]);
  });

  it("tells the tool who asks, through which client and in which era", async () => {
    await using client = await openClient(kind, {
      url: server.mcpUrl,
      name: "opencode",
      version: "1.18.33",
      token: "token-of-bob",
    });
    const call = client.call("hold", { name: `who ${kind}` });
    const hold = await server.wire.arrived(`who ${kind}`);
    hold.release("seen");
    await call;
    const legacy = kind === "1.x" || kind === "2.x legacy";
    expect(hold.context).toMatchObject({
      caller: { name: "bob", kind: "caller" },
      client: { name: "opencode", version: "1.18.33" },
      era: legacy ? "legacy" : "modern",
      streaming: true,
      resumed: false,
      sliceMaxMs: 45_000,
    });
    expect(hold.context.caller.conversation === null).toBe(!legacy);
  });

  it("is told which tools there are when it asks for an unknown one (P1)", async () => {
    await using client = await openClient(kind, { url: server.mcpUrl });
    const error: unknown = await client.call("nope", {}).catch((fault: unknown) => fault);
    expect(error).toMatchObject({ code: -32602 });
    expect(at(error, "data", "next", "kind")).toBe("fix");
  });
});

describe("era of a request", () => {
  it("offers Claude Code the legacy era and others the modern one", async () => {
    const body = { jsonrpc: "2.0", id: "server-discover-probe-1", method: "server/discover" };
    const ask = (client: { name: string; version: string }) =>
      post(server, { ...body, params: { _meta: modernMeta(client) } }, { headers: modernHeaders("server/discover") });
    const refused = await ask(CLAUDE);
    expect(refused.status).toBe(200);
    expect(await json(refused)).toMatchObject({ id: body.id, error: { code: -32601 } });
    expect(await json(await ask({ name: "other", version: "1" }))).toMatchObject({
      result: { supportedVersions: ["2026-07-28"], cacheScope: "private" },
    });
  });

  it("lets a 2.x client that Claude Code might embed fall back to the legacy era by itself", async () => {
    await using client = await openClient("2.x auto", { url: server.mcpUrl, ...CLAUDE });
    expect(client.sessionId()).toBeDefined();
    expect((await client.call("echo", { text: "x" })).text).toBe("x");
  });

  it("obeys the operator's choice of era for a client", async () => {
    await using chosen = await startWireServer({ mcp: { eraOverride: () => "modern" } });
    await using client = await openClient("2.x auto", { url: chosen.mcpUrl, ...CLAUDE });
    expect(client.sessionId()).toBeUndefined();
    expect((await client.call("echo", { text: "x" })).text).toBe("x");
  });

  it("is judged exactly as the SDK judges it", () => {
    const versions = fc.constantFrom(undefined, "2025-06-18", "2026-07-28", "2027-01-01", " 2026-07-28 ", "nonsense");
    const meta = fc.oneof(
      fc.constant(undefined),
      fc.constant({}),
      fc.constant({ progressToken: 1 }),
      fc.constant({ "io.modelcontextprotocol/protocolVersion": "2026-07-28" }),
      fc.constant({ "io.modelcontextprotocol/protocolVersion": 3 }),
      fc.constant(modernMeta()),
      fc.constant("text"),
    );
    const message = fc.record({
      jsonrpc: fc.constantFrom("2.0", "1.0"),
      id: fc.constantFrom(undefined, 1, "a", null, 1.5),
      method: fc.constantFrom("tools/call", "tools/list", "initialize", "notifications/cancelled", "server/discover"),
      params: fc.option(fc.record({ _meta: meta, name: fc.constant("echo") }), { nil: undefined }),
    });
    const body = fc.oneof(message, fc.array(message, { maxLength: 2 }), fc.constantFrom(null, 3, "x", {}));
    const agreed = fc.property(body, versions, (sent, version) => {
      const wire: unknown = JSON.parse(JSON.stringify(sent));
      const header = version === undefined ? {} : { "mcp-protocol-version": version };
      const outcome = classifyInboundRequest({
        httpMethod: "POST",
        body: wire,
        ...(version === undefined ? {} : { protocolVersionHeader: version }),
      });
      const expected = outcome.kind === "legacy" ? "legacy" : "modern";
      return eraOf({ headers: header, body: wire }) === expected;
    });
    expect(() => fc.assert(agreed, { numRuns: 2_000 })).not.toThrow();
  });
});

describe("modern era by hand", () => {
  const list = { jsonrpc: "2.0", id: 1, method: "tools/list", params: { _meta: modernMeta() } };

  it("lists the tools with a lifetime and a scope, byte for byte the same each time", async () => {
    const [first, second] = await Promise.all(
      [1, 2].map(async () => (await post(server, list, { headers: modernHeaders("tools/list") })).text()),
    );
    expect(second).toBe(first);
    expect(parsed(first ?? "")).toMatchObject({
      result: { resultType: "complete", ttlMs: 300_000, cacheScope: "private" },
    });
  });

  it("acknowledges a subscription with its id at once and ends it, because the list never changes", async () => {
    const params = { _meta: modernMeta(), notifications: { toolsListChanged: true } };
    const body = { jsonrpc: "2.0", id: "listen:1", method: "subscriptions/listen", params };
    const response = await post(server, body, { headers: modernHeaders("subscriptions/listen") });
    const text = await response.text();
    const messages = text.split("\n").flatMap((line) => (line.startsWith("data: ") ? [parsed(line.slice(6))] : []));
    expect(messages[0]).toMatchObject({
      method: "notifications/subscriptions/acknowledged",
      params: { _meta: { "io.modelcontextprotocol/subscriptionId": "listen:1" } },
    });
    expect(messages[1]).toMatchObject({ id: "listen:1", result: {} });
  });

  it.each([
    {
      when: "header and body disagree",
      headers: { ...modernHeaders("tools/list"), "mcp-method": "ping" },
      body: list,
      status: 400,
      code: -32020,
    },
    {
      when: "the version is unknown",
      headers: { ...modernHeaders("tools/list"), "mcp-protocol-version": "2099-01-01" },
      body: withVersion("2099-01-01"),
      status: 400,
      code: -32022,
    },
    {
      when: "the envelope is missing",
      headers: modernHeaders("tools/list"),
      body: { ...list, params: {} },
      status: 400,
      code: -32602,
    },
    {
      when: "the method is unknown",
      headers: modernHeaders("nope/nope"),
      body: { ...list, method: "nope/nope" },
      status: 404,
      code: -32601,
    },
  ])("refuses with a next step when $when (P1)", async ({ headers, body, status, code }) => {
    const response = await post(server, body, { headers });
    expect(response.status).toBe(status);
    const answer = await json(response);
    expect(answer).toMatchObject({ id: 1, error: { code } });
    expect(textAt(answer, "error", "data", "next", "kind")).not.toBe("");
  });

  function withVersion(version: string) {
    const meta = { ...modernMeta(), "io.modelcontextprotocol/protocolVersion": version };
    return { ...list, params: { _meta: meta } };
  }

  it("answers plain JSON to a client that reads no streams, also for a call that could be held", async () => {
    const body = callBody(5, "hold", { name: "modern json", waitMs: 1 }, modernMeta());
    const headers = { ...modernHeaders("tools/call", "hold"), accept: "application/json" };
    const response = await post(server, body, { headers });
    expect(response.headers.get("content-type")).toContain("application/json");
    expect(await json(response)).toMatchObject({ id: 5, result: { structuredContent: { end: "slice" } } });
  });
});

describe("legacy era by hand", () => {
  it("negotiates the version that the client asks for, or offers its newest", async () => {
    const ask = async (protocolVersion: string) => {
      const params = { protocolVersion, capabilities: {}, clientInfo: { name: "raw", version: "1" } };
      return json(await post(server, { jsonrpc: "2.0", id: 1, method: "initialize", params }));
    };
    for (const version of ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"]) {
      expect(textAt(await ask(version), "result", "protocolVersion")).toBe(version);
    }
    expect(textAt(await ask("1999-01-01"), "result", "protocolVersion")).toBe("2025-11-25");
  });

  it("answers calls that are not held as plain JSON", async () => {
    const response = await post(server, callBody("e-1", "echo", { text: "x" }));
    expect(response.headers.get("content-type")).toContain("application/json");
    expect(await json(response)).toEqual({
      jsonrpc: "2.0",
      id: "e-1",
      result: { content: [{ type: "text", text: "x" }], structuredContent: { text: "x" } },
    });
  });

  it.each([
    { jsonrpc: "2.0", id: 1, method: "tools/list", surplus: 1 },
    { jsonrpc: "2.0", id: 1, method: "tools/list", params: { cursor: 7, _meta: { progressToken: {} } } },
  ])("answers what is no request in the end, and leaves nobody waiting (P1): %j", async (body) => {
    const answer = await post(server, body);
    expect(at(await answer.json(), "error")).toMatchObject({ code: -32602, data: { next: { kind: "fix" } } });
  });

  it("accepts notifications and posted responses with an empty 202", async () => {
    for (const body of [
      { jsonrpc: "2.0", method: "notifications/initialized" },
      { jsonrpc: "2.0", method: "notifications/somebody/elses", params: { x: 1 } },
      { jsonrpc: "2.0", id: 3, result: {} },
    ]) {
      const response = await post(server, body);
      expect([response.status, await response.text()]).toEqual([202, ""]);
    }
  });

  it("answers a batch of the oldest revision message by message", async () => {
    const response = await post(server, [
      callBody(1, "echo", { text: "one" }),
      { jsonrpc: "2.0", method: "notifications/initialized" },
      { jsonrpc: "2.0", id: 2, method: "ping" },
      callBody(3, "nope", {}),
    ]);
    expect(await json(response)).toMatchObject([
      { id: 1, result: { structuredContent: { text: "one" } } },
      { id: 2, result: {} },
      { id: 3, error: { code: -32602 } },
    ]);
  });

  it.each([
    ["an unknown method", { jsonrpc: "2.0", id: 1, method: "nope" }, 200, -32601],
    ["a call without a name", { jsonrpc: "2.0", id: 1, method: "tools/call", params: {} }, 200, -32602],
    [
      "arguments that are no object",
      { jsonrpc: "2.0", id: 1, method: "tools/call", params: { name: "echo", arguments: [] } },
      200,
      -32602,
    ],
    ["an empty batch", [], 400, -32600],
    ["no message at all", { hello: 1 }, 400, -32600],
  ] as const)("refuses %s with a next step (P1)", async (_case, body, status, code) => {
    const response = await post(server, body);
    expect(response.status).toBe(status);
    const answer = await json(response);
    expect(at(answer, "error", "code")).toBe(code);
    expect(textAt(answer, "error", "data", "next", "kind")).toBe("fix");
  });

  it("refuses a protocol version that it does not know, naming those it does", async () => {
    const response = await post(server, callBody(1, "echo", { text: "x" }), {
      headers: { "mcp-protocol-version": "2025-01-01" },
    });
    expect(response.status).toBe(400);
    expect(textAt(await json(response), "error", "data", "next", "change")).toContain("2025-11-25");
  });

  it("takes GET without an event id, DELETE and PUT as not offered", async () => {
    for (const method of ["GET", "DELETE", "PUT"]) {
      const response = await send(server, method, { session: await initialize(server) });
      expect([response.status, response.headers.get("allow")]).toEqual([405, "POST"]);
      expect(textAt(await json(response), "error", "data", "next", "kind")).toBe("fix");
    }
  });
});

describe("what the tool is told beside the message", () => {
  async function contextOf(headers: Record<string, string>, query: string, meta?: Record<string, unknown>) {
    const session = await initialize(server);
    await post(server, callBody(1, "echo", { text: "x" }, meta), { headers, query, session });
    const call = server.wire.calls.at(-1);
    if (call === undefined) throw new Error("no call");
    return call.context;
  }

  it("reads the client's own limit from the header, else from the URL", async () => {
    expect((await contextOf({ "x-request-timeout-ms": "30000" }, "?requestTimeoutMs=5000")).requestTimeoutMs).toBe(
      30_000,
    );
    expect((await contextOf({}, "?requestTimeoutMs=5000")).requestTimeoutMs).toBe(5_000);
    expect((await contextOf({}, "")).requestTimeoutMs).toBeNull();
  });

  it("reads the working directory, also with letters beyond ASCII", async () => {
    expect((await contextOf({ "x-delegate-cwd": "/home/me/shop" }, "")).cwd).toBe("/home/me/shop");
    const bytes = Buffer.from("/home/jürgen/läden").toString("latin1");
    expect((await contextOf({ "x-delegate-cwd": bytes }, "")).cwd).toBe("/home/jürgen/läden");
    expect((await contextOf({}, "")).cwd).toBeNull();
  });

  it("takes Codex's thread for the conversation, else the session's nonce", async () => {
    expect((await contextOf({}, "", { threadId: "thr_1" })).caller.conversation).toBe("thr_1");
    expect((await contextOf({}, "")).caller.conversation).toMatch(/^[\w-]{12}$/);
  });
});
