/**
 * docs/tools.md: the tools for those who write or read calls of them. The prose stands in `templates/tools.template`, with
 * places for what is made from the code: the tables of arguments from the input schemas, calls and answers from the running
 * engine, refusals from the list of codes.
 *
 * Invariant: every tool has all of its places in the template, and every code of a refusal is named for a tool or as kept for
 * later; else making the page fails.
 */

import { readFileSync } from "node:fs";
import path from "node:path";
import { CODES, type Code } from "../src/core/rejection.ts";
import { DESCRIPTIONS, TOOL_NAMES } from "../src/mcp/descriptions.ts";
import type { Tool } from "../src/mcp/tool.ts";
import { startTestEngine } from "../test/support/test-engine.ts";
import { exampleOf, questionExample, type ToolExample } from "./tool-examples.ts";
import { ARGUMENT_NOTES, KEPT_FOR_LATER, REFUSALS } from "./tool-notes.ts";

const TEMPLATE = path.join(import.meta.dirname, "templates", "tools.template");
const PLACE = /^\{\{(\w+)(?: (\w+))?\}\}$/gm;

export async function makeToolsPage(): Promise<string> {
  checkCodes();
  const tools = await listedTools();
  const places = new Map<string, string>([["question", fenced("text", await questionExample())]]);
  for (const tool of tools) {
    places.set(`description ${tool.name}`, quoted(DESCRIPTIONS, tool.name));
    places.set(`arguments ${tool.name}`, argumentTable(tool));
    places.set(`example ${tool.name}`, exampleText(tool.name, await exampleOf(tool.name)));
    places.set(`refusals ${tool.name}`, refusalTable(tool.name));
  }
  const used = new Set<string>();
  const page = readFileSync(TEMPLATE, "utf8").replace(PLACE, (_, kind: string, name: string | undefined) => {
    const place = name === undefined ? kind : `${kind} ${name}`;
    used.add(place);
    const text = places.get(place);
    if (text === undefined) throw new Error(`the template names ${place}, which nothing makes`);
    return text;
  });
  const unused = [...places.keys()].filter((place) => !used.has(place));
  if (unused.length > 0) throw new Error(`the template lacks a place for ${unused.join(", ")}`);
  return page;
}

async function listedTools(): Promise<readonly Tool[]> {
  await using test = await startTestEngine();
  return test.tools;
}

function checkCodes(): void {
  const named = new Set<Code>(KEPT_FOR_LATER);
  for (const tool of TOOL_NAMES) for (const [code] of refusalsOf(tool)) named.add(code);
  const missing = CODES.filter((code) => !named.has(code));
  if (missing.length > 0) throw new Error(`no tool is said to answer ${missing.join(", ")}`);
}

function refusalsOf(tool: string): readonly (readonly [Code, string])[] {
  const refusals = REFUSALS[tool];
  if (refusals === undefined) throw new Error(`no refusals for ${tool} in tool-notes.ts`);
  return refusals;
}

function quoted(descriptions: Readonly<Record<string, string>>, tool: string): string {
  return `> ${descriptions[tool] ?? ""}`;
}

function argumentTable({ name, inputSchema }: Tool): string {
  const properties = fieldsIn(inputSchema["properties"]);
  const fields = Object.entries(properties);
  if (fields.length === 0) return "No arguments.";
  const required = new Set(listIn(inputSchema["required"]));
  const rows = fields.map(([field, schema]) => {
    const notes = [textIn(fieldsIn(schema)["description"]), ARGUMENT_NOTES[name]?.[field] ?? ""];
    const says = notes.filter((note) => note !== "").join(" ");
    return `| \`${field}\`${required.has(field) ? " \\*" : ""} | ${cell(kindOf(fieldsIn(schema)))} | ${cell(says)} |`;
  });
  return ["| argument (\\* required) | value | meaning |", "|---|---|---|", ...rows].join("\n");
}

function kindOf(schema: Fields): string {
  const choices = listIn(schema["enum"]);
  if (choices.length > 0) return choices.map((choice) => `\`${choice}\``).join(", ");
  const type = textIn(schema["type"]);
  if (type === "array")
    return `list of ${plural(textIn(fieldsIn(schema["items"])["type"]))}${most(schema["maxItems"])}`;
  if (type === "object") return "record of texts";
  if (type === "boolean") return "true or false";
  if (type === "integer") return `whole number${bounds(schema["minimum"], schema["maximum"])}`;
  return `text${bounds(schema["minLength"], schema["maxLength"])}`;
}

function plural(type: string): string {
  return type === "string" ? "texts" : `${type}s`;
}

function most(max: unknown): string {
  return typeof max === "number" ? `, at most ${max}` : "";
}

/** A lower bound of 1 character goes without saying, and so does the largest whole number. */
function bounds(min: unknown, max: unknown): string {
  const least = typeof min === "number" && min > 1 ? String(min) : "";
  const upper = typeof max === "number" && max < Number.MAX_SAFE_INTEGER ? String(max) : "";
  if (least !== "" && upper !== "") return `, ${least} to ${upper}`;
  if (least !== "") return `, at least ${least}`;
  return upper === "" ? "" : `, at most ${upper}`;
}

function exampleText(tool: string, { call, answer }: ToolExample): string {
  return [
    fenced("text", `${tool} ${JSON.stringify(call)}`),
    "",
    "answers, in text:",
    "",
    fenced("text", answer.text),
    "",
    "and as `structuredContent`:",
    "",
    fenced("json", JSON.stringify(answer.structured, null, 2)),
  ].join("\n");
}

function refusalTable(tool: string): string {
  const rows = refusalsOf(tool).map(([code, when]) => `| \`${code}\` | ${cell(when)} |`);
  return ["| refusal | when |", "|---|---|", ...rows].join("\n");
}

function fenced(language: string, text: string): string {
  return `\`\`\`${language}\n${text}\n\`\`\``;
}

function cell(text: string): string {
  return text.replaceAll("|", "\\|").replaceAll("\n", " ");
}

type Fields = Readonly<Record<string, unknown>>;

function fieldsIn(value: unknown): Fields {
  return typeof value === "object" && value !== null && !Array.isArray(value) ? { ...value } : {};
}

function listIn(value: unknown): readonly string[] {
  return Array.isArray(value) ? value.map(String) : [];
}

function textIn(value: unknown): string {
  return typeof value === "string" ? value : "";
}
