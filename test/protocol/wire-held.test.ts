/** Held calls: the first byte, signs of life, and the three ways in which a wait ends early. */

import { once } from "node:events";
import net from "node:net";
import { afterEach, describe, expect, it } from "vitest";
import { Agent, fetch as undiciFetch } from "undici";
import { createStepClock } from "../support/step-clock.ts";
import { at, textAt } from "../support/json.ts";
import { openClient } from "../support/mcp-clients.ts";
import {
  callBody,
  cancelBody,
  CLAUDE,
  initialize,
  messagesOf,
  modernHeaders,
  modernMeta,
  openStream,
  post,
  type RawOptions,
  type RawStream,
} from "../support/raw-mcp.ts";
import { startTcpFaultProxy } from "../support/tcp-fault-proxy.ts";
import { startWireServer, TOKEN, type WireServer, type WireServerOptions } from "../support/wire-server.ts";

const FIRST_BYTE_MS = 1_000;
const started: WireServer[] = [];

async function start(options: WireServerOptions = {}): Promise<WireServer> {
  const server = await startWireServer(options);
  started.push(server);
  return server;
}

afterEach(async () => {
  for (const server of started.splice(0)) await server.stop();
});

/** The same held call in either era. */
async function openHold(
  server: WireServer,
  era: "legacy" | "modern",
  name: string,
  options: RawOptions = {},
): Promise<RawStream> {
  const legacy = era === "legacy";
  const body = callBody(1, "hold", { name }, legacy ? {} : modernMeta());
  const headers = { ...(legacy ? {} : modernHeaders("tools/call", "hold")), ...options.headers };
  return openStream(server, body, { ...options, headers });
}

describe.each(["legacy", "modern"] as const)("a held call of the %s era", (era) => {
  it("sends headers and a first byte within a second, while the tool still waits (P8, H4)", async () => {
    const server = await start();
    const startedMs = performance.now();
    await using stream = await openHold(server, era, "first byte");
    await stream.next();
    expect(performance.now() - startedMs).toBeLessThan(FIRST_BYTE_MS);
    expect(server.wire.waiting()).toBe(1);
    expect(stream.response.headers.get("content-type")).toBe("text/event-stream");
    expect(stream.response.headers.get("x-accel-buffering")).toBe("no");
    (await server.wire.arrived("first byte")).release("ok");
    const answer = messagesOf(await stream.rest()).at(-1);
    expect(at(answer, "result", "structuredContent", "text")).toBe("ok");
  });

  it("outlives a client's header timer that is shorter than the wait (H4)", async () => {
    const server = await start();
    const dispatcher = new Agent({ headersTimeout: 300 });
    const legacy = era === "legacy";
    const body = callBody(1, "hold", { name: "long", waitMs: 900 }, legacy ? {} : modernMeta());
    const response = await undiciFetch(server.mcpUrl, {
      method: "POST",
      dispatcher,
      body: JSON.stringify(body),
      headers: {
        accept: "application/json, text/event-stream",
        "content-type": "application/json",
        authorization: `Bearer ${TOKEN}`,
        ...(legacy ? {} : modernHeaders("tools/call", "hold")),
      },
    });
    expect(await response.text()).toContain('"end":"slice"');
    await dispatcher.close();
  });

  it("survives a proxy that cuts silent connections, thanks to the heartbeat alone (PE4)", async () => {
    const silenceMs = 300;
    for (const [heartbeatMs, survives] of [
      [60, true],
      [60_000, false],
    ] as const) {
      const server = await start({ mcp: { heartbeatMs } });
      await using proxy = await startTcpFaultProxy(server.port);
      proxy.set({ kind: "idle_limit", idleMs: silenceMs });
      const body = callBody(1, "hold", { name: "silent", waitMs: 1_200 }, era === "legacy" ? {} : modernMeta());
      const outcome = await fetch(proxy.through(server.mcpUrl), {
        method: "POST",
        body: JSON.stringify(body),
        headers: {
          accept: "application/json, text/event-stream",
          "content-type": "application/json",
          authorization: `Bearer ${TOKEN}`,
          ...(era === "legacy" ? {} : modernHeaders("tools/call", "hold")),
        },
      })
        .then((response) => response.text())
        .catch(() => "cut");
      expect(outcome.includes('"end":"slice"')).toBe(survives);
    }
  });

  it("sends no progress without a token, and nothing fails (PE1)", async () => {
    const server = await start({ mcp: { heartbeatMs: 20 } });
    await using stream = await openHold(server, era, "no token");
    const hold = await server.wire.arrived("no token");
    expect(hold.context.progress).toBeNull();
    for (let beats = 0; beats < 3; beats++) await stream.next();
    hold.release("ok");
    expect(messagesOf(await stream.rest()).map((message) => message["method"] ?? "answer")).toEqual(["answer"]);
  });

  it("repeats the last progress message as long as it waits, with strictly increasing values (H5)", async () => {
    const server = await start({ mcp: { heartbeatMs: 20 } });
    const meta = { progressToken: "t", ...(era === "legacy" ? {} : modernMeta()) };
    const headers = era === "legacy" ? {} : modernHeaders("tools/call", "hold");
    await using stream = await openStream(server, callBody(1, "hold", { name: "beat" }, meta), { headers });
    const hold = await server.wire.arrived("beat");
    const values: number[] = [];
    while (values.length < 4) {
      const message = messagesOf([(await stream.next()) ?? {}])[0];
      if (message === undefined) continue;
      expect(message).toMatchObject({
        method: "notifications/progress",
        params: { progressToken: "t", message: "holding beat" },
      });
      values.push(Number(at(message, "params", "progress")));
    }
    hold.release("ok");
    const rest = messagesOf(await stream.rest());
    expect(at(rest.at(-1), "result")).toBeDefined();
    expect(values).toEqual([...new Set(values)].sort((a, b) => a - b));
  });

  it("ends the wait, and only that, as soon as the client's socket is gone (P7)", async () => {
    const server = await start();
    const other = await openHold(server, era, "other");
    const stream = await openHold(server, era, "gone");
    const hold = await server.wire.arrived("gone");
    stream.abort();
    expect(await hold.over).toBe("closed");
    expect(server.wire.waiting()).toBe(1);
    (await server.wire.arrived("other")).release("unharmed");
    expect(textAt(messagesOf(await other.rest()).at(-1), "result", "structuredContent", "text")).toBe("unharmed");
  });

  it("is answered at once when the daemon stops, and later calls do not wait at all (P7)", async () => {
    const server = await start();
    await using stream = await openHold(server, era, "stopping");
    await server.wire.arrived("stopping");
    const stopped = server.mcp.shutDown();
    const answer = messagesOf(await stream.rest()).at(-1);
    expect(at(answer, "result", "structuredContent", "end")).toBe("shutdown");
    await stopped;
    expect(server.mcp.openCallCount()).toBe(0);
    await using late = await openHold(server, era, "late");
    expect(late.response.status).toBe(200);
    expect(at(messagesOf(await late.rest()).at(-1), "result", "structuredContent", "end")).toBe("shutdown");
  });
});

describe("a held call of a client that reads no streams", () => {
  it("is answered as JSON before the client's own limit (H4, P8)", async () => {
    const server = await start();
    const headers = { accept: "application/json", "x-request-timeout-ms": "1250" };
    const startedMs = performance.now();
    const response = await post(server, callBody(1, "hold", { name: "json" }), { headers });
    expect(response.headers.get("content-type")).toContain("application/json");
    expect(await response.text()).toContain('"end":"slice"');
    expect(performance.now() - startedMs).toBeLessThan(1_250);
    expect((await server.wire.arrived("json")).context).toMatchObject({ streaming: false, sliceMaxMs: 1_000 });
  });

  it("stops waiting when the socket is gone (P7)", async () => {
    const server = await start();
    const control = new AbortController();
    const call = post(server, callBody(1, "hold", { name: "json gone" }), {
      headers: { accept: "application/json" },
      signal: control.signal,
    }).catch(() => "aborted");
    const hold = await server.wire.arrived("json gone");
    control.abort();
    expect(await hold.over).toBe("closed");
    expect(await call).toBe("aborted");
  });
});

describe("stopping", () => {
  it("is not held up by connections that clients keep for later, used or never used", async () => {
    const server = await startWireServer();
    const unused = net.connect(server.port, "127.0.0.1");
    await once(unused, "connect");
    await using stream = await openHold(server, "legacy", "last");
    await server.wire.arrived("last");
    const startedMs = performance.now();
    await server.stop();
    expect(performance.now() - startedMs).toBeLessThan(2_000);
    expect(at(messagesOf(await stream.rest()).at(-1), "result", "structuredContent", "end")).toBe("shutdown");
  });
});

describe("cancel notices (C5, C6, P7)", () => {
  it("end the named wait promptly; the stream closes with an answer that nobody has to read", async () => {
    const server = await start();
    const session = await initialize(server, CLAUDE);
    await using stream = await openStream(server, callBody(9, "hold", { name: "c" }), { session });
    const hold = await server.wire.arrived("c");
    expect((await post(server, cancelBody(9), { session })).status).toBe(202);
    expect(await hold.over).toBe("cancelled");
    const rest = messagesOf(await stream.rest());
    expect(at(rest.at(-1), "result", "structuredContent", "end")).toBe("cancelled");
    expect((await post(server, callBody(10, "echo", { text: "goes on" }), { session })).status).toBe(200);
  });

  it("do not bring an SDK 1.x client back to wait again for what it cancelled", async () => {
    const server = await start({ mcp: { retryMs: 10 } });
    const methods: string[] = [];
    await using client = await openClient("1.x", {
      url: server.mcpUrl,
      fetch: (url, init) => {
        methods.push(init?.method ?? "GET");
        return fetch(url, init);
      },
    });
    const control = new AbortController();
    const call = client.call("hold", { name: "sdk" }, { signal: control.signal }).catch(() => "cancelled");
    const hold = await server.wire.arrived("sdk");
    control.abort();
    expect(await call).toBe("cancelled");
    expect(await hold.over).toBe("cancelled");
    const getsBefore = methods.filter((method) => method === "GET").length;
    for (let calls = 0; calls < 20; calls++) await client.call("echo", { text: "time passes" });
    await client.call("hold", { name: "time passes", waitMs: 200 });
    expect(methods.filter((method) => method === "GET").length).toBe(getsBefore);
    expect(server.mcp.openCallCount()).toBe(0);
  });

  it("for answered and unknown ids are ignored (C6)", async () => {
    const server = await start();
    const session = await initialize(server);
    await (await post(server, callBody(1, "echo", { text: "x" }), { session })).text();
    await using stream = await openStream(server, callBody(2, "hold", { name: "open" }), { session });
    for (const id of [1, 99, "2"]) expect((await post(server, cancelBody(id), { session })).status).toBe(202);
    const hold = await server.wire.arrived("open");
    hold.release("untouched");
    expect(textAt(messagesOf(await stream.rest()).at(-1), "result", "structuredContent", "text")).toBe("untouched");
  });

  it("never reach another conversation or another caller that uses the same request id (M2, P16)", async () => {
    const server = await start();
    const [mine, theirs] = [await initialize(server), await initialize(server)];
    await using stream = await openStream(server, callBody(7, "hold", { name: "mine" }), { session: mine });
    const hold = await server.wire.arrived("mine");
    await post(server, cancelBody(7), { session: theirs });
    await post(server, cancelBody(7), { session: mine, token: "token-of-mallory" });
    await post(server, cancelBody(7));
    hold.release("untouched");
    expect(textAt(messagesOf(await stream.rest()).at(-1), "result", "structuredContent", "text")).toBe("untouched");
  });

  it("without a session are obeyed only where they can mean no other call", async () => {
    const server = await start();
    await using first = await openStream(server, callBody(1, "hold", { name: "first" }));
    const firstHold = await server.wire.arrived("first");
    await using second = await openStream(server, callBody(1, "hold", { name: "second" }));
    const secondHold = await server.wire.arrived("second");
    await post(server, cancelBody(1));
    firstHold.release("kept");
    expect(textAt(messagesOf(await first.rest()).at(-1), "result", "structuredContent", "end")).toBe("released");
    await post(server, cancelBody(1));
    expect(await secondHold.over).toBe("cancelled");
    await second.rest();
  });

  it("leave nothing behind after 200 of them: no open call, no timer, other calls unharmed (C5)", async () => {
    const clock = createStepClock();
    const server = await start({ mcp: { clock } });
    const session = await initialize(server);
    await using bystander = await openStream(server, callBody("bystander", "hold", { name: "bystander" }), { session });
    const bystanding = await server.wire.arrived("bystander");
    for (let round = 0; round < 10; round++) {
      const ids = Array.from({ length: 20 }, (_, index) => round * 20 + index);
      const streams = await Promise.all(
        ids.map((id) => openStream(server, callBody(id, "hold", { name: `n${id}` }), { session })),
      );
      const holds = await Promise.all(ids.map((id) => server.wire.arrived(`n${id}`)));
      await Promise.all(ids.map((id) => post(server, cancelBody(id), { session })));
      expect(await Promise.all(holds.map((hold) => hold.over))).toEqual(ids.map(() => "cancelled"));
      await Promise.all(streams.map((stream) => stream.rest()));
    }
    expect(server.mcp.openCallCount()).toBe(1);
    expect(clock.timers()).toBe(1);
    bystanding.release("unharmed");
    await bystander.rest();
    expect([server.mcp.openCallCount(), server.wire.waiting(), clock.timers()]).toEqual([0, 0, 0]);
  });
});
