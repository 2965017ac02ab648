/**
 * Held calls: one call on an event stream of its own, from the first byte to the answer, and in the legacy era the same
 * call again when the client lost that stream.
 *
 * Invariant: headers and a first event leave before the tool has done anything (P8).
 * Invariant: every held call is answered on its stream, a cancelled one too: clients built on SDK 1.x resume a stream that
 * ended without an answer, and would wait again for something that nobody wants.
 * Invariant: resuming needs nothing but the event id, so any process with the same key can do it, as often as it is asked.
 */

import type { FastifyReply } from "fastify";
import type { Clock } from "../ports/clock.ts";
import type { Log } from "../ports/log.ts";
import { type AnswerText, runCall, type SliceSettings, sliceMaxMsOf } from "./call.ts";
import { progressTokenOf } from "./call-request.ts";
import type { Exchange } from "./exchange.ts";
import type { Heartbeat } from "./heartbeat.ts";
import type { RpcRequest } from "./json-rpc.ts";
import type { OpenCalls } from "./open-calls.ts";
import { createProgress, type Progress } from "./progress.ts";
import type { HeldCall, ResumeIds } from "./resume-id.ts";
import { type EventStream, openEventStream } from "./stream.ts";
import type { ClientInfo, Tool } from "./tool.ts";
import type { ToolTable } from "./tool-table.ts";

export type HeldCallsOptions = {
  readonly tools: ToolTable;
  readonly resumeIds: ResumeIds;
  readonly openCalls: OpenCalls;
  readonly heartbeat: Heartbeat;
  readonly slices: SliceSettings;
  readonly answerText: AnswerText;
  /** How soon this client should try again after a broken stream. */
  readonly retryMsOf: (client: ClientInfo | null) => number;
  readonly clock: Clock;
  readonly log: Log;
};

export type HeldCalls = {
  /** Answers a call on a stream. */
  hold(request: RpcRequest, asked: Asked, exchange: Exchange, reply: FastifyReply): Promise<FastifyReply>;
  /** Answers a GET with `Last-Event-ID`: the same call with the time that is left, or one comment and the end. */
  resume(lastEventId: string, exchange: Exchange, reply: FastifyReply): Promise<FastifyReply>;
};

type Asked = { readonly tool: Tool; readonly args: unknown };

/** A held call that is about to run, for the first time or again. */
type Run = { readonly held: HeldCall; readonly tool: Tool; readonly remainingMs: number; readonly resumed: boolean };

export function createHeldCalls(options: HeldCallsOptions): HeldCalls {
  const { tools, resumeIds, openCalls, heartbeat, slices, answerText, retryMsOf, clock, log } = options;

  async function stream(run: Run, exchange: Exchange, reply: FastifyReply): Promise<void> {
    const { held, tool, remainingMs: sliceMaxMs, resumed } = run;
    // The modern era resumes nothing.
    const id = exchange.era === "legacy" ? resumeIds.mint(held) : null;
    reply.hijack();
    const events = openEventStream(reply.raw, id === null ? null : { id, retryMs: retryMsOf(exchange.client) });
    const open = openCalls.open(exchange.owner, held.requestId);
    reply.raw.once("close", () => open.end("closed"));
    const progress = progressOn(events, held);
    using _beat = heartbeat.add(() => (progress === null ? events.comment() : progress.repeat()));
    const call = { tool, args: held.args, exchange, open, progress, streaming: true, sliceMaxMs, resumed };
    events.end(answerText(held.requestId, await runCall(call, log), exchange));
  }

  function progressOn(events: EventStream, held: HeldCall): Progress | null {
    if (held.progressToken === null) return null;
    return createProgress({
      token: held.progressToken,
      startMs: held.startMs,
      wallMs: clock.wallMs,
      write: (notification) => events.message(JSON.stringify(notification)),
    });
  }

  return {
    async hold(request, { tool, args }, exchange, reply) {
      const progressToken = progressTokenOf(request);
      const startMs = clock.wallMs();
      const remainingMs = sliceMaxMsOf(args, exchange, slices, { streaming: true, progressToken });
      const held: HeldCall = {
        caller: exchange.owner.caller,
        requestId: request.id,
        tool: tool.name,
        args,
        startMs,
        deadlineMs: startMs + remainingMs,
        progressToken,
      };
      await stream({ held, tool, remainingMs, resumed: false }, exchange, reply);
      return reply;
    },

    async resume(lastEventId, exchange, reply) {
      const nowMs = clock.wallMs();
      const held = resumeIds.read(lastEventId, exchange.owner.caller, nowMs);
      const tool = held === null ? undefined : tools.get(held.tool);
      if (held === null || tool === undefined) {
        reply.hijack();
        openEventStream(reply.raw, null).end();
        return reply;
      }
      await stream({ held, tool, remainingMs: Math.max(0, held.deadlineMs - nowMs), resumed: true }, exchange, reply);
      return reply;
    },
  };
}
