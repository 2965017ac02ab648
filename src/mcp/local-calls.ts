/**
 * The tools without the wire: how `/api` calls them and renders what the engine answers.
 *
 * Absent on purpose: client profiles, streams, progress. Whoever calls here has a connection of our own making.
 */

import { assert } from "../core/assert.ts";
import type { Caller } from "../core/caller.ts";
import type { Answer } from "../ports/engine.ts";
import type { AnswerJson } from "./json-fields.ts";
import { toJson } from "./reply.ts";
import type { Tool, ToolContext } from "./tool.ts";

export type LocalCall = { readonly caller: Caller; readonly signal: AbortSignal; readonly waitMaxMs: number };

export type LocalCalls = {
  callTool(name: string, args: unknown, call: LocalCall): Promise<AnswerJson>;
  render(answer: Answer, tool: string, caller: Caller): AnswerJson;
};

export function createLocalCalls(tools: readonly Tool[], nonce: (length: number) => string): LocalCalls {
  const byName = new Map(tools.map((tool) => [tool.name, tool]));
  return {
    async callTool(name, args, call) {
      const tool = byName.get(name);
      assert(tool !== undefined, `there is a tool ${name}`);
      return (await tool.call(args, contextOf(call))).structuredContent;
    },
    render: (answer, tool, caller) => toJson(answer, { caller, tool, starts: false, nonce }),
  };
}

function contextOf({ caller, signal, waitMaxMs }: LocalCall): ToolContext {
  return {
    caller,
    client: null,
    era: "modern",
    streaming: false,
    requestTimeoutMs: null,
    cwd: null,
    progress: null,
    sliceMaxMs: waitMaxMs,
    resumed: false,
    signal,
    endReason: () => (signal.aborted ? "closed" : null),
  };
}
