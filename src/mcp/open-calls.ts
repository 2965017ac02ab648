/**
 * The tool calls that are being answered right now, and the three ways to end their wait from outside: the socket is
 * gone, the client sent a cancel notice, the daemon is stopping.
 *
 * Invariant: ending a call aborts that call's own signal and touches nothing else.
 * Invariant: a cancel notice reaches a call only if it can mean no other: request ids are unique within a conversation,
 * so without one (no session id) it is obeyed only if exactly one open call of the caller has that id.
 * Invariant: nothing is left of a call once it is answered: no listener, no timer, no map entry.
 */

import type { RpcId } from "./json-rpc.ts";
import type { CallEnd } from "./tool.ts";

export type OpenCall = {
  readonly signal: AbortSignal;
  endReason(): CallEnd | null;
  /** Ends the wait; only the first reason counts. */
  end(reason: CallEnd): void;
  /** To be called once the call is answered. */
  close(): void;
};

export type OpenCalls = {
  open(owner: CallOwner, requestId: RpcId): OpenCall;
  /** Passes a cancel notice on; false if it fits no open call (an answered one, an unknown one). */
  cancel(owner: CallOwner, requestId: RpcId): boolean;
  /** Ends every open wait; calls opened later end at once. Resolves when all of them are answered. */
  shutDown(): Promise<void>;
  count(): number;
};

/** Whose request ids these are: the caller's name, and its conversation where it has one. */
export type CallOwner = { readonly caller: string; readonly nonce: string | null };

export function createOpenCalls(): OpenCalls {
  const byKey = new Map<string, Set<OpenCall>>();
  let openCount = 0;
  let stopping = false;
  let drained: (() => void) | null = null;

  function forget(key: string, call: OpenCall): void {
    const calls = byKey.get(key);
    if (calls?.delete(call) !== true) return;
    if (calls.size === 0) byKey.delete(key);
    openCount -= 1;
    if (openCount === 0) drained?.();
  }

  return {
    open(owner, requestId) {
      const key = keyOf(owner, requestId);
      const call = createOpenCall((self) => forget(key, self));
      const calls = byKey.get(key);
      if (calls === undefined) byKey.set(key, new Set([call]));
      else calls.add(call);
      openCount += 1;
      if (stopping) call.end("shutdown");
      return call;
    },
    cancel(owner, requestId) {
      const calls = byKey.get(keyOf(owner, requestId));
      if (calls === undefined || (owner.nonce === null && calls.size > 1)) return false;
      for (const call of calls) call.end("cancelled");
      return true;
    },
    async shutDown() {
      stopping = true;
      for (const calls of byKey.values()) for (const call of calls) call.end("shutdown");
      if (openCount === 0) return;
      await new Promise<void>((resolve) => {
        drained = resolve;
      });
    },
    count: () => openCount,
  };
}

/** The controller is made only when somebody asks for the signal: most calls are answered without waiting. */
function createOpenCall(forget: (self: OpenCall) => void): OpenCall {
  let controller: AbortController | null = null;
  let reason: CallEnd | null = null;
  const call: OpenCall = {
    get signal() {
      controller ??= new AbortController();
      if (reason !== null) controller.abort(reason);
      return controller.signal;
    },
    endReason: () => reason,
    end(why) {
      if (reason !== null) return;
      reason = why;
      controller?.abort(why);
    },
    close: () => forget(call),
  };
  return call;
}

function keyOf(owner: CallOwner, requestId: RpcId): string {
  return JSON.stringify([owner.caller, owner.nonce, requestId]);
}
