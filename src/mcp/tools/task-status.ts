/** `task_status`: what is true of one task, by any of its ids or by the key that was sent. */

import { DESCRIPTIONS } from "../descriptions.ts";
import { OUTPUT_SCHEMA } from "../output-schema.ts";
import type { Tool } from "../tool.ts";
import { createArgumentReader, STATUS } from "../wire.ts";
import type { ToolWorld } from "./tool-world.ts";
import { ALWAYS_LOAD, invalidArguments, notAllowed, reply } from "./shared.ts";

const TRAITS = { tool: "task_status", starts: false } as const;

export function createTaskStatus(world: ToolWorld): Tool {
  const reader = createArgumentReader(STATUS);
  return {
    name: TRAITS.tool,
    title: "Task status",
    description: DESCRIPTIONS.task_status,
    inputSchema: reader.inputSchema,
    outputSchema: OUTPUT_SCHEMA,
    annotations: { readOnlyHint: true, idempotentHint: true, openWorldHint: false },
    meta: ALWAYS_LOAD,
    mayHold: () => false,
    async call(args, context) {
      const denied = notAllowed(context.caller, "read", TRAITS);
      if (denied !== null) return reply(denied, context, TRAITS, world);
      const read = reader.read(args);
      if (read.kind === "invalid") return reply(invalidArguments(read.problems), context, TRAITS, world);
      const { taskId, clientRequestId } = read.request;
      const request = { taskId: taskId ?? null, clientRequestId: clientRequestId ?? null };
      return reply(await world.engine.status(request, context.caller), context, TRAITS, world);
    },
  };
}
