/**
 * The work of one attempt as its messages tell it: what was said, which tools ran, what was spent.
 *
 * Invariant: what a helper of the agent says is a sign of life and steps, never the answer.
 */

import { headOf } from "../../core/excerpt.ts";
import type { Usage } from "../../core/task.ts";
import { type Fields, fieldsIn, listIn, numberIn, textIn } from "../fields.ts";
import type { ProgressGate } from "../progress-gate.ts";
import type { Report } from "../reporter.ts";
import type { ClaudeEnd } from "./claude-end.ts";
import { type ClaudeTools, textsIn } from "./claude-tools.ts";

export type ClaudeTurn = {
  take(message: Fields): Promise<void>;
  /** The last message that tells a failed request; empty if there was none. */
  error(): Fields;
  /** The newest text of the agent's own. */
  lastText(): string | null;
  usage(): Usage | null;
};

export type ClaudeTurnTools = {
  readonly end: ClaudeEnd;
  readonly tools: ClaudeTools;
  readonly progress: ProgressGate;
  readonly report: Report;
};

const NOTE_CHARACTERS_MAX = 500;

export function createClaudeTurn({ end, tools, progress, report }: ClaudeTurnTools): ClaudeTurn {
  const spending = createSpending();
  let error: Fields = {};
  let lastText: string | null = null;

  const takeAssistant = async (line: Fields): Promise<void> => {
    end.turnBegan();
    const { content } = fieldsIn(line["message"]);
    const calls = blocksIn(content, "tool_use");
    for (const call of calls) tools.begin(call);
    await progress.note(calls.length);
    if (textIn(line["parent_tool_use_id"]) !== null) return;
    if (line["is_api_error_message"] === true) {
      error = line;
      return;
    }
    const text = textsIn(content).join("\n");
    if (text.trim() === "") return;
    lastText = text;
    await report({ kind: "message", role: "child", text });
  };
  const takeUser = async (line: Fields): Promise<void> => {
    const results = blocksIn(fieldsIn(line["message"])["content"], "tool_result");
    const pieces = results.map((block) => tools.finish(block)).filter((piece) => piece !== null);
    await progress.note(0);
    for (const text of pieces) await report({ kind: "message", role: "tool", text });
  };
  const takeSystem = async (line: Fields): Promise<void> => {
    const { subtype } = line;
    if (subtype === "init") end.turnBegan();
    if (subtype === "background_tasks_changed") end.backgroundChanged(line);
    await progress.note(0);
    const text = noteOf(line);
    if (text !== null) await report({ kind: "message", role: "note", text: headOf(text, NOTE_CHARACTERS_MAX) });
  };
  const takeResult = async (line: Fields): Promise<void> => {
    spending.take(line);
    await progress.note(0);
    end.turnEnded(line);
  };
  return {
    async take(line) {
      const { type } = line;
      if (type === "assistant") return takeAssistant(line);
      if (type === "user") return takeUser(line);
      if (type === "system") return takeSystem(line);
      return type === "result" ? takeResult(line) : progress.note(0);
    },
    error: () => error,
    lastText: () => lastText,
    usage: spending.usage,
  };
}

function blocksIn(content: unknown, type: string): readonly Fields[] {
  return listIn(content)
    .map(fieldsIn)
    .filter((block) => block["type"] === type);
}

/** What of a `system` line belongs into the conversation. */
function noteOf(line: Fields): string | null {
  if (line["subtype"] === "api_retry") return retryNote(line);
  return line["subtype"] === "init" ? serversNote(line) : null;
}

function retryNote(line: Fields): string {
  const cause = [numberIn(line["error_status"]), textIn(line["error"])].filter((part) => part !== null).join(" ");
  const delaySeconds = ((numberIn(line["retry_delay_ms"]) ?? 0) / 1_000).toFixed(1);
  const count = `${numberIn(line["attempt"])} of ${numberIn(line["max_retries"])}`;
  return `A request to the model failed (${cause}). Claude Code tries again in ${delaySeconds} s: ${count}.`;
}

/** Null unless a tool server that it was given is not there. */
function serversNote(line: Fields): string | null {
  const missing = listIn(line["mcp_servers"])
    .map(fieldsIn)
    .filter(({ status }) => status === "failed" || status === "needs-auth")
    .map(({ name, status }) => `${textIn(name)} (${textIn(status)})`);
  return missing.length === 0 ? null : `Tool servers that Claude Code has no connection to: ${missing.join(", ")}.`;
}

type Spending = { take(result: Fields): void; usage(): Usage | null };

const INPUT_KINDS = ["inputTokens", "cacheReadInputTokens", "cacheCreationInputTokens"];

/** Tokens and cost since the attempt began: a resumed session's totals hold what was spent before. */
function createSpending(): Spending {
  let total: { inputTokens: number; outputTokens: number; costUsd: number } | null = null;
  return {
    take(result) {
      for (const model of Object.values(fieldsIn(result["model_usage_since_last_result"])).map(fieldsIn)) {
        total ??= { inputTokens: 0, outputTokens: 0, costUsd: 0 };
        total.inputTokens += INPUT_KINDS.reduce((sum, kind) => sum + (numberIn(model[kind]) ?? 0), 0);
        total.outputTokens += numberIn(model["outputTokens"]) ?? 0;
        total.costUsd += numberIn(model["costUSD"]) ?? 0;
      }
    },
    usage: () => total,
  };
}
