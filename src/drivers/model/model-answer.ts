/**
 * One streamed answer, put together event by event, in either dialect.
 *
 * Invariant: an answer is complete only by the provider's own word (`message_stop`, `finish_reason`); text alone is never one.
 * Invariant: what the model thinks is a sign of life, no text.
 */

import type { FaultEvidence } from "../../core/failure.ts";
import type { Usage } from "../../core/task.ts";
import type { ModelEndpoint } from "../../ports/settings.ts";
import { type Fields, fieldsIn, isFields, listIn, numberIn, textIn } from "../fields.ts";
import { createMessageText } from "../message-text.ts";
import { errorEvidence } from "./model-evidence.ts";

export type ModelAnswer = {
  /** Takes in the data of one event; what is no event of the dialect changes nothing. */
  take(data: string): Taken;
  /** The provider's last word; null: it has not said one. */
  stopReason(): string | null;
  /** What there is of the text; null unless something is to be seen. Once. */
  text(): string | null;
  usage(): Usage | null;
};

export type Taken =
  | { readonly kind: "more" }
  /** The answer is complete; `rest`: its usage may follow. */
  | { readonly kind: "complete"; readonly rest: boolean }
  | { readonly kind: "error"; readonly fault: FaultEvidence };

const MORE: Taken = { kind: "more" };
/** Where the dialects have names of their own for what every driver says alike. */
const STOP_REASONS: Readonly<Record<string, string>> = {
  end_turn: "stop",
  stop_sequence: "stop",
  length: "max_tokens",
  model_context_window_exceeded: "max_tokens",
  content_filter: "refusal",
};

type Draft = {
  push(text: string): void;
  stopReason: string | null;
  inputTokens: number | null;
  outputTokens: number | null;
};

export function createModelAnswer(api: ModelEndpoint["api"], textBytesMax: number): ModelAnswer {
  const message = createMessageText(textBytesMax);
  const draft: Draft = { push: message.push, stopReason: null, inputTokens: null, outputTokens: null };
  const takeEvent = api === "anthropic" ? takeAnthropic : takeOpenai;
  return {
    take(data) {
      if (data.trim() === "[DONE]") return draft.stopReason === null ? MORE : { kind: "complete", rest: false };
      const event = parse(data);
      if (isFields(event["error"])) return { kind: "error", fault: errorEvidence(event["error"]) };
      return takeEvent(event, draft);
    },
    stopReason: () => (draft.stopReason === null ? null : (STOP_REASONS[draft.stopReason] ?? draft.stopReason)),
    text: message.take,
    usage() {
      const { inputTokens, outputTokens } = draft;
      return inputTokens === null && outputTokens === null ? null : { inputTokens, outputTokens, costUsd: null };
    },
  };
}

function takeAnthropic(event: Fields, draft: Draft): Taken {
  switch (event["type"]) {
    case "message_start":
      noteUsage(fieldsIn(fieldsIn(event["message"])["usage"]), draft);
      return MORE;
    case "content_block_start":
      draft.push(textIn(fieldsIn(event["content_block"])["text"]) ?? "");
      return MORE;
    case "content_block_delta":
      draft.push(textIn(fieldsIn(event["delta"])["text"]) ?? "");
      return MORE;
    case "message_delta":
      noteUsage(fieldsIn(event["usage"]), draft);
      draft.stopReason = textIn(fieldsIn(event["delta"])["stop_reason"]) ?? draft.stopReason;
      return MORE;
    case "message_stop":
      return { kind: "complete", rest: false };
    default:
      return MORE;
  }
}

/** Numbers of a later event replace those of an earlier one; what was read from a cache was read, too. */
function noteUsage(usage: Fields, draft: Draft): void {
  const read = ["input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens"].map((key) =>
    numberIn(usage[key]),
  );
  if (read[0] !== null) draft.inputTokens = read.reduce<number>((sum, tokens) => sum + (tokens ?? 0), 0);
  draft.outputTokens = numberIn(usage["output_tokens"]) ?? draft.outputTokens;
}

function takeOpenai(event: Fields, draft: Draft): Taken {
  const usage = fieldsIn(event["usage"]);
  draft.inputTokens = numberIn(usage["prompt_tokens"]) ?? draft.inputTokens;
  draft.outputTokens = numberIn(usage["completion_tokens"]) ?? draft.outputTokens;
  const choice = fieldsIn(listIn(event["choices"])[0]);
  const delta = fieldsIn(choice["delta"]);
  draft.push(textIn(delta["content"]) ?? "");
  const refusal = textIn(delta["refusal"]) ?? "";
  draft.push(refusal);
  if (refusal !== "") draft.stopReason = "refusal";
  const reason = textIn(choice["finish_reason"]);
  if (reason === null || reason === "") return MORE;
  // A refusal in words ends with an ordinary `stop`.
  draft.stopReason ??= reason;
  return { kind: "complete", rest: true };
}

function parse(data: string): Fields {
  try {
    return fieldsIn(JSON.parse(data));
  } catch {
    return {};
  }
}
