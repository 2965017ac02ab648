/**
 * `/api/events`: what a reader is told, and how a stream ends.
 */

import net from "node:net";
import { describe, expect, it } from "vitest";
import { eventually } from "../support/processes.ts";
import { noteOf, type PeopleServer, startPeopleServer } from "../support/people-server.ts";

type Reader = AsyncDisposable & {
  readonly status: number;
  /** What came so far. */
  text(): string;
  /** Resolves at the end of the stream. */
  readonly ended: Promise<void>;
};

async function follow(server: PeopleServer, name = "alice"): Promise<Reader> {
  const gone = new AbortController();
  const response = await fetch(`${server.origin}/api/events`, {
    headers: { authorization: `Bearer token-of-${name}` },
    signal: gone.signal,
  });
  const seen: string[] = [];
  const read = async (): Promise<void> => {
    const decoder = new TextDecoder();
    for await (const chunk of response.body ?? []) seen.push(decoder.decode(chunk, { stream: true }));
  };
  const ended = read().catch(() => undefined);
  return {
    status: response.status,
    text: () => seen.join(""),
    ended,
    async [Symbol.asyncDispose]() {
      gone.abort();
      await ended;
    },
  };
}

describe("a stream of events", () => {
  it("follows before its headers leave, and tells every change as it is", async () => {
    await using server = await startPeopleServer();
    await using reader = await follow(server);
    expect([reader.status, server.followers()]).toEqual([200, 1]);
    const settled = noteOf({ status: "completed", phase: "settled", settlements: 1, version: 9 });
    server.change(settled);
    await eventually("the change", () => reader.text().includes("\n\n", 4));
    expect(reader.text()).toBe(`: \n\nevent: change\ndata: ${JSON.stringify(settled)}\n\n`);
  });

  it("is never silent for longer than the daemon says (P8)", async () => {
    await using server = await startPeopleServer({ keepAliveMs: 20 });
    await using reader = await follow(server);
    await eventually("several beats", () => reader.text().length >= 4 * ": \n\n".length);
    expect(reader.text().replaceAll(": \n\n", "")).toBe("");
  });

  it("lets go of everything when its reader has gone", async () => {
    await using server = await startPeopleServer();
    {
      await using _reader = await follow(server);
      expect(server.followers()).toBe(1);
    }
    await eventually("nobody follows", () => server.followers() === 0);
  });

  it("holds nothing for a reader that was gone before it was let in (P15)", async () => {
    const arrived = Promise.withResolvers<void>();
    const letIn = Promise.withResolvers<void>();
    let held = 0;
    const beforeAuthenticated = async (): Promise<void> => {
      held += 1;
      if (held > 1) return;
      arrived.resolve();
      await letIn.promise;
    };
    await using server = await startPeopleServer({ beforeAuthenticated, streamsMax: 1 });
    const hasty = net.connect(server.port, "127.0.0.1");
    hasty.write("GET /api/events HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer token-of-bob\r\n\r\n");
    await arrived.promise;
    const closed = new Promise((resolve) => hasty.once("close", resolve));
    hasty.resetAndDestroy();
    await closed;
    // By the time that others have been answered the server knows that it is gone.
    for (let time = 0; time < 3; time += 1) await (await server.get("/livez")).text();
    letIn.resolve();
    await eventually("the only place is free again", async () => {
      await using reader = await follow(server);
      return reader.status === 200;
    });
    await eventually("nobody follows", () => server.followers() === 0);
    expect(server.followers()).toBe(0);
  });

  it("cuts a reader that takes nothing, keeps the others, and says why (P15)", async () => {
    await using server = await startPeopleServer({ bufferBytesMax: 64 * 1024 });
    await using reader = await follow(server);
    const slow = net.connect(server.port, "127.0.0.1");
    slow.write("GET /api/events HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer token-of-bob\r\n\r\n");
    await eventually("two follow", () => server.followers() === 2);
    slow.pause();
    const tellMany = async (): Promise<boolean> => {
      for (let count = 0; count < 100; count += 1) server.change();
      return server.followers() === 1;
    };
    await eventually("the slow one is cut", tellMany, 20_000);
    let text = "";
    slow.on("data", (chunk) => (text += chunk.toString()));
    slow.resume();
    await new Promise((resolve) => slow.once("close", resolve));
    expect(text).toContain('event: end\ndata: {"reason":"too_slow"}\n\n');
    const before = reader.text().length;
    server.change();
    await eventually("the other goes on", () => reader.text().length > before);
    expect(reader.text()).not.toContain("event: end");
  });

  it("is refused past the limit by name, and served again once one has gone (P15)", async () => {
    await using server = await startPeopleServer({ streamsMax: 2 });
    const first = await follow(server);
    await using _second = await follow(server);
    const refused = await server.get("/api/events");
    expect([refused.status, await refused.json()]).toMatchObject([
      503,
      { error: { code: "capacity_full" }, next: { kind: "repeat_same_call" } },
    ]);
    await first[Symbol.asyncDispose]();
    await eventually("there is room", () => server.followers() === 1);
    await using third = await follow(server);
    expect(third.status).toBe(200);
  });

  it("ends when its token is revoked", async () => {
    await using server = await startPeopleServer({ keepAliveMs: 20 });
    await using reader = await follow(server);
    server.revoke("alice");
    await reader.ended;
    expect(reader.text()).toContain('event: end\ndata: {"reason":"token"}\n\n');
  });

  it("ends when the daemon stops, and does not hold up the stop", async () => {
    await using server = await startPeopleServer();
    await using reader = await follow(server);
    const before = performance.now();
    await server.stop();
    await reader.ended;
    expect(performance.now() - before).toBeLessThan(3_000);
    expect(reader.text()).toContain('event: end\ndata: {"reason":"stopping"}\n\n');
  });
});
