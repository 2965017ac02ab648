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
import { type Fields, fieldsIn, listIn, numberIn, textIn } from "../fields.ts";
import { createMessageText } from "../message-text.ts";
import type { ProgressGate } from "../progress-gate.ts";
import { blockText, type PiTools } from "./pi-tools.ts";

export type PiTurn = {
  /** From now on events belong to the run. */
  begin(): void;
  take(event: Fields): Promise<void>;
  /** Resolves when Pi will not go on by itself. */
  readonly settled: Promise<PiOutcome>;
  /** The newest text that there was. */
  partial(): string | null;
  usage(): Usage | null;
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
  readonly calls: PiTools;
  readonly progress: ProgressGate;
  readonly report: (event: DriverEvent) => Promise<void>;
  readonly resultBytesMax: number;
};

const NOTE_CHARACTERS_MAX = 500;

export function createPiTurn({ calls, progress, report, resultBytesMax }: PiTurnTools): PiTurn {
  const streamed = createMessageText(resultBytesMax);
  const settled = Promise.withResolvers<PiOutcome>();
  let begun = false;
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
    const { isNew, finished } = calls.take(event);
    await progress.note(isNew ? 1 : 0);
    if (finished !== null) await report({ kind: "message", role: "tool", text: finished });
  };

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
  };
}

function noteUsage(usage: Fields, used: { inputTokens: number; outputTokens: number; costUsd: number }): void {
  const sum = (...keys: readonly string[]): number =>
    keys.reduce((total, key) => total + (numberIn(usage[key]) ?? 0), 0);
  used.inputTokens += sum("input", "cacheRead", "cacheWrite");
  used.outputTokens += sum("output");
  used.costUsd += numberIn(fieldsIn(usage["cost"])["total"]) ?? 0;
}

function retryNote({ attempt, maxAttempts, errorMessage }: Fields): string {
  const why = headOf(textIn(errorMessage) ?? "no reason given", NOTE_CHARACTERS_MAX).toWellFormed();
  return `Pi tries again (${numberIn(attempt) ?? "?"} of ${numberIn(maxAttempts) ?? "?"}): ${why}`;
}
