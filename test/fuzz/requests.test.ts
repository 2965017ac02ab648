/** Whole requests to the HTTP app with its wire, without sockets: bodies and headers together. */

// `fuzz` and `fuzzLong` are test blocks.
/* oxlint-disable vitest/no-standalone-expect */

import fc from "fast-check";
import { afterAll, beforeAll, describe, expect } from "vitest";
import type { FastifyInstance } from "fastify";
import { callerOf } from "../../src/http/auth.ts";
import { createHttpApp } from "../../src/http/http-app.ts";
import { createMcpPlugin } from "../../src/mcp/mcp-plugin.ts";
import { createResumeIds } from "../../src/mcp/resume-id.ts";
import { createSessionIds } from "../../src/mcp/session-id.ts";
import { createStepClock } from "../support/step-clock.ts";
import { fuzz, nearby } from "../support/fuzz.ts";
import { at, parsed } from "../support/json.ts";
import { createQuietLog } from "../support/quiet-log.ts";
import { callerNamed, SESSION_KEY } from "../support/wire-server.ts";
import { BODIES } from "./corpus/messages.ts";
import { HEADERS } from "./corpus/texts.ts";

let app: FastifyInstance;
const log = createQuietLog();

beforeAll(async () => {
  const mcp = createMcpPlugin({
    tools: [],
    instructions: "No tools.",
    serverInfo: { name: "fuzzed", version: "1.0.0" },
    sessionKey: SESSION_KEY,
    callerOf,
    clock: createStepClock(),
    log,
  });
  app = await createHttpApp({
    allowedHosts: [],
    allowedOrigins: [],
    authenticate: (token) => (token === "token-of-alice" ? callerNamed("alice") : { problem: "unknown" }),
    isReady: () => true,
    mcp: mcp.plugin,
    people: [],
    log,
  });
});
afterAll(() => app.close());

const call = {
  caller: "alice",
  requestId: 1,
  tool: "task_wait",
  args: {},
  startMs: 0,
  deadlineMs: 1,
  progressToken: null,
};
const IDS = [
  createSessionIds(SESSION_KEY).mint({ name: "codex", version: "1" }),
  createResumeIds(SESSION_KEY).mint(call) ?? "",
];
/** What can stand in a header: Latin-1 without controls. */
const header = nearby([...HEADERS, ...IDS]).map((text) => text.replaceAll(/[^\t\u0020-\u007e\u0080-\u00ff]/g, ""));
const sometimes = (value: fc.Arbitrary<string>): fc.Arbitrary<string | undefined> =>
  fc.option(value, { nil: undefined, freq: 3 });

const headers = fc.record({
  host: fc.oneof({ weight: 5, arbitrary: fc.constant("127.0.0.1:4517") }, { weight: 1, arbitrary: header }),
  authorization: fc.oneof(
    { weight: 5, arbitrary: fc.constant("Bearer token-of-alice") },
    { weight: 1, arbitrary: header },
  ),
  origin: fc.option(header, { nil: undefined, freq: 8 }),
  accept: fc.constantFrom<string>("application/json, text/event-stream", "application/json", "*/*", "text/html"),
  "mcp-session-id": sometimes(header),
  "last-event-id": sometimes(header),
  "mcp-protocol-version": sometimes(header),
  "x-request-timeout-ms": sometimes(header),
  "x-delegate-cwd": sometimes(header),
  cookie: sometimes(header),
});

const NOT_OURS = new Set(["transfer-encoding", "content-length"]);

const PLAIN = {
  host: "127.0.0.1:4517",
  authorization: "Bearer token-of-alice",
  origin: undefined,
  accept: "application/json, text/event-stream",
  "mcp-session-id": undefined,
  "last-event-id": undefined,
  "mcp-protocol-version": undefined,
  "x-request-timeout-ms": undefined,
  "x-delegate-cwd": undefined,
  cookie: undefined,
};

describe("a request", () => {
  fuzz(
    "of any body and any headers is answered, with a next step where it is refused, and is no error of the server (P1, R5, X1)",
    fc.record({
      headers,
      body: nearby(BODIES),
      method: fc.constantFrom<string>("POST", "POST", "POST", "GET", "DELETE", "PUT"),
      query: fc.oneof({ weight: 6, arbitrary: fc.constant("") }, { weight: 1, arbitrary: nearby(HEADERS) }),
    }),
    async ({ headers: given, body, method, query }) => {
      const sent = Object.entries(given).filter(([name, value]) => value !== undefined && !NOT_OURS.has(name));
      const answer = await app.inject({
        method: method === "GET" ? "GET" : method === "DELETE" ? "DELETE" : method === "PUT" ? "PUT" : "POST",
        url: `/mcp${query === "" ? "" : `?requestTimeoutMs=${encodeURIComponent(query.toWellFormed())}`}`,
        headers: { ...Object.fromEntries(sent), ...(method === "GET" ? {} : { "content-type": "application/json" }) },
        ...(method === "GET" ? {} : { payload: body.toWellFormed() }),
      });
      expect(answer.statusCode).toBeLessThan(500);
      if (answer.statusCode < 400) return;
      const json = parsed(answer.body);
      const next = at(json, "next") ?? at(json, "error", "data", "next");
      expect(next, answer.body).toBeTypeOf("object");
    },
    BODIES.flatMap((body) => [
      { headers: PLAIN, body, method: "POST", query: "" },
      { headers: { ...PLAIN, "mcp-protocol-version": "2026-07-28" }, body, method: "POST", query: "" },
    ]),
  );

  fuzz("leaves no error in the log", fc.constant(null), () => {
    expect(log.entries.filter(({ level }) => level === "error")).toEqual([]);
  });
});
