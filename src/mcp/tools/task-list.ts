/** `task_list`: the caller's tasks, newest first, as short lines. */

import { DESCRIPTIONS } from "../descriptions.ts";
import { OUTPUT_SCHEMA } from "../output-schema.ts";
import type { Tool } from "../tool.ts";
import { createArgumentReader, LIST } from "../wire.ts";
import type { ToolWorld } from "./tool-world.ts";
import { invalidArguments, notAllowed, reply } from "./shared.ts";

const TRAITS = { tool: "task_list", starts: false } as const;
const LIMIT_DEFAULT = 20;

export function createTaskList(world: ToolWorld): Tool {
  const reader = createArgumentReader(LIST);
  return {
    name: TRAITS.tool,
    title: "List tasks",
    description: DESCRIPTIONS.task_list,
    inputSchema: reader.inputSchema,
    outputSchema: OUTPUT_SCHEMA,
    annotations: { readOnlyHint: true, idempotentHint: true, openWorldHint: false },
    mayHold: () => false,
    async call(args, context) {
      const denied = notAllowed(context.caller, "read", TRAITS);
      if (denied !== null) return reply(denied, context, TRAITS, world);
      const read = reader.read(args);
      if (read.kind === "invalid") return reply(invalidArguments(read.problems), context, TRAITS, world);
      const { open, unread, conversation, status, parentTaskId, limit, cursor } = read.request;
      const request = {
        open: open ?? false,
        unread: unread ?? false,
        conversation: conversation ?? "all",
        status: status ?? null,
        parentTaskId: parentTaskId ?? null,
        idPrefix: null,
        limit: limit ?? LIMIT_DEFAULT,
        cursor: cursor ?? null,
      } as const;
      return reply(await world.engine.list(request, context.caller), context, TRAITS, world);
    },
  };
}
