/**
 * What an answer of the engine tells, in the words of a history.
 */

import type { TaskView } from "../../src/core/describe.ts";
import { parseId } from "../../src/core/ids.ts";
import type { Answer, TaskItem } from "../../src/ports/engine.ts";
import type { EntryOf, ShownTask } from "../support/history.ts";

export type Shown = Omit<EntryOf<"answer">, "kind" | "id" | "delivered" | "atMs" | "runMs">;

export function shownOf(answer: Answer): Shown {
  const pending = pendingOf(answer);
  const nothing = {
    created: null,
    code: null,
    waitEnded: null,
    movedOn: false,
    stale: false,
    tasks: [],
    unknown: [],
    pending,
  };
  switch (answer.kind) {
    case "task": {
      const { created, waitEnded, movedOn, storageTrouble: stale, item, next } = answer;
      const tasks = [taskOf(item.view, item, true)];
      return { ...nothing, form: "task", next: next.kind, created, waitEnded, movedOn, stale, tasks };
    }
    case "tasks": {
      const { waitEnded, next, items, storageTrouble: stale } = answer;
      const tasks = items.flatMap((item) => {
        if (item.kind === "unknown") return [];
        return item.kind === "news" ? [taskOf(item.item.view, item.item, true)] : [taskOf(item.view, null, false)];
      });
      const unknown = items.flatMap((item) => (item.kind === "unknown" ? [item.asked] : []));
      return { ...nothing, form: "tasks", next: next.kind, waitEnded, stale, tasks, unknown };
    }
    case "list": {
      const tasks = answer.views.map((view) => taskOf(view, null, false));
      return { ...nothing, form: "list", next: answer.next.kind, tasks };
    }
    case "page":
      return { ...nothing, form: "task", next: answer.next.kind, tasks: [taskOf(answer.view, null, false)] };
    case "agents":
      return { ...nothing, form: "list", next: answer.next.kind, tasks: [] };
    case "refusal": {
      const { rejection, created, about } = answer;
      const tasks = about === null ? [] : [taskOf(about, null, false)];
      return { ...nothing, form: "refusal", next: rejection.next.kind, created, code: rejection.code, tasks };
    }
  }
}

/** The tasks that an answer about tasks shows, each as it was seen. */
export function viewsOf(answer: Answer): readonly TaskView[] {
  switch (answer.kind) {
    case "task":
      return [answer.item.view];
    case "tasks":
      return answer.items.flatMap((item) => {
        if (item.kind === "unknown") return [];
        return item.kind === "news" ? [item.item.view] : [item.view];
      });
    case "list":
      return answer.views;
    case "page":
      return [answer.view];
    case "agents":
    case "refusal":
      return [];
  }
}

function taskOf(view: TaskView, item: TaskItem | null, told: boolean): ShownTask {
  const { status, phase, version, news, settlements, handle } = view;
  const result = item?.result ?? null;
  const digest = result === null ? null : `${result.totalBytes}:${result.text.length}:${result.text.slice(0, 24)}`;
  return { ...handle, status, phase, version, news, settlements, result: digest, told };
}

function pendingOf({ pending }: Answer): Shown["pending"] {
  const completions = pending.completions.flatMap(({ taskId: text, nodeId, settlement }) => {
    const parsed = parseId(text);
    return parsed.kind === "task" ? [{ taskId: parsed.taskId, nodeId, settlement }] : [];
  });
  return { count: pending.count, completions };
}
