/**
 * The talk with Claude Code: JSON objects, one a line, over its pipes (`stream-json` in both directions).
 *
 * Invariant: messages are handed on one by one and in order, and the next line is read only when the last one was taken: a
 * slow store slows the agent down. What the agent asks is answered beside that, while more comes.
 * Invariant: nothing that the agent writes throws, stops the reading of what follows (but for a line past the limit), or
 * reaches the daemon's own output: lines that are no messages are left out and noted once.
 */

import type { Child } from "../../ports/children.ts";
import type { Clock } from "../../ports/clock.ts";
import { type Fields, fieldsIn, isFields, textIn } from "../fields.ts";
import { type Loss, lossOf } from "../agent-loss.ts";
import { readLines } from "../line-reader.ts";
import { chunksUntilAborted } from "../read-output.ts";
import { untilQuiet } from "../until-quiet.ts";

export type ClaudeConnection = {
  /** Never rejects; what cannot be written is lost with the agent. */
  send(message: Fields): Promise<void>;
  /** Why nothing more will come. Rejects only for `onMessage` and `onGarbage`. */
  readonly loss: Promise<Loss>;
  /** Reads no more; resolves when nothing is handed on any longer. */
  close(): Promise<void>;
};

export type ClaudeListener = {
  onMessage(message: Fields): Promise<void>;
  /** A request of the agent that it waits for; null if it is of no known kind. */
  onRequest(request: Fields): Promise<Fields | null>;
  /** The first line that is no message. */
  onGarbage(line: string): Promise<void>;
};

/** Requests of the agent that have no answer yet; more are refused. */
const OPEN_REQUESTS_MAX = 64;

export function openClaudeConnection(child: Child, clock: Clock, listener: ClaudeListener): ClaudeConnection {
  const reading = new AbortController();
  let lastByteMs = clock.monotonicMs();
  let open = 0;

  const send = (message: Fields): Promise<void> => child.write(lineOf(message)).catch(() => undefined);
  const answer = async (message: Fields): Promise<void> => {
    const requestId = message["request_id"];
    open += 1;
    try {
      const response = open > OPEN_REQUESTS_MAX ? null : await listener.onRequest(fieldsIn(message["request"]));
      await send({
        type: "control_response",
        response:
          response === null
            ? { subtype: "error", request_id: requestId, error: "not offered here" }
            : { subtype: "success", request_id: requestId, response },
      });
    } finally {
      open -= 1;
    }
  };
  async function* watched(): AsyncGenerator<Uint8Array, void> {
    for await (const chunk of chunksUntilAborted(child.stdout, reading.signal)) {
      lastByteMs = clock.monotonicMs();
      yield chunk;
    }
  }
  const pumped = pump(readLines(watched()), listener, answer);
  const gone = child.ended.then(() => untilQuiet(clock, () => lastByteMs)).then(() => "closed" as const);
  const loss = Promise.race([pumped, gone]).then((why) =>
    why === "line_too_long" ? { kind: why } : lossOf(child, clock),
  );
  loss.catch(() => undefined);

  return {
    send,
    loss,
    async close() {
      reading.abort();
      await pumped.catch(() => undefined);
    },
  };
}

/** Reads to the end, or to a line past the limit. */
async function pump(
  lines: AsyncIterable<{ readonly text: string; readonly cut: boolean }>,
  listener: ClaudeListener,
  answer: (message: Fields) => Promise<void>,
): Promise<"closed" | "line_too_long"> {
  let garbage = false;
  for await (const { text, cut } of lines) {
    if (cut) return "line_too_long";
    const message = parse(text);
    if (message === null) {
      if (!garbage && text.trim() !== "") await listener.onGarbage(text);
      garbage ||= text.trim() !== "";
      continue;
    }
    await listener.onMessage(message);
    // What fails is the asking: the attempt is over then.
    if (message["type"] === "control_request") answer(message).catch(() => undefined);
  }
  return "closed";
}

/** Null if it is no message. */
function parse(line: string): Fields | null {
  try {
    const message: unknown = JSON.parse(line);
    return isFields(message) && textIn(message["type"]) !== null ? message : null;
  } catch {
    return null;
  }
}

/** Some line readers end a line at these, too. */
const LINE_ENDS = /[\u0085\u2028\u2029]/g;

function lineOf(message: Fields): string {
  const escaped = (end: string): string => `\\u${end.charCodeAt(0).toString(16).padStart(4, "0")}`;
  return `${JSON.stringify(message).replace(LINE_ENDS, escaped)}\n`;
}
