/**
 * `thread_read`: more of a task than its answers show, page by page. Nothing here is used up by being read (P9).
 *
 * Invariant: everything in a page counts as the child's words, whoever wrote it (P17).
 */

import type { Caller } from "../core/caller.ts";
import { LIMITS } from "../core/limits.ts";
import type { Task } from "../core/task.ts";
import type { Answer, EmptyPage, Pending, ReadRequest, ThreadPage } from "../ports/engine.ts";
import type { Store } from "../ports/store.ts";
import type { Workspace } from "../ports/workspace.ts";
import type { Courier } from "./courier.ts";
import type { Lookup } from "./lookup.ts";
import type { Presenter } from "./present.ts";
import { invalid } from "./rejections.ts";
import { readLogCursor, readTextCursor } from "./thread-cursor.ts";
import { readEvents } from "./thread-events.ts";
import { logPage } from "./thread-log.ts";
import { readMessages } from "./thread-messages.ts";
import { textPage } from "./thread-text.ts";

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
  async function pageOf(task: Task, request: ReadRequest, room: number): Promise<ThreadPage | null> {
    const { view, find } = request;
    const { taskId } = task.handle;
    const limit = Math.max(LIMITS.pageCharactersMin, Math.min(request.limit, LIMITS.pageCharactersMax, room));
    if (view === "messages" || view === "events") {
      const cursor = readLogCursor(view, request.cursor);
      if (cursor === null) return null;
      const log = view === "messages" ? readMessages(store, taskId, cursor) : readEvents(store, taskId, cursor);
      return logPage(view, log, { find, cursor, limit });
    }
    const from = readTextCursor(view, request.cursor);
    if (from === null) return null;
    const asked = { find, from, limit };
    return view === "result" ? resultPage(task, asked) : changesPage(task, asked);
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
    const pending = await courier.pendingFor(caller, new Set([task.handle.taskId]));
    const page = await pageOf(task, request, roomBeside(pending, request));
    if (page === null) {
      const problem = { field: "cursor", expected: "nextCursor of the page before, of the same view" };
      return presenter.refusal(invalid([problem]), caller, { about: view });
    }
    return { kind: "page", view, next: view.next, page, pending };
  };
}

type Asked = { readonly find: string | null; readonly from: number; readonly limit: number };

/** What an answer holds besides its page, what is announced with it and what was looked for. */
const FRAME_CHARACTERS = 1_400;

/** What is left of an answer for its page. */
function roomBeside(pending: Pending, { find }: ReadRequest): number {
  const announced = pending.completions.length === 0 ? 0 : JSON.stringify(pending.completions).length;
  return LIMITS.answerCharactersMax - FRAME_CHARACTERS - announced - JSON.stringify(find).length;
}

function nothing(name: ThreadPage["name"], empty: EmptyPage): ThreadPage {
  return { name, parts: [], nextCursor: null, totalBytes: null, empty };
}
