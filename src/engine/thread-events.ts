/**
 * A task's events as they are stored, one a part.
 */

import type { TaskId } from "../core/ids.ts";
import type { NumberedEvent, Store } from "../ports/store.ts";
import type { LogCursor } from "./thread-cursor.ts";
import { createLogAhead, type LogItem, type LogReader } from "./thread-log.ts";

const EVENTS_AT_ONCE = 100;

export function readEvents(store: Store, taskId: TaskId, cursor: LogCursor): LogReader {
  const events = createLogAhead(cursor.event, async (after) => {
    const read = await store.events(taskId, after, EVENTS_AT_ONCE);
    return { items: read.map(itemOf), next: read.length < EVENTS_AT_ONCE ? null : (read.at(-1)?.number ?? null) };
  });
  return {
    peek: async () => (await events.peek())?.part() ?? null,
    take: events.take,
    position: () => ({ event: events.position(), entry: 0 }),
  };
}

function itemOf({ number, event }: NumberedEvent): LogItem {
  const { atMs } = event;
  return { number, atMs, part: async () => ({ who: "event", atMs, at: number, text: JSON.stringify(event) }) };
}
