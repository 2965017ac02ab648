/**
 * A step of a plan as what the model says: a call of one of the tools that the harness offers, or a text, both with what
 * the model has seen so far filled in.
 */

import type { Dialect, OfferedTool, Turn } from "./conversation.ts";
import type { Step } from "./plan.ts";
import type { Question } from "./question.ts";
import type { ModelCall } from "./replies.ts";
import { handleOf, nextOf } from "./shown.ts";

const LAST_CHARACTERS_MAX = 400;

/** A step as a call of one of the tools that the harness offers. */
export function callOf(step: Step, question: Question): ModelCall | null {
  const { dialect, tools, turns } = question;
  if ("text" in step) return null;
  if ("shell" in step) return shellCall(step.shell, step.escalate === true, dialect, tools);
  if ("tool" in step) {
    const namespace = step.namespace === undefined ? {} : { namespace: step.namespace };
    return { name: step.tool, ...namespace, input: filledRecord(step.input ?? {}, turns) };
  }
  return serverCall(step, question);
}

/** A call of the MCP server under test; by name alone if the harness offers it only after a search. */
function serverCall(step: Extract<Step, { mcp: string }>, { dialect, tools, turns, found }: Question): ModelCall {
  const server = found?.plan.server ?? "delegate";
  const offered = tools.find(({ name }) => name === step.mcp || name.endsWith(`_${step.mcp}`));
  const fallback: OfferedTool =
    dialect === "responses" ? { name: step.mcp, namespace: `mcp__${server}` } : { name: `mcp__${server}__${step.mcp}` };
  const next = step.follow === true ? nextOf(shownBy(turns).at(-1) ?? "") : null;
  const followed = next?.tool === step.mcp ? next.arguments : null;
  return { ...(offered ?? fallback), input: followed ?? filledRecord(step.args ?? {}, turns) };
}

function shellCall(command: string, escalate: boolean, dialect: Dialect, tools: readonly OfferedTool[]): ModelCall {
  const has = (name: string): boolean => tools.some((tool) => tool.name === name);
  const description = "run the step";
  if (dialect === "gemini") return { name: "run_shell_command", input: { command, description } };
  if (dialect !== "responses") return { name: has("Bash") ? "Bash" : "bash", input: { command, description } };
  const up = escalate ? { sandbox_permissions: "require_escalated", justification: "the step needs it" } : {};
  if (has("exec_command")) return { name: "exec_command", input: { cmd: command, ...up } };
  if (has("shell_command")) return { name: "shell_command", input: { command, ...up } };
  return { name: "shell", input: { command: ["sh", "-c", command], ...up } };
}

function filledRecord(values: Readonly<Record<string, unknown>>, turns: readonly Turn[]): Record<string, unknown> {
  return Object.fromEntries(Object.entries(values).map(([key, value]) => [key, filled(value, turns)]));
}

function filled(value: unknown, turns: readonly Turn[]): unknown {
  if (typeof value === "string") return filledText(value, turns);
  if (Array.isArray(value)) return value.map((each) => filled(each, turns));
  return typeof value === "object" && value !== null ? filledRecord({ ...value }, turns) : value;
}

/** The text of a step with what the model has seen so far filled in. */
export function filledText(text: string, turns: readonly Turn[]): string {
  const shown = shownBy(turns);
  const taskId = shown.map(handleOf).find((handle) => handle !== null)?.taskId ?? "unknown";
  const last = (shown.at(-1) ?? "").slice(0, LAST_CHARACTERS_MAX);
  return text.replaceAll("$taskId", taskId).replaceAll("{{taskId}}", taskId).replaceAll("{{last}}", last);
}

function shownBy(turns: readonly Turn[]): readonly string[] {
  return turns.filter((turn) => turn.role === "tool").map((turn) => turn.text);
}
