/**
 * The items of a turn that are work: which are open, what a question about one is about, what is told of a finished one.
 *
 * Invariant: an item that is told late or twice is told once; memory is bounded, whatever number of items is opened.
 */

import { headOf } from "../../core/excerpt.ts";
import { type Fields, fieldsIn, listIn, numberIn, textIn } from "../fields.ts";

export type CodexItems = {
  /** Takes in `item/started`; true if it is new work. */
  started(item: Fields): boolean;
  /** Takes in `item/completed`; the piece of the conversation, null if it is no work or was told. */
  completed(item: Fields): { readonly isNew: boolean; readonly piece: string } | null;
  changesOf(itemId: string): { readonly paths: string; readonly content: string };
  running(): boolean;
  /** True if an item that may have changed something was begun and not declined. */
  changedSomething(): boolean;
};

const OPEN_MAX = 1_000;
const FINISHED_MAX = 1_000;
const CONTENT_CHARACTERS_MAX = 4_000;
const TITLE_CHARACTERS_MAX = 2_000;
const WORK = new Set([
  "commandExecution",
  "fileChange",
  "mcpToolCall",
  "dynamicToolCall",
  "collabAgentToolCall",
  "webSearch",
  "imageView",
  "imageGeneration",
]);
const HARMLESS = new Set(["webSearch", "imageView"]);
const READING = new Set(["read", "listFiles", "search"]);

export function createCodexItems(): CodexItems {
  const open = new Map<string, Fields>();
  const finished = new Set<string>();
  let changed = false;
  return {
    started(item) {
      const id = textIn(item["id"]) ?? "";
      if (!isWork(item) || finished.has(id) || open.has(id)) return false;
      open.set(id, item);
      dropOldest(open, OPEN_MAX);
      return true;
    },
    completed(item) {
      const id = textIn(item["id"]) ?? "";
      if (!isWork(item) || finished.has(id)) return null;
      const isNew = !open.delete(id);
      finished.add(id);
      dropOldest(finished, FINISHED_MAX);
      changed ||= mayChange(item) && item["status"] !== "declined";
      return { isNew, piece: pieceOf(item) };
    },
    changesOf(itemId) {
      const changes = listIn(open.get(itemId)?.["changes"]).map(fieldsIn);
      return { paths: pathsOf(changes).join(", "), content: headOf(diffOf(changes), CONTENT_CHARACTERS_MAX) };
    },
    running: () => open.size > 0,
    changedSomething: () => changed || [...open.values()].some(mayChange),
  };
}

function isWork({ type }: Fields): boolean {
  return WORK.has(textIn(type) ?? "");
}

function mayChange(item: Fields): boolean {
  if (HARMLESS.has(textIn(item["type"]) ?? "") || item["readOnlyHint"] === true) return false;
  const actions = listIn(item["commandActions"]).map((action) => textIn(fieldsIn(action)["type"]) ?? "");
  return actions.length === 0 || !actions.every((type) => READING.has(type));
}

/** A finished item as a piece of the conversation. */
function pieceOf(item: Fields): string {
  const title = headOf(titleOf(item), TITLE_CHARACTERS_MAX);
  const status = textIn(item["status"]) ?? "completed";
  const code = numberIn(item["exitCode"]);
  const lines = [
    `${title} (${textIn(item["type"]) ?? ""}, ${status}${code === null || code === 0 ? "" : `, exit code ${code}`})`,
    headOf(contentOf(item), CONTENT_CHARACTERS_MAX),
  ];
  return lines
    .filter((line) => line !== "")
    .join("\n")
    .toWellFormed();
}

function titleOf(item: Fields): string {
  if (item["type"] === "mcpToolCall") return `${textIn(item["server"]) ?? ""}.${textIn(item["tool"]) ?? ""}`;
  if (item["type"] === "fileChange") return pathsOf(listIn(item["changes"]).map(fieldsIn)).join(", ");
  const names = ["command", "tool", "query", "path"].map((name) => textIn(item[name]));
  return names.find((name) => name !== null) ?? textIn(item["type"]) ?? "";
}

function contentOf(item: Fields): string {
  const output = textIn(item["aggregatedOutput"]);
  if (output !== null) return output;
  if (item["type"] === "fileChange") return diffOf(listIn(item["changes"]).map(fieldsIn));
  const problem = textIn(fieldsIn(item["error"])["message"]);
  if (problem !== null) return problem;
  const parts = [...listIn(fieldsIn(item["result"])["content"]), ...listIn(item["contentItems"])].map(fieldsIn);
  return parts.map(({ text }) => textIn(text) ?? "").join("\n");
}

function pathsOf(changes: readonly Fields[]): readonly string[] {
  const paths = changes.flatMap(({ path, kind }) => [textIn(path), textIn(fieldsIn(kind)["move_path"])]);
  return [...new Set(paths.filter((path) => path !== null))];
}

function diffOf(changes: readonly Fields[]): string {
  return changes.map(({ path, diff }) => `${textIn(path) ?? ""}\n${textIn(diff) ?? ""}`).join("\n");
}

function dropOldest(kept: Map<string, unknown> | Set<string>, max: number): void {
  const [oldest] = kept.keys();
  if (kept.size > max && oldest !== undefined) kept.delete(oldest);
}
