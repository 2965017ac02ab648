/**
 * One turn as the app server tells it: messages, work, usage, retries, the end.
 *
 * Invariant: the result is the last whole message since the last work began; a message that a retry broke off is told, but is no
 * result.
 * Invariant: what comes before the turn began, and what other threads of the agent do, is a sign of life, no step and no text.
 */

import type { Usage } from "../../core/task.ts";
import { type Fields, fieldsIn, numberIn, textIn } from "../acp/acp-fields.ts";
import { createMessageText } from "../acp/message-text.ts";
import type { ProgressGate } from "../progress-gate.ts";
import type { Report } from "../reporter.ts";
import type { CodexItems } from "./codex-items.ts";

export type CodexTurn = {
  /** From now on what the thread does belongs to the turn. `isNew`: the thread had none before. */
  begin(threadId: string, isNew: boolean): void;
  take(method: string, params: Fields): Promise<void>;
  /** Its id, once known. */
  id(): string | null;
  /** The turn as it was told at its end. */
  readonly completed: Promise<Fields>;
  /** Nothing more belongs to the turn. `last`: the result if it ended well; `partial`: the newest text that there was. */
  end(): Promise<{ readonly last: string | null; readonly partial: string | null }>;
  usage(): Usage | null;
  /** The account's limits, as far as they were told. */
  limits(): Fields;
};

export type CodexTurnTools = {
  readonly items: CodexItems;
  readonly progress: ProgressGate;
  readonly report: Report;
  readonly resultBytesMax: number;
};

const NOTES_MAX = 100;
const NOTE_CHARACTERS_MAX = 2_000;

export function createCodexTurn({ items, progress, report, resultBytesMax }: CodexTurnTools): CodexTurn {
  const message = createMessageText(resultBytesMax);
  const completed = Promise.withResolvers<Fields>();
  const noted = new Set<string>();
  let thread: string | null = null;
  let turnId: string | null = null;
  let messageId: string | null = null;
  let last: string | null = null;
  let partial: string | null = null;
  let totalBefore: Fields | null = null;
  let total: Fields | null = null;
  let limits: Fields = {};

  const sayMessage = async (): Promise<string | null> => {
    const text = message.take();
    messageId = null;
    if (text === null) return null;
    partial = text;
    await report({ kind: "message", role: "child", text });
    return text;
  };
  const note = async (text: string): Promise<void> => {
    await progress.note(0);
    const cut = text.slice(0, NOTE_CHARACTERS_MAX).toWellFormed();
    if (noted.has(cut) || noted.size >= NOTES_MAX) return;
    noted.add(cut);
    await report({ kind: "message", role: "note", text: cut });
  };
  const takeDelta = async ({ itemId, delta }: Fields): Promise<void> => {
    if (itemId !== messageId) await sayMessage();
    messageId = textIn(itemId);
    message.push(textIn(delta) ?? "");
    await progress.note(0);
  };
  const takeStarted = async (item: Fields): Promise<void> => {
    const isNew = items.started(item);
    if (isNew) {
      await sayMessage();
      last = null;
    }
    await progress.note(isNew ? 1 : 0);
  };
  const takeCompleted = async (item: Fields): Promise<void> => {
    if (item["type"] === "agentMessage") {
      // Whole here; what came of it before was a part.
      if (messageId === item["id"]) message.take();
      else await sayMessage();
      message.push(textIn(item["text"]) ?? "");
      last = (await sayMessage()) ?? last;
      return progress.note(0);
    }
    const told = items.completed(item);
    if (told?.isNew === true) {
      await sayMessage();
      last = null;
    }
    await progress.note(told?.isNew === true ? 1 : 0);
    if (told !== null) await report({ kind: "message", role: "tool", text: told.piece });
  };
  const takeUsage = (params: Fields): void => {
    const sum = fieldsIn(fieldsIn(params["tokenUsage"])["total"]);
    if (thread === null || (turnId !== null && params["turnId"] !== turnId)) totalBefore = sum;
    else total = sum;
  };
  /** What the thread tells of its turn. */
  const takeOwn = async (method: string, params: Fields): Promise<void> => {
    switch (method) {
      case "turn/started":
        turnId ??= textIn(fieldsIn(params["turn"])["id"]);
        return progress.note(0);
      case "item/agentMessage/delta":
        return takeDelta(params);
      case "item/started":
        return takeStarted(fieldsIn(params["item"]));
      case "item/completed":
        return takeCompleted(fieldsIn(params["item"]));
      case "error":
        return params["willRetry"] === true ? note(retryNote(fieldsIn(params["error"]))) : progress.note(0);
      case "turn/completed":
        await progress.note(0);
        completed.resolve(fieldsIn(params["turn"]));
        return;
      default:
        return progress.note(0);
    }
  };
  return {
    begin(threadId, isNew) {
      thread = threadId;
      if (isNew) totalBefore = {};
    },
    async take(method, params) {
      if (method === "thread/tokenUsage/updated") takeUsage(params);
      if (method === "account/rateLimits/updated")
        limits = { ...limits, ...withoutNulls(fieldsIn(params["rateLimits"])) };
      const general = generalNote(method, params);
      if (general !== null) return note(general);
      const own = thread !== null && params["threadId"] === thread;
      return own ? takeOwn(method, params) : progress.note(0);
    },
    id: () => turnId,
    completed: completed.promise,
    async end() {
      thread = null;
      const broken = await sayMessage();
      return { last: broken === null ? last : null, partial };
    },
    usage() {
      if (total === null || totalBefore === null) return null;
      return {
        inputTokens: spent("inputTokens", total, totalBefore),
        outputTokens: spent("outputTokens", total, totalBefore),
        costUsd: null,
      };
    },
    limits: () => limits,
  };
}

function spent(name: string, total: Fields, before: Fields): number | null {
  const now = numberIn(total[name]);
  return now === null ? null : Math.max(0, now - (numberIn(before[name]) ?? 0));
}

/** Codex tries again by itself. */
function retryNote({ message, additionalDetails }: Fields): string {
  return [message, additionalDetails].flatMap((text) => textIn(text) ?? []).join(" ");
}

/** What Codex says beside its turns; null if it is nothing to be told. */
function generalNote(method: string, params: Fields): string | null {
  switch (method) {
    case "warning":
    case "guardianWarning":
      return textIn(params["message"]);
    case "configWarning":
      return textIn(params["summary"]);
    case "mcpServer/startupStatus/updated":
      if (params["status"] !== "failed") return null;
      return `MCP server ${textIn(params["name"]) ?? ""} did not start: ${textIn(params["error"]) ?? "no reason given"}`;
    case "model/rerouted":
      return `Codex changed the model from ${textIn(params["fromModel"]) ?? ""} to ${textIn(params["toModel"]) ?? ""}.`;
    default:
      return null;
  }
}

function withoutNulls(fields: Fields): Fields {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== null));
}
