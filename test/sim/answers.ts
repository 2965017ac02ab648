/**
 * What an answer of the engine tells, in the words of a history.
 */

import type { TaskView } from "../../src/core/describe.ts";
import type { Answer, TaskItem } from "../../src/ports/engine.ts";
import type { EntryOf, ShownTask } from "../support/history.ts";

export type Shown = Omit<EntryOf<"answer">, "kind" | "id" | "delivered" | "atMs" | "runMs">;

export function shownOf(answer: Answer): Shown {
  const pending = {
    count: answer.pending.count,
    completions: answer.pending.completions.map(({ taskId, nodeId, settlement }) => ({ taskId, nodeId, settlement })),
  };
  const nothing = { created: null, code: null, waitEnded: null, movedOn: false, tasks: [], unknown: [] };
  switch (answer.kind) {
    case "task": {
      const { created, waitEnded, movedOn, item, next } = answer;
      const tasks = [taskOf(item.view, item, true)];
      return { ...nothing, form: "task", next: next.kind, created, waitEnded, movedOn, tasks, ...pendingOf(pending) };
    }
    case "tasks": {
      const { waitEnded, next, items } = answer;
      const tasks = items.flatMap((item) => {
        if (item.kind === "unknown") return [];
        return item.kind === "news" ? [taskOf(item.item.view, item.item, true)] : [taskOf(item.view, null, false)];
      });
      const unknown = items.flatMap((item) => (item.kind === "unknown" ? [item.asked] : []));
      return { ...nothing, form: "tasks", next: next.kind, waitEnded, tasks, unknown, ...pendingOf(pending) };
    }
    case "list": {
      const tasks = answer.views.map((view) => taskOf(view, null, false));
      return { ...nothing, form: "list", next: answer.next.kind, tasks, ...pendingOf(pending) };
    }
    case "refusal": {
      const { rejection, created } = answer;
      const { code, next } = rejection;
      return { ...nothing, form: "refusal", next: next.kind, created, code, ...pendingOf(pending) };
    }
  }
}
