/**
 * The data of an event stream (`text/event-stream`), event by event.
 *
 * Invariant: memory is bounded by `LINE_BYTES_MAX` for a line and for an event; the whole stream by `STREAM_BYTES_MAX`.
 * Absent on purpose: event names and ids; both dialects say in the data what an event is.
 */

import { type Line, readLines } from "../line-reader.ts";

export type EventData =
  | { readonly kind: "data"; readonly text: string }
  /** Past a limit; the stream is given up. */
  | { readonly kind: "too_long" };

const LINE_BYTES_MAX = 1024 * 1024;
const STREAM_BYTES_MAX = 64 * 1024 * 1024;
const TOO_LONG: EventData = { kind: "too_long" };

/** An event that the stream breaks off in is none. Rejects as the source does. */
export async function* readEventData(source: AsyncIterable<Uint8Array>): AsyncGenerator<EventData, void> {
  let data: string[] = [];
  let characters = 0;
  let bytes = 0;
  async function* counted(): AsyncGenerator<Uint8Array, void> {
    for await (const chunk of source) {
      bytes += chunk.length;
      // Ends the line that it is in, however long that is.
      if (bytes > STREAM_BYTES_MAX) return;
      yield chunk;
    }
  }
  for await (const line of readLines(counted(), LINE_BYTES_MAX)) {
    if (line.cut) {
      yield TOO_LONG;
      return;
    }
    const text = withoutReturn(line);
    if (text === "") {
      if (data.length > 0) yield { kind: "data", text: data.join("\n") };
      data = [];
      characters = 0;
    } else if (text.startsWith("data:")) {
      const value = text.slice(text[5] === " " ? 6 : 5);
      characters += value.length;
      if (characters > LINE_BYTES_MAX) {
        yield TOO_LONG;
        return;
      }
      data.push(value);
    }
  }
  if (bytes > STREAM_BYTES_MAX) yield TOO_LONG;
}

function withoutReturn({ text }: Line): string {
  return text.endsWith("\r") ? text.slice(0, -1) : text;
}
