/**
 * The conversation with a child as pages: what it was told, from the task's events, and what it said and did, from its
 * transcript, in the order of time.
 *
 * Invariant: constant work for a page wherever it lies: both logs are read from the cursor on, a little at a time.
 */

import type { TaskEvent } from "../core/event.ts";
import type { TaskId } from "../core/ids.ts";
import { LIMITS } from "../core/limits.ts";
import type { ThreadPage, ThreadPart } from "../ports/engine.ts";
import type { NumberedEvent, Store, TranscriptEntry } from "../ports/store.ts";
import { createPageBuilder, type PageBuilder } from "./page-builder.ts";
import { addPlaces } from "./thread-text.ts";

/** How far both logs have been shown, and the character of the next part to go on from. */
export type MessagesCursor = { readonly event: number; readonly entry: number; readonly from: number };

export type MessagesAsked = {
  readonly find: string | null;
  readonly cursor: MessagesCursor;
  readonly limit: number;
};

const FORM = /^([0-9]{1,12})\.([0-9]{1,12})\.([0-9]{1,12})$/;

export function readMessagesCursor(text: string): MessagesCursor | null {
  const [, event, entry, from] = FORM.exec(text) ?? [];
  return from === undefined ? null : { event: Number(event), entry: Number(entry), from: Number(from) };
}

export async function messagesPage(store: Store, taskId: TaskId, asked: MessagesAsked): Promise<ThreadPage> {
  const builder = createPageBuilder(asked.limit);
  const merged = createMerged(store, taskId, asked.cursor);
  const next = await fill(merged, builder, asked);
  return {
    name: "messages",
    parts: builder.parts,
    nextCursor: next === null ? null : `${next.event}.${next.entry}.${next.from}`,
    totalBytes: null,
    empty: builder.parts.length > 0 ? null : asked.find === null ? "nothing_yet" : "not_found",
  };
}

async function fill(merged: Merged, builder: PageBuilder, asked: MessagesAsked): Promise<MessagesCursor | null> {
  let { from } = asked.cursor;
  let lookedAt = 0;
  for (let part = await merged.peek(); part !== null; part = await merged.peek()) {
    const isTired = asked.find !== null && lookedAt > LIMITS.findBytesMax;
    if (builder.isFull() || isTired) return { ...merged.position(), from };
    const left = asked.find === null ? builder.add(part, from) : addPlaces(part.text, asked.find, from, part, builder);
    if (left !== null) return { ...merged.position(), from: left };
    lookedAt += part.text.length;
    from = 0;
    merged.take();
  }
  return null;
}

type Merged = {
  /** The next part, or null at the end. */
  peek(): Promise<ThreadPart | null>;
  take(): void;
  /** Where both logs stand before the part that `peek` gives. */
  position(): { readonly event: number; readonly entry: number };
};

type Told = { readonly number: number; readonly part: ThreadPart };

/** Two logs, each ordered by time, as one. Whatever was told comes before what was said at the same moment. */
function createMerged(store: Store, taskId: TaskId, cursor: MessagesCursor): Merged {
  const told = createAhead(cursor.event, (after) => toldAfter(store, taskId, after));
  const said = createAhead(cursor.entry, (after) => saidAfter(store, taskId, after));
  let head: { readonly of: Ahead; readonly part: ThreadPart } | null = null;

  return {
    async peek() {
      if (head !== null) return head.part;
      const [event, entry] = [await told.peek(), await said.peek()];
      if (event === null && entry === null) return null;
      const isTold = entry === null || (event !== null && (event.part.atMs ?? 0) <= (entry.part.atMs ?? 0));
      const next = isTold ? event : entry;
      if (next === null) return null;
      head = { of: isTold ? told : said, part: next.part };
      return head.part;
    },
    take() {
      head?.of.take();
      head = null;
    },
    position: () => ({ event: told.position(), entry: said.position() }),
  };
}

type Ahead = {
  peek(): Promise<Told | null>;
  take(): void;
  position(): number;
};

/** What a read gives: parts with the number that each stands at, and the number to read on from; null at the end. */
type Batch = { readonly parts: readonly Told[]; readonly next: number | null };

function createAhead(start: number, read: (after: number) => Promise<Batch>): Ahead {
  let position = start;
  let readFrom: number | null = start;
  const parts: Told[] = [];
  return {
    async peek() {
      while (parts.length === 0 && readFrom !== null) {
        const batch = await read(readFrom);
        parts.push(...batch.parts);
        readFrom = batch.next;
      }
      return parts[0] ?? null;
    },
    take() {
      position = parts.shift()?.number ?? position;
    },
    position: () => position,
  };
}

const EVENTS_AT_ONCE = 200;
const ENTRIES_AT_ONCE = 40;
const ENTRY_BYTES_AT_ONCE = 64 * 1024;

async function toldAfter(store: Store, taskId: TaskId, after: number): Promise<Batch> {
  const events = await store.events(taskId, after, EVENTS_AT_ONCE);
  const parts: Told[] = [];
  for (const { number, event } of events) {
    const part = await partOfEvent(store, taskId, { number, event });
    if (part !== null) parts.push({ number, part });
  }
  return { parts, next: events.length < EVENTS_AT_ONCE ? null : (events.at(-1)?.number ?? null) };
}

async function saidAfter(store: Store, taskId: TaskId, after: number): Promise<Batch> {
  const entries = await store.transcript(taskId, after, ENTRIES_AT_ONCE, ENTRY_BYTES_AT_ONCE);
  const parts = entries.map((entry) => ({ number: entry.number, part: partOfEntry(entry) }));
  return { parts, next: entries.at(-1)?.number ?? null };
}

function partOfEntry({ number, role, atMs, text, dropped }: TranscriptEntry): ThreadPart {
  const gap = dropped === null ? "" : `[${dropped.entries} pieces, ${dropped.bytes} bytes left out here]\n`;
  return { who: role, atMs, at: number, text: `${gap}${text}` };
}

async function partOfEvent(store: Store, taskId: TaskId, { number, event }: NumberedEvent): Promise<ThreadPart | null> {
  const at = { atMs: event.atMs, at: number };
  switch (event.kind) {
    case "RunQueued": {
      const who = event.by.kind === "person" ? "person" : "caller";
      return { who, ...at, text: (await store.text(taskId, event.message.name)) ?? "" };
    }
    case "InputRequested":
      return { who: "child", ...at, text: await questionText(store, taskId, event) };
    case "InputAnswered": {
      const { choice, by } = event;
      const text = choice.kind === "option" ? choice.optionId : ((await store.text(taskId, choice.text.name)) ?? "");
      return { who: by.kind === "person" ? "person" : "caller", ...at, text };
    }
    case "AttemptLost":
    case "RetryScheduled":
      return { who: "event", ...at, text: event.kind };
    case "TaskSettled": {
      const { verdict, number: settlement } = event.settlement;
      const failure = verdict.class === null ? "" : `, ${verdict.class}`;
      return { who: "event", ...at, text: `TaskSettled ${settlement}: ${verdict.status}${failure}` };
    }
    default:
      return null;
  }
}

type Requested = TaskEvent & { readonly kind: "InputRequested" };

async function questionText(store: Store, taskId: TaskId, { question }: Requested): Promise<string> {
  const stored = question.prompt === null ? null : await store.text(taskId, question.prompt.name);
  const action = Object.entries(question.action).map(([name, value]) => `${name}: ${value}`);
  const options = question.optionIds.length === 0 ? [] : [`options: ${question.optionIds.join(", ")}`];
  return [`asks (${question.questionId}): ${promptIn(stored)}`, ...action, ...options].join("\n");
}

function promptIn(stored: string | null): string {
  const parsed: unknown = JSON.parse(stored ?? "null");
  const has = typeof parsed === "object" && parsed !== null && "prompt" in parsed;
  return has && typeof parsed.prompt === "string" ? parsed.prompt : "";
}
