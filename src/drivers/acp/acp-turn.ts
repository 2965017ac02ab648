/**
 * One turn as it is told by `session/update`: the child's messages, its tools, its usage.
 *
 * Invariant: the result is the text of the last message alone: since the last tool call, or since the message id changed.
 * Retries concatenate and adapters inject, so all chunks together are no answer.
 * Invariant: what comes before the turn began (a session's replay) is a sign of life, no step and no text.
 */

import type { Usage } from "../../core/task.ts";
import type { DriverEvent } from "../../ports/driver.ts";
import type { ProgressGate } from "../progress-gate.ts";
import { type Fields, fieldsIn, numberIn, textIn } from "../fields.ts";
import { contentBlockText, type ToolCalls, toolPiece } from "./acp-tools.ts";
import { createMessageText } from "../message-text.ts";

export type Turn = {
  /** From now on updates belong to the turn. `resumed`: the session had turns before. */
  begin(sessionId: string, resumed: boolean): void;
  /** The parameters of a `session/update`. */
  take(params: Fields): Promise<void>;
  /** Nothing more belongs to the turn. */
  end(): Promise<TurnText>;
  /** `answer`: that of the prompt, if there was one. */
  usage(answer: Fields): Usage | null;
};

/** `last`: the last message, the result if the turn ended well; `partial`: the newest text that there was. */
export type TurnText = { readonly last: string | null; readonly partial: string | null };

export type TurnTools = {
  readonly calls: ToolCalls;
  readonly progress: ProgressGate;
  readonly report: (event: DriverEvent) => Promise<void>;
  readonly resultBytesMax: number;
};

export function createTurn({ calls, progress, report, resultBytesMax }: TurnTools): Turn {
  const message = createMessageText(resultBytesMax);
  let session: string | null = null;
  let messageId: string | null = null;
  let partial: string | null = null;
  /** Of the session, before the turn; null if it had turns and nobody told. */
  let costBefore: number | null = null;
  let cost: number | null = null;

  /** The message is complete. */
  const endMessage = async (): Promise<string | null> => {
    const text = message.take();
    messageId = null;
    if (text === null) return null;
    partial = text;
    await report({ kind: "message", role: "child", text });
    return text;
  };
  const takeChunk = async (update: Fields): Promise<void> => {
    const id = textIn(update["messageId"]);
    if (id !== null && id !== messageId) await endMessage();
    messageId = id ?? messageId;
    message.push(contentBlockText(update["content"]));
    await progress.note(0);
  };
  const takeTool = async (update: Fields): Promise<void> => {
    const { isNew, finished } = calls.take(update);
    if (isNew) await endMessage();
    await progress.note(isNew ? 1 : 0);
    if (finished !== null) await report({ kind: "message", role: "tool", text: toolPiece(finished) });
  };
  return {
    begin(sessionId, resumed) {
      session = sessionId;
      costBefore = cost ?? (resumed ? null : 0);
      cost = null;
    },
    async take(params) {
      const update = fieldsIn(params["update"]);
      const kind = update["sessionUpdate"];
      if (kind === "usage_update") cost = dollarsIn(update["cost"]) ?? cost;
      if (session === null || params["sessionId"] !== session) return progress.note(0);
      if (kind === "agent_message_chunk") return takeChunk(update);
      if (kind === "tool_call" || kind === "tool_call_update") return takeTool(update);
      return progress.note(0);
    },
    async end() {
      session = null;
      const last = await endMessage();
      return { last, partial: last ?? partial };
    },
    usage(answer) {
      const tokens = fieldsIn(answer["usage"]);
      const inputTokens = numberIn(tokens["inputTokens"]);
      const outputTokens = numberIn(tokens["outputTokens"]);
      const costUsd = cost === null || costBefore === null ? null : Math.max(0, cost - costBefore);
      return inputTokens === null && outputTokens === null && costUsd === null
        ? null
        : { inputTokens, outputTokens, costUsd };
    },
  };
}

/** A session's cost so far. */
function dollarsIn(value: unknown): number | null {
  const { amount, currency } = fieldsIn(value);
  return currency === "USD" ? numberIn(amount) : null;
}
