/**
 * `/api` for operators and people: everything kept of a task as lines, what retention removes, what runs here, and the events.
 *
 * Answers are data without a next step of their own; refusals are problems of HTTP, and for an unknown task the answer of the
 * tools.
 *
 * Invariant: who may not see a task is told the same as for one that does not exist, also by what `host` lists (P16).
 * Invariant: an export that could not be finished ends without its last line; the connection is cut then.
 */

import { Readable } from "node:stream";
import type { FastifyPluginAsync, FastifyReply, FastifyRequest } from "fastify";

import type { Engine } from "../ports/engine.ts";
import type { Log } from "../ports/log.ts";
import type { ExportLine, HostReport, Upkeep } from "../ports/upkeep.ts";
import { callerOf, hasScope, requireScope } from "./auth.ts";
import { createEventStreams, type EventStreamOptions } from "./event-stream.ts";
import { fix, type Problem, sendProblem } from "./problem.ts";
import { createToolCalls, EVERYTHING, fields, type NamedTask, type ToolCallOptions } from "./tool-calls.ts";

export type UpkeepRouteOptions = ToolCallOptions & EventStreamOptions & { readonly upkeep: Upkeep; readonly log: Log };

/** Each holds a page of a task in memory for as long as its reader takes. */
const EXPORTS_MAX = 16;

const TOO_MANY_EXPORTS: Problem = {
  status: 503,
  code: "capacity_full",
  message: `${EXPORTS_MAX} exports are under way, which is the limit of this daemon`,
  next: { kind: "repeat_same_call", change: "Try again when one of them has ended." },
  headers: { "retry-after": "10" },
};

export function createUpkeepRoutes(options: UpkeepRouteOptions): FastifyPluginAsync {
  const { upkeep, engine, log, callTool } = options;
  const { withTask } = createToolCalls(options);
  const streams = createEventStreams(options);
  const exports = new Set<Readable>();

  async function exportTask(id: string, request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> {
    const caller = callerOf(request);
    if (exports.size >= EXPORTS_MAX) return sendProblem(request, reply, TOO_MANY_EXPORTS);
    const lines = await upkeep.exportTask(id, caller);
    if (lines === null) {
      const call = { caller, signal: new AbortController().signal, waitMaxMs: 0 };
      return reply.code(404).send(await callTool("task_status", { taskId: id }, call));
    }
    const failed = (error: unknown): void =>
      log.error("export_failed", { requestId: request.id, message: error instanceof Error ? error.message : "" });
    const body = Readable.from(texts(lines, failed), { objectMode: false, highWaterMark: CHUNK_BYTES });
    exports.add(body);
    body.once("close", () => exports.delete(body));
    // The end of the body ends the connection, so that a cut one cannot be taken for whole.
    return reply.type("application/x-ndjson").header("connection", "close").send(body);
  }

  return async (app) => {
    app.addHook("preClose", async () => {
      streams.shutDown();
      for (const body of exports) body.destroy();
    });
    const read = { onRequest: requireScope("read"), exposeHeadRoute: false };
    app.get("/api/tasks/:id/export", read, async (request: NamedTask, reply) =>
      withTask(request, reply, async (id) => exportTask(id, request, reply)),
    );
    app.post("/api/prune", { onRequest: requireScope("admin") }, async (request, reply) => {
      const dryRun = dryRunOf(request.body);
      return dryRun === null ? sendProblem(request, reply, BAD_PRUNE) : reply.send(await upkeep.prune({ dryRun }));
    });
    app.get("/api/host", read, async (request, reply) => reply.send(await hostFor(engine, upkeep.host(), request)));
    app.get("/api/events", read, async (request, reply) => streams.open(request, reply));
  };
}

const CHUNK_BYTES = 64 * 1024;

async function* texts(lines: AsyncIterable<ExportLine>, failed: (error: unknown) => void): AsyncGenerator<string> {
  try {
    for await (const line of lines) yield `${JSON.stringify(line)}\n`;
  } catch (error) {
    failed(error);
    throw error;
  }
}

/** What runs here, with the tasks of others only counted. */
async function hostFor(
  engine: Pick<Engine, "list">,
  host: HostReport,
  request: FastifyRequest,
): Promise<HostReport & { readonly others: number }> {
  const caller = callerOf(request);
  if (hasScope(caller, "admin")) return { ...host, others: 0 };
  const visible: HostReport["running"][number][] = [];
  for (const child of host.running) {
    const found = await engine.list({ ...EVERYTHING, idPrefix: child.taskId, limit: 1 }, caller);
    if (found.kind === "list" && found.views.length > 0) visible.push(child);
  }
  return { ...host, running: visible, others: host.running.length - visible.length };
}

/** Null if the body says anything else than `dryRun`. */
function dryRunOf(body: unknown): boolean | null {
  const { dryRun = false, ...others } = fields(body);
  const isOurs = body === undefined || body === null || fields(body) === body;
  return isOurs && typeof dryRun === "boolean" && Object.keys(others).length === 0 ? dryRun : null;
}

const BAD_PRUNE: Problem = {
  status: 400,
  code: "invalid_arguments",
  message: "Only dryRun can be said here, as true or false",
  next: fix('Send {"dryRun": true} to see what would be removed, or {} to remove it.'),
};
