/** `thread_read`: more of a task than its answers show, page by page. */

import { LIMITS } from "../../core/limits.ts";
import { DESCRIPTIONS } from "../descriptions.ts";
import { OUTPUT_SCHEMA } from "../output-schema.ts";
import type { Tool } from "../tool.ts";
import { createArgumentReader, READ } from "../wire.ts";
import type { ToolWorld } from "./tool-world.ts";
import { invalidArguments, notAllowed, reply } from "./shared.ts";

const TRAITS = { tool: "thread_read", starts: false } as const;

export function createThreadRead(world: ToolWorld): Tool {
  const reader = createArgumentReader(READ);
  return {
    name: TRAITS.tool,
    title: "Read a thread",
    description: DESCRIPTIONS.thread_read,
    inputSchema: reader.inputSchema,
    outputSchema: OUTPUT_SCHEMA,
    annotations: { readOnlyHint: true, idempotentHint: true, openWorldHint: false },
    mayHold: () => false,
    async call(args, context) {
      const denied = notAllowed(context.caller, "read", TRAITS);
      if (denied !== null) return reply(denied, context, TRAITS, world);
      const read = reader.read(args);
      if (read.kind === "invalid") return reply(invalidArguments(read.problems), context, TRAITS, world);
      const { childThreadId, taskId, view, find, cursor, limit } = read.request;
      const request = {
        id: childThreadId ?? taskId ?? "",
        view: view ?? "messages",
        find: find ?? null,
        cursor: cursor ?? null,
        limit: limit ?? LIMITS.pageCharactersMax,
      } as const;
      const answer = await world.engine.read(request, context.caller);
      return reply(answer, context, { ...TRAITS, asked: read.request }, world);
    },
  };
}
