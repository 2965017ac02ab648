/**
 * Writer of a held call's answer as server-sent events, straight to the socket.
 *
 * The SDK's own stream sends no byte before the first message, cannot be resumed without a store of events, and costs
 * several times the memory of a plain socket; `docs/wire.md` has the figures.
 *
 * Invariant: headers and a first event leave before the tool has done anything (P8).
 * Invariant: a write to a socket that is gone is dropped in silence; the close of the socket is what ends the wait.
 */

import type { ServerResponse } from "node:http";

export type EventStream = {
  /** Bytes that every client skips. */
  comment(): void;
  /** One JSON-RPC message, already serialised. */
  message(json: string): void;
  /** Ends the stream; with a last message if there is one. */
  end(json?: string): void;
};

const EVENT_STREAM_HEADERS = {
  "content-type": "text/event-stream",
  "cache-control": "no-cache, no-transform",
  "x-accel-buffering": "no",
} as const;

/** From where a client may resume the stream, and how soon after a break it should try. */
export type ResumePoint = { readonly id: string; readonly retryMs: number };

/** Sends the headers and, in the same packet, an event that holds the resume point (or a comment, if there is none). */
export function openEventStream(raw: ServerResponse, opening: ResumePoint | null): EventStream {
  const write = (text: string): void => {
    if (!raw.destroyed && !raw.writableEnded) raw.write(text);
  };
  const stream: EventStream = {
    comment: () => write(COMMENT),
    message: (json) => write(messageEvent(json)),
    end(json) {
      if (raw.destroyed || raw.writableEnded) return;
      raw.end(json === undefined ? undefined : messageEvent(json));
    },
  };
  raw.writeHead(200, EVENT_STREAM_HEADERS);
  write(opening === null ? COMMENT : resumeEvent(opening));
  return stream;
}

export const COMMENT = ": \n\n";

function messageEvent(json: string): string {
  return `event: message\ndata: ${json}\n\n`;
}

/** The data line is empty but has to be there: without one, clients drop the event and its id with it. */
function resumeEvent({ id, retryMs }: ResumePoint): string {
  return `id: ${id}\nretry: ${retryMs}\ndata:\n\n`;
}
