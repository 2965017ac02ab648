/**
 * The answer to `task_list`: as many lines as fit, newest first, and the wait for those that are open.
 *
 * Invariant: a page whose lines do not fit ends earlier; its cursor then points at the last line shown.
 * Invariant: a line tells less than an answer about its task, so the wait that follows claims that nothing was told.
 */

import { LIMITS } from "../core/limits.ts";
import type { NextStep } from "../core/next-step.ts";
import { compact } from "./json-fields.ts";
import { nextJson } from "./next-json.ts";
import {
  listItem,
  listLine,
  type Of,
  pendingFields,
  pendingLines,
  type Rendered,
  type ReplyContext,
  sizeOf,
} from "./reply-parts.ts";
import { nextLine } from "./reply-text.ts";
import { sayOf } from "./wording.ts";

export function renderList(answer: Of<"list">, context: ReplyContext): Rendered {
  const { length } = answer.views;
  const whole = page(answer, length, context);
  if (length <= 1 || sizeOf(whole) <= LIMITS.answerCharactersMax) return whole;
  // The longest page that fits lies between these two.
  let fits = 1;
  let tooMany = length;
  while (tooMany - fits > 1) {
    const middle = Math.floor((fits + tooMany) / 2);
    if (sizeOf(page(answer, middle, context)) <= LIMITS.answerCharactersMax) fits = middle;
    else tooMany = middle;
  }
  return page(answer, fits, context);
}

function page(answer: Of<"list">, length: number, context: ReplyContext): Rendered {
  const views = answer.views.slice(0, length);
  const nextCursor = length < answer.views.length ? (views.at(-1)?.handle.taskId ?? null) : answer.nextCursor;
  const say = sayOf({ ...answer, views, nextCursor }, context.starts);
  const step = stepOf(answer.next, new Set(views.map((view) => view.handle.taskId)));
  const next = nextJson(step, step.kind === "wait" ? step.seen : [], context);
  const tasks = views.map((view) => listItem(view, context));
  const more = nextCursor === null ? [] : [`More: task_list {"cursor":"${nextCursor}"} with the same filters`];
  const json = { say, next, tasks, nextCursor, ...pendingFields(answer.pending) };
  const following = step.kind === "wait" ? nextLine(next) : nothingOpen(views.length);
  const lines = [say, ...views.map(listLine), ...more, following, ...pendingLines(answer.pending)];
  return { json: compact(json), text: lines.join("\n") };
}

function nothingOpen(shown: number): string {
  return shown === 0 ? "NEXT: nothing to wait for or to read here." : "NEXT: read what you need with task_status.";
}

/** A wait for what the page shows, and for no more tasks than a wait takes. */
function stepOf(next: NextStep, shown: ReadonlySet<string>): NextStep {
  if (next.kind !== "wait") return next;
  const seen = next.seen.filter(({ taskId }) => shown.has(taskId)).slice(0, LIMITS.waitTasksMax);
  return seen.length === 0 ? { kind: "use_result" } : { kind: "wait", seen };
}
