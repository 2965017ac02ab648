/**
 * Reads: what is true of one task, and lists. Nothing here is used up by being read (P9).
 */

import { type Caller, parentOf, reachOf } from "../core/caller.ts";
import { LIMITS } from "../core/limits.ts";
import type { NextStep } from "../core/next-step.ts";
import { parseId, type TaskId } from "../core/ids.ts";
import type { Answer, ListRequest, StatusRequest } from "../ports/engine.ts";
import type { IdSource } from "../ports/id-source.ts";
import type { Store } from "../ports/store.ts";
import type { Courier } from "./courier.ts";
import type { Lookup } from "./lookup.ts";
import type { Presenter } from "./present.ts";
import { keyOf, suggestKey } from "./receipts.ts";

export type Reads = {
  status(request: StatusRequest, caller: Caller): Promise<Answer>;
  list(request: ListRequest, caller: Caller): Promise<Answer>;
};

export function createReads(world: {
  readonly store: Store;
  readonly presenter: Presenter;
  readonly lookup: Lookup;
  readonly courier: Courier;
  readonly ids: IdSource;
}): Reads {
  const { store, presenter, lookup, courier } = world;

  /** Nothing was accepted under this key: the call that used it can be sent again as it was. */
  async function nothingUnder(clientRequestId: string, caller: Caller): Promise<Answer> {
    const next: NextStep = { kind: "repeat_same_call" };
    const detail = { clientRequestId };
    return presenter.refusal({ kind: "rejection", code: "unknown_task", next, detail }, caller, { clientRequestId });
  }

  /** The key is known, but the task's data is past its retention. */
  async function expired(clientRequestId: string, taskId: TaskId, caller: Caller): Promise<Answer> {
    const next: NextStep = { kind: "choose_key", clientRequestId: suggestKey(clientRequestId, world.ids) };
    const detail = { clientRequestId, taskId };
    return presenter.refusal({ kind: "rejection", code: "expired_receipt", next, detail }, caller, { clientRequestId });
  }

  return {
    async status({ taskId, clientRequestId }, caller) {
      if (taskId !== null) {
        const task = await lookup.findToTell(taskId, caller);
        if (task === null) return lookup.unknown(taskId, caller);
        // Nobody waits for itself: what a child asks of its own task it has to do.
        const isOwn = parentOf(caller) === task.handle.taskId;
        return presenter.answer(task, caller, isOwn ? { next: { kind: "do_it_yourself" } } : {});
      }
      const key = clientRequestId ?? "";
      const receipt = await store.receipt(keyOf(caller, "delegate_task", key, null));
      const task = receipt === null ? null : await store.task(receipt.taskId);
      if (receipt !== null && task === null) return expired(key, receipt.taskId, caller);
      if (task === null) return nothingUnder(key, caller);
      return presenter.answer(task, caller, { clientRequestId: key });
    },
    async list(request, caller) {
      const { parentTaskId } = request;
      const parent = parentTaskId === null ? null : await lookup.find(parentTaskId, caller);
      if (parentTaskId !== null && parent === null) return lookup.unknown(parentTaskId, caller);
      const page = await store.list({
        ...reachOf(caller),
        open: request.open,
        unread: request.unread,
        conversation: request.conversation === "this" ? caller.conversation : null,
        status: request.status,
        parentTaskId: parent?.handle.taskId ?? null,
        idPrefix: request.idPrefix,
        limit: Math.min(Math.max(1, request.limit), LIMITS.listLimitMax),
        before: idOrNull(request.cursor),
      });
      const views = page.tasks.map((task) => presenter.view(task, caller));
      const last = page.tasks.at(-1);
      const open = views.filter((view) => view.phase !== "settled");
      const next: NextStep =
        open.length === 0
          ? { kind: "use_result" }
          : { kind: "wait", seen: open.map(({ handle, news, steps }) => ({ taskId: handle.taskId, news, steps })) };
      return {
        kind: "list",
        views,
        next,
        nextCursor: page.more && last !== undefined ? last.handle.taskId : null,
        pending: await courier.pendingFor(caller, new Set(views.map((view) => view.handle.taskId))),
      };
    },
  };
}

function idOrNull(text: string | null): TaskId | null {
  if (text === null) return null;
  const parsed = parseId(text);
  return parsed.kind === "task" ? parsed.taskId : null;
}
