/**
 * Everything that is kept of a task, as lines, for archives and for looking into a fault.
 *
 * Invariant: read a little at a time, so that an export of any size takes little memory; the last line says how much it was.
 */

import type { TaskEvent } from "../core/event.ts";
import type { Task } from "../core/task.ts";
import type { Clock } from "../ports/clock.ts";
import type { Store } from "../ports/store.ts";
import type { ExportLine } from "../ports/upkeep.ts";
import { excerptNameOf } from "./attempt-runner.ts";

const EVENTS_AT_ONCE = 500;
const ENTRIES_AT_ONCE = 200;
const ENTRY_BYTES_AT_ONCE = 1024 * 1024;

export async function* exportLines(store: Store, clock: Clock, task: Task): AsyncGenerator<ExportLine, void> {
  const { taskId } = task.handle;
  yield { kind: "head", format: 1, exportedAt: new Date(clock.wallMs()).toISOString(), taskId };
  yield { kind: "task", task };
  let events = 0;
  const names = new Set<string>();
  for (;;) {
    const page = await store.events(taskId, events, EVENTS_AT_ONCE);
    for (const { number, event } of page) {
      events = number;
      for (const name of textNamesIn(event)) names.add(name).add(excerptNameOf(name));
      yield { kind: "event", number, event };
    }
    if (page.length < EVENTS_AT_ONCE) break;
  }
  let texts = 0;
  for (const name of names) {
    const body = await store.text(taskId, name);
    if (body === null) continue;
    texts += 1;
    yield { kind: "text", name, body };
  }
  let entries = 0;
  for (let after = 0; ; ) {
    const page = await store.transcript(taskId, after, ENTRIES_AT_ONCE, ENTRY_BYTES_AT_ONCE);
    for (const entry of page) {
      after = entry.number;
      entries += 1;
      yield { kind: "transcript", entry };
    }
    if (page.length === 0) break;
  }
  yield { kind: "end", events, texts, entries };
}

/** Names of the texts that an event refers to (`TextRef`), wherever they stand in it. */
function textNamesIn(event: TaskEvent): readonly string[] {
  const names: string[] = [];
  const look = (value: unknown): void => {
    if (typeof value !== "object" || value === null) return;
    if ("name" in value && "bytes" in value && typeof value.name === "string") names.push(value.name);
    for (const field of Object.values(value)) look(field);
  };
  look(event);
  return names;
}
