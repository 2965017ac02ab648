/**
 * The four dialects read into one form, and where a plan stands in a conversation.
 */

import { at, listAt, textAt } from "../json.ts";
import { PARTIAL, type Plan } from "./plan.ts";
import { meets } from "./shown.ts";

export type Dialect = "anthropic" | "responses" | "chat" | "gemini";

export type Turn =
  | { readonly role: "user"; readonly text: string }
  | { readonly role: "tool"; readonly text: string }
  | { readonly role: "assistant"; readonly text: string; readonly calls: number };

export type OfferedTool = { readonly name: string; readonly namespace?: string };

/** Where a plan stands: the step to play, how often it was repeated, and the tool results so far. */
export type Standing = { readonly step: number; readonly loops: number; readonly results: readonly string[] };

const LOOPS_MAX = 40;

export function dialectOf(path: string): Dialect | null {
  if (path.endsWith("/messages")) return "anthropic";
  if (path.endsWith("/responses")) return "responses";
  if (path.endsWith("/chat/completions")) return "chat";
  return /:(stream)?generateContent$/i.test(path) ? "gemini" : null;
}

export function readTurns(dialect: Dialect, body: unknown): readonly Turn[] {
  switch (dialect) {
    case "anthropic":
      return listAt(body, "messages").flatMap(anthropicTurns);
    case "responses":
      return responsesTurns(body);
    case "chat":
      return listAt(body, "messages").flatMap(chatTurns);
    case "gemini":
      return listAt(body, "contents").flatMap(geminiTurns);
  }
}

export function readTools(dialect: Dialect, body: unknown): readonly OfferedTool[] {
  const tools = listAt(body, "tools");
  switch (dialect) {
    case "anthropic":
      return tools.map((tool) => ({ name: textAt(tool, "name") }));
    case "chat":
      return tools.map((tool) => ({ name: textAt(tool, "function", "name") }));
    case "gemini":
      return tools
        .flatMap((tool) => listAt(tool, "functionDeclarations"))
        .map((tool) => ({ name: textAt(tool, "name") }));
    case "responses":
      return tools.flatMap((tool) => {
        const inner = listAt(tool, "tools");
        if (inner.length === 0) return [{ name: textAt(tool, "name") || textAt(tool, "type") }];
        return inner.map((each) => ({ name: textAt(each, "name"), namespace: textAt(tool, "name") }));
      });
  }
}

/** Replays the conversation from turn `from` against the plan's steps. */
export function standingOf(plan: Plan, turns: readonly Turn[], from: number): Standing {
  const groups = groupsOf(turns.slice(from));
  let step = 0;
  let loops = 0;
  for (const group of groups) {
    const planned = plan.steps[step];
    if (planned === undefined) break;
    if ("text" in planned) {
      // Some harnesses keep a torn or made-up assistant text in the history: only the step's own text counts.
      if (group.text.includes(planned.text.split("{{")[0] ?? "")) step++;
      continue;
    }
    if (group.calls === 0) continue;
    const met = planned.until === undefined || meets(planned.until, group.results.join("\n"));
    if (!met && loops + 1 < (planned.max ?? LOOPS_MAX)) loops++;
    else {
      step++;
      loops = 0;
    }
  }
  return { step, loops, results: groups.flatMap((group) => group.results) };
}

type Group = { readonly text: string; readonly calls: number; readonly results: string[] };

/** An assistant turn and the tool results that answer it; what a fault broke off is left out. */
function groupsOf(turns: readonly Turn[]): readonly Group[] {
  const groups: Group[] = [];
  for (const turn of turns) {
    if (turn.role === "tool") groups.at(-1)?.results.push(turn.text);
    if (turn.role !== "assistant") continue;
    const broken = turn.calls === 0 && turn.text.trim().startsWith(PARTIAL.trim());
    if (!broken) groups.push({ text: turn.text, calls: turn.calls, results: [] });
  }
  return groups;
}

function anthropicTurns(message: unknown): readonly Turn[] {
  const content = at(message, "content");
  const blocks = typeof content === "string" ? [{ type: "text", text: content }] : listAt(message, "content");
  const text = joined(blocks.filter((block) => textAt(block, "type") === "text"));
  if (textAt(message, "role") === "assistant") {
    return [{ role: "assistant", text, calls: blocks.filter((block) => textAt(block, "type") === "tool_use").length }];
  }
  const results = blocks
    .filter((block) => textAt(block, "type") === "tool_result")
    .map((block): Turn => ({ role: "tool", text: joined(at(block, "content")) }));
  return text === "" ? results : [...results, { role: "user", text }];
}

function responsesTurns(body: unknown): readonly Turn[] {
  const input = at(body, "input");
  const items = typeof input === "string" ? [{ type: "message", role: "user", content: input }] : listAt(body, "input");
  const turns: Turn[] = [];
  for (const item of items) {
    const type = textAt(item, "type") || "message";
    const role = textAt(item, "role");
    if (type === "message" && role === "user") turns.push({ role, text: joined(at(item, "content")) });
    else if (type === "message" && role === "assistant")
      turns.push({ role, text: joined(at(item, "content")), calls: 0 });
    else if (type === "function_call" || type === "custom_tool_call") {
      const last = turns.at(-1);
      if (last?.role === "assistant") turns[turns.length - 1] = { ...last, calls: last.calls + 1 };
      else turns.push({ role: "assistant", text: "", calls: 1 });
    } else if (type.endsWith("_output")) turns.push({ role: "tool", text: outputText(at(item, "output")) });
  }
  return turns;
}

function chatTurns(message: unknown): readonly Turn[] {
  const role = textAt(message, "role");
  const text = joined(at(message, "content"));
  if (role === "assistant") return [{ role, text, calls: listAt(message, "tool_calls").length }];
  return role === "tool" || role === "user" ? [{ role, text }] : [];
}

function geminiTurns(content: unknown): readonly Turn[] {
  const parts = listAt(content, "parts");
  if (textAt(content, "role") === "model") {
    const calls = parts.filter((part) => at(part, "functionCall") !== undefined).length;
    return [{ role: "assistant", text: joined(parts), calls }];
  }
  const results = parts
    .map((part) => at(part, "functionResponse"))
    .filter((response) => response !== undefined)
    .map((response): Turn => ({ role: "tool", text: geminiResultText(response) }));
  const text = joined(parts);
  return text === "" ? results : [...results, { role: "user", text }];
}

function geminiResultText(response: unknown): string {
  const inner = at(response, "response");
  const text = textAt(inner, "output") || textAt(inner, "error") || JSON.stringify(inner ?? {});
  const extra = joined(at(response, "parts"));
  return extra === "" ? text : `${text}\n${extra}`;
}

function outputText(output: unknown): string {
  return typeof output === "string" ? output : joined(output) || JSON.stringify(output ?? "");
}

function joined(content: unknown): string {
  if (typeof content === "string") return content;
  return listAt({ content }, "content")
    .map((block) => textAt(block, "text"))
    .join("\n");
}
