/**
 * From an engine's answer to what travels: one object (`structuredContent`) and the same in text.
 *
 * Invariant: keys in the order of contract §6, absent means none; text and object each stay under the answer limit.
 * Invariant: child text sits under `fromChild`, last, sanitised; in text form always inside a fence with a fresh mark, and
 * no line of it can look like the fence (P17).
 * Invariant: what does not fit is left for the next call: `after` does not pass it.
 */

import type { Caller } from "../core/caller.ts";
import { assertNever } from "../core/assert.ts";
import type { TaskView } from "../core/describe.ts";
import { LIMITS } from "../core/limits.ts";
import type { NextStep, Seen } from "../core/next-step.ts";
import { type Code, RETRYABLE } from "../core/rejection.ts";
import { sanitiseLine } from "../core/sanitise.ts";
import type { Answer, TaskAnswer, WaitItem } from "../ports/engine.ts";
import { fromChild } from "./child-text.ts";
import { type AnswerJson, compact, iso } from "./json-fields.ts";
import { type NextContext, nextJson } from "./next-json.ts";
import { isHere, taskFields } from "./task-fields.ts";
import type { ToolAnswer } from "./tool.ts";
import { fencedText, nextLine } from "./reply-text.ts";
import { ago, named, sayOf, sayState } from "./wording.ts";

export type ReplyContext = NextContext & { readonly caller: Caller };

/** Codes that are the caller's or the server's mistake; a child's outcome or a refusal never is (contract §6). */
export const ERRORS: ReadonlySet<Code> = new Set([
  "invalid_arguments",
  "missing_client_request_id",
  "unknown_task",
  "unknown_thread",
  "unknown_agent",
  "storage_unavailable",
  "internal",
]);

export function toReply(answer: Answer, context: ReplyContext): ToolAnswer {
  const { json, text } = render(answer, context);
  const failed = answer.kind === "refusal" && ERRORS.has(answer.rejection.code);
  const isError = failed || ("storageTrouble" in answer && answer.storageTrouble);
  return { content: [{ type: "text", text }], structuredContent: json, ...(isError ? { isError } : {}) };
}

/** The object alone, for surfaces that are not MCP. */
export function toJson(answer: Answer, context: ReplyContext): AnswerJson {
  return render(answer, context).json;
}

function render(answer: Answer, context: ReplyContext): { readonly json: AnswerJson; readonly text: string } {
  switch (answer.kind) {
    case "task":
      return renderTask(answer, context);
    case "tasks":
      return renderTasks(answer, context);
    case "list":
      return renderList(answer, context);
    case "refusal":
      return renderRefusal(answer, context);
    default:
      return assertNever(answer);
  }
}

type Of<Kind extends Answer["kind"]> = Extract<Answer, { readonly kind: Kind }>;
type Rendered = { readonly json: AnswerJson; readonly text: string };

function renderTask(answer: Of<"task">, context: ReplyContext): Rendered {
  const { item } = answer;
  const { view } = item;
  const say = sayOf(answer, context.starts);
  const next = nextJson(answer.next, [], context);
  const json = {
    say,
    next,
    ...taskFields(item, context.caller, answer),
    ...moreFields(answer),
    error: storageError(answer.storageTrouble),
    ...pendingFields(answer.pending),
    meta: metaOf(view, answer),
    ...fromChild(item, LIMITS.childTextCharactersMax),
  };
  const lines = [
    say,
    handleLine(view, answer.clientRequestId),
    ...otherLines(answer),
    nextLine(next),
    ...pendingLines(answer.pending),
  ];
  return {
    json: compact(json),
    text: [...lines, ...fencedText(item, LIMITS.childTextCharactersMax, context.nonce)].join("\n"),
  };
}

/** News in full while it fits; the rest as one line each, left for the next call. */
function renderTasks(answer: Of<"tasks">, context: ReplyContext): Rendered {
  const news = answer.items.filter((item) => item.kind === "news");
  const textMax = Math.max(200, Math.floor(LIMITS.childTextCharactersMax / Math.max(1, news.length)));
  const left: Seen[] = [];
  const tasks: AnswerJson[] = [];
  const blocks: string[] = [];
  // Every task costs at least its short line, which is counted first so that the news cannot push it out.
  let room = LIMITS.answerCharactersMax - 1_600 - answer.items.length * SHORT_LINE_CHARACTERS;
  for (const item of answer.items) {
    const full = item.kind === "news" ? fullItem(item, textMax, context) : null;
    if (full !== null && full.size <= room) {
      room -= full.size;
      tasks.push(full.json);
      blocks.push(full.text);
    } else {
      if (item.kind === "news") left.push(seenOf(item.item.view));
      tasks.push(shortItem(item));
      blocks.push(shortText(item));
    }
  }
  const step: NextStep = left.length > 0 ? { kind: "wait", seen: answer.items.flatMap(seenOfItem) } : answer.next;
  const next = nextJson(step, left, context);
  const say =
    sayOf(answer, context.starts) + (left.length === 0 ? "" : ` ${left.length} more did not fit here: wait again.`);
  const { counts, waitEnded } = answer;
  const error = storageError(answer.storageTrouble);
  const json = { say, next, waitEnded, error, tasks, counts, ...pendingFields(answer.pending) };
  return { json: compact(json), text: [say, nextLine(next), ...pendingLines(answer.pending), ...blocks].join("\n") };
}

const SHORT_LINE_CHARACTERS = 110;

function fullItem(item: WaitItem & { readonly kind: "news" }, textMax: number, context: ReplyContext) {
  const { view } = item.item;
  const say = sayState(item.item, 0);
  const next = nextJson(view.next, [], context);
  const fields = { created: null, replayedAgeMs: null, waitEnded: null, stepsTold: 0 };
  const json = compact({
    say,
    next,
    ...taskFields(item.item, context.caller, fields),
    ...fromChild(item.item, textMax),
  });
  const text = ["", say, handleLine(view, null), nextLine(next), ...fencedText(item.item, textMax, context.nonce)].join(
    "\n",
  );
  return { json, text, size: Math.max(JSON.stringify(json).length, text.length) };
}

function shortItem(item: WaitItem): AnswerJson {
  if (item.kind === "unknown")
    return { taskId: item.asked.slice(0, 60), error: { code: "unknown_task", retryable: false } };
  const { handle, status, phase } = viewOf(item);
  return { taskId: handle.taskId, status, phase };
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

function renderList(answer: Of<"list">, context: ReplyContext): Rendered {
  let views = answer.views;
  let { nextCursor } = answer;
  const lines = views.map(listLine);
  // A page whose lines do not fit ends earlier; its cursor then points at the last line shown.
  const fits = fitting(
    lines,
    LIMITS.answerCharactersMax - 2_000,
    views.map((view) => JSON.stringify(listItem(view, context)).length),
  );
  if (fits < views.length) {
    views = views.slice(0, fits);
    nextCursor = views.at(-1)?.handle.taskId ?? null;
  }
  const say = sayOf({ ...answer, views }, context.starts);
  const next = nextJson(answer.next, [], context);
  const tasks = views.map((view) => listItem(view, context));
  const json = { say, next, tasks, nextCursor, ...pendingFields(answer.pending) };
  const more = nextCursor === null ? [] : [`More: task_list {"cursor":"${nextCursor}"}`];
  const shown = lines.slice(0, views.length);
  return {
    json: compact(json),
    text: [say, ...shown, ...more, nextLine(next), ...pendingLines(answer.pending)].join("\n"),
  };
}

function fitting(lines: readonly string[], room: number, sizes: readonly number[]): number {
  let used = 0;
  const index = lines.findIndex((line, at) => {
    used += Math.max(line.length, sizes[at] ?? 0) + 1;
    return used > room;
  });
  return index === -1 ? lines.length : Math.max(1, index);
}

function listItem(view: TaskView, context: ReplyContext): AnswerJson {
  const { handle, status, phase, spec, key, settlements } = view;
  return compact({
    status,
    phase,
    ...handle,
    settlement: settlements === 0 ? null : settlements,
    title: spec.title,
    agent: spec.agent,
    createdAt: iso(view.createdAtMs),
    thisConversation: isHere(view, context.caller),
    meta: { clientRequestId: key.slice(0, 80) },
    workspace: { cwd: spec.cwd, access: spec.access },
  });
}

function listLine(view: TaskView): string {
  const { handle, status, phase, spec, key } = view;
  const state = status === "working" ? `${status} (${phase})` : status;
  return `${handle.taskId} · ${state} · ${ago(view.ageMs)} · ${named(view)} · key ${key.slice(0, 80)} · ${spec.cwd}`;
}

function renderRefusal(answer: Of<"refusal">, context: ReplyContext): Rendered {
  const { rejection, newest } = answer;
  const say = sayOf(answer, context.starts);
  const next = nextJson(rejection.next, [], context);
  const related = rejection.related === undefined ? null : relatedJson(rejection.related);
  const json = {
    say,
    next,
    created: answer.created,
    error: compact({ code: rejection.code, retryable: RETRYABLE[rejection.code], differing: rejection.differing }),
    related: related ?? busyHolder(rejection.detail),
    tasks: newest.length === 0 ? null : newest.map((view) => listItem(view, context)),
    ...pendingFields(answer.pending),
    meta: answer.clientRequestId === null ? null : { clientRequestId: answer.clientRequestId },
  };
  const lines = [say, ...relatedLines(related), ...newest.map((view) => `Yours: ${listLine(view)}`), nextLine(next)];
  return { json: compact(json), text: [...lines, ...pendingLines(answer.pending)].join("\n") };
}

function relatedJson(related: NonNullable<Of<"refusal">["rejection"]["related"]>): AnswerJson {
  if (!related.mine) return { mine: false, since: iso(related.sinceMs) };
  const { taskId, childThreadId, nodeId, status, ageMs } = related;
  return { taskId, childThreadId, nodeId, status, ageMs, mine: true };
}

/** The task that holds a directory: the caller's own by its id, another caller's only by since when. */
function busyHolder(detail: Readonly<Record<string, unknown>>): AnswerJson | null {
  const { sinceMs, holder } = detail;
  if (typeof sinceMs !== "number") return null;
  if (typeof holder !== "string") return { mine: false, since: iso(sinceMs) };
  return { taskId: holder, nodeId: `node:delegated-task:${holder}`, mine: true, since: iso(sinceMs) };
}

function relatedLines(related: AnswerJson | null): readonly string[] {
  if (related === null || typeof related["taskId"] !== "string") return [];
  return [
    `related: task ${related["taskId"]} · thread ${String(related["childThreadId"])} · ${String(related["nodeId"])}`,
  ];
}

/** The state is told as far as it is known, and that nothing can be written at present (contract §12). */
function storageError(trouble: boolean): AnswerJson | null {
  return trouble ? { code: "storage_unavailable", retryable: true } : null;
}

function moreFields({ otherLive }: TaskAnswer): Record<string, unknown> {
  return { otherLive: otherLive.length === 0 ? null : otherLive };
}

function otherLines({ otherLive }: TaskAnswer): readonly string[] {
  if (otherLive.length === 0) return [];
  const tasks = otherLive.map(({ taskId, title, access }) => `${taskId} "${title}" (${access})`);
  return [`Also at work for you in this directory: ${tasks.join("; ")}.`];
}

function pendingFields({ completions, count }: Answer["pending"]): Record<string, unknown> {
  return {
    pendingCompletions: completions.length === 0 ? null : completions,
    pendingCount: count === 0 ? null : count,
  };
}

function pendingLines({ completions, count }: Answer["pending"]): readonly string[] {
  const lines = completions.map(
    ({ taskId, settlement, status, title }) =>
      `Unread: task ${taskId} ${status} (settlement ${settlement}) "${title}". See task_status.`,
  );
  return count === 0 ? lines : [...lines, `${count} more unread: task_list {"unread":true}`];
}

function metaOf(view: TaskView, answer: TaskAnswer): AnswerJson {
  return compact({
    clientRequestId: (answer.clientRequestId ?? view.key).slice(0, LIMITS.keyCharactersMax),
    runId: view.runId,
    attempt: view.attempt === 0 ? null : view.attempt,
    version: view.version,
    replayed: answer.created === "replayed" || answer.alreadyDone ? true : null,
  });
}

function handleLine({ handle, key }: TaskView, clientRequestId: string | null): string {
  const { taskId, childThreadId, nodeId } = handle;
  const named = clientRequestId === null ? "" : ` · key ${(clientRequestId || key).slice(0, 80)}`;
  return `task ${taskId} · thread ${childThreadId} · ${nodeId}${named}`;
}
