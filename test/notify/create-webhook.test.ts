/**
 * Webhooks against real servers on loopback: what arrives, who can check it, and what every bad receiver costs.
 */

import { randomBytes } from "node:crypto";
import dns from "node:dns";
import { once } from "node:events";
import type { ServerResponse } from "node:http";
import { Webhook } from "standardwebhooks";
import { describe, expect, it, vi } from "vitest";
import { createWebhook } from "../../src/notify/create-webhook.ts";
import type { NoticeOutcome } from "../../src/ports/notifier.ts";
import { eventually } from "../support/processes.ts";
import { createStepClock, type StepClock } from "../support/step-clock.ts";
import { NOTICE, startReceiver, startTcpReceiver, wordyNotice } from "./receiver.ts";

const SECRET = `whsec_${randomBytes(32).toString("base64")}`;

function deliver(url: string, clock: StepClock = createStepClock(), secret = SECRET): Promise<NoticeOutcome> {
  return createWebhook({ url, secret, clock }).deliver(NOTICE);
}

const status = (code: number, headers: Record<string, string> = {}) => {
  return (response: ServerResponse): void => void response.writeHead(code, headers).end("an answer");
};

describe("a webhook", () => {
  it("is one POST of JSON with the notice's id, its time in seconds, and the notice itself", async () => {
    await using receiver = await startReceiver(status(204));
    expect(await deliver(receiver.url)).toEqual({ kind: "delivered" });
    expect(receiver.received).toHaveLength(1);
    const [request] = receiver.received;
    expect(request).toMatchObject({ method: "POST", url: "/hook" });
    expect(request?.headers).toMatchObject({
      "content-type": "application/json",
      "webhook-id": NOTICE.id,
      "webhook-timestamp": String(Math.floor(NOTICE.sentAtMs / 1_000)),
    });
    expect(JSON.parse(request?.body ?? "")).toEqual(NOTICE.body);
  });

  it.each([
    ["whsec_ and base64", SECRET, new Webhook(SECRET)],
    ["a plain text", "a plain secret, ünïcode", new Webhook(Buffer.from("a plain secret, ünïcode"), { format: "raw" })],
  ])(
    "is accepted by the Standard Webhooks library, and not once it was changed: %s",
    async (_kind, secret, checker) => {
      await using receiver = await startReceiver(status(200));
      await deliver(receiver.url, createStepClock(), secret);
      const { body = "", headers = {} } = receiver.received[0] ?? {};
      expect(checker.verify(body, headers)).toEqual(NOTICE.body);
      const changes = [
        { body: body.replace("completed", "cancelled"), headers },
        { body, headers: { ...headers, "webhook-id": "other" } },
        { body, headers: { ...headers, "webhook-timestamp": String(Math.floor(NOTICE.sentAtMs / 1_000) - 1) } },
      ];
      for (const change of changes) {
        expect(() => checker.verify(change.body, change.headers)).toThrow("No matching signature");
      }
      const other = new Webhook(randomBytes(32).toString("base64"));
      expect(() => other.verify(body, headers)).toThrow("No matching signature");
    },
  );

  it("holds no word of a child or caller, even if it was handed some (P17)", async () => {
    await using receiver = await startReceiver(status(200));
    await createWebhook({ url: receiver.url, secret: SECRET, clock: createStepClock() }).deliver(wordyNotice("WORDS"));
    expect(JSON.parse(receiver.received[0]?.body ?? "")).toEqual(NOTICE.body);
    expect(JSON.stringify(receiver.received)).not.toContain("WORDS");
  });

  it("has a name that stays the same and differs by URL", () => {
    const nameOf = (url: string, secret: string): string =>
      createWebhook({ url, secret, clock: createStepClock() }).name;
    expect(nameOf("https://example.org/a", SECRET)).toMatch(/^webhook-[0-9a-f]{8}$/);
    expect(nameOf("https://example.org/a", "another secret")).toBe(nameOf("https://example.org/a", SECRET));
    expect(nameOf("https://example.org/b", SECRET)).not.toBe(nameOf("https://example.org/a", SECRET));
  });

  it.each(["127.0.0.1", "::1"])("reaches localhost at %s without asking a resolver", async (host) => {
    await using receiver = await startReceiver(status(200), host);
    const asked = vi.spyOn(dns, "lookup");
    try {
      expect(await deliver(`http://localhost:${receiver.port}/hook`)).toEqual({ kind: "delivered" });
      expect(asked).not.toHaveBeenCalled();
    } finally {
      asked.mockRestore();
    }
  });
});

describe("an answer", () => {
  it.each([200, 202, 299])("of %i is a delivery", async (code) => {
    await using receiver = await startReceiver(status(code));
    expect(await deliver(receiver.url)).toEqual({ kind: "delivered" });
  });

  it("of 410 means never again", async () => {
    await using receiver = await startReceiver(status(410));
    expect(await deliver(receiver.url)).toMatchObject({ kind: "refused", reason: expect.stringContaining("410") });
  });

  it.each([400, 401, 404, 429, 500, 503])("of %i means later again", async (code) => {
    await using receiver = await startReceiver(status(code));
    expect(await deliver(receiver.url)).toEqual({ kind: "again", reason: `HTTP ${code}` });
  });

  it.each([301, 302, 303, 307, 308])("of %i is not followed, and said", async (code) => {
    await using elsewhere = await startReceiver(status(200));
    await using receiver = await startReceiver(status(code, { location: elsewhere.url }));
    expect(await deliver(receiver.url)).toEqual({
      kind: "again",
      reason: `HTTP ${code}: redirects are not followed`,
    });
    expect([receiver.received.length, elsewhere.received.length]).toEqual([1, 0]);
  });
});

describe("a receiver that", () => {
  it("never answers costs ten seconds and its connection", async () => {
    const clock = createStepClock();
    let closed: Promise<unknown> | undefined;
    await using receiver = await startReceiver((response) => {
      closed = once(response, "close");
    });
    const outcome = deliver(receiver.url, clock);
    await eventually("the request arrives", () => closed !== undefined);
    clock.advance(9_999);
    expect(await Promise.race([outcome, nextTurns()])).toBe("nothing yet");
    clock.advance(1);
    expect(await outcome).toEqual({ kind: "again", reason: "the receiver did not answer within 10 s" });
    await closed;
    expect(clock.timers()).toBe(0);
  });

  it("accepts and never ends its answer has been told, and is let go after ten seconds", async () => {
    const clock = createStepClock();
    let closed: Promise<unknown> | undefined;
    await using receiver = await startReceiver((response) => {
      response.writeHead(200).write("a beginning");
      closed = once(response, "close");
    });
    const outcome = deliver(receiver.url, clock);
    await eventually("the answer has begun", () => closed !== undefined);
    expect(await Promise.race([outcome, nextTurns()])).toBe("nothing yet");
    clock.advance(10_000);
    expect(await outcome).toEqual({ kind: "delivered" });
    await closed;
  });

  it("sends without end is cut off, whatever it sends", async () => {
    let closed: Promise<unknown> | undefined;
    let writtenBytes = 0;
    const chunk = Buffer.alloc(64 * 1024, "x");
    await using receiver = await startReceiver((response) => {
      response.writeHead(200);
      const pump = (): void => {
        while (!response.destroyed && response.write(chunk)) writtenBytes += chunk.length;
        if (!response.destroyed) response.once("drain", pump);
      };
      closed = once(response, "close");
      response.on("error", () => undefined);
      pump();
    });
    expect(await deliver(receiver.url)).toEqual({ kind: "delivered" });
    await closed;
    // Our 64 KiB and what the system keeps under way between two sockets.
    expect(writtenBytes).toBeLessThan(32 * 1024 * 1024);
  });

  it("is not there, or speaks no HTTP, is told later, and neither secret nor address is in the reason (X4)", async () => {
    const path = "hooks/PATH-THAT-IS-A-SECRET";
    await using hangsUp = await startTcpReceiver((socket) => socket.destroy());
    await using babbles = await startTcpReceiver((socket) => socket.end(`${SECRET} PATH-THAT-IS-A-SECRET\r\n\r\n`));
    await using refuses = await startReceiver((response, request) => {
      response.statusMessage = String(request.headers["webhook-signature"]);
      response.writeHead(500, { "x-echo": SECRET }).end(SECRET);
    });
    const gone = await startReceiver(status(200));
    await gone[Symbol.asyncDispose]();
    const urls = [
      `http://127.0.0.1:${gone.port}/${path}`,
      `http://127.0.0.1:${hangsUp.port}/${path}`,
      `http://127.0.0.1:${babbles.port}/${path}`,
      `https://127.0.0.1:${refuses.port}/${path}`,
      `http://127.0.0.1:${refuses.port}/${path}`,
    ];
    for (const url of urls) {
      const outcome = await deliver(url);
      expect([url, outcome.kind]).toEqual([url, "again"]);
      expect(outcome.kind === "again" ? outcome.reason : "").toMatch(
        /^(HTTP 500|the receiver was not reached \((ECONNREFUSED|UND_ERR_SOCKET|HTTPParserError|ERR_SSL_[A-Z_]+)\))$/,
      );
    }
  });

  it("is told under an id that no header can hold is told later, and nothing is thrown", async () => {
    await using receiver = await startReceiver(status(200));
    const webhook = createWebhook({ url: receiver.url, secret: SECRET, clock: createStepClock() });
    expect(await webhook.deliver({ ...NOTICE, id: "line\r\nwebhook-x: y" })).toMatchObject({ kind: "again" });
    expect(receiver.received).toEqual([]);
  });
});

/** Lets sockets and promises of this process have their turns. */
async function nextTurns(): Promise<string> {
  for (let turn = 0; turn < 50; turn++) await new Promise<void>((resolve) => setImmediate(resolve));
  return "nothing yet";
}
