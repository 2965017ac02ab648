/**
 * What a tool is to the wire: a name, two schemas and one function that never throws.
 *
 * Invariant: the wire (era, stream, server) knows tools only through this type, so the whole tool table can be swapped
 * (a conformance fixture, the echo tool of a benchmark) without touching transport code.
 */

import type { Caller } from "../core/caller.ts";

export type JsonSchema = { readonly type: "object"; readonly [keyword: string]: unknown };

export type Tool = {
  readonly name: string;
  readonly title: string;
  readonly description: string;
  readonly inputSchema: JsonSchema;
  readonly outputSchema?: JsonSchema;
  readonly annotations: {
    readonly readOnlyHint: boolean;
    readonly idempotentHint?: boolean;
    readonly destructiveHint?: boolean;
    readonly openWorldHint?: boolean;
  };
  readonly meta?: Readonly<Record<string, unknown>>;
  /**
   * True if a call with these arguments may be held: the wire then answers as a stream whose first byte leaves at once.
   * A held call may be run again with the same arguments when its stream broke, so it must be safe to repeat.
   */
  mayHold(args: unknown): boolean;
  /** Answers; input mistakes and refusals are answers too. Never throws; resolves soon after `signal` aborts. */
  call(args: unknown, context: ToolContext): Promise<ToolAnswer>;
};

/** What the wire knows about one call. */
export type ToolContext = {
  readonly caller: Caller;
  readonly client: ClientInfo | null;
  readonly era: "legacy" | "modern";
  /** True if the answer travels as an event stream (progress and bytes can flow while it is held). */
  readonly streaming: boolean;
  /** The client's own limit for this request in ms, from `X-Request-Timeout-Ms` or `?requestTimeoutMs=`. */
  readonly requestTimeoutMs: number | null;
  /** Header `X-Delegate-Cwd`. */
  readonly cwd: string | null;
  /** Present if the client sent a progress token: one progress message, shown or logged by the client. */
  readonly progress: ((message: string) => void) | null;
  /** Longest time in ms that this call may be held (contract §7); a resumed call has what is left of it, at least 0. */
  readonly sliceMaxMs: number;
  /** True if the client lost the first stream of this call and resumes it: same arguments, remaining time. */
  readonly resumed: boolean;
  /** Aborts when the wait has to end now, see `endReason`. Ends the wait, never the task. */
  readonly signal: AbortSignal;
  /** Why `signal` aborted, null while it has not. Only after `shutdown` is the answer sure to be read. */
  endReason(): CallEnd | null;
};

/** `closed`: the socket is gone. `cancelled`: the client sent a cancel notice. `shutdown`: the daemon is stopping. */
export type CallEnd = "closed" | "cancelled" | "shutdown";

export type ClientInfo = { readonly name: string; readonly version: string };

export type ToolAnswer = {
  readonly content: readonly [{ readonly type: "text"; readonly text: string }];
  readonly structuredContent: Readonly<Record<string, unknown>>;
  readonly isError?: boolean;
};
