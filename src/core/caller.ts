/**
 * Who asks, and who did something.
 *
 * Invariant: a caller is the name behind a credential, never an argument of a call.
 */

import type { TaskId } from "./ids.ts";

export const SCOPES = ["read", "delegate", "admin"] as const;
export type Scope = (typeof SCOPES)[number];

/** The authenticated asker of one request. */
export type Caller = {
  /** The name behind the token (`--no-auth`: `local`); a child has that of its root caller. Part of every key. */
  readonly name: string;
  readonly scopes: readonly Scope[];
  /** Conversation hint (Codex thread id or the nonce of the signed session id); for display and pendingCompletions only. */
  readonly conversation: string | null;
} & (
  | {
      /** `caller` by `/mcp`, `person` by `/api` (CLI, page). */
      readonly kind: "caller" | "person";
    }
  /** A delegated child, by its own credential or by the mark of its process. */
  | { readonly kind: "child"; readonly lineage: Lineage }
);

/** Where a child stands; from its credential or mark, never from arguments. */
export type Lineage = {
  readonly taskId: TaskId;
  /** Number of the attempt whose child it is. */
  readonly epoch: number;
  /** The tasks above its own, root first. */
  readonly ancestors: readonly TaskId[];
};

/**
 * Which tasks somebody may see and act on: those of one caller (null: everybody's), and of them only the ones below a task
 * (`below`: the path to it, root first, itself last; null: all).
 */
export type Reach = { readonly caller: string | null; readonly below: readonly TaskId[] | null };

/** Its own tasks, or everybody's for an admin; a child reaches what is below its own task and nothing else (P16, P18). */
export function reachOf(caller: Caller): Reach {
  if (caller.kind === "child") return { caller: caller.name, below: pathOf(caller.lineage) };
  return { caller: caller.scopes.includes("admin") ? null : caller.name, below: null };
}

/** Whether a caller may see and act on a task of this origin. */
export function reaches(
  caller: Caller,
  origin: { readonly caller: string; readonly ancestors: readonly TaskId[] },
): boolean {
  const reach = reachOf(caller);
  if (reach.caller !== null && reach.caller !== origin.caller) return false;
  return caller.kind !== "child" || origin.ancestors.includes(caller.lineage.taskId);
}

/** The task that delegates, where a child asks; null for a root caller. */
export function parentOf(caller: Caller): TaskId | null {
  return caller.kind === "child" ? caller.lineage.taskId : null;
}

export function pathOf({ ancestors, taskId }: Pick<Lineage, "ancestors" | "taskId">): readonly TaskId[] {
  return [...ancestors, taskId];
}

/** Who acted, as shown in `meta.by`, `outcome.by` and `stop.by`. */
export type Actor = {
  readonly kind: "caller" | "person" | "daemon" | "child";
  readonly name: string;
};

export const DAEMON: Actor = { kind: "daemon", name: "delegate-mcp" };

export function actorOf(caller: Caller): Actor {
  return { kind: caller.kind, name: caller.name };
}
