/** `task_cancel`: ends one task and everything that it has started. */

import { DESCRIPTIONS } from "../descriptions.ts";
import { OUTPUT_SCHEMA } from "../output-schema.ts";
import type { Tool } from "../tool.ts";
import { CANCEL, createArgumentReader } from "../wire.ts";
import type { ToolWorld } from "./tool-world.ts";
import { invalidArguments, notAllowed, reply } from "./shared.ts";

const TRAITS = { tool: "task_cancel", starts: false } as const;

export function createTaskCancel(world: ToolWorld): Tool {
  const reader = createArgumentReader(CANCEL);
  return {
    name: TRAITS.tool,
    title: "Cancel a task",
    description: DESCRIPTIONS.task_cancel,
    inputSchema: reader.inputSchema,
    outputSchema: OUTPUT_SCHEMA,
    annotations: { readOnlyHint: false, idempotentHint: true, destructiveHint: true, openWorldHint: false },
    mayHold: () => false,
    async call(args, context) {
      const denied = notAllowed(context.caller, "delegate", TRAITS);
      if (denied !== null) return reply(denied, context, TRAITS, world);
      const read = reader.read(args);
      if (read.kind === "invalid") return reply(invalidArguments(read.problems), context, TRAITS, world);
      const { taskId, reason } = read.request;
      // Giving survivors up is a person's decision and not offered to models (contract §8).
      const request = { taskId, reason: reason ?? null, abandon: false };
      return reply(await world.engine.cancel(request, context.caller), context, TRAITS, world);
    },
  };
}
