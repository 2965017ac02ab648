/** `task_wait`: one bounded slice of waiting; starts nothing, stops nothing. */

import { askedWaitMs } from "../budget.ts";
import { DESCRIPTIONS } from "../descriptions.ts";
import { OUTPUT_SCHEMA } from "../output-schema.ts";
import type { Tool } from "../tool.ts";
import { createArgumentReader, WAIT } from "../wire.ts";
import type { ToolWorld } from "./tool-world.ts";
import { ALWAYS_LOAD, holdOf, invalidArguments, notAllowed, reply } from "./shared.ts";

const TRAITS = { tool: "task_wait", starts: false } as const;

export function createTaskWait(world: ToolWorld): Tool {
  const reader = createArgumentReader(WAIT);
  return {
    name: TRAITS.tool,
    title: "Wait for tasks",
    description: DESCRIPTIONS.task_wait,
    inputSchema: reader.inputSchema,
    outputSchema: OUTPUT_SCHEMA,
    annotations: { readOnlyHint: true, idempotentHint: true, openWorldHint: false },
    meta: ALWAYS_LOAD,
    mayHold: (args) => askedWaitMs(args) !== 0,
    async call(args, context) {
      const denied = notAllowed(context.caller, "read", TRAITS);
      if (denied !== null) return reply(denied, context, TRAITS, world);
      const read = reader.read(args);
      if (read.kind === "invalid") return reply(invalidArguments(read.problems), context, TRAITS, world);
      const { taskIds, until, after } = read.request;
      // A list without ids names nothing, like none at all.
      const named = taskIds === undefined || taskIds.length === 0 ? null : taskIds;
      const request = { taskIds: named, until: until ?? "any", after: after ?? null } as const;
      const answer = await world.engine.wait(request, context.caller, holdOf(context, true));
      return reply(answer, context, until === "all" ? { ...TRAITS, until } : TRAITS, world);
    },
  };
}
