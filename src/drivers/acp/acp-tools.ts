/**
 * The tool calls of a turn: which are open, what a permission request is about, and what is told of a finished one.
 *
 * Invariant: an update changes only the fields that it has (protocol); a call that is told late or twice is told once.
 * Invariant: memory is bounded, whatever number of calls an agent opens.
 */

import { headOf } from "../../core/excerpt.ts";
import { type Fields, fieldsIn, listIn, numberIn, textIn } from "../fields.ts";

export type ToolCallState = {
  readonly title: string | null;
  readonly kind: string;
  readonly status: string;
  /** Paths that it touches, as the agent wrote them. */
  readonly paths: readonly string[];
  readonly locations: readonly string[];
  /** What can be read of its content. */
  readonly content: string;
  /** The command line, of a tool that runs one. */
  readonly command: string | null;
};

export type ToolCalls = {
  /** Takes in a `tool_call` or `tool_call_update`. */
  take(update: Fields): { readonly isNew: boolean; readonly finished: ToolCallState | null };
  /** A call with the fields of a permission request about it. */
  withFields(toolCall: Fields): ToolCallState;
  running(): boolean;
  /** True if a call that may have changed something was begun. */
  changedSomething(): boolean;
};

const OPEN_MAX = 1_000;
const FINISHED_MAX = 1_000;
const CONTENT_CHARACTERS_MAX = 4_000;
const PATHS_MAX = 100;
const HARMLESS_KINDS = new Set(["read", "search", "think", "fetch", "switch_mode"]);
const FINAL_STATUSES = new Set(["completed", "failed", "cancelled"]);
const PATH_INPUTS = ["path", "file_path", "filePath", "filename", "abs_path", "notebook_path", "destination"];

const FRESH: ToolCallState = {
  title: null,
  kind: "other",
  status: "pending",
  paths: [],
  locations: [],
  content: "",
  command: null,
};

export function createToolCalls(): ToolCalls {
  const open = new Map<string, ToolCallState>();
  const finished = new Set<string>();
  let changed = false;
  return {
    take(update) {
      const id = textIn(update["toolCallId"]) ?? "";
      if (finished.has(id)) return { isNew: false, finished: null };
      const known = open.get(id);
      const state = merged(known ?? FRESH, update);
      changed ||= !HARMLESS_KINDS.has(state.kind) && state.status !== "pending";
      if (!FINAL_STATUSES.has(state.status)) {
        open.set(id, state);
        dropOldest(open, OPEN_MAX);
        return { isNew: known === undefined, finished: null };
      }
      open.delete(id);
      finished.add(id);
      dropOldest(finished, FINISHED_MAX);
      return { isNew: known === undefined, finished: state };
    },
    withFields: (toolCall) => merged(open.get(textIn(toolCall["toolCallId"]) ?? "") ?? FRESH, toolCall),
    running: () => open.size > 0,
    changedSomething: () => changed,
  };
}

/** A finished call as a piece of the conversation. */
export function toolPiece({ title, kind, status, locations, content }: ToolCallState): string {
  const lines = [`${title ?? kind} (${kind}, ${status})`, ...locations, content];
  return lines.filter((line) => line !== "").join("\n");
}

function merged(known: ToolCallState, update: Fields): ToolCallState {
  const input = fieldsIn(update["rawInput"]);
  const content = contentOf(update);
  const locations = listIn(update["locations"]).map(fieldsIn);
  const paths = pathsOf(update, input);
  return {
    title: textIn(update["title"]) ?? known.title,
    kind: textIn(update["kind"]) ?? known.kind,
    status: textIn(update["status"]) ?? known.status,
    paths: paths.length > 0 ? [...new Set([...known.paths, ...paths])].slice(0, PATHS_MAX) : known.paths,
    locations: locations.length > 0 ? locations.map(locationLine).slice(0, PATHS_MAX) : known.locations,
    content: content === "" ? known.content : content,
    command: commandOf(input["command"]) ?? known.command,
  };
}

function locationLine({ path, line }: Fields): string {
  const number = numberIn(line);
  return `${textIn(path) ?? ""}${number === null ? "" : `:${number}`}`;
}

/** All that the agent names, in whatever place. */
function pathsOf(update: Fields, input: Fields): readonly string[] {
  const places = [...listIn(update["locations"]), ...listIn(update["content"])].map((place) => fieldsIn(place)["path"]);
  return [...places, ...PATH_INPUTS.map((name) => input[name])].map(textIn).filter((path) => path !== null);
}

function commandOf(command: unknown): string | null {
  const words = listIn(command).filter((word) => typeof word === "string");
  return textIn(command) ?? (words.length > 0 ? words.join(" ") : null);
}

function contentOf(update: Fields): string {
  const blocks = listIn(update["content"]).map((block) => blockText(fieldsIn(block)));
  const written = blocks.filter((text) => text !== "").join("\n");
  const text = written === "" ? (textIn(update["rawOutput"]) ?? "") : written;
  return headOf(text, CONTENT_CHARACTERS_MAX).toWellFormed();
}

function blockText(block: Fields): string {
  if (block["type"] === "diff") return `${textIn(block["path"]) ?? ""}\n${textIn(block["newText"]) ?? ""}`;
  return contentBlockText(block["content"]);
}

/** A content block as text; what cannot be read is empty. */
export function contentBlockText(value: unknown): string {
  const block = fieldsIn(value);
  if (block["type"] === "text") return textIn(block["text"]) ?? "";
  if (block["type"] === "resource_link") return textIn(block["uri"]) ?? "";
  return textIn(fieldsIn(block["resource"])["text"]) ?? "";
}

function dropOldest(kept: Map<string, unknown> | Set<string>, max: number): void {
  const [oldest] = kept.keys();
  if (kept.size > max && oldest !== undefined) kept.delete(oldest);
}
