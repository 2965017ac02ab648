/** Many clients, dead sessions, clients that never say goodbye: no session is kept, so none can be lost or leak. */

import net from "node:net";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { afterEach, describe, expect, it } from "vitest";
import { createSessionIds } from "../../src/mcp/session-id.ts";
import { at, parsed, textAt } from "../support/json.ts";
import { CLIENT_KINDS, openClient } from "../support/mcp-clients.ts";
import { callBody, initialize, messagesOf, openStream, post, send } from "../support/raw-mcp.ts";
import { SESSION_KEY, startWireServer, TOKEN, type WireServer } from "../support/wire-server.ts";

const started: WireServer[] = [];

async function start(): Promise<WireServer> {
  const server = await startWireServer();
  started.push(server);
  return server;
}

afterEach(async () => {
  for (const server of started.splice(0)) await server.stop();
});

const SESSION_IDS: readonly [what: string, id: string | undefined][] = [
  ["no id", undefined],
  ["an id of this process", createSessionIds(SESSION_KEY).mint({ name: "a", version: "1" })],
  ["an id under another key", createSessionIds(Buffer.alloc(32, 3)).mint({ name: "a", version: "1" })],
  ["somebody else's id", "1868a90c-7b1f-4c65-9f4e-6a1d9a2f0c11"],
  ["a damaged id", "eyJuIjoi.AAAA"],
  ["a very long id", "x".repeat(4_000)],
];

describe.each(SESSION_IDS)("with %s (R4, R5)", (_what, session) => {
  const options = session === undefined ? {} : { session };

  it("serves calls, lists and notifications", async () => {
    const server = await start();
    const call = await post(server, callBody(1, "echo", { text: "served" }), options);
    expect([call.status, textAt(parsed(await call.text()), "result", "structuredContent", "text")]).toEqual([
      200,
      "served",
    ]);
    const list = await post(server, { jsonrpc: "2.0", id: 2, method: "tools/list" }, options);
    expect([list.status, at(parsed(await list.text()), "result", "tools", 0, "name")]).toEqual([200, "echo"]);
    expect((await post(server, { jsonrpc: "2.0", method: "notifications/initialized" }, options)).status).toBe(202);
  });

  it("serves held calls as streams", async () => {
    const server = await start();
    await using stream = await openStream(server, callBody(1, "hold", { name: "h" }), options);
    (await server.wire.arrived("h")).release("served");
    expect(textAt(messagesOf(await stream.rest()).at(-1), "result", "structuredContent", "text")).toBe("served");
  });

  it("answers GET and DELETE with 405, never with 404 or 5xx", async () => {
    const server = await start();
    expect((await send(server, "GET", options)).status).toBe(405);
    expect((await send(server, "DELETE", options)).status).toBe(405);
  });
});

describe("several clients", () => {
  it("each get only their own answers and progress while ten of them wait (M1)", async () => {
    const server = await start();
    const names = Array.from({ length: 10 }, (_, index) => `client-${index}`);
    const clients = await Promise.all(
      names.map((name, index) =>
        openClient(CLIENT_KINDS[index % CLIENT_KINDS.length] ?? "1.x", { url: server.mcpUrl, name }),
      ),
    );
    const heard = new Map<string, (string | undefined)[]>(names.map((name) => [name, []]));
    const calls = clients.map((client, index) => {
      const name = names[index] ?? "";
      return client.call("hold", { name }, { onProgress: (_value, message) => void heard.get(name)?.push(message) });
    });
    const holds = await Promise.all(names.map((name) => server.wire.arrived(name)));
    for (const hold of holds.toReversed()) hold.context.progress?.(`progress of ${hold.name}`);
    for (const hold of holds.toReversed()) hold.release(`answer of ${hold.name}`);
    const answers = await Promise.all(calls);
    expect(answers.map((answer) => answer.structured["text"])).toEqual(names.map((name) => `answer of ${name}`));
    for (const name of names) expect(heard.get(name)).toEqual([`holding ${name}`, `progress of ${name}`]);
    for (const client of clients) await client[Symbol.asyncDispose]();
  });

  it("are not mixed up when they use the same request ids at the same moment (M2)", async () => {
    const server = await start();
    const sessions = [await initialize(server), await initialize(server)];
    const streams = await Promise.all(
      sessions.map((session, index) => openStream(server, callBody(1, "hold", { name: `same-${index}` }), { session })),
    );
    for (const index of [1, 0]) (await server.wire.arrived(`same-${index}`)).release(`for ${index}`);
    for (const [index, stream] of streams.entries()) {
      const answer = messagesOf(await stream.rest()).at(-1);
      expect(answer).toMatchObject({ id: 1, result: { structuredContent: { text: `for ${index}` } } });
    }
  });

  it("come one after another, and one again after a crash (M3)", async () => {
    const server = await start();
    const [first, second, third] = await Promise.all(
      (["1.x", "2.x legacy", "2.x auto"] as const).map((kind) => openClient(kind, { url: server.mcpUrl, name: kind })),
    );
    await first?.[Symbol.asyncDispose]();
    await using again = await openClient("1.x", { url: server.mcpUrl, name: "1.x" });
    for (const client of [second, third, again]) expect((await client?.call("echo", { text: "up" }))?.text).toBe("up");
    await second?.[Symbol.asyncDispose]();
    await third?.[Symbol.asyncDispose]();
  });
});

describe("clients that leak", () => {
  /** Growth of the heap that a full collection cannot explain away. */
  const GROWTH_BYTES_MAX = 4 * 1_024 * 1_024;

  it("leave nothing behind with 5,000 posts under stale or no session ids (E2)", async () => {
    const server = await start();
    const posts = (count: number): PipelinedPost[] =>
      Array.from({ length: count }, (_, id) => ({
        body: { jsonrpc: "2.0", id, method: "ping" },
        session: id % 2 === 0 ? null : `stale-${id}`,
      }));
    await pipeline(server, posts(1_000));
    const before = heapBytes();
    expect(await pipeline(server, posts(5_000))).toBe(5_000);
    expect(heapBytes() - before).toBeLessThan(GROWTH_BYTES_MAX);
    expect(server.mcp.openCallCount()).toBe(0);
  }, 60_000);

  it("leave nothing behind with 1,000 initialises that are never closed, and an open wait is never evicted (E3)", async () => {
    const server = await start();
    await using waiting = await openStream(server, callBody(1, "hold", { name: "old wait" }), {
      session: await initialize(server),
    });
    const hold = await server.wire.arrived("old wait");
    const posts = (count: number): PipelinedPost[] =>
      Array.from({ length: count }, (_, id) => {
        const clientInfo = { name: `client-${id}`, version: "1" };
        const params = { protocolVersion: "2025-11-25", capabilities: {}, clientInfo };
        return { body: { jsonrpc: "2.0", id, method: "initialize", params }, session: null };
      });
    await pipeline(server, posts(500));
    const before = heapBytes();
    expect(await pipeline(server, posts(1_000))).toBe(1_000);
    expect(heapBytes() - before).toBeLessThan(GROWTH_BYTES_MAX);
    expect(server.mcp.openCallCount()).toBe(1);
    hold.release("still here");
    expect(textAt(messagesOf(await waiting.rest()).at(-1), "result", "structuredContent", "text")).toBe("still here");
  }, 60_000);
});

type PipelinedPost = { readonly body: object; readonly session: string | null };

/** Sends posts over one connection without waiting for each answer; how many were answered with a result. */
function pipeline(server: WireServer, posts: readonly PipelinedPost[]): Promise<number> {
  const { promise, resolve, reject } = Promise.withResolvers<number>();
  const requests = posts.map(({ body, session }) => {
    const json = JSON.stringify(body);
    const headers = [
      "POST /mcp HTTP/1.1",
      "Host: localhost",
      "Content-Type: application/json",
      "Accept: application/json, text/event-stream",
      `Authorization: Bearer ${TOKEN}`,
      `Content-Length: ${json.length}`,
      ...(session === null ? [] : [`Mcp-Session-Id: ${session}`]),
    ];
    return `${headers.join("\r\n")}\r\n\r\n${json}`;
  });
  let answered = 0;
  let tail = "";
  const socket = net.connect(server.port, "127.0.0.1", () => socket.write(requests.join("")));
  socket.on("data", (chunk) => {
    const text = tail + chunk.toString();
    answered += text.split('"result":').length - 1;
    tail = text.slice(-8);
    if (answered >= posts.length) socket.destroy();
  });
  socket.on("error", reject);
  socket.on("close", () => resolve(answered));
  return promise;
}

function heapBytes(): number {
  setFlagsFromString("--expose-gc");
  const collect: unknown = runInNewContext("gc");
  if (typeof collect === "function") collect();
  return process.memoryUsage().heapUsed;
}
