/**
 * The routes for people over real sockets, with scripted tools and a scripted `Upkeep` behind them.
 *
 * Tokens are `token-of-<name>`: `admin` has every scope, `nobody` none, every other name may read and delegate.
 */

import type { FastifyPluginAsync } from "fastify";
import type { Caller, Scope } from "../../src/core/caller.ts";
import { nodeIdOf, taskIdFrom } from "../../src/core/ids.ts";
import type { Authenticate } from "../../src/http/auth.ts";
import { createTaskRoutes } from "../../src/http/task-routes.ts";
import { createThreadRoutes } from "../../src/http/thread-routes.ts";
import type { ToolCallOptions } from "../../src/http/tool-calls.ts";
import { createUpkeepRoutes, type UpkeepRouteOptions } from "../../src/http/upkeep-routes.ts";
import type { ExportLine, HostReport, PruneReport, TaskChangeNote, Upkeep } from "../../src/ports/upkeep.ts";
import type { Tool } from "../../src/mcp/tool.ts";
import { createWallClock } from "../../src/system/wall-clock.ts";
import { createQuietLog, type QuietLog } from "./quiet-log.ts";
import { startWireServer } from "./wire-server.ts";

export const TASK_ID = taskIdFrom("01M8RB6A55JAK79A8N9ME45MJ0");
export const OTHER_ID = taskIdFrom("01M8RB6A55JAK79A8N9ME45MJ1");

export type ToolCalled = { readonly name: string; readonly args: unknown; readonly by: string };

export type PeopleServer = AsyncDisposable & {
  readonly origin: string;
  readonly port: number;
  readonly log: QuietLog;
  readonly called: readonly ToolCalled[];
  /** What `prune` was asked. */
  readonly pruned: readonly { readonly dryRun: boolean }[];
  /** Who follows at this moment. */
  followers(): number;
  /** Tells every follower. */
  change(note?: Partial<TaskChangeNote>): void;
  revoke(name: string): void;
  get(path: string, name?: string): Promise<Response>;
  post(path: string, body: unknown, name?: string): Promise<Response>;
  stop(): Promise<void>;
};

export type PeopleOptions = Partial<Pick<UpkeepRouteOptions, "keepAliveMs" | "streamsMax" | "bufferBytesMax">> & {
  /** Lines of every export of `TASK_ID`; by default a head and an end. */
  readonly lines?: () => AsyncIterable<ExportLine>;
  readonly host?: HostReport;
  readonly isReady?: boolean;
  /** Tools of `/mcp`, by default those of the wire. */
  readonly tools?: readonly Tool[];
  /** The answer of every tool of `/api`. */
  readonly answer?: (called: ToolCalled) => Readonly<Record<string, unknown>>;
  /** Runs before a request's token is looked at. */
  readonly beforeAuthenticated?: () => Promise<void>;
};

export async function startPeopleServer(options: PeopleOptions = {}): Promise<PeopleServer> {
  const called: ToolCalled[] = [];
  const pruned: { readonly dryRun: boolean }[] = [];
  const followers = new Set<(change: TaskChangeNote) => void>();
  const revoked = new Set<string>();
  const log = createQuietLog();
  const authenticate: Authenticate = async (token) => {
    await options.beforeAuthenticated?.();
    const name = /^token-of-(\w+)$/.exec(token ?? "")?.[1];
    if (name === undefined) return { problem: token === null ? "missing" : "unknown" };
    return revoked.has(name) ? { problem: "revoked" } : callerNamed(name);
  };
  const upkeep: Upkeep = {
    exportTask: async (id) => (id === TASK_ID ? (options.lines ?? shortExport)() : null),
    async prune(request): Promise<PruneReport> {
      pruned.push(request);
      return { dryRun: request.dryRun, tasks: 3, transcripts: 2, receipts: request.dryRun ? null : 1 };
    },
    host: () => options.host ?? { daemonId: "dm_1", running: [], queued: 0, waiting: 0 },
    follow(_caller, onChange) {
      followers.add(onChange);
      return { [Symbol.dispose]: () => void followers.delete(onChange) };
    },
  };
  const tools: ToolCallOptions = {
    engine: { list: async ({ idPrefix }) => matches(idPrefix) },
    async callTool(name, args, call) {
      const seen = { name, args, by: `${call.caller.kind} ${call.caller.name}` };
      called.push(seen);
      return options.answer?.(seen) ?? { say: name, next: { kind: "use_result" } };
    },
    render: () => ({ say: "2 tasks", next: { kind: "use_result" }, tasks: [TASK_ID, OTHER_ID] }),
  };
  const { keepAliveMs = 10_000, tools: tooling, streamsMax, bufferBytesMax } = options;
  const upkeepRoutes = createUpkeepRoutes({
    ...tools,
    ...(streamsMax === undefined ? {} : { streamsMax }),
    ...(bufferBytesMax === undefined ? {} : { bufferBytesMax }),
    upkeep,
    log,
    clock: createWallClock(),
    keepAliveMs,
    authenticate,
  });
  const taskRoutes = createTaskRoutes({ ...tools, engine: { ...tools.engine, cancel: expectNoCancel } });
  const people: readonly FastifyPluginAsync[] = [taskRoutes, createThreadRoutes(tools), upkeepRoutes];
  const isReady = (): boolean => options.isReady ?? true;
  const mcp = {
    serverInfo: { name: "delegate-mcp", version: "1.2.3" },
    ...(tooling === undefined ? {} : { tools: tooling }),
  };
  const server = await startWireServer({ people, mcp, http: { authenticate, isReady } });
  const ask = (path: string, name: string, init: RequestInit = {}): Promise<Response> =>
    fetch(`${server.origin}${path}`, {
      ...init,
      headers: { authorization: `Bearer token-of-${name}`, "content-type": "application/json" },
    });
  return {
    origin: server.origin,
    port: server.port,
    log,
    called,
    pruned,
    followers: () => followers.size,
    change(note = {}) {
      for (const tell of followers) tell(noteOf(note));
    },
    revoke: (name) => void revoked.add(name),
    get: (path, name = "alice") => ask(path, name, {}),
    post: (path, body, name = "alice") => ask(path, name, { method: "POST", body: JSON.stringify(body) }),
    stop: server.stop,
    [Symbol.asyncDispose]: server[Symbol.asyncDispose],
  };
}

export function noteOf(note: Partial<TaskChangeNote> = {}): TaskChangeNote {
  const { taskId = TASK_ID } = note;
  return {
    taskId,
    nodeId: nodeIdOf(taskId),
    status: "working",
    phase: "running",
    settlements: 0,
    version: 3,
    atMs: Date.UTC(2026, 0, 1),
    ...note,
  };
}

async function* shortExport(): AsyncGenerator<ExportLine> {
  yield { kind: "head", format: 1, exportedAt: "2026-01-01T00:00:00.000Z", taskId: TASK_ID };
  yield { kind: "text", name: "task", body: "line 1\nline 2 漢字" };
  yield { kind: "end", events: 0, texts: 1, entries: 0 };
}

function expectNoCancel(): never {
  throw new Error("this server cancels nothing");
}

/** Tasks whose ids begin so, as the engine lists them: of this daemon there are two, and alice's is the first. */
async function matches(idPrefix: string | null) {
  const ids = [TASK_ID, OTHER_ID].filter((id) => id !== OTHER_ID || idPrefix !== OTHER_ID);
  const found = ids.filter((id) => id.startsWith(idPrefix ?? ""));
  return JSON.parse(JSON.stringify({ kind: "list", views: found.map((taskId) => ({ handle: { taskId } })) }));
}

const SCOPES: Readonly<Record<string, readonly Scope[]>> = { admin: ["read", "delegate", "admin"], nobody: [] };

function callerNamed(name: string): Caller {
  return { name, scopes: SCOPES[name] ?? ["read", "delegate"], kind: "caller", conversation: null };
}
