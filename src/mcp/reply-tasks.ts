/**
 * The answer to a wait for several tasks: news in full as far as it fits, the rest as a short line each.
 *
 * Invariant: every asked task is in the answer; what is news and does not fit is left for the next call: `after` does not
 * pass it. At least one piece of news is told in every answer that has any, so that whoever calls again gets to the end.
 * Invariant: child text shares what the rest leaves; short texts are shown whole before long ones get more.
 */

import type { TaskView } from "../core/describe.ts";
import { LIMITS } from "../core/limits.ts";
import type { NextStep, Seen } from "../core/next-step.ts";
import { sanitiseLine } from "../core/sanitise.ts";
import type { WaitItem } from "../ports/engine.ts";
import { childTextSize, fencedText, fromChild } from "./child-text.ts";
import { type AnswerJson, compact } from "./json-fields.ts";
import { nextJson, nextOfTask } from "./next-json.ts";
import {
  type Of,
  pendingFields,
  pendingLines,
  type Rendered,
  type ReplyContext,
  sizeOf,
  storageError,
} from "./reply-parts.ts";
import { aboutOf, handleLine, nextLine } from "./reply-text.ts";
import { taskFields } from "./task-fields.ts";
import { isLongQuiet, leftNote, sayOf, sayState } from "./wording.ts";

type News = WaitItem & { readonly kind: "news" };

/** Less than this of a text says nothing; the task is then left for the next call. */
const TEXT_CHARACTERS_MIN = 200;
/** Told tasks stand in `after`, left ones do not. */
const AFTER_ENTRY_CHARACTERS = 24;
const SLACK_CHARACTERS = 40;

export function renderTasks(answer: Of<"tasks">, context: ReplyContext): Rendered {
  const news = answer.items.filter((item) => item.kind === "news");
  const short = frame(answer, new Map(), news, context);
  const room = LIMITS.answerCharactersMax - SLACK_CHARACTERS - sizeOf(short);
  const chosen = choose(news, room, context);
  const left = news.filter((item) => !chosen.has(item));
  return frame(answer, chosen, left, context);
}

/** What is told in full, each with its text. */
function choose(news: readonly News[], room: number, context: ReplyContext): ReadonlyMap<WaitItem, Rendered> {
  const bases = new Map<News, number>();
  let used = 0;
  for (const item of news) {
    const size = sizeOf(fullItem(item, 0, context)) + AFTER_ENTRY_CHARACTERS;
    const least = Math.min(TEXT_CHARACTERS_MIN, childTextSize(item.item));
    if (used + size + least > room) continue;
    used += size + least;
    bases.set(item, size);
  }
  const [first] = news;
  if (bases.size === 0 && first !== undefined) return new Map([[first, essentials(first, context)]]);
  const texts = shares(
    [...bases.keys()].map((item) => childTextSize(item.item)),
    room - [...bases.values()].reduce((sum, size) => sum + size, 0),
  );
  return new Map([...bases.keys()].map((item, index) => [item, fullItem(item, texts[index] ?? 0, context)]));
}

/** Divides `room` among texts of these sizes: nobody gets more than it needs, and what is over goes to the others. */
function shares(sizes: readonly number[], room: number): readonly number[] {
  const given = sizes.map(() => 0);
  let left = Math.min(room, LIMITS.childTextCharactersMax);
  const order = sizes.map((_, index) => index).sort((one, other) => (sizes[one] ?? 0) - (sizes[other] ?? 0));
  for (const [place, index] of order.entries()) {
    const share = Math.floor(left / (order.length - place));
    given[index] = Math.min(share, sizes[index] ?? 0);
    left -= given[index] ?? 0;
  }
  return given;
}

function frame(
  answer: Of<"tasks">,
  full: ReadonlyMap<WaitItem, Rendered>,
  left: readonly News[],
  context: ReplyContext,
): Rendered {
  const { items, counts, waitEnded, pending } = answer;
  const step: NextStep = left.length > 0 ? { kind: "wait", seen: items.flatMap(seenOfItem) } : answer.next;
  const untold = left.map((item) => seenOf(item.item.view));
  // What has to be put right is put right for one of them.
  const first = step.kind === "fix" ? items.find((item) => item.kind !== "unknown") : undefined;
  const following = { ...context, quietSlices: answer.quietSlices };
  const next = first === undefined ? nextJson(step, untold, following) : nextOfTask(viewOf(first), step, following);
  const about = step.kind === "choose_key" ? "failed" : null;
  const say = [sayOf(answer, context.starts), leftNote(left.length)].filter((part) => part !== "").join(" ");
  const rendered = items.map((item) => full.get(item) ?? { json: shortItem(item), text: shortText(item) });
  const tasks = rendered.map(({ json }) => json);
  const error = storageError(answer.storageTrouble);
  return {
    json: compact({ say, next, waitEnded, error, tasks, counts, ...pendingFields(pending) }),
    text: [
      say,
      nextLine(next, about, isLongQuiet({ ...answer, next: step })),
      ...pendingLines(pending),
      ...rendered.map(({ text }) => text),
    ].join("\n"),
  };
}

function fullItem({ item }: News, textMax: number, context: ReplyContext): Rendered {
  const { view } = item;
  const say = sayState(item, 0);
  const next = nextOfTask(view, view.next, context);
  const fields = { created: null, replayedAgeMs: null, waitEnded: null, stepsTold: 0, toldBefore: false };
  const json = { say, next, ...taskFields(item, context.caller, fields), ...fromChild(item, textMax) };
  const lines = [
    "",
    say,
    handleLine(view, null),
    nextLine(next, aboutOf(view)),
    ...fencedText(item, textMax, context.nonce),
  ];
  return { json: compact(json), text: lines.join("\n") };
}

/** What a task whose description is very long is cut to, so that its news can be told at all. */
function essentials({ item }: News, context: ReplyContext): Rendered {
  const { view } = item;
  const next = nextOfTask(view, view.next, context);
  const say = sayState(item, 0);
  const { status, phase, handle, settlements } = view;
  const settlement = settlements === 0 ? null : settlements;
  return {
    json: compact({ say, next, status, phase, ...handle, settlement }),
    text: ["", say, handleLine(view, null), nextLine(next, aboutOf(view))].join("\n"),
  };
}

function shortItem(item: WaitItem): AnswerJson {
  if (item.kind === "unknown")
    return { taskId: sanitiseLine(item.asked, 60), error: { code: "unknown_task", retryable: false } };
  const { handle, status, phase } = viewOf(item);
  return { status, phase, taskId: handle.taskId };
}

function shortText(item: WaitItem): string {
  if (item.kind === "unknown") return `${sanitiseLine(item.asked, 60)}: no such task among yours`;
  const { handle, status, phase } = viewOf(item);
  return `${handle.taskId}: ${status}, ${phase}`;
}

function viewOf(item: Exclude<WaitItem, { readonly kind: "unknown" }>): TaskView {
  return item.kind === "news" ? item.item.view : item.view;
}

function seenOfItem(item: WaitItem): readonly Seen[] {
  return item.kind === "unknown" ? [] : [seenOf(viewOf(item))];
}

function seenOf({ handle, news, steps }: TaskView): Seen {
  return { taskId: handle.taskId, news, steps };
}
