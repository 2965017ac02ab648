/**
 * What every answer of every tool has to be, whatever it is about (contract §5, §6): asserted for each answer that a test
 * gets, so that no path is left out.
 *
 * Invariant: knows the contract, not the code: order of keys, codes and kinds are written out here again.
 */

import { AjvJsonSchemaValidator } from "@modelcontextprotocol/sdk/validation/ajv";
import { expect } from "vitest";
import { at, textAt } from "./json.ts";

/** A tool as it is listed. */
export type ListedTool = {
  readonly name: string;
  readonly inputSchema: Readonly<Record<string, unknown>>;
  readonly outputSchema?: Readonly<Record<string, unknown>>;
};

/** An answer as a client gets it. */
export type CheckedAnswer = {
  readonly text: string;
  readonly structured: Readonly<Record<string, unknown>>;
  readonly isError: boolean;
};

export type AnswerCheck = (tool: string, answer: CheckedAnswer) => void;

const CHARACTERS_MAX = 10_000;

const KEYS_IN_ORDER =
  "say next status phase taskId childThreadId nodeId created replayedAgeMs waitEnded settlement question problem outcome stop workspace queue activity earlierRun title agent createdAt thisConversation usage continuable otherLive sharedWith conflictsWith error related tasks counts messages events agents limits nextCursor pendingCompletions pendingCount meta fromChild".split(
    " ",
  );

const KINDS = "wait use_result answer continue repeat_same_call choose_key fix ask_user do_it_yourself".split(" ");

/** The codes for which `isError` is set; for every other it is not. */
const ERROR_CODES = new Set(
  "invalid_arguments missing_client_request_id unknown_task unknown_thread unknown_agent storage_unavailable internal".split(
    " ",
  ),
);

const TERMINAL = new Set(["completed", "failed", "cancelled"]);

/** Makes the check for a list of tools. */
export function createAnswerCheck(tools: readonly ListedTool[]): AnswerCheck {
  const outputs = new Map(tools.map((tool) => [tool.name, validatorOf(tool.outputSchema ?? {})]));
  const inputs = new Map(tools.map((tool) => [tool.name, validatorOf(tool.inputSchema)]));

  return (tool, answer) => {
    const { structured, text } = answer;
    const valid = outputs.get(tool)?.(structured);
    expect(valid, `${tool}: structured content and its schema`).toMatchObject({ valid: true });
    expect(text.length, "characters of the text form").toBeLessThanOrEqual(CHARACTERS_MAX);
    expect(JSON.stringify(structured).length, "characters of the object").toBeLessThanOrEqual(CHARACTERS_MAX);
    expect(emptyPaths(structured)).toEqual([]);
    checkOrder(structured);
    for (const item of itemsOf(structured)) checkOrder(item);
    checkNext(structured["next"], inputs);
    checkHandle(structured, text);
    checkOutcome(tool, answer);
    const ours = outsideFences(text);
    expect(ours.split("\n")[0], "the text begins with what the object says").toBe(textAt(structured, "say"));
    expect(ours.split("\n").filter((line) => line.startsWith("NEXT: ")).length).toBeGreaterThanOrEqual(1);
    expect(`${text}${JSON.stringify(structured)}`).not.toMatch(/timed out/i);
  };
}

const validator = new AjvJsonSchemaValidator();
/** Compiling a schema takes longer than most tests. */
const compiled = new Map<string, Validator>();

type Validator = (input: unknown) => { readonly valid: boolean };

function validatorOf(schema: Readonly<Record<string, unknown>>): Validator {
  const text = JSON.stringify(schema);
  const known = compiled.get(text) ?? validator.getValidator({ ...schema });
  compiled.set(text, known);
  return known;
}

/** The text form without what children wrote. */
export function outsideFences(text: string): string {
  return text.replaceAll(/^--- from the child (\w+):.*\n[\s\S]*?^--- end \1\b.*$/gm, "");
}

/** Paths of null and undefined values: absent means none. */
function emptyPaths(value: unknown, path = ""): readonly string[] {
  if (value === null || value === undefined) return [path];
  if (typeof value !== "object") return [];
  return Object.entries(value).flatMap(([name, field]) => emptyPaths(field, `${path}/${name}`));
}

function checkOrder(item: object): void {
  const keys = Object.keys(item);
  expect(
    keys.filter((key) => !KEYS_IN_ORDER.includes(key)),
    "fields that the contract does not know",
  ).toEqual([]);
  expect(keys).toEqual(KEYS_IN_ORDER.filter((key) => keys.includes(key)));
}

function itemsOf(structured: Readonly<Record<string, unknown>>): readonly object[] {
  const { tasks } = structured;
  return Array.isArray(tasks) ? tasks.filter((item) => typeof item === "object") : [];
}

type Validators = ReadonlyMap<string, Validator>;

/** A call that is named exists, and its arguments are complete but for what `add` names. */
function checkNext(next: unknown, inputs: Validators): void {
  const kind = textAt(next, "kind");
  expect(KINDS).toContain(kind);
  const tool = textAt(next, "tool");
  const given = at(next, "arguments");
  if (kind === "use_result") expect(Object.keys(Object(next))).toEqual(["kind"]);
  if (["wait", "continue", "repeat_same_call", "choose_key"].includes(kind)) expect(tool).not.toBe("");
  if (tool === "") return;
  const validate = inputs.get(tool);
  expect(validate, `the tool that next names: ${tool}`).toBeDefined();
  if (kind === "answer") {
    const add = at(next, "add");
    expect([["optionId"], ["text"]]).toContainEqual(add);
    const complete = { ...Object(given), [String(add)]: "x" };
    expect(validate?.(complete), JSON.stringify(next)).toMatchObject({ valid: true });
  }
  if (given !== undefined) expect(validate?.(given), JSON.stringify(next)).toMatchObject({ valid: true });
  if (kind === "wait" || kind === "continue") expect(given).toBeDefined();
}

/** All three ids or none, and in the text too. */
function checkHandle(structured: Readonly<Record<string, unknown>>, text: string): void {
  const { taskId, childThreadId, nodeId } = structured;
  if (taskId === undefined) {
    expect([childThreadId, nodeId, structured["status"], structured["phase"]]).toEqual(Array(4).fill(undefined));
    return;
  }
  expect(taskId).toMatch(/^dt_[0-9A-Z]{26}$/);
  expect(childThreadId).toMatch(/^th_[0-9A-Z]{26}$/);
  expect(nodeId).toBe(`node:delegated-task:${String(taskId)}`);
  expect(outsideFences(text)).toContain(`task ${String(taskId)} · thread ${String(childThreadId)} · ${String(nodeId)}`);
}

function checkOutcome(tool: string, { structured, isError }: CheckedAnswer): void {
  const code = at(structured, "error", "code");
  expect(isError, `isError with code ${String(code)}`).toBe(typeof code === "string" && ERROR_CODES.has(code));
  const starts = tool === "delegate_task" || tool === "task_continue";
  expect("created" in structured, "created belongs to delegate and continue").toBe(starts);
  // A refusal about a task shows its handle and status, not how it ended.
  if (code === undefined && TERMINAL.has(textAt(structured, "status"))) {
    expect(textAt(structured, "stop", "proof"), "ended means stopped").not.toBe("");
    expect(structured["phase"]).toBe("settled");
  }
}
