/** `task_answer`: an answer to a child's question or permission request. */

import { DESCRIPTIONS } from "../descriptions.ts";
import { OUTPUT_SCHEMA } from "../output-schema.ts";
import type { Tool } from "../tool.ts";
import { ANSWER, createArgumentReader } from "../wire.ts";
import type { ToolWorld } from "./tool-world.ts";
import { invalidArguments, notAllowed, reply } from "./shared.ts";

const TRAITS = { tool: "task_answer", starts: false } as const;

export function createTaskAnswer(world: ToolWorld): Tool {
  const reader = createArgumentReader(ANSWER);
  return {
    name: TRAITS.tool,
    title: "Answer a child",
    description: DESCRIPTIONS.task_answer,
    inputSchema: reader.inputSchema,
    outputSchema: OUTPUT_SCHEMA,
    annotations: { readOnlyHint: false, idempotentHint: true, destructiveHint: true, openWorldHint: true },
    mayHold: () => false,
    async call(args, context) {
      const denied = notAllowed(context.caller, "delegate", TRAITS);
      if (denied !== null) return reply(denied, context, TRAITS, world);
      const read = reader.read(args);
      if (read.kind === "invalid") return reply(invalidArguments(read.problems), context, TRAITS, world);
      const { taskId, questionId, optionId, text } = read.request;
      const request = { taskId, questionId, optionId: optionId ?? null, text: text ?? null };
      return reply(await world.engine.answer(request, context.caller), context, TRAITS, world);
    },
  };
}
