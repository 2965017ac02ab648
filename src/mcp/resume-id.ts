/**
 * Event ids of held calls: a signed note from which the same wait can be taken up again after its stream broke, also by
 * another process with the same key.
 *
 * Invariant: an id is honoured only for the caller name that it was made for.
 * Invariant: a stale id never starts anything anew: it expires long before receipts do.
 * Absent on purpose: a store of events. The call is simply run again; every tool that may be held is safe to repeat.
 */

import { isRecord, isRpcId, type RpcId } from "./json-rpc.ts";
import { createTokenSigner } from "./signed-token.ts";

/** One held call, complete enough to run it again. */
export type HeldCall = {
  readonly caller: string;
  readonly requestId: RpcId;
  readonly tool: string;
  readonly args: unknown;
  /** Wall time in ms at which the slice began; progress values count from here. */
  readonly startMs: number;
  /** Wall time in ms at which the slice ends. */
  readonly deadlineMs: number;
  readonly progressToken: RpcId | null;
};

export type ResumeIds = {
  /** The id for a held call; null if it would be too long for a header line that every client and proxy bears. */
  mint(call: HeldCall): string | null;
  /** The call behind an id of ours that this caller may still resume; null for everything else. */
  read(id: string, caller: string, nowMs: number): HeldCall | null;
};

const ID_CHARACTERS_MAX = 1_024;
/** How long after its slice an id is honoured (the answer then comes at once). */
const GRACE_MS = 3_600_000;

export function createResumeIds(key: Buffer): ResumeIds {
  const signer = createTokenSigner(key, "resume");
  return {
    mint(call) {
      const { caller, requestId, tool, args, startMs, deadlineMs, progressToken } = call;
      const small = { c: caller, i: requestId, t: tool, a: args, s: startMs, d: deadlineMs, p: progressToken };
      if (roughCharacters(args) > ID_CHARACTERS_MAX) return null;
      const id = signer.sign(small);
      return id.length <= ID_CHARACTERS_MAX ? id : null;
    },
    read(id, caller, nowMs) {
      if (id.length > ID_CHARACTERS_MAX) return null;
      const call = heldCallOf(signer.open(id));
      if (call === null || call.caller !== caller || nowMs > call.deadlineMs + GRACE_MS) return null;
      return call;
    },
  };
}

/** Longest string among the arguments: spares serialising half a megabyte of task text only to throw it away. */
function roughCharacters(args: unknown): number {
  if (!isRecord(args)) return 0;
  let longest = 0;
  for (const value of Object.values(args)) {
    if (typeof value === "string" && value.length > longest) longest = value.length;
  }
  return longest;
}

function heldCallOf(value: unknown): HeldCall | null {
  if (!isRecord(value)) return null;
  const { c, i, t, a, s, d, p } = value;
  if (typeof c !== "string" || typeof t !== "string" || typeof s !== "number" || typeof d !== "number") return null;
  if (!isRpcId(i) || (p !== null && !isRpcId(p))) return null;
  return { caller: c, requestId: i, tool: t, args: a, startMs: s, deadlineMs: d, progressToken: p };
}
