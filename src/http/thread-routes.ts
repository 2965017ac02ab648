/**
 * `/api` for what a task asks and tells: answering a question, reading a thread, and which agents there are.
 *
 * Invariant: nothing is decided here; every route is one call of a tool.
 */

import type { FastifyPluginAsync } from "fastify";

import { parseId } from "../core/ids.ts";
import { createToolCalls, fields, type ToolCallOptions } from "./tool-calls.ts";

export function createThreadRoutes(options: ToolCallOptions): FastifyPluginAsync {
  const { run, withTask } = createToolCalls(options);

  return async (app) => {
    app.post<{ Params: { id: string } }>("/api/tasks/:id/answer", async (request, reply) =>
      withTask(request, reply, async (taskId) =>
        run("task_answer", { ...fields(request.body), taskId }, request, reply),
      ),
    );
    app.get<{ Params: { id: string }; Querystring: Record<string, string> }>(
      "/api/threads/:id",
      async (request, reply) =>
        withTask(request, reply, async (id) => {
          const { taskId: _task, childThreadId: _thread, ...query } = request.query;
          const named = parseId(id).kind === "thread" ? { childThreadId: id } : { taskId: id };
          return run("thread_read", { ...query, ...named }, request, reply);
        }),
    );
    app.get("/api/agents", async (request, reply) => run("list_agents", {}, request, reply));
  };
}
