/**
 * What becomes of a request `can_use_tool`: allowed by the task's level, or put to whoever may answer.
 *
 * Invariant: nothing is refused here but leaving the plan mode where the level is `plan`: the plan is the work then (P18).
 * Invariant: our own tools need no permission: that server is the only one by that name, and decides by itself.
 * Invariant: an answer holds for this one request; the rules that the agent suggests to remember are never sent back.
 * Invariant: where nobody answers, the turn ends with the refusal.
 */

import { headOf } from "../../core/excerpt.ts";
import type { Permission } from "../../core/task.ts";
import type { DriverAnswer, DriverQuestion } from "../../ports/driver.ts";
import { type Fields, fieldsIn, listIn, textIn } from "../fields.ts";
import { OWN_TOOLS } from "./claude-program.ts";
import { pathsIn } from "./claude-tools.ts";

type Ask = (question: DriverQuestion) => Promise<DriverAnswer | null>;

const ALLOW = "allow_once";
const REJECT = "reject";
const LABELS: Readonly<Record<string, string>> = { [ALLOW]: "Allow this once", [REJECT]: "Reject" };
const PROMPT_CHARACTERS_MAX = 8_000;
const ACTION_CHARACTERS_MAX = 2_000;
const QUESTIONS_MAX = 20;
const OPTIONS_MAX = 20;

const REJECTED = `This was rejected. Do not try another way to the same end: go on without it, or, if the task cannot be done without it, \
say so in your final answer.`;
const PLAN_ONLY = `This task ends with the plan. Do not carry it out: end your turn now, with the whole plan as your final answer.`;
const NOBODY = "Nobody will answer this.";

/** The answer to a request about a tool. */
export async function answerToolRequest(request: Fields, level: Permission, ask: Ask): Promise<Fields> {
  const tool = textIn(request["tool_name"]) ?? "";
  const input = fieldsIn(request["input"]);
  if (tool === "AskUserQuestion") return answerQuestions(input, ask);
  // Outside the plan mode of a task it is the agent's own, and leaving it leads back to the level's.
  if (tool === "ExitPlanMode") return level === "plan" ? refusal(PLAN_ONLY) : allowance(input);
  // Asked in spite of its rule while it plans; delegating is a matter of the task's depth, and bounded by its level.
  if (tool.startsWith(OWN_TOOLS)) return allowance(input);
  if (level === "full") return allowance(input);
  const answer = await ask(permissionQuestion(request, tool, input));
  if (answer === null) return { ...refusal(NOBODY), interrupt: true };
  return answer.kind === "option" && answer.optionId === ALLOW ? allowance(input) : refusal(REJECTED);
}

function permissionQuestion(request: Fields, tool: string, input: Fields): DriverQuestion {
  const command = textIn(input["command"]);
  const paths = [...new Set([...pathsIn(input), ...blockedPath(request)])].join(", ");
  const cut = (text: string): string => headOf(text, ACTION_CHARACTERS_MAX).toWellFormed();
  const about = [textIn(request["description"]), textIn(request["decision_reason"])];
  const words = [tool, ...about, command ?? JSON.stringify(input)].filter((text) => text !== null && text !== "");
  return {
    ask: "permission",
    optionIds: [ALLOW, REJECT],
    labels: LABELS,
    action: {
      tool: cut(tool),
      ...(command === null ? {} : { command: cut(command) }),
      ...(paths === "" ? {} : { paths: cut(paths) }),
    },
    prompt: headOf(words.join("\n"), PROMPT_CHARACTERS_MAX).toWellFormed(),
  };
}

function blockedPath(request: Fields): readonly string[] {
  const path = textIn(request["blocked_path"]);
  return path === null ? [] : [path];
}

/** The questions of one request, one after another. */
async function answerQuestions(input: Fields, ask: Ask): Promise<Fields> {
  const answers: Record<string, string> = {};
  for (const question of listIn(input["questions"]).map(fieldsIn).slice(0, QUESTIONS_MAX)) {
    const options = listIn(question["options"]).map(fieldsIn).slice(0, OPTIONS_MAX);
    const labels = Object.fromEntries(options.map(({ label }, at) => [`option_${at + 1}`, textIn(label) ?? ""]));
    const answer = await ask(openQuestion(question, options, labels));
    if (answer === null) return { ...refusal(NOBODY), interrupt: true };
    const given = answer.kind === "text" ? answer.text : (labels[answer.optionId] ?? "");
    answers[textIn(question["question"]) ?? ""] = given;
  }
  return allowance({ ...input, answers });
}

function openQuestion(
  question: Fields,
  options: readonly Fields[],
  labels: Readonly<Record<string, string>>,
): DriverQuestion {
  const described = options.map(({ label, description }) => `- ${textIn(label) ?? ""}: ${textIn(description) ?? ""}`);
  const several = question["multiSelect"] === true ? ["More than one may be chosen; answer with text then."] : [];
  const words = [textIn(question["question"]) ?? "", ...described, ...several];
  return {
    ask: "question",
    optionIds: Object.keys(labels),
    labels,
    action: {},
    prompt: headOf(words.join("\n"), PROMPT_CHARACTERS_MAX).toWellFormed(),
  };
}

function allowance(input: Fields): Fields {
  return { behavior: "allow", updatedInput: input };
}

function refusal(message: string): Fields {
  return { behavior: "deny", message };
}
