/**
 * `/api/tasks` and `/api/wait`: the tools for people (command line, page), by the same calls and with the same answers as by
 * MCP. What they have in common stands in `tool-calls.ts`.
 *
 * Invariant: nothing is decided here; every route is one call of a tool or of the engine, under the same scopes.
 */

import type { FastifyPluginAsync } from "fastify";

import type { Engine } from "../ports/engine.ts";
import { callerOf, hasScope } from "./auth.ts";
import { type AnswerBody, answer, createToolCalls, fields, type ToolCallOptions } from "./tool-calls.ts";

export type TaskRouteOptions = ToolCallOptions & { readonly engine: Pick<Engine, "list" | "cancel"> };

export function createTaskRoutes(options: TaskRouteOptions): FastifyPluginAsync {
  const { engine, render } = options;
  const { run, withTask } = createToolCalls(options);

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

/** `?open=1` is what people and forms write; everything else is left for the tool to judge. */
function listArguments(query: Record<string, string>): AnswerBody {
  const flags = Object.entries(query).map(([name, value]) => [name, FLAGS[value] ?? value] as const);
  return { ...query, ...Object.fromEntries(flags.filter(([name]) => name === "open" || name === "unread")) };
}

const FLAGS: Readonly<Record<string, boolean>> = { "1": true, "0": false, "": true };
