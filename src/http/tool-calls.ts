/**
 * How a route of `/api` calls a tool: the same calls and the same answers as by MCP, as statuses and bodies of HTTP.
 *
 * Statuses: 200 for answers and refusals, 400 for arguments that do not fit, 403, 404 for unknown ids, 409 for an id
 * prefix that names several tasks, 503 while stopping or without storage. The prefix needs at least one character of its own.
 */

import type { FastifyReply, FastifyRequest } from "fastify";

import type { Caller } from "../core/caller.ts";
import { parseId, taskIdPrefixOf } from "../core/ids.ts";
import type { Answer, Engine } from "../ports/engine.ts";
import { callerOf } from "./auth.ts";

export type AnswerBody = Readonly<Record<string, unknown>>;

export type ToolCallOptions = {
  readonly engine: Pick<Engine, "list">;
  /** Runs a tool by name as MCP would; `waitMaxMs` bounds how long it may be held. */
  readonly callTool: (name: string, args: unknown, call: ToolCall) => Promise<AnswerBody>;
  /** Renders an answer of the engine for `tool`. */
  readonly render: (answer: Answer, tool: string, caller: Caller) => AnswerBody;
};

export type ToolCall = { readonly caller: Caller; readonly signal: AbortSignal; readonly waitMaxMs: number };

export type NamedTask = FastifyRequest<{ Params: { id: string } }>;

export type ToolCalls = {
  /** Answers with what the tool answers. */
  run(name: string, args: unknown, request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply>;
  /** Runs `then` with the full id, or answers 409. An id that names nothing is left for `then` to refuse. */
  withTask(
    request: NamedTask,
    reply: FastifyReply,
    then: (taskId: string) => Promise<FastifyReply>,
  ): Promise<FastifyReply>;
};

/** A wait that names no time, and the longest that one request is held. */
const WAIT_DEFAULT_MS = 25_000;
const WAIT_MAX_MS = 240_000;
const MATCHES_SHOWN = 10;

export function createToolCalls({ engine, callTool, render }: ToolCallOptions): ToolCalls {
  return {
    async run(name, args, request, reply) {
      const call = { caller: callerOf(request), signal: goneSignal(reply), waitMaxMs: waitOf(args) };
      return answer(reply, await callTool(name, args, call));
    },
    async withTask(request, reply, then) {
      const { id } = request.params;
      const idPrefix = parseId(id).kind === "foreign" ? taskIdPrefixOf(id) : null;
      if (idPrefix === null) return then(id);
      const caller = callerOf(request);
      const matches = await engine.list({ ...EVERYTHING, idPrefix, limit: MATCHES_SHOWN }, caller);
      if (matches.kind !== "list" || matches.views.length === 0) return then(id);
      const [only, ...others] = matches.views;
      if (only !== undefined && others.length === 0) return then(only.handle.taskId);
      return reply.code(409).send(render(matches, "task_list", caller));
    },
  };
}

/** All tasks of a caller, for a look at ids. */
export const EVERYTHING = {
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

/** Sends an answer under the status of its code. */
export function answer(reply: FastifyReply, body: AnswerBody): FastifyReply {
  const { code } = fields(body["error"]);
  return reply.code((typeof code === "string" ? STATUS_OF_CODE[code] : undefined) ?? 200).send(body);
}

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

export function fields(value: unknown): AnswerBody {
  return isFields(value) ? value : {};
}

function isFields(value: unknown): value is AnswerBody {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
