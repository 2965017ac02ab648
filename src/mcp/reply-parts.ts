/**
 * Parts that the answers about one task, several tasks and none have in common.
 */

import type { Caller } from "../core/caller.ts";
import type { TaskView } from "../core/describe.ts";
import { LIMITS } from "../core/limits.ts";
import type { Answer } from "../ports/engine.ts";
import { type AnswerJson, compact, iso } from "./json-fields.ts";
import type { NextContext } from "./next-json.ts";
import { isHere, shownPath, shownTitle } from "./task-fields.ts";
import { ago, named } from "./words.ts";

export type ReplyContext = NextContext & {
  readonly caller: Caller;
  /** What a page was asked with, for the call that reads on. */
  readonly asked?: { readonly find?: string | undefined; readonly limit?: number | undefined };
  readonly contractVersion?: number;
};

/** Both forms of an answer. */
export type Rendered = { readonly json: AnswerJson; readonly text: string };

export type Of<Kind extends Answer["kind"]> = Extract<Answer, { readonly kind: Kind }>;

/** Characters of the larger form. */
export function sizeOf({ json, text }: Rendered): number {
  return Math.max(JSON.stringify(json).length, text.length);
}

export function pendingFields({ completions, count }: Answer["pending"]): Record<string, unknown> {
  const shown = completions.map((completion) => ({ ...completion, title: shownTitle(completion.title) }));
  return { pendingCompletions: shown.length === 0 ? null : shown, pendingCount: count === 0 ? null : count };
}

export function pendingLines({ completions, count }: Answer["pending"]): readonly string[] {
  const lines = completions.map(
    ({ taskId, settlement, status, title }) =>
      `Unread: task ${taskId} ${status} (settlement ${settlement}) "${shownTitle(title)}". See task_status.`,
  );
  return count === 0 ? lines : [...lines, `${count} more unread: task_list {"unread":true}`];
}

/** The state is told as far as it is known, and that nothing can be written at present (contract §12). */
export function storageError(trouble: boolean): AnswerJson | null {
  return trouble ? { code: "storage_unavailable", retryable: true } : null;
}

/** A task as a line of a list. */
export function listItem(view: TaskView, { caller }: ReplyContext): AnswerJson {
  const { handle, status, phase, spec, key, settlements } = view;
  return compact({
    status,
    phase,
    ...handle,
    settlement: settlements === 0 ? null : settlements,
    workspace: { cwd: shownPath(spec.cwd, LIST_CWD_CHARACTERS_MAX), access: spec.access },
    title: shownTitle(spec.title),
    agent: spec.agent,
    createdAt: iso(view.createdAtMs),
    thisConversation: isHere(view, caller),
    meta: key === null ? null : { clientRequestId: key.slice(0, LIMITS.keyCharactersMax) },
  });
}

export function listLine(view: TaskView): string {
  const { handle, status, phase, spec, key } = view;
  const state = status === "working" ? `${status} (${phase})` : status;
  const cwd = shownPath(spec.cwd, LIST_CWD_CHARACTERS_MAX);
  const keyed = key === null ? "" : ` · key ${shownPath(key, 80)}`;
  return `${handle.taskId} · ${state} · ${ago(view.ageMs)} · ${named(view)}${keyed} · ${cwd}`;
}

const LIST_CWD_CHARACTERS_MAX = 200;
