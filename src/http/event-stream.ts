/**
 * `GET /api/events`: tells a page or a command line that a task has changed, as server-sent events.
 *
 * An event is a hint: whoever gets one, or connects again, reads what is true by the other routes. Events are `change` (a
 * change note as JSON) and, as the last one of a stream that the daemon ends, `end` with a reason.
 *
 * Invariant: changes are followed before the headers leave, so what happens after a reader has them is told or the stream ends.
 * Invariant: what is held for a slow reader is bounded, and so is the number of streams (P15).
 * Invariant: a stream ends at the next beat after its token was revoked.
 * Absent on purpose: event ids and replay. A hint that was missed is made up for by one look.
 */

import type { ServerResponse } from "node:http";
import type { FastifyReply, FastifyRequest } from "fastify";

import type { Caller } from "../core/caller.ts";
import type { Clock, Timer } from "../ports/clock.ts";
import type { TaskChangeNote, Upkeep } from "../ports/upkeep.ts";
import { type Authenticate, callerOf, isStillKnown } from "./auth.ts";
import { type Problem, sendProblem } from "./problem.ts";

export type EventStreamOptions = {
  readonly upkeep: Pick<Upkeep, "follow">;
  readonly clock: Clock;
  /** Longest silence on a stream; `server.keepAliveMs`. */
  readonly keepAliveMs: number;
  /** The one that let the request in. */
  readonly authenticate: Authenticate;
  readonly streamsMax?: number;
  /** Bytes that may wait for one reader. */
  readonly bufferBytesMax?: number;
};

export type EventStreams = {
  open(request: FastifyRequest, reply: FastifyReply): FastifyReply;
  /** Ends all streams, and takes no further ones. */
  shutDown(): void;
};

type EndReason = "too_slow" | "token" | "stopping";

const STREAMS_MAX = 100;
const BUFFER_BYTES_MAX = 256 * 1024;
/** A reader that was cut for being slow has this long to take what it was told last. */
const LINGER_MS = 5_000;
const HEADERS = {
  "content-type": "text/event-stream",
  "cache-control": "no-cache, no-transform",
  "x-accel-buffering": "no",
  // The end of the stream ends the connection, so that a stopping daemon does not wait for it.
  connection: "close",
} as const;

export function createEventStreams(options: EventStreamOptions): EventStreams {
  const { streamsMax = STREAMS_MAX } = options;
  const streams = new Set<Stream>();
  let stopping = false;
  return {
    open(request, reply) {
      if (stopping) return sendProblem(request, reply, STOPPING);
      if (streams.size >= streamsMax) return sendProblem(request, reply, tooMany(streamsMax));
      const known = (): Promise<boolean> => isStillKnown(request, options.authenticate);
      reply.hijack();
      // Gone while it was being let in: its close will not be told again.
      if (reply.raw.destroyed) return reply;
      const stream = startStream(reply.raw, callerOf(request), known, options);
      streams.add(stream);
      reply.raw.once("close", () => {
        stream.close();
        streams.delete(stream);
      });
      return reply;
    },
    shutDown() {
      stopping = true;
      for (const stream of streams) stream.end("stopping");
    },
  };
}

type Stream = {
  /** Tells why, and ends. */
  end(reason: EndReason): void;
  /** The reader has gone. */
  close(): void;
};

function startStream(
  raw: ServerResponse,
  caller: Caller,
  isKnown: () => Promise<boolean>,
  { upkeep, clock, keepAliveMs, bufferBytesMax = BUFFER_BYTES_MAX }: EventStreamOptions,
): Stream {
  let over = false;
  let timer: Timer | null = null;

  const following = upkeep.follow(caller, (change) => write(changeEvent(change)));
  raw.writeHead(200, HEADERS);
  raw.write(COMMENT);
  beatLater();

  function write(text: string): void {
    if (over) return;
    if (raw.writableLength + text.length > bufferBytesMax) end("too_slow");
    else raw.write(text);
  }

  function beatLater(): void {
    timer = clock.after(keepAliveMs, () => {
      write(COMMENT);
      const answered = (known: boolean): void => {
        if (!known) end("token");
        if (!over) beatLater();
      };
      isKnown().then(answered, () => answered(false));
    });
  }

  function stop(): void {
    over = true;
    following[Symbol.dispose]();
    timer?.[Symbol.dispose]();
  }

  function end(reason: EndReason): void {
    if (over) return;
    stop();
    raw.end(`event: end\ndata: ${JSON.stringify({ reason })}\n\n`);
    timer = clock.after(LINGER_MS, () => raw.destroy());
  }

  return {
    end,
    close() {
      if (!over) stop();
      timer?.[Symbol.dispose]();
    },
  };
}

const COMMENT = ": \n\n";

function changeEvent(change: TaskChangeNote): string {
  return `event: change\ndata: ${JSON.stringify(change)}\n\n`;
}

function tooMany(streamsMax: number): Problem {
  return {
    status: 503,
    code: "capacity_full",
    message: `${streamsMax} event streams are open, which is the limit of this daemon`,
    next: { kind: "repeat_same_call", change: "Close one, or look at the task now and then instead." },
    headers: { "retry-after": "10" },
  };
}

const STOPPING: Problem = {
  status: 503,
  code: "stopping",
  message: "The daemon is stopping",
  next: { kind: "repeat_same_call", change: "Connect again when it is back." },
};
