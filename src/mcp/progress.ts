/**
 * Progress messages of one held call.
 *
 * Invariant: the values strictly increase, also across a resumed stream (they are seconds since the slice began), and
 * nothing is sent once the call is answered.
 * Absent on purpose: a total; nobody knows how long an agent will work.
 */

import type { RpcId } from "./json-rpc.ts";

export type ProgressNotification = {
  readonly jsonrpc: "2.0";
  readonly method: "notifications/progress";
  readonly params: { readonly progressToken: RpcId; readonly progress: number; readonly message?: string };
};

export type Progress = {
  /** Sends a message of the tool, which the client may show. */
  say(message: string): void;
  /** Sends the last message again, so that a client that counts progress as life keeps waiting. */
  repeat(): void;
  stop(): void;
};

export type ProgressOptions = {
  readonly token: RpcId;
  /** Wall time in ms at which the slice began. */
  readonly startMs: number;
  readonly wallMs: () => number;
  readonly write: (notification: ProgressNotification) => void;
};

/** Smallest step between two values, in seconds. */
const STEP = 0.001;

export function createProgress(options: ProgressOptions): Progress {
  const { token, startMs, wallMs, write } = options;
  let value = 0;
  let lastMessage: string | undefined;
  let stopped = false;

  function send(): void {
    if (stopped) return;
    value = Math.max(value + STEP, (wallMs() - startMs) / 1_000);
    value = Math.round(value * 1_000) / 1_000;
    const message = lastMessage === undefined ? {} : { message: lastMessage };
    write({
      jsonrpc: "2.0",
      method: "notifications/progress",
      params: { progressToken: token, progress: value, ...message },
    });
  }

  return {
    say(message) {
      lastMessage = message;
      send();
    },
    repeat: send,
    stop() {
      stopped = true;
    },
  };
}
