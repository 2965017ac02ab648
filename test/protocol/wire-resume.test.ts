/** Broken streams: the same wait is taken up again, by the same process or another one (P7, H1). */

import { afterEach, describe, expect, it } from "vitest";
import { taskIdFrom } from "../../src/core/ids.ts";
import { createStepClock } from "../support/step-clock.ts";
import { at } from "../support/json.ts";
import { openClient } from "../support/mcp-clients.ts";
import {
  callBody,
  cancelBody,
  CLAUDE,
  initialize,
  messagesOf,
  openStream,
  post,
  resumeStream,
  send,
} from "../support/raw-mcp.ts";
import { startTcpFaultProxy } from "../support/tcp-fault-proxy.ts";
import { callerNamed, startWireServer, type WireServer, type WireServerOptions } from "../support/wire-server.ts";

const started: WireServer[] = [];

async function start(options: WireServerOptions = {}): Promise<WireServer> {
  const server = await startWireServer({ ...options, mcp: { retryMs: 20, ...options.mcp } });
  started.push(server);
  return server;
}

afterEach(async () => {
  for (const server of started.splice(0)) await server.stop();
});

/** Holds a call, reads its event id and breaks the stream. */
async function brokenHold(server: WireServer, name: string, session?: string): Promise<string> {
  const options = session === undefined ? {} : { session };
  const stream = await openStream(server, callBody("call-7", "hold", { name }, { progressToken: 3 }), options);
  const first = await stream.next();
  const hold = await server.wire.arrived(name);
  stream.abort();
  expect(await hold.over).toBe("closed");
  if (first?.id === undefined) throw new Error("the first event has no id");
  return first.id;
}

describe("resuming by hand", () => {
  it("opens the stream with an empty event that carries an id and says how soon to come back", async () => {
    await using server = await startWireServer();
    for (const [client, retry] of [
      [CLAUDE, "6000"],
      [{ name: "other", version: "1" }, "3000"],
    ] as const) {
      const session = await initialize(server, client);
      await using stream = await openStream(server, callBody(1, "hold", { name: "open" }), { session });
      expect(await stream.next()).toEqual({ id: expect.stringMatching(/^[\w.-]{50,1024}$/), retry, data: "" });
      (await server.wire.arrived("open")).release("ok");
      await stream.rest();
    }
  });

  it("runs the same call again and answers under its first JSON-RPC id", async () => {
    const server = await start();
    const session = await initialize(server, CLAUDE);
    const id = await brokenHold(server, "again", session);
    await using stream = await resumeStream(server, id, { session });
    expect(stream.response.headers.get("content-type")).toBe("text/event-stream");
    expect(await stream.next()).toMatchObject({ id, data: "" });
    const hold = await server.wire.arrived("again");
    expect(hold.args).toEqual({ name: "again" });
    expect(hold.context).toMatchObject({ resumed: true, streaming: true, client: CLAUDE, caller: { name: "alice" } });
    hold.release("late but here");
    const messages = messagesOf(await stream.rest());
    expect(messages[0]).toMatchObject({ method: "notifications/progress", params: { progressToken: 3 } });
    expect(messages.at(-1)).toMatchObject({ id: "call-7", result: { structuredContent: { text: "late but here" } } });
  });

  it("can be done again and again", async () => {
    const server = await start();
    const id = await brokenHold(server, "often");
    for (let round = 0; round < 3; round++) {
      const stream = await resumeStream(server, id);
      const hold = await server.wire.arrived("often");
      stream.abort();
      expect(await hold.over).toBe("closed");
    }
    await using last = await resumeStream(server, id);
    (await server.wire.arrived("often")).release("the same");
    expect(messagesOf(await last.rest()).at(-1)).toMatchObject({
      id: "call-7",
      result: { structuredContent: { text: "the same" } },
    });
  });

  it("waits only for what is left of the slice, and answers at once when nothing is (P8)", async () => {
    const clock = createStepClock();
    const server = await start({ mcp: { clock } });
    const session = await initialize(server, CLAUDE);
    const id = await brokenHold(server, "left", session);
    clock.advance(40_000);
    const stream = await resumeStream(server, id, { session });
    const hold = await server.wire.arrived("left");
    expect(hold.context.sliceMaxMs).toBe(60_000);
    stream.abort();
    await hold.over;
    clock.advance(70_000);
    await using late = await resumeStream(server, id, { session });
    const answer = messagesOf(await late.rest()).at(-1);
    expect(at(answer, "result", "structuredContent")).toMatchObject({ end: "slice", resumed: true });
    clock.advance(3_600_000);
    await using tooLate = await resumeStream(server, id, { session });
    expect(await tooLate.rest()).toEqual([{ comment: true }]);
  });

  it("keeps progress values increasing across the break", async () => {
    const clock = createStepClock();
    const server = await start({ mcp: { clock } });
    const body = callBody(1, "hold", { name: "p" }, { progressToken: 1 });
    const stream = await openStream(server, body);
    const id = (await stream.next())?.id ?? "";
    const before = messagesOf([(await stream.next()) ?? {}])[0];
    stream.abort();
    await (await server.wire.arrived("p")).over;
    clock.advance(5_000);
    await using resumed = await resumeStream(server, id);
    (await server.wire.arrived("p")).release("ok");
    const after = messagesOf(await resumed.rest())[0];
    expect(Number(at(after, "params", "progress"))).toBeGreaterThan(Number(at(before, "params", "progress")));
    expect(at(after, "params", "progress")).toBe(5);
  });

  it("works in another process that has the same key (P14)", async () => {
    const first = await start();
    const session = await initialize(first, CLAUDE);
    const id = await brokenHold(first, "restart", session);
    await first.stop();
    const second = await start();
    await using stream = await resumeStream(second, id, { session });
    const hold = await second.wire.arrived("restart");
    expect(hold.context.client).toEqual(CLAUDE);
    hold.release("after the restart");
    expect(messagesOf(await stream.rest()).at(-1)).toMatchObject({
      id: "call-7",
      result: { structuredContent: { resumed: true } },
    });
  });

  it("gives a foreign caller what it gives for nonsense: one comment and the end (P16)", async () => {
    const server = await start();
    const id = await brokenHold(server, "private");
    const otherKey = await start({ sessionKey: Buffer.alloc(32, 9) });
    const forged = await brokenHold(otherKey, "private");
    const ask = async (eventId: string, token?: string) => {
      const headers = { "last-event-id": eventId };
      const response = await send(server, "GET", token === undefined ? { headers } : { headers, token });
      return [response.status, response.headers.get("content-type"), await response.text()];
    };
    const nothing = [200, "text/event-stream", ": \n\n"];
    expect(await ask(id, "token-of-mallory")).toEqual(nothing);
    for (const eventId of [forged, "nonsense", "a.b", `${id}x`, "17"]) expect(await ask(eventId)).toEqual(nothing);
    expect(server.wire.waiting()).toBe(0);
  });

  it("gives a child nothing of its root caller, whose name it has, and lets it end none of its calls (P16, P18)", async () => {
    const lineage = { taskId: taskIdFrom("01J000000000000000000000A1"), epoch: 1, ancestors: [] };
    const root = callerNamed("alice");
    const child = { ...root, kind: "child", lineage } as const;
    const server = await start({ http: { authenticate: (token) => (token === "token-of-kid" ? child : root) } });
    const id = await brokenHold(server, "private");
    const resumed = await send(server, "GET", { headers: { "last-event-id": id }, token: "token-of-kid" });
    expect(await resumed.text()).toBe(": \n\n");
    const session = await initialize(server);
    await using stream = await openStream(server, callBody(7, "hold", { name: "mine" }), { session });
    const hold = await server.wire.arrived("mine");
    await post(server, cancelBody(7), { session, token: "token-of-kid" });
    hold.release("untouched");
    expect(messagesOf(await stream.rest()).at(-1)).toMatchObject({
      result: { structuredContent: { text: "untouched" } },
    });
  });

  it("is not offered for a call whose arguments would not fit an id (P15)", async () => {
    const server = await start();
    await using stream = await openStream(server, callBody(1, "hold", { name: "big", note: "x".repeat(2_000) }));
    expect(await stream.next()).toEqual({ comment: true });
    (await server.wire.arrived("big")).release("answered all the same");
    expect(messagesOf(await stream.rest()).at(-1)).toMatchObject({
      id: 1,
      result: { structuredContent: { end: "released" } },
    });
  });

  it("lets a cancel notice reach the resumed wait", async () => {
    const server = await start();
    const session = await initialize(server);
    const id = await brokenHold(server, "cancel", session);
    await using stream = await resumeStream(server, id, { session });
    const hold = await server.wire.arrived("cancel");
    await post(
      server,
      { jsonrpc: "2.0", method: "notifications/cancelled", params: { requestId: "call-7" } },
      { session },
    );
    expect(await hold.over).toBe("cancelled");
    await stream.rest();
  });
});

describe.each(["1.x", "2.x legacy"] as const)("SDK client %s", (kind) => {
  it.each(["reset", "clean end"] as const)(
    "comes back by itself after a %s and gets its answer (H1, P7)",
    async (how) => {
      const server = await start();
      await using proxy = await startTcpFaultProxy(server.port);
      await using client = await openClient(kind, { url: proxy.through(server.mcpUrl) });
      const heard = Promise.withResolvers<void>();
      const call = client.call("hold", { name: how }, { onProgress: () => heard.resolve() });
      const hold = await server.wire.arrived(how);
      const connection = await proxy.streamStarted();
      await heard.promise;
      if (how === "reset") connection.cut();
      else connection.halfClose();
      expect(await hold.over).toBe("closed");
      (await server.wire.arrived(how)).release("resumed");
      expect((await call).structured).toMatchObject({ text: "resumed", resumed: true });
      expect(server.wire.calls.length).toBe(2);
    },
  );

  it("survives a restart of the daemon in mid-wait (R4, P7)", async () => {
    const first = await start({ mcp: { retryMs: 300 } });
    await using proxy = await startTcpFaultProxy(first.port);
    await using client = await openClient(kind, { url: proxy.through(first.mcpUrl) });
    const heard = Promise.withResolvers<void>();
    const call = client.call("hold", { name: "restart" }, { onProgress: () => heard.resolve() });
    await heard.promise;
    const second = await start();
    proxy.retarget(second.port);
    // A process that dies takes all of its connections with it.
    for (const connection of proxy.connections) connection.cut();
    (await second.wire.arrived("restart")).release("from the new process");
    expect((await call).structured).toMatchObject({ text: "from the new process", resumed: true });
    expect((await client.call("echo", { text: "same client, old session" })).text).toBe("same client, old session");
  });
});
