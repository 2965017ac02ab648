/**
 * The conversation with a child: what it was told, from the task's events, and what it said and did, from its transcript, in
 * the order of time.
 *
 * Invariant: signs of life are not read, and a text only when it is its turn, so that neither a long life nor many messages
 * make a page slower.
 */

import type { TaskEvent } from "../core/event.ts";
import type { TaskId } from "../core/ids.ts";
import type { ThreadPart } from "../ports/engine.ts";
import type { NumberedEvent, Store, TranscriptEntry } from "../ports/store.ts";
import type { LogCursor } from "./thread-cursor.ts";
import { createLogAhead, type LogAhead, type LogBatch, type LogItem, type LogReader } from "./thread-log.ts";

/** `closes`: it ends or follows what was said at the same moment; else it comes before that. */
type Told = LogItem & { readonly closes: boolean };

export function readMessages(store: Store, taskId: TaskId, cursor: LogCursor): LogReader {
  const told = createLogAhead(cursor.event, (after) => toldAfter(store, taskId, after));
  const said = createLogAhead(cursor.entry, (after) => saidAfter(store, taskId, after));
  let head: { readonly of: LogAhead<LogItem>; readonly part: ThreadPart } | null = null;

  return {
    async peek() {
      if (head !== null) return head.part;
      const [event, entry] = [await told.peek(), await said.peek()];
      const item = event !== null && isFirst(event, entry) ? event : entry;
      if (item === null) return null;
      head = { of: item === event ? told : said, part: await item.part() };
      return head.part;
    },
    take() {
      head?.of.take();
      head = null;
    },
    position: () => ({ event: told.position(), entry: said.position() }),
  };
}

function isFirst(event: Told, entry: LogItem | null): boolean {
  if (entry === null || event.atMs < entry.atMs) return true;
  return event.atMs === entry.atMs && !event.closes;
}

const EVENTS_AT_ONCE = 100;
const ENTRIES_AT_ONCE = 40;
const ENTRY_BYTES_AT_ONCE = 64 * 1024;

async function toldAfter(store: Store, taskId: TaskId, after: number): Promise<LogBatch<Told>> {
  const events = await store.milestones(taskId, after, EVENTS_AT_ONCE);
  const items = events.flatMap((numbered) => toldBy(store, taskId, numbered) ?? []);
  return { items, next: events.length < EVENTS_AT_ONCE ? null : (events.at(-1)?.number ?? null) };
}

async function saidAfter(store: Store, taskId: TaskId, after: number): Promise<LogBatch<LogItem>> {
  const entries = await store.transcript(taskId, after, ENTRIES_AT_ONCE, ENTRY_BYTES_AT_ONCE);
  const items = entries.flatMap((entry) => saidBy(entry, after));
  return { items, next: entries.at(-1)?.number ?? null };
}

/** An entry, and the gap before it. Whoever stands at the number before an entry has seen its gap. */
function saidBy({ number, role, atMs, text, dropped }: TranscriptEntry, after: number): readonly LogItem[] {
  const said = { number, atMs, part: async () => ({ who: role, atMs, at: number, text }) };
  if (dropped === null || after >= number - 1) return [said];
  const left = `${dropped.entries} pieces, ${dropped.bytes} bytes, are left out here`;
  const gap = { number: number - 1, atMs, part: async () => ({ who: "gap", atMs, at: number, text: left }) as const };
  return [gap, said];
}

function toldBy(store: Store, taskId: TaskId, { number, event }: NumberedEvent): Told | null {
  const { atMs } = event;
  const textOf = async (name: string): Promise<string> => (await store.text(taskId, name)) ?? "";
  const told = (who: ThreadPart["who"], closes: boolean, text: () => Promise<string>): Told => {
    return { number, atMs, closes, part: async () => ({ who, atMs, at: number, text: await text() }) };
  };
  switch (event.kind) {
    case "RunQueued":
      return told(event.by.kind === "person" ? "person" : "caller", false, () => textOf(event.message.name));
    case "InputRequested":
      return told("child", true, () => questionText(store, taskId, event));
    case "InputAnswered": {
      const { choice, by } = event;
      const who = by.kind === "person" ? "person" : "caller";
      return told(who, false, async () => (choice.kind === "option" ? choice.optionId : textOf(choice.text.name)));
    }
    case "AttemptLost":
    case "RetryScheduled":
      return told("event", true, async () => event.kind);
    case "TaskSettled": {
      const { verdict, number: settlement } = event.settlement;
      const failure = verdict.class === null ? "" : `, ${verdict.class}`;
      return told("event", true, async () => `TaskSettled ${settlement}: ${verdict.status}${failure}`);
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
