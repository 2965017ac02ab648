/**
 * Pages of a thread's view that is a log: the conversation, the events.
 *
 * Invariant: constant work for a page wherever it lies: logs are read from the cursor on, a little at a time.
 */

import { LIMITS } from "../core/limits.ts";
import { sanitise } from "../core/sanitise.ts";
import type { ThreadPage, ThreadPart } from "../ports/engine.ts";
import { createPageBuilder, type PageBuilder } from "./page-builder.ts";
import { type LogCursor, logCursor } from "./thread-cursor.ts";
import { addPlaces } from "./thread-text.ts";

export type LogAsked = {
  readonly find: string | null;
  readonly cursor: LogCursor;
  readonly limit: number;
};

/** A log from a cursor on. */
export type LogReader = {
  /** The next part, or null at the end. */
  peek(): Promise<ThreadPart | null>;
  take(): void;
  /** Where it stands before the part that `peek` gives. */
  position(): Omit<LogCursor, "from">;
};

export async function logPage(name: "messages" | "events", log: LogReader, asked: LogAsked): Promise<ThreadPage> {
  const builder = createPageBuilder(asked.limit);
  const next = await fill(log, builder, asked);
  return {
    name,
    parts: builder.parts,
    nextCursor: next === null ? null : logCursor(name, next),
    totalBytes: null,
    empty: builder.parts.length > 0 ? null : emptyPage(asked, next),
  };
}

function emptyPage({ find, cursor }: LogAsked, next: LogCursor | null): ThreadPage["empty"] {
  if (next !== null) return "not_found_yet";
  const isFirst = cursor.event === 0 && cursor.entry === 0 && cursor.from === 0;
  if (!isFirst) return "past_end";
  return find === null ? "nothing_yet" : "not_found";
}

/** Reading a part that holds next to nothing takes as long as looking through so many characters. */
const PART_COST = 1_000;

async function fill(log: LogReader, builder: PageBuilder, { find, cursor }: LogAsked): Promise<LogCursor | null> {
  let { from } = cursor;
  let lookedAt = 0;
  for (let part = await log.peek(); part !== null; part = await log.peek()) {
    // A page of little text, or a search, may pass over much of what shows nothing.
    if (builder.isFull() || lookedAt > LIMITS.findCharactersAtOnce) return { ...log.position(), from };
    const text = sanitise(part.text);
    const clean = { ...part, text };
    const left = find === null ? addPiece(clean, from, builder) : addPlaces(text, find, from, clean, builder);
    if (left !== null) return { ...log.position(), from: left };
    lookedAt += PART_COST + part.text.length;
    from = 0;
    log.take();
  }
  return null;
}

/** What holds nothing to show is left out. */
function addPiece(part: ThreadPart, from: number, builder: PageBuilder): number | null {
  return from >= part.text.length ? null : builder.add(part, from);
}

/** One thing in a log, its text still to be read: `number` is where the log stands behind it. */
export type LogItem = { readonly number: number; readonly atMs: number; part(): Promise<ThreadPart> };

/** What a read gives: items, and the number to read on from; null at the end. */
export type LogBatch<Item> = { readonly items: readonly Item[]; readonly next: number | null };

export type LogAhead<Item> = {
  peek(): Promise<Item | null>;
  take(): void;
  position(): number;
};

/** Reads a log in batches, as far as it is asked for. */
export function createLogAhead<Item extends LogItem>(
  start: number,
  read: (after: number) => Promise<LogBatch<Item>>,
): LogAhead<Item> {
  let position = start;
  let readFrom: number | null = start;
  let next = 0;
  let items: readonly Item[] = [];
  return {
    async peek() {
      while (next >= items.length && readFrom !== null) {
        const batch = await read(readFrom);
        items = batch.items;
        next = 0;
        readFrom = batch.next;
      }
      return items[next] ?? null;
    },
    take() {
      position = items[next]?.number ?? position;
      next += 1;
    },
    position: () => position,
  };
}
