/**
 * Two tools that exercise the wire and nothing else: `echo` answers at once, `hold` waits until the test lets go, its
 * slice ends, or its signal aborts.
 *
 * A test arranges by events: `arrived(name)` resolves when a held call of that name is waiting.
 */

import type { Clock } from "../../src/ports/clock.ts";
import type { CallEnd, Tool, ToolAnswer, ToolContext } from "../../src/mcp/tool.ts";

export type Hold = {
  readonly name: string;
  readonly args: unknown;
  readonly context: ToolContext;
  /** Lets the call answer with this text. */
  release(text: string): void;
  /** Resolves when the call has stopped waiting, with the reason. */
  readonly over: Promise<HoldEnd>;
};

export type HoldEnd = "released" | "slice" | CallEnd;

export type WireTools = {
  readonly tools: readonly Tool[];
  /** The next held call of this name that has not been taken yet. */
  arrived(name: string): Promise<Hold>;
  /** Calls that wait at this moment. */
  waiting(): number;
  /** Every call of either tool so far, in order. */
  readonly calls: readonly { readonly tool: string; readonly args: unknown; readonly context: ToolContext }[];
};

export function createWireTools(clock: Clock): WireTools {
  const calls: { tool: string; args: unknown; context: ToolContext }[] = [];
  const arrivedHolds = new Map<string, Hold[]>();
  const takers = new Map<string, ((hold: Hold) => void)[]>();
  let waitingCount = 0;

  function announce(hold: Hold): void {
    const taker = takers.get(hold.name)?.shift();
    if (taker !== undefined) taker(hold);
    else arrivedHolds.set(hold.name, [...(arrivedHolds.get(hold.name) ?? []), hold]);
  }

  async function hold(args: unknown, context: ToolContext): Promise<ToolAnswer> {
    const name = textField(args, "name");
    const { promise: over, resolve } = Promise.withResolvers<HoldEnd>();
    let text = "nothing yet";
    const { signal } = context;
    const aborted = (): void => resolve(context.endReason() ?? "closed");
    if (signal.aborted) aborted();
    signal.addEventListener("abort", aborted, { once: true });
    using _slice = clock.after(context.sliceMaxMs, () => resolve("slice"));
    context.progress?.(`holding ${name}`);
    waitingCount += 1;
    const release = (answer: string): void => {
      text = answer;
      resolve("released");
    };
    announce({ name, args, context, release, over });
    const end = await over;
    waitingCount -= 1;
    signal.removeEventListener("abort", aborted);
    return answerOf(`${name}: ${text}`, { name, end, text, resumed: context.resumed });
  }

  const echo: Tool = {
    name: "echo",
    title: "Echo",
    description: "Answers with the text it was given.",
    inputSchema: { type: "object", properties: { text: { type: "string" } }, required: ["text"] },
    outputSchema: { type: "object", properties: { text: { type: "string" } }, required: ["text"] },
    annotations: { readOnlyHint: true },
    mayHold: () => false,
    async call(args, context) {
      calls.push({ tool: "echo", args, context });
      const text = textField(args, "text");
      return answerOf(text, { text });
    },
  };
  const holding: Tool = {
    name: "hold",
    title: "Hold",
    description: "Waits under a name until it is released or its slice ends.",
    inputSchema: {
      type: "object",
      properties: { name: { type: "string" }, waitMs: { type: "number" }, note: { type: "string" } },
      required: ["name"],
    },
    outputSchema: {
      type: "object",
      properties: {
        name: { type: "string" },
        end: { type: "string" },
        text: { type: "string" },
        resumed: { type: "boolean" },
      },
    },
    annotations: { readOnlyHint: true },
    meta: { "anthropic/alwaysLoad": true },
    mayHold: () => true,
    call(args, context) {
      calls.push({ tool: "hold", args, context });
      return hold(args, context);
    },
  };

  return {
    tools: [echo, holding],
    calls,
    waiting: () => waitingCount,
    arrived(name) {
      const [first, ...rest] = arrivedHolds.get(name) ?? [];
      if (first !== undefined) {
        arrivedHolds.set(name, rest);
        return Promise.resolve(first);
      }
      const { promise, resolve } = Promise.withResolvers<Hold>();
      takers.set(name, [...(takers.get(name) ?? []), resolve]);
      return promise;
    },
  };
}

function answerOf(text: string, structuredContent: Readonly<Record<string, unknown>>): ToolAnswer {
  return { content: [{ type: "text", text }], structuredContent };
}

function textField(args: unknown, field: string): string {
  const value =
    typeof args === "object" && args !== null ? Object.entries(args).find(([key]) => key === field) : undefined;
  return typeof value?.[1] === "string" ? value[1] : "";
}
