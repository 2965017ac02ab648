/**
 * Who asks, and who did something.
 *
 * Invariant: a caller is the name behind a credential, never an argument of a call.
 */

export const SCOPES = ["read", "delegate", "admin"] as const;
export type Scope = (typeof SCOPES)[number];

/** The authenticated asker of one request. */
export type Caller = {
  /** The name behind the token (`--no-auth`: `local`). Part of every key. */
  readonly name: string;
  readonly scopes: readonly Scope[];
  /** `caller` by `/mcp`, `person` by `/api` (CLI, page), `child` by a child's own credential. */
  readonly kind: "caller" | "person" | "child";
  /** Conversation hint (Codex thread id or the nonce of the signed session id); for display and pendingCompletions only. */
  readonly conversation: string | null;
};

/** Who acted, as shown in `meta.by`, `outcome.by` and `stop.by`. */
export type Actor = {
  readonly kind: "caller" | "person" | "daemon" | "child";
  readonly name: string;
};

export const DAEMON: Actor = { kind: "daemon", name: "delegate-mcp" };

export function actorOf(caller: Caller): Actor {
  return { kind: caller.kind, name: caller.name };
}
