/**
 * One run of Pi as its events tell it: messages, tools, retries, usage, and how it came out.
 *
 * Invariant: the result is the text of the last message alone, as its end tells it; pieces that streamed count only if no end
 * came.
 * Invariant: the run is over when Pi says that it is settled: the end of one try may be followed by another.
 */

import { headOf } from "../../core/excerpt.ts";
import type { Usage } from "../../core/task.ts";
import type { DriverEvent } from "../../ports/driver.ts";
import { type Fields, fieldsIn, isFields, listIn, numberIn, textIn } from "../acp/acp-fields.ts";
import { createMessageText } from "../acp/message-text.ts";
import type { ProgressGate } from "../progress-gate.ts";

export type PiTurn = {
  /** From now on events belong to the run. */
  begin(): void;
  take(event: Fields): Promise<void>;
  /** Resolves when Pi will not go on by itself. */
  readonly settled: Promise<PiOutcome>;
  /** The newest text that there was. */
  partial(): string | null;
  usage(): Usage | null;
  /** True if a tool that may have changed something was begun. */
  changedSomething(): boolean;
};

export type PiOutcome = {
  readonly aborted: boolean;
  /** Of the last message; null if there was none. */
  readonly stopReason: string | null;
  readonly rawStopReason: string | null;
  readonly errorMessage: string | null;
  /** Of the last message. */
  readonly text: string | null;
};

export type PiTurnTools = {
  readonly openTools: Set<string>;
  readonly progress: ProgressGate;
  readonly report: (event: DriverEvent) => Promise<void>;
  readonly resultBytesMax: number;
};

const CONTENT_CHARACTERS_MAX = 4_000;
const INPUT_CHARACTERS_MAX = 1_000;
const NOTE_CHARACTERS_MAX = 500;
const OPEN_TOOLS_MAX = 1_000;
const HARMLESS_TOOLS = new Set(["read", "grep", "find", "ls"]);

export function createPiTurn({ openTools, progress, report, resultBytesMax }: PiTurnTools): PiTurn {
  const streamed = createMessageText(resultBytesMax);
  const settled = Promise.withResolvers<PiOutcome>();
  let begun = false;
  let changed = false;
  let last: Omit<PiOutcome, "aborted"> = { stopReason: null, rawStopReason: null, errorMessage: null, text: null };
  let newest: string | null = null;
  const used = { inputTokens: 0, outputTokens: 0, costUsd: 0 };

  const takeMessage = async (message: Fields): Promise<void> => {
    if (message["role"] !== "assistant") return progress.note(0);
    streamed.take();
    streamed.push(listIn(message["content"]).map(blockText).join(""));
    const text = streamed.take();
    last = {
      stopReason: textIn(message["stopReason"]),
      rawStopReason: textIn(message["rawStopReason"]),
      errorMessage: textIn(message["errorMessage"]),
      text,
    };
    newest = text ?? newest;
    noteUsage(fieldsIn(message["usage"]), used);
    await progress.note(0);
    if (text !== null) await report({ kind: "message", role: "child", text });
  };
  const takeTool = async (event: Fields): Promise<void> => {
    const id = textIn(event["toolCallId"]) ?? "";
    const name = textIn(event["toolName"]) ?? "tool";
    if (event["type"] === "tool_execution_end") {
      openTools.delete(id);
      await progress.note(0);
      return report({ kind: "message", role: "tool", text: toolPiece(name, inputs.take(id), event) });
    }
    const isNew = event["type"] === "tool_execution_start";
    if (isNew && openTools.size < OPEN_TOOLS_MAX) openTools.add(id);
    if (isNew) inputs.keep(id, fieldsIn(event["args"]));
    changed ||= !HARMLESS_TOOLS.has(name);
    await progress.note(isNew ? 1 : 0);
  };
  const inputs = createInputs();

  return {
    begin() {
      begun = true;
    },
    async take(event) {
      if (!begun) return progress.note(0);
      switch (event["type"]) {
        case "message_update": {
          const { type, delta } = fieldsIn(event["assistantMessageEvent"]);
          if (type === "text_delta") streamed.push(textIn(delta) ?? "");
          return progress.note(0);
        }
        case "message_end":
          return takeMessage(fieldsIn(event["message"]));
        case "tool_execution_start":
        case "tool_execution_update":
        case "tool_execution_end":
          return takeTool(event);
        case "auto_retry_start":
          await progress.note(0);
          return report({ kind: "message", role: "note", text: retryNote(event) });
        case "agent_settled":
          await progress.note(0);
          return settled.resolve({ ...last, aborted: event["aborted"] === true });
        default:
          return progress.note(0);
      }
    },
    settled: settled.promise,
    partial() {
      newest = streamed.take() ?? newest;
      return newest;
    },
    usage() {
      const { inputTokens, outputTokens, costUsd } = used;
      if (inputTokens === 0 && outputTokens === 0) return null;
      // A model without a price costs nothing that Pi knows of.
      return { inputTokens, outputTokens, costUsd: costUsd > 0 ? costUsd : null };
    },
    changedSomething: () => changed,
  };
}

function noteUsage(usage: Fields, used: { inputTokens: number; outputTokens: number; costUsd: number }): void {
  const sum = (...keys: readonly string[]): number =>
    keys.reduce((total, key) => total + (numberIn(usage[key]) ?? 0), 0);
  used.inputTokens += sum("input", "cacheRead", "cacheWrite");
  used.outputTokens += sum("output");
  used.costUsd += numberIn(fieldsIn(usage["cost"])["total"]) ?? 0;
}

type Inputs = { keep(id: string, args: Fields): void; take(id: string): string };

/** What tools were called with, until they end. */
function createInputs(): Inputs {
  const kept = new Map<string, string>();
  return {
    keep(id, args) {
      const [oldest] = kept.keys();
      if (kept.size >= OPEN_TOOLS_MAX && oldest !== undefined) kept.delete(oldest);
      const told = textIn(args["command"]) ?? textIn(args["path"]) ?? textIn(args["pattern"]) ?? "";
      kept.set(id, headOf(told, INPUT_CHARACTERS_MAX).toWellFormed());
    },
    take(id) {
      const told = kept.get(id) ?? "";
      kept.delete(id);
      return told;
    },
  };
}

/** A finished call as a piece of the conversation. */
function toolPiece(name: string, input: string, event: Fields): string {
  const content = listIn(fieldsIn(event["result"])["content"]).map(blockText).join("\n");
  const lines = [
    `${name} (${event["isError"] === true ? "failed" : "completed"})`,
    input,
    headOf(content, CONTENT_CHARACTERS_MAX).toWellFormed().trimEnd(),
  ];
  return lines.filter((line) => line !== "").join("\n");
}

function blockText(value: unknown): string {
  return isFields(value) && value["type"] === "text" ? (textIn(value["text"]) ?? "") : "";
}

function retryNote({ attempt, maxAttempts, errorMessage }: Fields): string {
  const why = headOf(textIn(errorMessage) ?? "no reason given", NOTE_CHARACTERS_MAX).toWellFormed();
  return `Pi tries again (${numberIn(attempt) ?? "?"} of ${numberIn(maxAttempts) ?? "?"}): ${why}`;
}
