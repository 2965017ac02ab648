/**
 * The same task for different readers: `answer` is offered only to those who may give it (contract §2), and what a child
 * called the work that it delegated is told to nobody above it as if it were ours (P17).
 */

import { type Caller, parentOf } from "../core/caller.ts";
import { describe, type TaskView, TITLE_OF_A_CHILD, withoutAnswering, withoutWords } from "../core/describe.ts";
import type { Question, Task } from "../core/task.ts";

export type ViewFor = (task: Task, caller: Caller, nowMs: number) => TaskView;

export type ApprovalsBy = "caller" | "person";

export function createViewFor(approvalsBy: ApprovalsBy): ViewFor {
  return (task, caller, nowMs) => {
    const whole = describe(task, nowMs);
    const view = chose(caller, task) ? whole : withoutWords(whole);
    if (view.question === null || whyNot(view.question, caller, approvalsBy) === null) return view;
    return withoutAnswering(view, caller.kind === "child" ? "wait" : "ask_user");
  };
}

/** Whether title and key are the reader's own words. People read all of it, and know whose words these are. */
function chose(caller: Caller, { origin }: Task): boolean {
  return caller.kind === "person" || origin.parentTaskId === parentOf(caller);
}

/** The title of a task as this reader may see it. */
export function titleFor(task: Task, caller: Caller): string {
  return chose(caller, task) ? task.spec.title : TITLE_OF_A_CHILD;
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
