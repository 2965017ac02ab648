/**
 * The tool calls of a run: which are open, and what is told of a finished one.
 *
 * Invariant: memory is bounded, whatever number of calls is opened.
 */

import { headOf } from "../../core/excerpt.ts";
import { type Fields, fieldsIn, isFields, listIn, textIn } from "../fields.ts";

export type PiTools = {
  /** Takes in a `tool_execution_…` event. `finished`: the call as a piece of the conversation. */
  take(event: Fields): { readonly isNew: boolean; readonly finished: string | null };
  running(): boolean;
  /** True if a call that may have changed something was begun. */
  changedSomething(): boolean;
};

const OPEN_MAX = 1_000;
const CONTENT_CHARACTERS_MAX = 4_000;
const INPUT_CHARACTERS_MAX = 1_000;
const HARMLESS_TOOLS = new Set(["read", "grep", "find", "ls"]);

export function createPiTools(): PiTools {
  /** What they were called with. */
  const open = new Map<string, string>();
  let changed = false;
  return {
    take(event) {
      const id = textIn(event["toolCallId"]) ?? "";
      const name = textIn(event["toolName"]) ?? "tool";
      changed ||= !HARMLESS_TOOLS.has(name);
      if (event["type"] === "tool_execution_end") {
        const input = open.get(id) ?? "";
        open.delete(id);
        return { isNew: false, finished: toolPiece(name, input, event) };
      }
      if (event["type"] !== "tool_execution_start") return { isNew: false, finished: null };
      open.set(id, inputOf(fieldsIn(event["args"])));
      const [oldest] = open.keys();
      if (open.size > OPEN_MAX && oldest !== undefined) open.delete(oldest);
      return { isNew: true, finished: null };
    },
    running: () => open.size > 0,
    changedSomething: () => changed,
  };
}

/** What can be read of a content block. */
export function blockText(value: unknown): string {
  return isFields(value) && value["type"] === "text" ? (textIn(value["text"]) ?? "") : "";
}

function inputOf(args: Fields): string {
  const told = textIn(args["command"]) ?? textIn(args["path"]) ?? textIn(args["pattern"]) ?? "";
  return headOf(told, INPUT_CHARACTERS_MAX).toWellFormed();
}

function toolPiece(name: string, input: string, event: Fields): string {
  const content = listIn(fieldsIn(event["result"])["content"]).map(blockText).join("\n");
  const lines = [
    `${name} (${event["isError"] === true ? "failed" : "completed"})`,
    input,
    headOf(content, CONTENT_CHARACTERS_MAX).toWellFormed().trimEnd(),
  ];
  return lines.filter((line) => line !== "").join("\n");
}
