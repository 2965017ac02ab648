/**
 * The daemon's HTTP surface, wire, tools and engine in this process, as `main` puts them together, on a free loopback port:
 * real clock, memory store or SQLite in a folder of its own, the fake agent by default and a real program as agent `program`.
 *
 * Tokens are `token-of-<name>`. `reader` may only read, `admin` has every scope, `nobody` none; every other name may read and
 * delegate.
 */

import { mkdirSync, realpathSync } from "node:fs";
import { join } from "node:path";
import type { Caller, Scope } from "../../src/core/caller.ts";
import { createCommandDriver } from "../../src/drivers/command/command-driver.ts";
import { createFakeDriver, type FakeDriver } from "../../src/drivers/fake/fake-driver.ts";
import { withScratch } from "../../src/drivers/with-scratch.ts";
import { createEngine, type RunningEngine } from "../../src/engine/create-engine.ts";
import { createGuardClient } from "../../src/guard/guard-client.ts";
import { type Authenticate, callerOf } from "../../src/http/auth.ts";
import { createHttpApp } from "../../src/http/http-app.ts";
import { createTaskRoutes } from "../../src/http/task-routes.ts";
import { INSTRUCTIONS } from "../../src/mcp/instructions.ts";
import { createLocalCalls } from "../../src/mcp/local-calls.ts";
import { createMcpPlugin } from "../../src/mcp/mcp-plugin.ts";
import type { Tool } from "../../src/mcp/tool.ts";
import { createTools } from "../../src/mcp/tools/create-tools.ts";
import type { Children } from "../../src/ports/children.ts";
import type { Clock } from "../../src/ports/clock.ts";
import type { Driver } from "../../src/ports/driver.ts";
import type { AgentSettings, EngineSettings } from "../../src/ports/settings.ts";
import type { Store } from "../../src/ports/store.ts";
import { createMemoryStore } from "../../src/store/memory-store.ts";
import { noFaults } from "../../src/system/no-faults.ts";
import { createUlidSource } from "../../src/system/ulid-source.ts";
import { createWallClock } from "../../src/system/wall-clock.ts";
import { createLocalWorkspace } from "../../src/workspace/local-workspace.ts";
import { type AnswerCheck, createAnswerCheck } from "./answer-check.ts";
import { type ClientKind, type ClientOptions, openClient, type TestClient } from "./mcp-clients.ts";
import { AGENT_COMMAND, createTestFolder } from "./processes.ts";
import { createQuietLog, type QuietLog } from "./quiet-log.ts";
import { scriptOf } from "./test-engine.ts";
import { openTestStore } from "./test-store.ts";
import { SESSION_KEY } from "./wire-server.ts";
import { noMeter } from "../../src/system/no-meter.ts";
import { ALL_LEVELS, PLAIN_PARTS, PLAIN_SETTINGS } from "./engine-parts.ts";

export type TestDaemonOptions = {
  readonly parts?: Partial<typeof PLAIN_PARTS>;
  readonly store?: "memory" | "sqlite";
  readonly limits?: Partial<EngineSettings["limits"]>;
  readonly settings?: Partial<EngineSettings>;
  readonly bodyMaxBytes?: number;
  /** Default: the real clock. With a step clock nothing times out by itself. */
  readonly clock?: Clock;
  /** Default: real processes behind a guard. */
  readonly children?: Children;
};

export type TestDaemon = AsyncDisposable & {
  readonly origin: string;
  readonly mcpUrl: string;
  /** The only root; real path. */
  readonly root: string;
  readonly engine: RunningEngine;
  readonly driver: FakeDriver;
  readonly store: Store;
  readonly log: QuietLog;
  readonly tools: readonly Tool[];
  readonly check: AnswerCheck;
  /** An MCP client with the token of this name; every answer that it gets is held to the contract. */
  client(kind?: ClientKind, name?: string, options?: Partial<ClientOptions>): Promise<TestClient>;
  /** One request to `/api` with the token of this name. */
  api(method: "GET" | "POST", path: string, body?: unknown, name?: string): Promise<ApiAnswer>;
  stop(): Promise<void>;
};

export type ApiAnswer = { readonly status: number; readonly body: Readonly<Record<string, unknown>> };

/** Arguments of a delegation to the fake agent. */
export function fakeWork(
  clientRequestId: string,
  steps: readonly object[],
  more: object = {},
): Record<string, unknown> {
  return { clientRequestId, title: "Review the auth diff", task: scriptOf(steps), role: "review", ...more };
}

export async function startTestDaemon(options: TestDaemonOptions = {}): Promise<TestDaemon> {
  await using opened = new AsyncDisposableStack();
  const folder = opened.use(createTestFolder());
  const root = realpathSync(folder.path);
  mkdirSync(join(root, "work"));
  const clock = options.clock ?? createWallClock();
  const log = createQuietLog();
  const ids = createUlidSource(clock);
  const dataDir = join(root, "data");
  const store = opened.use(
    options.store === "sqlite" ? await openTestStore({ dataDir, clock, log }) : createMemoryStore(),
  );
  const settings = settingsOf(options, join(root, "scratch"));
  const { daemonId, guardLeaseMs: leaseMs } = settings;
  const children = opened.use(options.children ?? createGuardClient({ daemonId, leaseMs, clock, log }));
  const driver = createFakeDriver();
  const drivers = new Map<string, Driver>(
    [withScratch(createCommandDriver()), driver].map((known) => [known.name, known]),
  );
  const workspace = createLocalWorkspace({ roots: [join(root, "work")], map: [], clock });
  const engine = createEngine({
    ...PLAIN_PARTS,
    ...options.parts,
    store,
    drivers,
    children,
    workspace,
    clock,
    ids,
    log,
    faults: noFaults,
    settings,
  });
  const tools = createTools({ engine, meter: noMeter, contractVersion: 1, nonce: ids.nonce });
  const mcp = createMcpPlugin({
    tools,
    instructions: INSTRUCTIONS,
    serverInfo: { name: "delegate-mcp", title: "delegate-mcp", version: "0.0.0" },
    sessionKey: SESSION_KEY,
    callerOf,
    clock,
    log,
  });
  const app = await createHttpApp({
    allowedHosts: [],
    allowedOrigins: [],
    authenticate,
    isReady: () => store.healthy(),
    mcp: mcp.plugin,
    people: [createTaskRoutes({ engine, ...createLocalCalls(tools, ids.nonce) })],
    log,
    ...(options.bodyMaxBytes === undefined ? {} : { bodyMaxBytes: options.bodyMaxBytes }),
  });
  const origin = await app.listen({ host: "127.0.0.1", port: 0 });
  await engine.start();
  const rest = opened.move();
  const check = createAnswerCheck(tools);
  let stopping: Promise<void> | null = null;
  const stop = async (): Promise<void> => {
    const drained = engine.drain("stop");
    await mcp.shutDown();
    await drained;
    await app.close();
    await rest.disposeAsync();
  };
  return {
    origin,
    mcpUrl: `${origin}/mcp`,
    root: join(root, "work"),
    engine,
    driver,
    store,
    log,
    tools,
    check,
    async client(kind = "1.x", name = "alice", more = {}) {
      const client = await openClient(kind, { url: `${origin}/mcp`, token: `token-of-${name}`, ...more });
      return checked(client, check);
    },
    async api(method, path, body, name = "alice") {
      const response = await fetch(`${origin}${path}`, {
        method,
        headers: {
          authorization: `Bearer token-of-${name}`,
          ...(body === undefined ? {} : { "content-type": "application/json" }),
        },
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      });
      return { status: response.status, body: Object(await response.json()) };
    },
    stop,
    async [Symbol.asyncDispose]() {
      stopping ??= stop();
      await stopping;
    },
  };
}

function checked(client: TestClient, check: AnswerCheck): TestClient {
  return {
    ...client,
    async call(name, args, options) {
      const answer = await client.call(name, args, options);
      check(name, answer);
      return answer;
    },
    [Symbol.asyncDispose]: () => client[Symbol.asyncDispose](),
  };
}

const SCOPES: Readonly<Record<string, readonly Scope[]>> = {
  reader: ["read"],
  admin: ["read", "delegate", "admin"],
  nobody: [],
};

const authenticate: Authenticate = (token) => {
  const name = /^token-of-(\w+)$/.exec(token ?? "")?.[1];
  if (name === undefined) return { problem: token === null ? "missing" : "unknown" };
  const caller: Caller = { name, scopes: SCOPES[name] ?? ["read", "delegate"], kind: "caller", conversation: null };
  return caller;
};

function settingsOf({ limits, settings }: TestDaemonOptions, scratchRoot: string): EngineSettings {
  const fake: AgentSettings = {
    driver: "fake",
    command: ["fake"],
    promptBy: "stdin",
    onLoss: "resume",
    model: null,
    trusted: true,
    requireEvidence: "assumed",
    env: {},
    levels: ALL_LEVELS,
    writes: true,
  };
  const program: AgentSettings = {
    ...fake,
    driver: "command",
    command: AGENT_COMMAND,
    onLoss: "fail",
    env: { PATH: process.env["PATH"] ?? "" },
  };
  return {
    daemonId: `test${process.pid}`,
    limits: {
      concurrentChildren: 8,
      queueMax: 1_000,
      depthMax: 1,
      tasksPerTreeMax: 50,
      waitsMax: 10_000,
      delegationsPerMinute: 1_000,
      ...limits,
    },
    retry: { patienceMs: 60_000, backoffMaxMs: 1_000, unknownAttemptsMax: 2, lossesMax: 5, pauseMaxMs: 60_000 },
    stallAfterMs: 300_000,
    questionDeadlineMs: 3_600_000,
    maxActiveMs: 3_600_000,
    permissionsMax: "accept_edits",
    ...PLAIN_SETTINGS,
    guardLeaseMs: 30_000,
    agents: new Map([
      ["fake", fake],
      ["program", program],
      ["missing", { ...program, command: ["/nowhere/no-such-program"] }],
    ]),
    defaultAgent: "fake",
    scratchRoot,
    ...settings,
  };
}
