/**
 * `thread_read`: more of a task than its answers show, page by page. Nothing here is used up by being read (P9).
 *
 * Invariant: everything in a page counts as the child's words, whoever wrote it (P17).
 */

import type { Caller } from "../core/caller.ts";
import type { TaskId } from "../core/ids.ts";
import { LIMITS } from "../core/limits.ts";
import type { Task } from "../core/task.ts";
import type { Answer, EmptyPage, ReadRequest, ThreadPage } from "../ports/engine.ts";
import type { Store } from "../ports/store.ts";
import type { Workspace } from "../ports/workspace.ts";
import type { Courier } from "./courier.ts";
import type { Lookup } from "./lookup.ts";
import { createPageBuilder } from "./page-builder.ts";
import type { Presenter } from "./present.ts";
import { invalid } from "./rejections.ts";
import { messagesPage, readMessagesCursor } from "./thread-messages.ts";
import { addPlaces, textPage } from "./thread-text.ts";

export type ReadThread = (request: ReadRequest, caller: Caller) => Promise<Answer>;

export function createReadThread(world: {
  readonly store: Store;
  readonly workspace: Workspace;
  readonly presenter: Presenter;
  readonly lookup: Lookup;
  readonly courier: Courier;
}): ReadThread {
  const { store, workspace, presenter, lookup, courier } = world;

  /** Null: the cursor is none of this view's. */
  async function pageOf(task: Task, request: ReadRequest): Promise<ThreadPage | null> {
    const limit = Math.max(LIMITS.pageCharactersMin, Math.min(request.limit, LIMITS.pageCharactersMax));
    if (request.view === "messages") {
      const cursor = readMessagesCursor(request.cursor ?? "0.0.0");
      return cursor && messagesPage(store, task.handle.taskId, { find: request.find, cursor, limit });
    }
    const from = numberIn(request.cursor ?? "0");
    if (from === null) return null;
    const asked = { find: request.find, from, limit };
    switch (request.view) {
      case "result":
        return resultPage(task, asked);
      case "changes":
        return changesPage(task, asked);
      case "events":
        return eventsPage(store, task.handle.taskId, asked);
    }
  }

  async function resultPage(task: Task, asked: Asked): Promise<ThreadPage> {
    const ref = task.lastSettlement?.verdict.result ?? null;
    if (ref === null) return nothing("result", "no_result");
    const text = await store.text(task.handle.taskId, ref.name);
    return text === null ? nothing("result", "past_retention") : textPage("result", text, asked);
  }

  async function changesPage({ spec, startHead, epoch }: Task, asked: Asked): Promise<ThreadPage> {
    if (startHead === null) return nothing("changes", epoch === 0 ? "nothing_yet" : "not_a_repository");
    const changes = await workspace.changes(spec.cwd, startHead);
    if (changes.kind === "none") {
      return nothing("changes", changes.reason === "not_a_repository" ? "not_a_repository" : "unreadable");
    }
    if (changes.files.length === 0) return nothing("changes", "no_changes");
    const files = `Changed since ${startHead.slice(0, 12)}: ${changes.files.length} files\n${changes.files.join("\n")}`;
    const cut = changes.truncated ? "\n[the diff is longer than this server keeps: look at the files]" : "";
    return textPage("changes", `${files}\n\n${changes.patch}${cut}`, asked);
  }

  return async function read(request, caller) {
    const task = await lookup.find(request.id, caller);
    if (task === null) return lookup.unknown(request.id, caller);
    const view = presenter.view(task, caller);
    const page = await pageOf(task, request);
    if (page === null) {
      const problem = { field: "cursor", expected: "nextCursor of the page before, of the same view" };
      return presenter.refusal(invalid([problem]), caller, { about: view });
    }
    const pending = await courier.pendingFor(caller, new Set([task.handle.taskId]));
    return { kind: "page", view, next: view.next, page, pending };
  };
}

type Asked = { readonly find: string | null; readonly from: number; readonly limit: number };

const EVENTS_AT_ONCE = 200;

/** The log as it is, an event a line. `from`: the number of the event before. */
async function eventsPage(store: Store, taskId: TaskId, asked: Asked): Promise<ThreadPage> {
  const builder = createPageBuilder(asked.limit);
  let shown = asked.from;
  let lookedAt = 0;
  for (let more = true; more; ) {
    const events = await store.events(taskId, shown, EVENTS_AT_ONCE);
    more = events.length === EVENTS_AT_ONCE;
    for (const { number, event } of events) {
      if (builder.isFull() || lookedAt > LIMITS.findBytesMax) return eventsShown(builder.parts, shown, asked);
      const text = JSON.stringify(event);
      const part = { who: "event", atMs: event.atMs, at: number } as const;
      // An event is never split: what does not fit is cut, as nobody reads a log for its long fields.
      if (asked.find === null) builder.add({ ...part, text }, 0);
      else addPlaces(text, asked.find, 0, part, builder);
      lookedAt += text.length;
      shown = number;
    }
  }
  return eventsShown(builder.parts, null, asked);
}

function eventsShown(parts: ThreadPage["parts"], next: number | null, { find }: Asked): ThreadPage {
  const empty = parts.length > 0 ? null : find === null ? "nothing_yet" : "not_found";
  return { name: "events", parts, nextCursor: next === null ? null : String(next), totalBytes: null, empty };
}

function nothing(name: ThreadPage["name"], empty: EmptyPage): ThreadPage {
  return { name, parts: [], nextCursor: null, totalBytes: null, empty };
}

function numberIn(text: string): number | null {
  return /^[0-9]{1,12}$/.test(text) ? Number(text) : null;
}
