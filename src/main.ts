/**
 * The composition root: configuration -> adapters -> engine -> surfaces -> a running daemon. The only file that may
 * import everything, and the only place where adapters meet.
 *
 * Invariant: what has been opened is closed again in reverse order, also when the start fails half-way.
 * Absent on purpose: decisions. Whatever is decided here is which part is plugged where.
 */

import type { FastifyInstance } from "fastify";

import {
  readDaemonFile,
  openDaemonId,
  openSessionKey,
  removeDaemonFile,
  writeDaemonFile,
} from "./config/daemon-files.ts";
import type { Ready, StartDaemonInput, StartDaemonResult, StopMode } from "./cli/daemon.ts";
import { CHILD_TOKEN_PATTERN, CHILD_TOKEN_SHAPE, createChildCredentials } from "./config/child-credentials.ts";
import { CONTRACT_VERSION } from "./config/contract-version.ts";
import { engineSettings, modelEndpoints } from "./config/engine-settings.ts";
import { knownSecrets } from "./config/known-secrets.ts";
import type { DataDirRefusal } from "./config/private-files.ts";
import { CALLER_TOKEN_PATTERN, CALLER_TOKEN_SHAPE, openTokens, type TokenStore, tokenFileOf } from "./config/tokens.ts";
import type { Caller } from "./core/caller.ts";
import { type ClosingStack, createClosingStack } from "./core/closing-stack.ts";
import { childEnvironment } from "./config/child-environment.ts";
import { createAcpDriver } from "./drivers/acp/acp-driver.ts";
import { createCodexDriver } from "./drivers/codex/codex-driver.ts";
import { createClaudeDriver } from "./drivers/claude/claude-driver.ts";
import { createCommandDriver } from "./drivers/command/command-driver.ts";
import { createFakeDriver } from "./drivers/fake/fake-driver.ts";
import { createModelDriver } from "./drivers/model/model-driver.ts";
import { createPiDriver } from "./drivers/pi/pi-driver.ts";
import { createProgramProbe } from "./drivers/program-probe.ts";
import { withScratch } from "./drivers/with-scratch.ts";
import { createEngine, type RunningEngine } from "./engine/create-engine.ts";
import { createGuardClient } from "./guard/guard-client.ts";
import { createPeers } from "./guard/peer-process.ts";
import { type AuthProblem, callerOf } from "./http/auth.ts";
import { createHttpApp } from "./http/http-app.ts";
import { listen } from "./http/listen.ts";
import { createIdentify } from "./http/identify.ts";
import { createMetricsRoute } from "./http/metrics-route.ts";
import { createTaskRoutes } from "./http/task-routes.ts";
import { createThreadRoutes } from "./http/thread-routes.ts";
import { createUpkeepRoutes } from "./http/upkeep-routes.ts";
import { KNOWN_CLIENTS } from "./mcp/client-profile.ts";
import { TOOL_NAMES } from "./mcp/descriptions.ts";
import { INSTRUCTIONS } from "./mcp/instructions.ts";
import { createLocalCalls } from "./mcp/local-calls.ts";
import { createMcpPlugin, type McpSurface } from "./mcp/mcp-plugin.ts";
import { createTools } from "./mcp/tools/create-tools.ts";
import { createMeteredStore } from "./store/metered-store.ts";
import { openSqliteStore } from "./store/open-sqlite-store.ts";
import { createNotifiers } from "./notify/create-notifiers.ts";
import { noFaults } from "./system/no-faults.ts";
import { watchEventLoop } from "./system/event-loop-delay.ts";
import { thisProcess } from "./system/this-process.ts";
import { createUlidSource } from "./system/ulid-source.ts";
import { createWallClock } from "./system/wall-clock.ts";
import { createPinoLog } from "./telemetry/pino-log.ts";
import { createPrometheusMeter } from "./telemetry/prometheus-meter.ts";
import { base64Shape, createSecrets } from "./telemetry/secrets.ts";
import { createLocalWorkspace } from "./workspace/local-workspace.ts";

export async function startDaemon(options: StartDaemonInput): Promise<StartDaemonResult> {
  await using opened = createClosingStack();
  const { config } = options.loaded;
  const world = await openWorld(options, opened);
  if (world.kind === "refused") return world;

  let mcpUrl: string | null = null;
  const engine = buildEngine(options, world, () => mcpUrl);
  const { mcp, app } = await mountSurfaces(options, world, engine, opened);
  const bound = await listen(app, config.server.host, config.server.port);
  if (bound.kind === "refused") return { ...bound, url: null };
  mcpUrl = `${bound.url}/mcp`;

  // Ready: what is unfinished goes on from here.
  await engine.start();
  const ready = readyOf(options, bound.url);
  const started = { ...ready, url: bound.url, startedAt: new Date(world.clock.wallMs()).toISOString() };
  const unwritten = writeDaemonFile(config.dataDir, started);
  if (unwritten !== null) world.log.warn("daemon_file_not_written", { reason: unwritten.reason });
  const rest = opened.move();
  return { kind: "started", ready, stop: (mode) => stopAll({ engine, mcp, app, rest, dataDir: config.dataDir }, mode) };
}

type World = Extract<Awaited<ReturnType<typeof openWorld>>, { readonly kind: "open" }>;

/** What outlives a request: clock, log, storage, tokens, keys, the guard. */
async function openWorld({ loaded, stderr }: StartDaemonInput, opened: ClosingStack) {
  const { config } = loaded;
  const secrets = createSecrets([
    CALLER_TOKEN_PATTERN,
    CHILD_TOKEN_PATTERN,
    ...[CALLER_TOKEN_SHAPE, CHILD_TOKEN_SHAPE].map(base64Shape),
  ]);
  const { mask } = secrets;
  const log = createPinoLog({ level: config.log.level, stream: stderr, terminal: stderr.isTTY, mask });
  const clock = createWallClock();
  const meter = createPrometheusMeter({ clients: KNOWN_CLIENTS, tools: TOOL_NAMES });
  // The directory's lock comes first, so that nothing else is touched by a second daemon.
  const store = await openSqliteStore({ dataDir: config.dataDir, clock, log, ...thisProcess });
  if (store.kind === "refused") return refusedStore(store.reason, store.detail, config.dataDir);
  opened.use(store.store);
  const tokens = await openTokens(config.dataDir);
  if (tokens.kind === "refused") return refusal(tokens);
  for (const secret of knownSecrets(loaded)) secrets.add(secret);
  const key = openSessionKey(config.dataDir);
  if (key.kind === "refused") return refusal(key);
  const identity = openDaemonId(config.dataDir);
  if (identity.kind === "refused") return refusal(identity);
  const settings = engineSettings(loaded, identity.daemonId);
  const children = createGuardClient({ daemonId: settings.daemonId, leaseMs: settings.guardLeaseMs, clock, log });
  opened.use(children);
  return {
    kind: "open",
    log,
    mask,
    clock,
    meter,
    ids: createUlidSource(clock),
    store: createMeteredStore(store.store, meter, clock),
    tokens: tokens.tokens,
    sessionKey: Buffer.from(key.key),
    credentials: createChildCredentials(Buffer.from(key.key)),
    settings,
    children,
  } as const;
}

/** The engine over its adapters. `mcpUrl`: where children find the tools, once somebody listens. */
function buildEngine({ loaded }: StartDaemonInput, world: World, mcpUrl: () => string | null): RunningEngine {
  const { clock, settings } = world;
  const { config, environment } = loaded;
  const drivers = [
    withScratch(createCommandDriver()),
    createAcpDriver(),
    withScratch(createClaudeDriver()),
    createCodexDriver(),
    withScratch(createPiDriver()),
    createModelDriver(modelEndpoints(loaded)),
    createFakeDriver(),
  ];
  return createEngine({
    ...world,
    drivers: new Map(drivers.map((driver) => [driver.name, driver])),
    workspace: createLocalWorkspace({ ...config.workspaces, clock, searchPath: environment["PATH"] }),
    faults: noFaults,
    probe: createProgramProbe(settings.agents, clock),
    notifiers: createNotifiers({
      targets: config.notify,
      environment,
      commandEnv: childEnvironment(environment, []),
      clock,
      killGroup: thisProcess.killGroup,
    }),
    mcpUrl,
  });
}

/** The doors: MCP for models, `/api` and `/metrics` for people and operators. */
async function mountSurfaces(
  { loaded, version }: StartDaemonInput,
  world: World,
  engine: RunningEngine,
  opened: ClosingStack,
): Promise<{ readonly mcp: McpSurface; readonly app: FastifyInstance }> {
  const { config } = loaded;
  const { clock, log, meter, ids, store, settings, credentials } = world;
  const tools = createTools({ engine, meter, contractVersion: CONTRACT_VERSION, nonce: ids.nonce });
  const clientOf = (client: { readonly name: string } | null) =>
    client === null ? undefined : config.clients[client.name];
  const mcp = createMcpPlugin({
    tools,
    instructions: INSTRUCTIONS,
    serverInfo: { name: "delegate-mcp", title: "delegate-mcp", version },
    sessionKey: world.sessionKey,
    callerOf,
    clock,
    log,
    slices: { overrideMs: (client) => clientOf(client)?.waitSliceMs ?? null, learnedMs: () => null },
    eraOverride: (client) => clientOf(client)?.era ?? null,
  });
  const { daemonId } = settings;
  const authenticate = createIdentify({
    daemonId,
    byToken: config.server.auth === "none" ? () => LOCAL : (token) => callerOfToken(world.tokens, token),
    peers: createPeers({ platform: thisProcess.platform, daemonId }),
    credentials,
    childOf: engine.childOf,
  });
  const eventLoop = watchEventLoop();
  opened.use({ [Symbol.asyncDispose]: async () => eventLoop[Symbol.dispose]() });
  const render = (openConnections: () => number) =>
    meter.render({
      tasks: () => store.counts(),
      running: () => engine.load().running,
      queued: () => engine.load().queued,
      waiting: () => engine.waiting,
      openConnections,
      eventLoopDelay: eventLoop.take,
    });
  const calls = { engine, ...createLocalCalls(tools, ids.nonce) };
  const following = { upkeep: engine.upkeep, clock, keepAliveMs: config.server.keepAliveMs, authenticate, log };
  const app = await createHttpApp({
    ...config.server,
    authenticate,
    isReady: () => store.healthy(),
    mcp: mcp.plugin,
    people: [
      createTaskRoutes(calls),
      createThreadRoutes(calls),
      createUpkeepRoutes({ ...calls, ...following }),
      createMetricsRoute({ render }),
    ],
    log,
  });
  return { mcp, app };
}

/** Waits end first, children next; requests are answered until the last moment. */
async function stopAll(
  daemon: {
    readonly engine: RunningEngine;
    readonly mcp: McpSurface;
    readonly app: FastifyInstance;
    readonly rest: ClosingStack;
    readonly dataDir: string;
  },
  mode: StopMode,
): Promise<void> {
  const drained = daemon.engine.drain(mode);
  await daemon.mcp.shutDown();
  await drained;
  await daemon.app.close();
  await daemon.rest[Symbol.asyncDispose]();
  removeDaemonFile(daemon.dataDir, thisProcess.pid);
}

type Refused = Extract<StartDaemonResult, { readonly kind: "refused" }>;

function refusal({ reason, message, fix }: DataDirRefusal): Refused {
  return { kind: "refused", reason, message, fix, url: null };
}

/** Our own daemon on the same directory is no fault: whoever starts a second one wants that one. */
function refusedStore(reason: string, detail: string, dataDir: string): Refused {
  const running = reason === "locked" ? readDaemonFile(dataDir) : null;
  if (running?.kind !== "found") return { kind: "refused", reason, message: detail, url: null };
  return { kind: "refused", reason: "already_running", message: detail, url: running.info.mcpUrl };
}

/** The caller of a daemon without tokens (`--no-auth`). */
const LOCAL: Caller = { name: "local", scopes: ["read", "delegate", "admin"], kind: "caller", conversation: null };

function callerOfToken(tokens: TokenStore, token: string | null): Caller | AuthProblem {
  if (token === null) return { problem: "missing" };
  const found = tokens.authenticate(token);
  if (found.kind !== "known") return { problem: found.kind };
  return { name: found.name, scopes: found.scopes, kind: "caller", conversation: null };
}

function readyOf({ loaded, version }: StartDaemonInput, url: string): Ready {
  const { dataDir } = loaded.config;
  const tokenFile = tokenFileOf(dataDir);
  const { pid } = thisProcess;
  return {
    mcpUrl: `${url}/mcp`,
    dashboardUrl: `${url}/`,
    dataDir,
    tokenFile,
    pid,
    version,
    contractVersion: CONTRACT_VERSION,
  };
}
