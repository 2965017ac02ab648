/**
 * One turn as the app server tells it: messages, work, usage, retries, the end.
 *
 * Invariant: the result is the last whole message since the last work began; a message that a retry broke off is told, but is no
 * result.
 * Invariant: what comes before the turn began, and what other threads of the agent do, is a sign of life, no step and no text.
 */

import type { Usage } from "../../core/task.ts";
import { type Fields, fieldsIn, numberIn, textIn } from "../fields.ts";
import { createMessageText } from "../message-text.ts";
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
  /** Nothing more belongs to the turn. */
  end(): Promise<TurnText>;
  usage(): Usage | null;
  /** The account's limits, as far as they were told. */
  limits(): Fields;
};

/** `last`: the last message, the result if the turn ended well; `partial`: the newest text that there was. */
export type TurnText = { readonly last: string | null; readonly partial: string | null };

export type CodexTurnTools = {
  readonly items: CodexItems;
  readonly progress: ProgressGate;
  readonly report: Report;
  readonly resultBytesMax: number;
};

const NOTES_MAX = 100;
const NOTE_CHARACTERS_MAX = 2_000;

export function createCodexTurn({ items, progress, report, resultBytesMax }: CodexTurnTools): CodexTurn {
  const messages = createMessages(report, resultBytesMax);
  const notes = createNotes(report);
  const completed = Promise.withResolvers<Fields>();
  let thread: string | null = null;
  let turnId: string | null = null;
  let totalBefore: Fields | null = null;
  let total: Fields | null = null;
  let limits: Fields = {};

  const takeItem = async (method: string, item: Fields): Promise<void> => {
    if (item["type"] === "agentMessage") {
      if (method === "item/completed") await messages.takeWhole(item);
      return progress.note(0);
    }
    const done = method === "item/completed" ? items.completed(item) : null;
    const isNew = done === null ? method === "item/started" && items.started(item) : done.isNew;
    if (isNew) await messages.workBegins();
    await progress.note(isNew ? 1 : 0);
    if (done !== null) await report({ kind: "message", role: "tool", text: done.piece });
  };
  /** What the thread tells of its turn. */
  const takeOwn = async (method: string, params: Fields): Promise<void> => {
    if (method === "item/started" || method === "item/completed") return takeItem(method, fieldsIn(params["item"]));
    if (method === "turn/started") turnId ??= textIn(fieldsIn(params["turn"])["id"]);
    if (method === "item/agentMessage/delta") await messages.takeDelta(params);
    if (method === "error" && params["willRetry"] === true) await notes.say(retryNote(fieldsIn(params["error"])));
    await progress.note(0);
    if (method === "turn/completed") completed.resolve(fieldsIn(params["turn"]));
  };
  /** What is told of the account and of the thread as a whole. */
  const takeSums = (method: string, params: Fields): void => {
    if (method === "account/rateLimits/updated")
      limits = { ...limits, ...withoutNulls(fieldsIn(params["rateLimits"])) };
    if (method !== "thread/tokenUsage/updated") return;
    const sum = fieldsIn(fieldsIn(params["tokenUsage"])["total"]);
    if (thread === null || (turnId !== null && params["turnId"] !== turnId)) totalBefore = sum;
    else total = sum;
  };
  return {
    begin(threadId, isNew) {
      thread = threadId;
      if (isNew) totalBefore = {};
    },
    async take(method, params) {
      if (thread !== null && params["threadId"] === thread) {
        takeSums(method, params);
        await takeOwn(method, params);
      } else {
        // The sums of a thread that was taken up come before its turn.
        if (thread === null || params["threadId"] === undefined) takeSums(method, params);
        await progress.note(0);
      }
      const general = generalNote(method, params);
      if (general !== null) await notes.say(general);
    },
    id: () => turnId,
    completed: completed.promise,
    async end() {
      thread = null;
      return messages.end();
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

type Messages = {
  takeDelta(params: Fields): Promise<void>;
  /** A message item that is complete. */
  takeWhole(item: Fields): Promise<void>;
  workBegins(): Promise<void>;
  end(): Promise<TurnText>;
};

function createMessages(report: Report, bytesMax: number): Messages {
  const message = createMessageText(bytesMax);
  let openId: string | null = null;
  let last: string | null = null;
  let partial: string | null = null;

  const say = async (): Promise<string | null> => {
    const text = message.take();
    openId = null;
    if (text === null) return null;
    partial = text;
    await report({ kind: "message", role: "child", text });
    return text;
  };
  return {
    async takeDelta({ itemId, delta }) {
      if (itemId !== openId) await say();
      openId = textIn(itemId);
      message.push(textIn(delta) ?? "");
    },
    async takeWhole({ id, text }) {
      // It holds what came of it before.
      if (openId === id) message.take();
      else await say();
      message.push(textIn(text) ?? "");
      last = (await say()) ?? last;
    },
    async workBegins() {
      await say();
      last = null;
    },
    async end() {
      const broken = await say();
      return { last: broken === null ? last : null, partial };
    },
  };
}

/** Each note once: Codex repeats its warnings in every turn. */
function createNotes(report: Report): { say(text: string): Promise<void> } {
  const said = new Set<string>();
  return {
    async say(text) {
      const cut = text.slice(0, NOTE_CHARACTERS_MAX).toWellFormed();
      if (said.has(cut) || said.size >= NOTES_MAX) return;
      said.add(cut);
      await report({ kind: "message", role: "note", text: cut });
    },
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
