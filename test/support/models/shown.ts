/**
 * Reading our own answers the way a model sees them: as JSON (structured content) or as the text form, possibly quoted,
 * cut or wrapped by the harness.
 */

import { at, parsed, textAt } from "../json.ts";

export type ShownHandle = {
  readonly taskId: string;
  readonly nodeId: string | null;
  readonly childThreadId: string | null;
};
export type ShownNext = { readonly tool: string; readonly arguments: Readonly<Record<string, unknown>> | null };

const STATUSES = "working|input_required|completed|failed|cancelled";
const JSON_STATUS = new RegExp(`\\\\?"status\\\\?"\\s*:\\s*\\\\?"(${STATUSES})\\\\?"`);
const FIRST_WORDS = /^\W*(ACCEPTED|WORKING|JOINED|RESTARTING|NEEDS AN ANSWER|COMPLETED|FAILED|CANCELLED)\b/m;
const STATUS_OF_WORD: Readonly<Record<string, string>> = {
  COMPLETED: "completed",
  FAILED: "failed",
  CANCELLED: "cancelled",
  "NEEDS AN ANSWER": "input_required",
};

/** The status that a tool result shows; null if it shows none. */
function statusOf(text: string): string | null {
  const inJson = JSON_STATUS.exec(text)?.[1];
  if (inJson !== undefined) return inJson;
  const word = FIRST_WORDS.exec(text.split("\n").slice(0, 6).join("\n"))?.[1];
  return word === undefined ? null : (STATUS_OF_WORD[word] ?? "working");
}

/** The handle that a text shows. The node id holds the task id, so it alone is enough. */
export function handleOf(text: string): ShownHandle | null {
  const node = /node:delegated-task:([0-9A-Za-z_-]+)/.exec(text);
  const task = /taskId\W{1,6}([0-9A-Za-z_-]{6,})/.exec(text) ?? /\b(dt_[0-9A-Za-z_-]+)/.exec(text);
  const thread = /childThreadId\W{1,6}([0-9A-Za-z_:.-]{6,})/.exec(text) ?? /\b(th_[0-9A-Za-z_-]+)/.exec(text);
  const taskId = node?.[1] ?? task?.[1];
  return taskId === undefined ? null : { taskId, nodeId: node?.[0] ?? null, childThreadId: thread?.[1] ?? null };
}

/** The next call that a tool result names, from JSON or from the line `NEXT: tool {...}`. */
export function nextOf(text: string): ShownNext | null {
  const json = /"next"\s*:\s*\{/.exec(text);
  const line = /^\W*NEXT: (task_\w+|delegate_task|thread_read|list_agents)\s+\{/m.exec(text);
  const found = json ?? line;
  if (found === null) return null;
  const value = parsed(objectFrom(text, found.index + found[0].length - 1));
  if (typeof value !== "object" || value === null) return null;
  if (json === null) return { tool: line?.[1] ?? "", arguments: { ...value } };
  const args = at(value, "arguments");
  return { tool: textAt(value, "tool"), arguments: typeof args === "object" && args !== null ? { ...args } : null };
}

/** True if a tool result ends the repetition of a step. */
export function meets(until: string, shown: string): boolean {
  switch (until) {
    case "settled":
      return ["completed", "failed", "cancelled"].includes(statusOf(shown) ?? "");
    case "completed":
      return statusOf(shown) === "completed";
    case "handle":
      return handleOf(shown) !== null;
    default:
      return new RegExp(until, "s").test(shown);
  }
}

/** The text of the JSON object that opens at `from`, however much follows it. */
function objectFrom(text: string, from: number): string {
  let depth = 0;
  let quoted = false;
  for (let i = from; i < text.length; i++) {
    const character = text[i];
    if (character === "\\") i++;
    else if (character === '"') quoted = !quoted;
    else if (!quoted && character === "{") depth++;
    else if (!quoted && character === "}" && --depth === 0) return text.slice(from, i + 1);
  }
  return "";
}
