/**
 * Driver `model` against real servers on loopback: a scripted model with the faults that providers and their edges have, and a
 * server that says exactly these bytes.
 */

import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { classify } from "../../src/core/classify.ts";
import type { FaultEvidence } from "../../src/core/failure.ts";
import { createModelDriver, type ModelDriverLimits } from "../../src/drivers/model/model-driver.ts";
import { createGuardClock } from "../../src/guard/guard-clock.ts";
import type { AttemptOrder, Driver, DriverEvent } from "../../src/ports/driver.ts";
import type { ModelEndpoint } from "../../src/ports/settings.ts";
import { type Models, startModels } from "../support/models.ts";
import type { ModelFault, Plan } from "../support/models/plan.ts";
import { createRecordedLog, createTestChildren, eventually, type TestChildren } from "../support/processes.ts";
import { createOrder, describeDriver, type RecordedRun, recordRun } from "./driver-promises.ts";

const KEY = "sk-test-0123456789abcdef";
const APIS = ["anthropic", "openai"] as const;
const clock = createGuardClock();
const log = createRecordedLog();

let models: Models;
let children: TestChildren;

beforeAll(async () => {
  models = await startModels();
  children = createTestChildren({ groups: "off" });
});
afterAll(async () => {
  await children[Symbol.asyncDispose]();
  await models[Symbol.asyncDispose]();
});

type Api = ModelEndpoint["api"];
type Ended = Extract<DriverEvent, { readonly kind: "end" }>;

function driverFor(api: Api, origin: string, limits?: ModelDriverLimits): Driver {
  const baseUrl = api === "anthropic" ? origin : `${origin}/v1`;
  return createModelDriver(new Map([["a", { api, baseUrl, apiKey: KEY }]]), limits);
}

function orderOf(prompt: string, fields: Partial<AttemptOrder> = {}): AttemptOrder {
  return createOrder({ prompt, ...fields }, { access: "read", model: "fake-model" });
}

function start(driver: Driver, order: AttemptOrder): RecordedRun {
  return recordRun({ driver, tools: { children, clock, log } }, order);
}

async function endOf(run: RecordedRun): Promise<Ended> {
  const last = await run.done;
  return last?.kind === "end" ? last : expect.fail(`ended with ${last?.kind}`);
}

let plans = 0;

/** A marker of a plan that is played to a model without tools. */
function planned(plan: Partial<Plan>): { readonly id: string; readonly prompt: string } {
  const id = `model-${++plans}`;
  return { id, prompt: `Do it. ${models.add({ id, toolless: true, steps: [{ text: "all done 日本" }], ...plan })}` };
}

async function meeting(api: Api, fault: ModelFault): Promise<Ended> {
  const { prompt } = planned({ faults: [fault] });
  return endOf(start(driverFor(api, models.url), orderOf(prompt)));
}

function faultOf(end: Ended): FaultEvidence {
  return end.end === "fault" ? end.fault : expect.fail(`no fault but ${end.end}`);
}

type Said = AsyncDisposable & {
  readonly origin: string;
  readonly requests: { readonly path: string; readonly headers: IncomingMessage["headers"]; readonly body: string }[];
  /** Requests whose connection is open. */
  readonly open: () => number;
};

/** A server that answers every request as `say` does. */
async function saying(say: (res: ServerResponse, req: IncomingMessage) => void | Promise<void>): Promise<Said> {
  const requests: Said["requests"] = [];
  let open = 0;
  const answer = async (req: IncomingMessage, res: ServerResponse): Promise<void> => {
    let body = "";
    for await (const chunk of req) body += String(chunk);
    requests.push({ path: req.url ?? "", headers: req.headers, body });
    await say(res, req);
  };
  const server = createServer((req, res) => {
    open += 1;
    res.once("close", () => (open -= 1));
    answer(req, res).catch(() => res.destroy());
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const address = server.address();
  if (address === null || typeof address === "string") throw new Error("the server has no port");
  return {
    origin: `http://127.0.0.1:${address.port}`,
    requests,
    open: () => open,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise<void>((resolve) => server.close(() => resolve()));
    },
  };
}

function stream(res: ServerResponse, events: readonly object[]): void {
  res.writeHead(200, { "content-type": "text/event-stream; charset=utf-8" });
  for (const event of events) res.write(`data: ${JSON.stringify(event)}\n\n`);
}

const delta = (text: string): object => ({
  type: "content_block_delta",
  index: 0,
  delta: { type: "text_delta", text },
});
const stopped = (reason: string): object => ({ type: "message_delta", delta: { stop_reason: reason } });
const STOP = { type: "message_stop" };
const piece = (content: string): object => ({ choices: [{ index: 0, delta: { content }, finish_reason: null }] });
const finished = (reason: string): object => ({ choices: [{ index: 0, delta: {}, finish_reason: reason }] });

describe.each(APIS)("driver model (%s)", (api) => {
  describeDriver(`model (${api})`, () => ({
    driver: driverFor(api, models.url),
    tools: { children, clock, log },
    order: (kind) =>
      orderOf(
        {
          success: planned({}),
          fault: planned({ faults: [{ kind: "401" }] }),
          hang: planned({ faults: [{ kind: "hang" }] }),
        }[kind].prompt,
      ),
  }));

  it("answers with the model's text, which is explicit, without a process or a session (P13)", async () => {
    const { prompt, id } = planned({ steps: [{ text: "the answer 日本 \u{1f680}" }] });
    const run = start(driverFor(api, models.url), orderOf(prompt));
    expect(await endOf(run)).toEqual({
      kind: "end",
      end: "success",
      evidence: "explicit",
      text: "the answer 日本 \u{1f680}",
      sideEffects: false,
      usage: { inputTokens: 100, outputTokens: 7, costUsd: null },
    });
    expect(run.events[0]).toEqual({ kind: "bound", process: null, nativeSessionId: null });
    expect(run.events).toContainEqual({ kind: "message", role: "child", text: "the answer 日本 \u{1f680}" });
    expect(run.events.some((event) => event.kind === "progress")).toBe(true);
    expect(models.seen(id)).toMatchObject({ requests: 1, tools: [] });
  });

  it("goes on in the conversation as it is stored, without empty answers (P6)", async () => {
    const { prompt, id } = planned({ steps: [{ text: "first" }, { text: "second" }] });
    const history = [
      { message: prompt, result: "first" },
      { message: "And?", result: null },
    ];
    const end = await endOf(start(driverFor(api, models.url), orderOf("Now?", { history })));
    expect(end).toMatchObject({ end: "success", text: "second" });
    expect(models.seen(id).userTexts).toEqual([prompt, "And?", "Now?"]);
  });

  it.each<readonly [ModelFault, object]>([
    [{ kind: "cf403" }, { class: "edge_block", nature: "passing", httpStatus: 403 }],
    [{ kind: "403" }, { class: "auth", nature: "definitive", httpStatus: 403 }],
    [{ kind: "401" }, { class: "auth", nature: "definitive", httpStatus: 401 }],
    [{ kind: "404" }, { class: "config", nature: "definitive", httpStatus: 404 }],
    [
      { kind: "429", retryAfter: 7 },
      { class: "provider_transient", nature: "passing", retryAfterMs: 7_000 },
    ],
    [
      { kind: "429", retryAfter: 7_200 },
      { class: "quota", nature: "passing", retryAfterMs: 7_200_000 },
    ],
    [{ kind: "500" }, { class: "provider_transient", nature: "passing", httpStatus: 500 }],
    [{ kind: "529" }, { class: "provider_transient", nature: "passing", httpStatus: 529 }],
    [{ kind: "reset" }, { class: "transport", nature: "passing" }],
    [{ kind: "reset-mid" }, { class: "transport", nature: "passing" }],
    [{ kind: "error-mid" }, { class: "provider_transient", nature: "passing" }],
  ])("meeting %j tells what it means (W1, P3)", async (fault, expected) => {
    expect(classify(faultOf(await meeting(api, fault)))).toMatchObject(expected);
  });

  it("that refuses has its error in the conversation", async () => {
    const { prompt } = planned({ faults: [{ kind: "529" }] });
    const run = start(driverFor(api, models.url), orderOf(prompt));
    await run.done;
    expect(run.events).toContainEqual({ kind: "message", role: "note", text: expect.stringContaining("Overloaded") });
  });

  it("whose stream breaks keeps what there was of the text, and is no success (P13)", async () => {
    expect(await meeting(api, { kind: "reset-mid" })).toMatchObject({ end: "fault", text: "PARTIAL-ANSWER " });
  });

  it("that hangs is given up at once when the attempt is over, the request with it (P12)", async () => {
    await using server = await saying((res) => stream(res, api === "anthropic" ? [delta("a")] : [piece("a")]));
    const run = start(driverFor(api, server.origin), orderOf("x"));
    await run.reported("progress");
    run.abort();
    expect((await run.done)?.kind).not.toBe("end");
    await eventually("the request is given up", () => server.open() === 0);
  });

  it.each(["before it answers", "in its answer"])(
    "that says nothing %s for too long is a broken connection (W8)",
    async (when) => {
      await using server = await saying((res) => {
        if (when === "in its answer") stream(res, []);
      });
      const driver = driverFor(api, server.origin, { silenceMs: 300, restMs: 2_000 });
      expect(classify(faultOf(await endOf(start(driver, orderOf("x")))))).toMatchObject({ class: "transport" });
    },
  );

  it("that nobody serves is a broken connection", async () => {
    const server = await saying(() => undefined);
    await server[Symbol.asyncDispose]();
    const fault = faultOf(await endOf(start(driverFor(api, server.origin), orderOf("x"))));
    expect(fault).toMatchObject({ transport: true, text: expect.stringContaining("ECONNREFUSED") });
  });

  it("sends its key in a header to that address alone, and follows no redirect (X2)", async () => {
    await using other = await saying((res) => void res.end());
    await using server = await saying(
      (res) => void res.writeHead(307, { location: `${other.origin}/v1/messages` }).end(),
    );
    const end = await endOf(start(driverFor(api, server.origin), orderOf("x")));
    expect(classify(faultOf(end))).toMatchObject({ class: "config", nature: "definitive", httpStatus: 307 });
    expect(other.requests).toEqual([]);
    const [request] = server.requests;
    const shown = api === "anthropic" ? request?.headers["x-api-key"] : request?.headers.authorization;
    expect(shown).toBe(api === "anthropic" ? KEY : `Bearer ${KEY}`);
    expect(`${request?.path} ${request?.body}`).not.toContain(KEY);
    expect(JSON.stringify(end)).not.toContain(KEY);
  });

  it("reads characters that are split over packets and over pieces whole (S3)", async () => {
    const rocket = "\u{1f680}";
    const text = `日本${rocket}`;
    const [start_, rest] = [`日本${rocket[0]}`, `${rocket[1]}!`];
    const events =
      api === "anthropic"
        ? [delta(text), delta(start_), delta(rest), stopped("end_turn"), STOP]
        : [piece(text), piece(start_), piece(rest), finished("stop")];
    // As a sender that leaves the letters as they are.
    const written = Buffer.from(
      `${events.map((event) => `data: ${JSON.stringify(event)}\r\n\r\n`).join("")}data: [DONE]\r\n\r\n`,
    );
    await using server = await saying(async (res) => {
      res.writeHead(200, { "content-type": "text/event-stream" });
      for (let at = 0; at < written.length; at += 3) {
        if (res.destroyed) return;
        res.write(written.subarray(at, at + 3));
        await new Promise<void>((resolve) => {
          setImmediate(resolve);
        });
      }
      res.end();
    });
    const end = await endOf(start(driverFor(api, server.origin), orderOf("x")));
    expect(end).toMatchObject({ end: "success", text: `${text}${text}!` });
  });

  it("that ends its stream without its end marker has not answered (P13)", async () => {
    await using server = await saying((res) => {
      stream(res, api === "anthropic" ? [delta("a"), stopped("end_turn")] : [piece("a")]);
      res.end(api === "anthropic" ? "" : "data: [DONE]\n\n");
    });
    const end = await endOf(start(driverFor(api, server.origin), orderOf("x")));
    expect(end).toMatchObject({ end: "fault", text: "a", fault: { transport: true } });
  });

  it.each([
    ["max_tokens", "length", "max_tokens"],
    ["refusal", "content_filter", "refused"],
    ["tool_use", "tool_calls", "unknown"],
    ["something_new", "something_new", "unknown"],
  ])("that stops with %s or %s is %s, with what there was of the text (W4)", async (anthropic, openai, expected) => {
    await using server = await saying((res) => {
      stream(
        res,
        api === "anthropic" ? [delta("so far"), stopped(anthropic), STOP] : [piece("so far"), finished(openai)],
      );
      res.end();
    });
    const end = await endOf(start(driverFor(api, server.origin), orderOf("x")));
    expect(end.text).toBe("so far");
    expect(classify(faultOf(end)).class).toBe(expected);
  });

  it("that stops well without a word has no result (P13)", async () => {
    await using server = await saying((res) => {
      stream(res, api === "anthropic" ? [delta(" \n"), stopped("end_turn"), STOP] : [piece(" \n"), finished("stop")]);
      res.end();
    });
    expect(await endOf(start(driverFor(api, server.origin), orderOf("x")))).toMatchObject({
      end: "fault",
      fault: { empty: true },
    });
  });

  it("whose answer is too long keeps head and tail with a marked gap, and an endless line ends it (P15)", async () => {
    await using long = await saying((res) => {
      const x = "x".repeat(10_000);
      stream(
        res,
        api === "anthropic" ? [delta(x), delta(x), stopped("end_turn"), STOP] : [piece(x), piece(x), finished("stop")],
      );
      res.end();
    });
    const end = await endOf(start(driverFor(api, long.origin), orderOf("x", { resultBytesMax: 1_000 })));
    expect(end.text).toMatch(/^x+\n… 19000 bytes left out …\nx+$/);
    await using endless = await saying((res) => {
      res.writeHead(200, { "content-type": "text/event-stream" });
      const feed = (): void => {
        while (!res.destroyed && res.write("x".repeat(65_536)));
        if (!res.destroyed) res.once("drain", feed);
      };
      feed();
    });
    const cut = await endOf(start(driverFor(api, endless.origin), orderOf("x")));
    expect(faultOf(cut)).toMatchObject({ transport: true });
  });

  it.each([
    ["a page", "text/html", "<!doctype html><p>Log in to the network</p>", "unknown"],
    ["a whole answer", "application/json", '{"choices": []}', "config"],
    [
      "an error",
      "application/json",
      '{"error": {"type": "overloaded_error", "message": "Overloaded"}}',
      "provider_transient",
    ],
  ])("that answers with %s instead of a stream has not answered (P13)", async (_, type, body, expected) => {
    await using server = await saying((res) => void res.writeHead(200, { "content-type": type }).end(body));
    const end = await endOf(start(driverFor(api, server.origin), orderOf("x")));
    expect(classify(faultOf(end)).class).toBe(expected);
  });

  it.each([
    ["in fractions of a second", { "retry-after": "1.5" }, 1_500],
    ["as a date", { "retry-after": () => new Date(Date.now() + 60_000).toUTCString() }, 60_000],
    ["as a date that has passed", { "retry-after": "Wed, 21 Oct 2015 07:28:00 GMT" }, 0],
    ["in milliseconds", { "retry-after-ms": "250", "retry-after": "1" }, 250],
    ["as nothing that can be read", { "retry-after": "-3" }, undefined],
  ])("that asks to wait %s is waited for that long (W1)", async (_, headers, expected) => {
    const given = Object.fromEntries(
      Object.entries(headers).map(([name, value]) => [name, typeof value === "string" ? value : value()]),
    );
    await using server = await saying((res) => void res.writeHead(429, given).end("{}"));
    const { retryAfterMs } = faultOf(await endOf(start(driverFor(api, server.origin), orderOf("x"))));
    if (expected === 60_000) expect(Math.abs((retryAfterMs ?? 0) - 60_000)).toBeLessThan(5_000);
    else expect(retryAfterMs).toBe(expected);
  });

  it("reads no more of a refusal than its beginning (P15)", async () => {
    await using server = await saying((res) => {
      res.writeHead(503, { "content-type": "text/html" });
      const feed = (): void => {
        while (!res.destroyed && res.write("y".repeat(65_536)));
        if (!res.destroyed) res.once("drain", feed);
      };
      feed();
    });
    const { text, httpStatus } = faultOf(await endOf(start(driverFor(api, server.origin), orderOf("x"))));
    expect(httpStatus).toBe(503);
    expect(text).toHaveLength(2_000);
  });
});

describe("an OpenAI-compatible server", () => {
  it("that says in words that it will not is refused, although it ends with stop (W4)", async () => {
    await using server = await saying((res) => {
      stream(res, [{ choices: [{ delta: { refusal: "I will not." }, finish_reason: null }] }, finished("stop")]);
      res.end("data: [DONE]\n\n");
    });
    const end = await endOf(start(driverFor("openai", server.origin), orderOf("x")));
    expect(end).toMatchObject({ text: "I will not.", fault: { stopReason: "refusal" } });
  });

  it("that leaves its stream open after its last word has answered all the same", async () => {
    await using server = await saying((res) => stream(res, [piece("done"), finished("stop")]));
    const driver = driverFor("openai", server.origin, { silenceMs: 60_000, restMs: 50 });
    expect(await endOf(start(driver, orderOf("x")))).toMatchObject({ end: "success", text: "done", usage: null });
  });

  it("that says the account is empty with a 429 is no busy one: waiting does not help (W5)", async () => {
    const body = JSON.stringify({
      error: { type: "insufficient_quota", code: "insufficient_quota", message: "Quota" },
    });
    await using server = await saying((res) => void res.writeHead(429, { "retry-after": "2" }).end(body));
    const end = await endOf(start(driverFor("openai", server.origin), orderOf("x")));
    expect(classify(faultOf(end))).toMatchObject({ class: "billing", nature: "definitive" });
  });
});

it("an agent without an address or a model is a fault of the configuration", async () => {
  const driver = createModelDriver(new Map());
  expect(classify(faultOf(await endOf(start(driver, orderOf("x")))))).toMatchObject({ class: "config" });
});
