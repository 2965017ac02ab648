/**
 * One tool call, the same for both eras: from the wire's facts to what the tool sees, and from whatever the tool does
 * to an answer.
 *
 * Invariant: a tool that throws in spite of its contract becomes an internal error with a next step, never a dead socket.
 * Invariant: an open call is closed exactly once, when the tool has answered.
 */

import type { Log } from "../ports/log.ts";
import { askedWaitMs, sliceMs } from "./budget.ts";
import type { Exchange } from "./exchange.ts";
import { errorText, INTERNAL_ERROR, type RpcError, type RpcId, resultText, rpcError } from "./json-rpc.ts";
import type { OpenCall } from "./open-calls.ts";
import type { Progress } from "./progress.ts";
import type { ClientInfo, Tool, ToolAnswer, ToolContext } from "./tool.ts";

export type CallOutcome =
  | { readonly kind: "answer"; readonly answer: ToolAnswer }
  | { readonly kind: "error"; readonly error: RpcError };

export type ToolCall = {
  readonly tool: Tool;
  readonly args: unknown;
  readonly exchange: Exchange;
  readonly open: OpenCall;
  readonly progress: Progress | null;
  readonly streaming: boolean;
  readonly sliceMaxMs: number;
  readonly resumed: boolean;
};

/** What the operator and experience say about a client; both null by default. */
export type SliceSettings = {
  overrideMs(client: ClientInfo | null): number | null;
  learnedMs(caller: string, client: ClientInfo | null): number | null;
};

/** Runs the tool and closes the call. */
export async function runCall(call: ToolCall, log: Log): Promise<CallOutcome> {
  try {
    return { kind: "answer", answer: await call.tool.call(call.args, contextOf(call)) };
  } catch (fault) {
    const message = fault instanceof Error ? fault.message : String(fault);
    log.error("tool_threw", { tool: call.tool.name, message });
    return { kind: "error", error: rpcError(INTERNAL_ERROR, "Internal error", { kind: "repeat_same_call" }) };
  } finally {
    call.progress?.stop();
    call.open.close();
  }
}

/** What a call came to, as a JSON-RPC message of the exchange's era. */
export type AnswerText = (id: RpcId, outcome: CallOutcome, exchange: Exchange) => string;

/** The message of the legacy era. */
export function outcomeText(id: RpcId, outcome: CallOutcome): string {
  return outcome.kind === "answer" ? resultText(id, outcome.answer) : errorText(id, outcome.error);
}

/** Longest time in ms that a call with these arguments may be held for this client. */
export function sliceMaxMsOf(
  args: unknown,
  exchange: Exchange,
  settings: SliceSettings,
  wire: { readonly streaming: boolean; readonly progressToken: RpcId | null },
): number {
  return sliceMs({
    waitMs: askedWaitMs(args),
    client: exchange.client,
    requestTimeoutMs: exchange.requestTimeoutMs,
    overrideMs: settings.overrideMs(exchange.client),
    learnedMs: settings.learnedMs(exchange.caller.name, exchange.client),
    progressToken: wire.progressToken !== null,
    streaming: wire.streaming,
  });
}

function contextOf(call: ToolCall): ToolContext {
  const { exchange, open, progress } = call;
  return {
    caller: exchange.caller,
    client: exchange.client,
    era: exchange.era,
    streaming: call.streaming,
    requestTimeoutMs: exchange.requestTimeoutMs,
    cwd: exchange.cwd,
    progress: progress === null ? null : (message) => progress.say(message),
    sliceMaxMs: call.sliceMaxMs,
    resumed: call.resumed,
    get signal() {
      return open.signal;
    },
    endReason: () => open.endReason(),
  };
}
