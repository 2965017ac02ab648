/**
 * From an engine's answer to what travels: one object (`structuredContent`) and the same in text.
 *
 * Invariant: keys in the order of contract §6, absent means none; text and object each stay under the answer limit.
 * Invariant: child text sits under `fromChild`, last; in text form always inside a fence (P17).
 */

import { assertNever } from "../core/assert.ts";
import type { TaskView } from "../core/describe.ts";
import { LIMITS } from "../core/limits.ts";
import { type Code, RETRYABLE } from "../core/rejection.ts";
import type { Answer, TaskAnswer, TaskItem } from "../ports/engine.ts";
import { sanitiseShort } from "../core/sanitise.ts";
import { fencedText, fromChild, shownOptions } from "./child-text.ts";
import { type AnswerJson, compact, iso } from "./json-fields.ts";
import { nextJson, nextOfTask } from "./next-json.ts";
import { renderAgents } from "./reply-agents.ts";
import { renderList } from "./reply-list.ts";
import { renderPage } from "./reply-page.ts";
import {
  listItem,
  listLine,
  type Of,
  pendingFields,
  pendingLines,
  type Rendered,
  type ReplyContext,
  sizeOf,
  storageError,
} from "./reply-parts.ts";
import { renderTasks } from "./reply-tasks.ts";
import { type About, aboutOf, handleLine, nextLine, putRightLine } from "./reply-text.ts";
import { isBrief, shownPath, shownTitle, taskFields } from "./task-fields.ts";
import type { ToolAnswer } from "./tool.ts";
import { isAccepted, isLongQuiet, sayOf } from "./wording.ts";

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

function render(answer: Answer, context: ReplyContext): Rendered {
  switch (answer.kind) {
    case "task":
      return renderTask(answer, context);
    case "tasks":
      return renderTasks(answer, context);
    case "list":
      return renderList(answer, context);
    case "page":
      return renderPage(answer, context);
    case "agents":
      return renderAgents(answer, context);
    case "refusal":
      return renderRefusal(answer, context);
    default:
      return assertNever(answer);
  }
}

/** The child's text gets what the rest leaves of the answer. */
function renderTask(answer: Of<"task">, context: ReplyContext): Rendered {
  const room = LIMITS.answerCharactersMax - sizeOf(taskWith(answer, 0, context));
  return taskWith(answer, Math.max(0, Math.min(room, LIMITS.childTextCharactersMax)), context);
}

function taskWith(answer: Of<"task">, textMax: number, context: ReplyContext): Rendered {
  const { item } = answer;
  const say = sayOf(answer, context.starts);
  const next = nextOfTask(item.view, answer.next, { ...context, quietSlices: answer.quietSlices });
  const json = {
    say,
    next,
    ...taskFields(item, context.caller, answer),
    otherLive: otherLiveOf(answer),
    error: storageError(answer.storageTrouble),
    ...pendingFields(answer.pending),
    meta: isBrief(item.view, answer) ? null : metaOf(item.view, answer),
    ...fromChild(item, textMax),
  };
  const lines = [
    say,
    handleLine(item.view, answer.clientRequestId) + settlementNote(item),
    ...otherLines(answer),
    nextLine(next, aboutAnswer(answer), isLongQuiet(answer)),
    ...pendingLines(answer.pending),
    ...fencedText(item, textMax, context.nonce),
  ];
  return { json: compact(json), text: lines.join("\n") };
}

function aboutAnswer(answer: Of<"task">): About | null {
  if (answer.notANewRun) return null;
  return isAccepted(answer) ? "accepted" : aboutOf(answer.item.view);
}

function settlementNote({ view }: TaskItem): string {
  if (view.question !== null) return ` · question ${view.question.questionId}`;
  return view.phase === "settled" ? ` · settlement ${view.settlements}` : "";
}

function renderRefusal(answer: Of<"refusal">, context: ReplyContext): Rendered {
  const { rejection, newest, about, recorded } = answer;
  const { code, next: step, differing } = rejection;
  const say = sayOf(answer, context.starts);
  // What was asked about by its key alone was a delegation.
  const asked = code === "unknown_task" && step.kind === "repeat_same_call";
  const next = nextJson(step, [], asked ? { ...context, tool: "delegate_task" } : context);
  const related = rejection.related === undefined ? null : relatedJson(rejection.related);
  const json = {
    say,
    next,
    ...(about === null ? {} : { status: about.status, phase: about.phase, ...about.handle }),
    created: answer.created,
    question: recorded === null ? questionOf(about) : recordedJson(recorded),
    error: {
      code,
      retryable: RETRYABLE[code],
      differing: differing?.slice(0, DIFFERING_MAX).map((name) => shownPath(name, 60)),
    },
    related,
    tasks: newest.length === 0 ? null : newest.map((view) => listItem(view, context)),
    ...pendingFields(answer.pending),
    meta: metaOfRefusal(answer),
  };
  const lines = [
    say,
    ...(about === null ? [] : [handleLine(about, null)]),
    ...relatedLines(related),
    ...newest.map((view) => `Yours: ${listLine(view)}`),
    code === "invalid_arguments" ? putRightLine(next) : nextLine(next, code),
    ...pendingLines(answer.pending),
  ];
  return { json: compact(json), text: lines.join("\n") };
}

const DIFFERING_MAX = 20;

function metaOfRefusal({ clientRequestId, recorded }: Of<"refusal">): AnswerJson | null {
  return clientRequestId === null && recorded === null ? null : { clientRequestId, by: recorded?.by ?? null };
}

/** A question that is still open, so that whoever answered it wrongly sees what can be chosen. */
function questionOf(about: TaskView | null): AnswerJson | null {
  if (about === null || about.question === null) return null;
  const { questionId, kind, optionIds } = about.question;
  return { questionId, kind, optionIds: shownOptions(optionIds) };
}

function recordedJson({ questionId, kind, choice }: NonNullable<Of<"refusal">["recorded"]>): AnswerJson {
  return { questionId, answer: kind === "option" ? sanitiseShort(choice, 60) : "a text" };
}

function relatedJson(related: NonNullable<Of<"refusal">["rejection"]["related"]>): AnswerJson {
  if (!related.mine) return { mine: false, since: iso(related.sinceMs) };
  const { taskId, childThreadId, nodeId, status, ageMs } = related;
  return { taskId, childThreadId, nodeId, status, ageMs, mine: true };
}

function relatedLines(related: AnswerJson | null): readonly string[] {
  if (related === null || typeof related["taskId"] !== "string") return [];
  return [
    `related: task ${related["taskId"]} · thread ${String(related["childThreadId"])} · ${String(related["nodeId"])}`,
  ];
}

const OTHER_CWD_CHARACTERS_MAX = 120;

function otherLiveOf({ otherLive }: TaskAnswer): readonly AnswerJson[] | null {
  if (otherLive.length === 0) return null;
  return otherLive.map((other) => ({
    ...other,
    title: shownTitle(other.title),
    cwd: shownPath(other.cwd, OTHER_CWD_CHARACTERS_MAX),
  }));
}

function otherLines({ otherLive }: TaskAnswer): readonly string[] {
  if (otherLive.length === 0) return [];
  const tasks = otherLive.map(({ taskId, title, access }) => `${taskId} "${shownTitle(title)}" (${access})`);
  return [`Also at work for you in this directory: ${tasks.join("; ")}.`];
}

function metaOf(view: TaskView, answer: TaskAnswer): AnswerJson {
  return compact({
    clientRequestId: (answer.clientRequestId ?? view.key)?.slice(0, LIMITS.keyCharactersMax) ?? null,
    runId: view.runId,
    attempt: view.attempt === 0 ? null : view.attempt,
    version: view.version,
    replayed: answer.created === "replayed" || answer.alreadyDone ? true : null,
  });
}
