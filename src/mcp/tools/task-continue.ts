/** `task_continue`: a further message to the same child under the same ids. */

import type { z } from "zod";
import type { ContinueRequest } from "../../ports/engine.ts";
import { DESCRIPTIONS } from "../descriptions.ts";
import { OUTPUT_SCHEMA } from "../output-schema.ts";
import type { Tool } from "../tool.ts";
import { CONTINUE, createArgumentReader, fieldsAsSent, keyAsSent } from "../wire.ts";
import type { ToolWorld } from "./tool-world.ts";
import { waits } from "./delegate-task.ts";
import { holdOf, notAllowed, reply } from "./shared.ts";

const TRAITS = { tool: "task_continue", starts: true } as const;

export function createTaskContinue(world: ToolWorld): Tool {
  const reader = createArgumentReader(CONTINUE);
  return {
    name: TRAITS.tool,
    title: "Continue a task",
    description: DESCRIPTIONS.task_continue,
    inputSchema: reader.inputSchema,
    outputSchema: OUTPUT_SCHEMA,
    annotations: { readOnlyHint: false, idempotentHint: true, destructiveHint: false, openWorldHint: true },
    mayHold: waits,
    async call(args, context) {
      const denied = notAllowed(context.caller, "delegate", TRAITS);
      if (denied !== null) return reply(denied, context, TRAITS, world);
      const call = {
        clientRequestId: keyAsSent(args),
        sent: fieldsAsSent(args),
        read() {
          const read = reader.read(args);
          if (read.kind === "invalid") return read;
          return { kind: "read" as const, request: requestOf(read.request) };
        },
      };
      const answer = await world.engine.continue(call, context.caller, holdOf(context, waits(args)));
      return reply(answer, context, TRAITS, world);
    },
  };
}

function requestOf(args: z.infer<typeof CONTINUE>): ContinueRequest {
  const { taskId, message, afterSettlement, agent, model, options } = args;
  const whom = { agent: agent ?? null, model: model ?? null, options: options ?? {} };
  return { taskId, message, afterSettlement: afterSettlement ?? null, ...whom };
}
