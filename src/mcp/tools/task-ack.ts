/** `task_ack`: the caller's word that it has a result, so that it is not announced any more. */

import { DESCRIPTIONS } from "../descriptions.ts";
import { OUTPUT_SCHEMA } from "../output-schema.ts";
import type { Tool } from "../tool.ts";
import { ACK, createArgumentReader } from "../wire.ts";
import type { ToolWorld } from "./tool-world.ts";
import { invalidArguments, notAllowed, reply } from "./shared.ts";

const TRAITS = { tool: "task_ack", starts: false } as const;

export function createTaskAck(world: ToolWorld): Tool {
  const reader = createArgumentReader(ACK);
  return {
    name: TRAITS.tool,
    title: "Confirm a result",
    description: DESCRIPTIONS.task_ack,
    inputSchema: reader.inputSchema,
    outputSchema: OUTPUT_SCHEMA,
    annotations: { readOnlyHint: false, idempotentHint: true, destructiveHint: false, openWorldHint: false },
    mayHold: () => false,
    async call(args, context) {
      const denied = notAllowed(context.caller, "read", TRAITS);
      if (denied !== null) return reply(denied, context, TRAITS, world);
      const read = reader.read(args);
      if (read.kind === "invalid") return reply(invalidArguments(read.problems), context, TRAITS, world);
      return reply(await world.engine.acknowledge(read.request, context.caller), context, TRAITS, world);
    },
  };
}
