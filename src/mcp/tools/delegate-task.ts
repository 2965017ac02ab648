/** `delegate_task`: accepts work and answers with the handle at once, or after the first news with `mode: "wait"`. */

import type { z } from "zod";
import type { DelegateRequest, KeyedCall } from "../../ports/engine.ts";
import { DESCRIPTIONS } from "../descriptions.ts";
import { OUTPUT_SCHEMA } from "../output-schema.ts";
import type { Tool, ToolContext } from "../tool.ts";
import { createArgumentReader, DELEGATE, fieldsAsSent, keyAsSent } from "../wire.ts";
import type { ToolWorld } from "./tool-world.ts";
import { ALWAYS_LOAD, holdOf, notAllowed, reply } from "./shared.ts";

const TRAITS = { tool: "delegate_task", starts: true } as const;

export function createDelegateTask(world: ToolWorld): Tool {
  const reader = createArgumentReader(DELEGATE);

  function callOf(args: unknown, cwd: string | null): KeyedCall<DelegateRequest> {
    return {
      clientRequestId: keyAsSent(args),
      sent: fieldsAsSent(args),
      read() {
        const read = reader.read(args);
        return read.kind === "invalid" ? read : { kind: "read", request: requestOf(read.request, cwd) };
      },
    };
  }

  return {
    name: TRAITS.tool,
    title: "Delegate a task",
    description: DESCRIPTIONS.delegate_task,
    inputSchema: reader.inputSchema,
    outputSchema: OUTPUT_SCHEMA,
    annotations: { readOnlyHint: false, idempotentHint: true, destructiveHint: false, openWorldHint: true },
    meta: ALWAYS_LOAD,
    mayHold: waits,
    async call(args, context: ToolContext) {
      const denied = notAllowed(context.caller, "delegate", TRAITS);
      if (denied !== null) return reply(denied, context, TRAITS, world);
      const hold = holdOf(context, waits(args));
      return reply(
        await world.engine.delegate(callOf(args, context.cwd), context.caller, hold),
        context,
        TRAITS,
        world,
      );
    },
  };
}

export function waits(args: unknown): boolean {
  return fieldsAsSent(args)["mode"] === "wait";
}

function requestOf(args: z.infer<typeof DELEGATE>, cwd: string | null): DelegateRequest {
  return {
    task: args.task,
    title: args.title ?? null,
    role: args.role ?? "general",
    agent: args.agent ?? null,
    model: args.model ?? null,
    options: args.options ?? {},
    cwd: args.cwd ?? cwd,
    access: args.access ?? null,
    isolation: args.isolation ?? "auto",
    permissions: args.permissions ?? null,
    maxActiveMs: args.maxActiveMs ?? null,
    resultSchema: args.resultSchema ?? null,
    onBusy: args.onBusy ?? "refuse",
    background: args.background ?? "reap",
    labels: args.labels ?? [],
  };
}
