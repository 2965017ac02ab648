/**
 * The text form's own parts: the NEXT line and the line with the handle.
 *
 * Absent on purpose: child text; see `child-text`.
 */

import type { TaskView } from "../core/describe.ts";
import type { Code } from "../core/rejection.ts";
import { sanitiseLine } from "../core/sanitise.ts";
import type { Phase, Status } from "../core/task.ts";

type Json = Readonly<Record<string, unknown>>;

/** What the answer tells of: a task's phase (its status once it has ended), a task just accepted, or a refusal's code. */
export type About = Status | Phase | Code | "accepted";

export function aboutOf(view: TaskView): About {
  return view.phase === "settled" ? view.status : view.phase;
}

/** `turnMayEnd`: that the turn may end has been said before this line. */
export function nextLine(next: Json, about: About | null = null, turnMayEnd = false): string {
  const { kind, tool } = next;
  const call = `${String(tool)} ${JSON.stringify(next["arguments"] ?? {})}`;
  const change = JSON.stringify(next["change"] ?? {});
  switch (kind) {
    case "wait":
      return `NEXT: ${call}. ${waitNote(about, turnMayEnd)}`;
    case "use_result":
      return about === "cancelled"
        ? "NEXT: nothing; it is cancelled. Only if the work is wanted after all: task_continue."
        : "NEXT: use the result. A follow-up to the same child: task_continue.";
    case "answer":
      return answerLine(next, call);
    case "continue":
      return `NEXT: ${call}. Do not delegate it again: that would lose the finished steps.`;
    case "repeat_same_call":
      return `NEXT: the same ${String(tool)} call again, unchanged.`;
    case "choose_key":
      return `NEXT: ${String(tool)} with the same arguments but ${change}${keyNote(about)}.`;
    case "fix":
      return fixLine(next, call, change);
    case "ask_user":
      return "NEXT: ask your user.";
    default:
      return "NEXT: do this work yourself.";
  }
}

function answerLine({ add }: Json, call: string): string {
  if (Array.isArray(add) && add.includes("text"))
    return `NEXT: ${call} plus your answer as text. If you do not know it, ask the user.`;
  return `NEXT: ${call} plus the optionId you choose. Allow only what your user has allowed; else ask the user.`;
}

/** What one is tempted to do instead of waiting depends on what one has just heard; long words only where it is much. */
function waitNote(about: About | null, turnMayEnd: boolean): string {
  const instead = turnMayEnd
    ? "Or do other work."
    : "Or do other work, or end your turn and tell the user the task id.";
  switch (about) {
    case "accepted":
      return "Start any other tasks first. If a call fails, this task goes on; you may also end your turn and tell the user the task id.";
    case "starting":
    case "running":
    case "attached":
      return "Do not start it again.";
    case "healing":
    case "paused":
    case "recovering":
    case "stalled":
      return `${instead} Do not start it again and do not do the work yourself.`;
    default:
      return `${instead} Do not start it again.`;
  }
}

/** When a new key is the right thing. */
function keyNote(about: About | null): string {
  if (about === "missing_client_request_id") return "";
  return about === "failed" ? ", if it shall be run again from the start" : ", if this is new work";
}

/** For arguments that do not fit, `change` says what is expected of each. */
export function putRightLine(next: Json): string {
  const change: unknown = next["change"];
  const expected = typeof change === "object" && change !== null ? Object.entries(change) : [];
  const fields = expected.map(([field, what]) => `${field} (${String(what)})`);
  return `NEXT: the same ${String(next["tool"])} call with these put right: ${fields.join("; ")}.`;
}

function fixLine(next: Json, call: string, change: string): string {
  if (next["tool"] === "task_continue") return `NEXT: tell your user what has to be put right; then ${call}.`;
  if (next["arguments"] !== undefined) return `NEXT: ${call}`;
  return `NEXT: ${String(next["tool"])} with the same arguments but ${change}.`;
}

/** The whole handle, once in every answer about a task. `key`: the caller's key to show with it, null for none. */
export function handleLine({ handle }: TaskView, key: string | null): string {
  const { taskId, childThreadId, nodeId } = handle;
  const named = key === null ? "" : ` · key ${sanitiseLine(key, 80)}`;
  return `task ${taskId} · thread ${childThreadId} · ${nodeId}${named}`;
}
