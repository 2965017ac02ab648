/**
 * Who may answer what: the same task offers `answer` only to those who may give it (contract §2).
 */

import type { Caller } from "../core/caller.ts";
import { describe, type TaskView, withoutAnswering } from "../core/describe.ts";
import type { Question, Task } from "../core/task.ts";

export type ViewFor = (task: Task, caller: Caller, nowMs: number) => TaskView;

export type ApprovalsBy = "caller" | "person";

export function createViewFor(approvalsBy: ApprovalsBy): ViewFor {
  return (task, caller, nowMs) => {
    const view = describe(task, nowMs);
    if (view.question === null || whyNot(view.question, caller, approvalsBy) === null) return view;
    return withoutAnswering(view, caller.kind === "child" ? "wait" : "ask_user");
  };
}

/** Why a caller may not answer a question; null if it may. */
export function whyNot(
  { kind }: Pick<Question, "kind">,
  caller: Caller,
  approvalsBy: ApprovalsBy,
): "child" | "person" | "scope" | null {
  // Nothing that a child has started is approved by a child (P18).
  if (caller.kind === "child") return "child";
  if (!caller.scopes.includes("delegate") && !caller.scopes.includes("admin")) return "scope";
  return kind === "permission" && approvalsBy === "person" && caller.kind !== "person" ? "person" : null;
}
