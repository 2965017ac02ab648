/**
 * The answer to `thread_read`: a page of a child's thread, all of it under `fromChild` and inside a fence (P17).
 *
 * Invariant: the engine has cut the page to what travels; nothing is cut here, so no place of the text is skipped.
 */

import type { ThreadPart } from "../ports/engine.ts";
import { fencedParts, PAGE_NOTE } from "./child-text.ts";
import { type AnswerJson, compact, iso } from "./json-fields.ts";
import { nextOfTask } from "./next-json.ts";
import { type Of, pendingFields, pendingLines, type Rendered, type ReplyContext } from "./reply-parts.ts";
import { aboutOf, handleLine, nextLine } from "./reply-text.ts";
import { sayOf } from "./wording.ts";

export function renderPage(answer: Of<"page">, context: ReplyContext): Rendered {
  const { view, page } = answer;
  const { nextCursor, totalBytes } = page;
  const say = sayOf(answer, context.starts);
  const next = nextCursor === null ? nextOfTask(view, answer.next, context) : furtherPage(answer, context);
  const parts = page.parts.map(partJson);
  const json = {
    say,
    next,
    status: view.status,
    phase: view.phase,
    ...view.handle,
    // Whoever is told that it has ended is told why that is certain (P5).
    stop: view.phase === "settled" && view.outcome !== null ? { proof: view.outcome.stop.proof } : null,
    nextCursor,
    ...pendingFields(answer.pending),
    fromChild: parts.length === 0 ? null : { note: PAGE_NOTE, view: page.name, totalBytes, parts },
  };
  const lines = [
    say,
    handleLine(view, null),
    nextCursor === null
      ? nextLine(next, aboutOf(view))
      : `NEXT: ${String(next["tool"])} ${JSON.stringify(next["arguments"])}`,
    ...pendingLines(answer.pending),
    ...fencedParts(page.parts, view.handle.taskId, context.nonce),
  ];
  return { json: compact(json), text: lines.join("\n") };
}

/** The same call with the cursor; nothing else of the state is asked for by whoever reads on. */
function furtherPage({ view, page }: Of<"page">, { asked }: ReplyContext): AnswerJson {
  const { find, limit } = asked ?? {};
  const { childThreadId } = view.handle;
  const args = { childThreadId, view: page.name, find, cursor: page.nextCursor, limit };
  return { kind: "fix", tool: "thread_read", arguments: compact(args) };
}

function partJson({ who, atMs, at, text }: ThreadPart): AnswerJson {
  return compact({ who, at, time: atMs === null ? null : iso(atMs), text });
}
