/**
 * The tool calls of a turn: which are open, and what is told of a finished one.
 *
 * Invariant: memory is bounded, whatever number of calls is opened; a result without its call is not told.
 */

import { headOf } from "../../core/excerpt.ts";
import { type Fields, fieldsIn, listIn, textIn } from "../fields.ts";

export type ClaudeTools = {
  /** Takes in a `tool_use` block. */
  begin(block: Fields): void;
  /** Takes in a `tool_result` block; the piece of the conversation, null if it is of no open call. */
  finish(block: Fields): string | null;
  running(): boolean;
  /** True if a call that may have changed something was begun. */
  changedSomething(): boolean;
};

const OPEN_MAX = 1_000;
const CONTENT_CHARACTERS_MAX = 4_000;
const SUBJECT_CHARACTERS_MAX = 2_000;
const HARMLESS = new Set([
  "Read",
  "Glob",
  "Grep",
  "LS",
  "WebFetch",
  "WebSearch",
  "TodoWrite",
  "ToolSearch",
  "AskUserQuestion",
  "EnterPlanMode",
  "ExitPlanMode",
  "TaskOutput",
]);
const PATH_INPUTS = ["file_path", "notebook_path", "path"];

export function createClaudeTools(): ClaudeTools {
  const open = new Map<string, Fields>();
  let changed = false;
  return {
    begin(block) {
      open.set(textIn(block["id"]) ?? "", block);
      const [oldest] = open.keys();
      if (open.size > OPEN_MAX && oldest !== undefined) open.delete(oldest);
      changed ||= !HARMLESS.has(textIn(block["name"]) ?? "");
    },
    finish(block) {
      const id = textIn(block["tool_use_id"]) ?? "";
      const call = open.get(id);
      open.delete(id);
      return call === undefined ? null : pieceOf(call, block);
    },
    running: () => open.size > 0,
    changedSomething: () => changed,
  };
}

function pieceOf(call: Fields, result: Fields): string {
  const name = textIn(call["name"]) ?? "tool";
  const status = result["is_error"] === true ? "failed" : "completed";
  const lines = [`${name} (${status})`, subjectOf(fieldsIn(call["input"])), contentText(result["content"])];
  return lines.filter((line) => line !== "").join("\n");
}

/** What the call is about: its command, its paths, or all of its input. */
function subjectOf(input: Fields): string {
  const paths = pathsIn(input).join(", ");
  const plain = textIn(input["command"]) ?? (paths === "" ? JSON.stringify(input) : paths);
  return plain === "{}" ? "" : headOf(plain, SUBJECT_CHARACTERS_MAX).toWellFormed();
}

export function pathsIn(input: Fields): readonly string[] {
  return PATH_INPUTS.map((name) => textIn(input[name])).filter((path) => path !== null);
}

/** The text of a content, which is one or a list of blocks. */
function contentText(content: unknown): string {
  const text = textIn(content) ?? textsIn(content).join("\n");
  return headOf(text, CONTENT_CHARACTERS_MAX).toWellFormed();
}

/** The texts of the blocks of a message. */
export function textsIn(content: unknown): readonly string[] {
  return listIn(content)
    .map(fieldsIn)
    .filter(({ type }) => type === "text")
    .flatMap(({ text }) => textIn(text) ?? []);
}
