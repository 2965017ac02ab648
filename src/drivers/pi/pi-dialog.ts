/**
 * What an extension of Pi asks its user: put to whoever may answer a child, and answered in Pi's form.
 *
 * Invariant: without an answer a dialog is cancelled, which extensions take for a no.
 * Absent on purpose: notices, status lines and titles; they ask nothing.
 */

import { headOf } from "../../core/excerpt.ts";
import type { DriverAnswer, DriverQuestion } from "../../ports/driver.ts";
import { type Fields, listIn, textIn } from "../fields.ts";

const PROMPT_CHARACTERS_MAX = 4_000;
const ACTION_CHARACTERS_MAX = 500;
const OPTIONS_MAX = 50;

/** Null if it asks nothing. */
export function dialogIn(request: Fields): DriverQuestion | null {
  const method = textIn(request["method"]) ?? "";
  const title = textIn(request["title"]) ?? "";
  const more = textIn(request["message"]) ?? textIn(request["placeholder"]) ?? textIn(request["prefill"]) ?? "";
  const prompt = headOf([title, more].filter((text) => text !== "").join("\n"), PROMPT_CHARACTERS_MAX).toWellFormed();
  const question = { action: actionOf(method, title, more), prompt };
  switch (method) {
    case "confirm":
      return { ...question, ask: "permission", optionIds: ["yes", "no"], labels: { yes: "Yes", no: "No" } };
    case "select":
      return { ...question, ask: "permission", ...choicesIn(request) };
    case "input":
    case "editor":
      return { ...question, ask: "question", optionIds: [], labels: {} };
    default:
      return null;
  }
}

/** The record that answers the request. */
export function dialogAnswer(request: Fields, answer: DriverAnswer | null): Fields {
  const head = { type: "extension_ui_response", id: request["id"] };
  if (answer === null) return { ...head, cancelled: true };
  if (answer.kind === "text") return { ...head, value: answer.text };
  if (request["method"] === "confirm") return { ...head, confirmed: answer.optionId === "yes" };
  const value = textIn(listIn(request["options"])[Number(answer.optionId)]);
  return value === null ? { ...head, cancelled: true } : { ...head, value };
}

function choicesIn(request: Fields): Pick<DriverQuestion, "optionIds" | "labels"> {
  const choices = listIn(request["options"])
    .slice(0, OPTIONS_MAX)
    .map((option, at) => [String(at), headOf(textIn(option) ?? "", ACTION_CHARACTERS_MAX).toWellFormed()] as const);
  return { optionIds: choices.map(([id]) => id), labels: Object.fromEntries(choices) };
}

function actionOf(method: string, title: string, more: string): DriverQuestion["action"] {
  const cut = (text: string): string => headOf(text, ACTION_CHARACTERS_MAX).toWellFormed();
  return { tool: cut(`extension: ${method}`), ...(more === "" ? {} : { request: cut(`${title}: ${more}`) }) };
}
