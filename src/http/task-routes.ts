/**
 * `/api`: the tools for people (command line, page). The same calls and the same answers as by MCP.
 *
 * Statuses: 200 for answers and refusals, 400 for arguments that do not fit, 403, 404 for unknown ids, 409 for an id
 * prefix that names several tasks, 503 while stopping or without storage. The prefix needs at least one character of its own.
 * Invariant: nothing is decided here; every route is one call of a tool or of the engine, under the same scopes.
 */

import type { FastifyPluginAsync, FastifyReply, FastifyRequest } from "fastify";

import type { Caller } from "../core/caller.ts";
import { parseId } from "../core/ids.ts";
import type { Answer, Engine } from "../ports/engine.ts";
import { callerOf, hasScope } from "./auth.ts";

export type AnswerBody = Readonly<Record<string, unknown>>;

export type TaskRouteOptions = {
  readonly engine: Engine;
  /** Runs a tool by name as MCP would; `waitMaxMs` bounds how long it may be held. */
  readonly callTool: (name: string, args: unknown, call: ToolCall) => Promise<AnswerBody>;
  /** Renders an answer of the engine for `tool`. */
  readonly render: (answer: Answer, tool: string, caller: Caller) => AnswerBody;
};

export type ToolCall = { readonly caller: Caller; readonly signal: AbortSignal; readonly waitMaxMs: number };

/** A wait that names no time, and the longest that one request is held. */
const WAIT_DEFAULT_MS = 25_000;
const WAIT_MAX_MS = 240_000;
const MATCHES_SHOWN = 10;

export function createTaskRoutes({ engine, callTool, render }: TaskRouteOptions): FastifyPluginAsync {
  const run = async (
    name: string,
    args: unknown,
    request: FastifyRequest,
    reply: FastifyReply,
  ): Promise<FastifyReply> => {
    const call = { caller: callerOf(request), signal: goneSignal(reply), waitMaxMs: waitOf(args) };
    return answer(reply, await callTool(name, args, call));
  };

  /** Runs `then` with the full id, or answers 404 or 409. */
  async function withTask(
    request: FastifyRequest<{ Params: { id: string } }>,
    reply: FastifyReply,
    then: (taskId: string) => Promise<FastifyReply>,
  ): Promise<FastifyReply> {
    const { id } = request.params;
    const idPrefix = parseId(id).kind === "foreign" ? prefixOf(id) : null;
    if (idPrefix === null) return then(id);
    const caller = callerOf(request);
    const matches = await engine.list({ ...EVERYTHING, idPrefix, limit: MATCHES_SHOWN }, caller);
    if (matches.kind !== "list" || matches.views.length === 0) return then(id);
    const [only, ...others] = matches.views;
    if (only !== undefined && others.length === 0) return then(only.handle.taskId);
    return reply.code(409).send(render(matches, "task_list", caller));
  }

  return async (app) => {
    app.post("/api/tasks", async (request, reply) => run("delegate_task", request.body, request, reply));
    app.get<{ Querystring: Record<string, string> }>("/api/tasks", async (request, reply) =>
      run("task_list", listArguments(request.query), request, reply),
    );
    app.post("/api/wait", async (request, reply) => run("task_wait", request.body ?? {}, request, reply));
    app.get<{ Params: { id: string } }>("/api/tasks/:id", async (request, reply) =>
      withTask(request, reply, async (taskId) => run("task_status", { taskId }, request, reply)),
    );
    app.post<{ Params: { id: string } }>("/api/tasks/:id/continue", async (request, reply) =>
      withTask(request, reply, async (taskId) =>
        run("task_continue", { ...fields(request.body), taskId }, request, reply),
      ),
    );
    app.post<{ Params: { id: string } }>("/api/tasks/:id/ack", async (request, reply) =>
      withTask(request, reply, async (taskId) => run("task_ack", { ...fields(request.body), taskId }, request, reply)),
    );
    app.post<{ Params: { id: string } }>("/api/tasks/:id/cancel", async (request, reply) =>
      withTask(request, reply, async (taskId) => {
        const { abandon, ...body } = fields(request.body);
        const caller = callerOf(request);
        // Without the scope the tool says so; only a person gets past the engine's own look at who asks.
        if (abandon !== true || !hasScope(caller, "delegate")) {
          const args = typeof abandon === "boolean" || abandon === undefined ? body : { ...body, abandon };
          return run("task_cancel", { ...args, taskId }, request, reply);
        }
        const abandoned = await engine.cancel({ taskId, reason: null, abandon }, caller);
        return answer(reply, render(abandoned, "task_cancel", caller));
      }),
    );
  };
}

const EVERYTHING = {
  open: false,
  unread: false,
  conversation: "all",
  status: null,
  parentTaskId: null,
  cursor: null,
} as const;

const STATUS_OF_CODE: Readonly<Record<string, number>> = {
  invalid_arguments: 400,
  missing_client_request_id: 400,
  not_allowed: 403,
  unknown_task: 404,
  unknown_thread: 404,
  stopping: 503,
  storage_unavailable: 503,
  internal: 500,
};

function answer(reply: FastifyReply, body: AnswerBody): FastifyReply {
  const { code } = fields(body["error"]);
  return reply.code((typeof code === "string" ? STATUS_OF_CODE[code] : undefined) ?? 200).send(body);
}

/** Ids are upper-case but for their prefix; people type as they like. Null if it is nothing that an id could begin with. */
function prefixOf(text: string): string | null {
  const rest = text.replace(/^dt_/i, "").toUpperCase();
  return /^[0-9A-Z]{1,26}$/.test(rest) ? `dt_${rest}` : null;
}

/** `?open=1` is what people and forms write; everything else is left for the tool to judge. */
function listArguments(query: Record<string, string>): AnswerBody {
  const flags = Object.entries(query).map(([name, value]) => [name, FLAGS[value] ?? value] as const);
  return { ...query, ...Object.fromEntries(flags.filter(([name]) => name === "open" || name === "unread")) };
}

const FLAGS: Readonly<Record<string, boolean>> = { "1": true, "0": false, "": true };

function waitOf(args: unknown): number {
  const { waitMs, timeoutMs } = fields(args);
  const asked = waitMs ?? timeoutMs ?? WAIT_DEFAULT_MS;
  const ms = typeof asked === "string" && asked.trim() !== "" ? Number(asked) : asked;
  return typeof ms === "number" && ms >= 0 ? Math.min(ms, WAIT_MAX_MS) : WAIT_DEFAULT_MS;
}

/** Aborts when the client has gone, so that a held wait is freed at once; a connection outlives its answers. */
function goneSignal(reply: FastifyReply): AbortSignal {
  const gone = new AbortController();
  reply.raw.once("close", () => gone.abort());
  return gone.signal;
}

function fields(value: unknown): AnswerBody {
  return isFields(value) ? value : {};
}

function isFields(value: unknown): value is AnswerBody {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
