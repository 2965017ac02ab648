/** What happens to a request before any surface sees it: Host, Origin, token, limits, and refusals that say what to do. */

import net from "node:net";
import type { FastifyPluginAsync } from "fastify";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { callerOf, requireScope } from "../../src/http/auth.ts";
import { at, parsed, textAt } from "../support/json.ts";
import { callBody, post } from "../support/raw-mcp.ts";
import { callerNamed, startWireServer, TOKEN, type WireServer } from "../support/wire-server.ts";
import { taskIdFrom } from "../../src/core/ids.ts";

const api: FastifyPluginAsync = async (app) => {
  app.get("/api/me", async (request) => callerOf(request));
  app.get("/api/events", async (_request, reply) => reply.type("text/event-stream").send(": \n\n"));
  app.get("/api/admin", { onRequest: requireScope("admin") }, async () => ({ ok: true }));
  app.post("/api/echo", async (request) => request.body);
  app.get("/api/boom", async () => {
    throw new Error("secret detail");
  });
  app.get("/", { config: { access: "open" } }, async (_request, reply) =>
    reply.type("text/html").send("<!doctype html>"),
  );
};

let server: WireServer;
let ready = true;
beforeAll(async () => {
  server = await startWireServer({
    people: [api],
    http: {
      allowedHosts: ["box.example", "exact.example:8443"],
      allowedOrigins: ["https://page.example", "vscode-webview://abc"],
      bodyMaxBytes: 10_000,
      isReady: () => ready,
    },
  });
});
afterAll(() => server.stop());

type Answer = { readonly status: number; readonly head: string; readonly body: string };

/** One request as bytes, because fetch lets nobody choose Host. */
function raw(lines: readonly string[], body = ""): Promise<Answer> {
  const { promise, resolve, reject } = Promise.withResolvers<Answer>();
  const socket = net.connect(server.port, "127.0.0.1", () => {
    socket.write([...lines, "Connection: close", `Content-Length: ${Buffer.byteLength(body)}`, "", body].join("\r\n"));
  });
  let text = "";
  socket.on("data", (chunk) => {
    text += chunk.toString();
  });
  socket.on("error", reject);
  socket.on("close", () => {
    const split = text.indexOf("\r\n\r\n");
    resolve({ status: Number(text.slice(9, 12)), head: text.slice(0, split), body: text.slice(split + 4) });
  });
  return promise;
}

const AUTH = `Authorization: Bearer ${TOKEN}`;
const JSON_TYPE = "Content-Type: application/json";
const ROUTES = [
  ["GET", "/"],
  ["GET", "/readyz"],
  ["POST", "/mcp"],
  ["GET", "/mcp"],
  ["DELETE", "/mcp"],
  ["GET", "/api/me"],
  ["GET", "/api/events"],
  ["GET", "/nowhere"],
] as const;

describe("Host and Origin (X1)", () => {
  it.each(ROUTES)(
    "refuses a foreign Host on %s %s before anything else, with and without a token",
    async (method, path) => {
      for (const auth of [[], [AUTH]]) {
        const answer = await raw([`${method} ${path} HTTP/1.1`, "Host: evil.example", ...auth]);
        expect(answer.status).toBe(403);
        expect(answer.body).toContain('"next"');
      }
    },
  );

  it.each(ROUTES)("refuses a foreign Origin and the Origin null on %s %s", async (method, path) => {
    for (const origin of [
      "http://evil.example",
      "null",
      "http://127.0.0.1.evil.example",
      "http://localhost@evil.example",
    ]) {
      const answer = await raw([`${method} ${path} HTTP/1.1`, "Host: 127.0.0.1", `Origin: ${origin}`, AUTH]);
      expect(answer.status).toBe(403);
    }
    expect(server.wire.calls).toEqual([]);
  });

  it.each([
    ["127.0.0.1:4517", 200],
    ["LOCALHOST:1", 200],
    ["localhost", 200],
    ["[::1]:9", 200],
    ["box.example", 200],
    ["box.example:99", 200],
    ["exact.example:8443", 200],
    ["exact.example:8444", 403],
    ["exact.example", 403],
    ["localhost.evil.example", 403],
    ["evil.example:localhost", 403],
    ["localhost:80:80", 403],
    ["127.0.0.2", 403],
    ["localhost.", 403],
  ] as const)("answers a Host of %s with %i", async (host, status) => {
    expect((await raw(["GET /readyz HTTP/1.1", `Host: ${host}`])).status).toBe(status);
  });

  it.each([
    ["http://localhost:5173", 200],
    ["https://127.0.0.1", 200],
    ["http://[::1]:1", 200],
    ["https://page.example", 200],
    ["vscode-webview://abc", 200],
    ["https://page.example:8443", 403],
    ["http://page.example", 403],
    ["vscode-webview://abd", 403],
    ["localhost", 403],
    ["", 403],
  ] as const)("answers an Origin of %s with %i", async (origin, status) => {
    expect((await raw(["GET /readyz HTTP/1.1", "Host: localhost", `Origin: ${origin}`])).status).toBe(status);
  });

  it("takes a missing Host for a foreign one", async () => {
    expect((await raw(["GET /readyz HTTP/1.0"])).status).toBe(403);
  });

  it("lets a liveness probe come under any name", async () => {
    expect((await raw(["GET /livez HTTP/1.1", "Host: 10.0.0.7:4517"])).status).toBe(200);
  });
});

describe("tokens", () => {
  const call = JSON.stringify(callBody(3, "echo", { text: "x" }));
  const cases: readonly [what: string, header: string | null, code: string][] = [
    ["none", null, "token_missing"],
    ["one in the wrong form", "Basic YWxpY2U6eA==", "token_malformed"],
    ["an empty one", "Bearer ", "token_malformed"],
    ["a variable that was not filled in", "Bearer ${DELEGATE_TOKEN}", "token_is_placeholder"],
    ["another kind of placeholder", "Bearer <token>", "token_is_placeholder"],
    ["a revoked one", "Bearer token-of-revoked", "token_revoked"],
    ["an unknown one", "Bearer 0123456789abcdef", "token_unknown"],
  ];

  it.each(cases)(
    "with %s are answered 401, a challenge and what is probably wrong (P1)",
    async (_what, header, code) => {
      const auth = header === null ? [] : [`Authorization: ${header}`];
      const answer = await raw(["POST /mcp HTTP/1.1", "Host: localhost", JSON_TYPE, ...auth], call);
      expect(answer.status).toBe(401);
      expect(answer.head.toLowerCase()).toContain('www-authenticate: bearer realm="delegate-mcp"');
      const body = parsed(answer.body);
      expect(body).toMatchObject({
        jsonrpc: "2.0",
        id: null,
        error: { code: 401, data: { code, next: { kind: "ask_user" } } },
      });
      const page = await raw(["GET /api/me HTTP/1.1", "Host: localhost", ...auth]);
      expect(parsed(page.body)).toMatchObject({ error: { code }, next: { kind: "ask_user" } });
      if (header !== null && header.length > 10) expect(answer.body + page.body).not.toContain(header.slice(7));
    },
  );

  it("in the URL are refused with 400 and never logged", async () => {
    for (const name of ["token", "access_token", "api_key", "Authorization"]) {
      const answer = await raw([`POST /mcp?x=1&${name}=topsecret HTTP/1.1`, "Host: localhost", JSON_TYPE, AUTH], call);
      expect([answer.status, textAt(parsed(answer.body), "error", "data", "code")]).toEqual([400, "token_in_url"]);
    }
    expect(JSON.stringify(server.log.entries)).not.toContain("topsecret");
    expect(server.log.entries.some(({ fields }) => fields["reason"] === "token_in_url")).toBe(true);
  });

  it("are not asked for where there is nothing, so that probes for other protocols see a plain 404", async () => {
    const answer = await raw(["GET /.well-known/oauth-protected-resource HTTP/1.1", "Host: localhost"]);
    expect([answer.status, at(parsed(answer.body), "next", "kind")]).toEqual([404, "fix"]);
  });

  it("are not asked for by health checks and open pages, and health says no more than yes or no", async () => {
    expect((await raw(["GET / HTTP/1.1", "Host: localhost"])).status).toBe(200);
    expect(parsed((await raw(["GET /livez HTTP/1.1", "Host: localhost"])).body)).toEqual({ status: "live" });
    expect(parsed((await raw(["GET /readyz HTTP/1.1", "Host: localhost"])).body)).toEqual({ status: "ready" });
    ready = false;
    const answer = await raw(["GET /readyz HTTP/1.1", "Host: localhost"]);
    ready = true;
    expect([answer.status, parsed(answer.body)]).toEqual([503, { status: "not_ready" }]);
  });

  it("make whoever comes by the people's routes a person, and by /mcp a caller", async () => {
    const me = await raw(["GET /api/me HTTP/1.1", "Host: localhost", AUTH]);
    expect(parsed(me.body)).toMatchObject({ name: "alice", kind: "person" });
    await (await post(server, callBody(1, "echo", { text: "x" }))).text();
    expect(server.wire.calls.at(-1)?.context.caller).toMatchObject({ name: "alice", kind: "caller" });
  });

  it("without the needed scope are told which one is missing", async () => {
    const answer = await raw(["GET /api/admin HTTP/1.1", "Host: localhost", AUTH]);
    expect(answer.status).toBe(403);
    expect(answer.head).toContain('error="insufficient_scope", scope="admin"');
    expect(parsed(answer.body)).toMatchObject({ error: { code: "not_allowed" }, next: { kind: "ask_user" } });
  });

  it("of children open /mcp and nothing else (P18)", async () => {
    const lineage = { taskId: taskIdFrom("01J000000000000000000000A1"), epoch: 1, ancestors: [] };
    const child = { ...callerNamed("kid"), kind: "child", lineage } as const;
    await using forChildren = await startWireServer({ people: [api], http: { authenticate: async () => child } });
    await (await post(forChildren, callBody(1, "echo", { text: "x" }))).text();
    expect(forChildren.wire.calls.at(-1)?.context.caller.kind).toBe("child");
    const me = await fetch(`${forChildren.origin}/api/me`);
    expect([me.status, at(parsed(await me.text()), "next", "kind")]).toEqual([403, "fix"]);
  });
});

describe("refusals say what to do next, as JSON-RPC on /mcp and as JSON elsewhere (P1)", () => {
  const big = JSON.stringify({ text: "x".repeat(20_000) });
  it.each([
    { what: "a body that is no JSON", type: JSON_TYPE, body: "{oops", status: 400, code: -32700 },
    { what: "an empty body", type: JSON_TYPE, body: "", status: 400, code: -32700 },
    { what: "a body that is too large", type: JSON_TYPE, body: big, status: 413, code: 413 },
    { what: "another content type", type: "Content-Type: text/plain", body: "hello", status: 415, code: 415 },
    { what: "a poisoned prototype", type: JSON_TYPE, body: '{"__proto__":{"x":1}}', status: 400, code: -32700 },
  ])("for $what", async ({ type, body, status, code }) => {
    const rpc = await raw(["POST /mcp HTTP/1.1", "Host: localhost", type, AUTH], body);
    expect([rpc.status, at(parsed(rpc.body), "error", "code")]).toEqual([status, code]);
    expect(textAt(parsed(rpc.body), "error", "data", "next", "kind")).toBe("fix");
    const rest = await raw(["POST /api/echo HTTP/1.1", "Host: localhost", type, AUTH], body);
    expect([rest.status, textAt(parsed(rest.body), "next", "kind")]).toEqual([status, "fix"]);
  });

  it("for a method that the path does not take, with those that it does", async () => {
    const answer = await raw(["PUT /api/echo HTTP/1.1", "Host: localhost", AUTH]);
    expect([answer.status, textAt(parsed(answer.body), "next", "change")]).toEqual([405, "Use POST."]);
    expect(answer.head.toLowerCase()).toContain("allow: post");
    expect((await raw(["HEAD /mcp HTTP/1.1", "Host: localhost", AUTH])).status).toBe(405);
  });

  it("for an error of ours, without its text, which is logged", async () => {
    const answer = await raw(["GET /api/boom HTTP/1.1", "Host: localhost", AUTH]);
    expect([answer.status, textAt(parsed(answer.body), "next", "kind")]).toEqual([500, "repeat_same_call"]);
    expect(answer.body).not.toContain("secret detail");
    expect(server.log.entries.at(-1)).toMatchObject({
      event: "request_failed",
      fields: { route: "/api/boom", message: "secret detail" },
    });
  });

  it("for bytes that are no HTTP", async () => {
    const answer = await raw(["NONSENSE"]);
    expect([answer.status, at(parsed(answer.body), "next", "kind")]).toEqual([400, "fix"]);
    const header = await raw(["GET /readyz HTTP/1.1", "Host: localhost", `X-Long: ${"x".repeat(40_000)}`]);
    expect([header.status, at(parsed(header.body), "next", "kind")]).toEqual([431, "fix"]);
  });

  it("for a path that cannot be decoded", async () => {
    const answer = await raw(["GET /%ff HTTP/1.1", "Host: localhost", AUTH]);
    expect([answer.status, at(parsed(answer.body), "next", "kind")]).toEqual([400, "fix"]);
  });
});
