/**
 * What the tools have in common: the reply, invalid arguments, and how long a call may be held.
 */

import type { Caller } from "../../core/caller.ts";
import type { TaskView } from "../../core/describe.ts";
import type { Answer, FieldProblem, Hold } from "../../ports/engine.ts";
import { toReply } from "../reply.ts";
import type { ReplyContext } from "../reply-parts.ts";
import type { ToolAnswer, ToolContext } from "../tool.ts";
import { named } from "../words.ts";
import type { ToolWorld } from "./tool-world.ts";

/** Schemas in a prompt from the start, where a client would else make its model search for them. */
export const ALWAYS_LOAD = { "anthropic/alwaysLoad": true } as const;

export type ToolTraits = {
  readonly tool: string;
  readonly starts: boolean;
} & Pick<ReplyContext, "until" | "asked" | "contractVersion">;

export function reply(answer: Answer, context: ToolContext, traits: ToolTraits, world: ToolWorld): ToolAnswer {
  if ("waitEnded" in answer && answer.waitEnded !== null) {
    const end = context.endReason();
    const isGone = end === "closed" || end === "cancelled";
    world.meter.sliceEnded(isGone ? "gone" : answer.waitEnded, context.client?.name ?? null);
  }
  return toReply(answer, { caller: context.caller, nonce: world.nonce, ...traits });
}

/** A refusal for arguments that do not fit, made without asking the engine. */
export function invalidArguments(problems: readonly FieldProblem[]): Answer {
  const change = Object.fromEntries(problems.map(({ field, expected }) => [field, expected]));
  return {
    kind: "refusal",
    rejection: {
      kind: "rejection",
      code: "invalid_arguments",
      next: { kind: "fix", change },
      detail: { fields: problems.map(({ field }) => field) },
    },
    created: null,
    clientRequestId: null,
    about: null,
    newest: [],
    recorded: null,
    pending: { completions: [], count: 0 },
  };
}

/** A caller's credential may lack what a tool needs. */
export function notAllowed(caller: Caller, needs: "read" | "delegate", { starts }: ToolTraits): Answer | null {
  if (caller.scopes.includes(needs) || caller.scopes.includes("admin")) return null;
  if (needs === "read" && caller.scopes.includes("delegate")) return null;
  return {
    kind: "refusal",
    rejection: { kind: "rejection", code: "not_allowed", next: { kind: "ask_user" }, detail: { scope: needs } },
    created: starts ? "none" : null,
    clientRequestId: null,
    about: null,
    newest: [],
    recorded: null,
    pending: { completions: [], count: 0 },
  };
}

/** The first progress message names the task, so that even a caller whose connection dies has seen the handle. */
export function holdOf(context: ToolContext, waits: boolean): Hold {
  const { progress } = context;
  return {
    waitMs: waits ? context.sliceMaxMs : 0,
    signal: context.signal,
    onHeld: progress === null ? null : (views) => progress(heldMessage(views)),
  };
}

const NAMED_MAX = 3;

function heldMessage(views: readonly TaskView[]): string {
  const shown = views.slice(0, NAMED_MAX).map(lineOf);
  const more = views.length > NAMED_MAX ? ` and ${views.length - NAMED_MAX} more` : "";
  return `waiting for ${shown.join("; ")}${more}`;
}

function lineOf(view: TaskView): string {
  const { taskId, childThreadId, nodeId } = view.handle;
  return `${named(view)} (${view.phase}) task ${taskId} · thread ${childThreadId} · ${nodeId}`;
}
