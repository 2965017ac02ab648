/** `list_agents`: what can be a child here, how it is, and the limits in force. */

import { DESCRIPTIONS } from "../descriptions.ts";
import { OUTPUT_SCHEMA } from "../output-schema.ts";
import type { Tool } from "../tool.ts";
import { AGENTS, createArgumentReader } from "../wire.ts";
import type { ToolWorld } from "./tool-world.ts";
import { invalidArguments, notAllowed, reply } from "./shared.ts";

const TRAITS = { tool: "list_agents", starts: false } as const;

export function createListAgents(world: ToolWorld): Tool {
  const reader = createArgumentReader(AGENTS);
  return {
    name: TRAITS.tool,
    title: "List agents",
    description: DESCRIPTIONS.list_agents,
    inputSchema: reader.inputSchema,
    outputSchema: OUTPUT_SCHEMA,
    annotations: { readOnlyHint: true, idempotentHint: true, openWorldHint: false },
    mayHold: () => false,
    async call(args, context) {
      const denied = notAllowed(context.caller, "read", TRAITS);
      if (denied !== null) return reply(denied, context, TRAITS, world);
      const read = reader.read(args);
      if (read.kind === "invalid") return reply(invalidArguments(read.problems), context, TRAITS, world);
      const traits = { ...TRAITS, contractVersion: world.contractVersion };
      return reply(await world.engine.agents(context.caller), context, traits, world);
    },
  };
}
