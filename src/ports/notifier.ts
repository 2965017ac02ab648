/**
 * Somebody outside who is told of settlements (contract §11), by operators' configuration.
 *
 * Invariant: what is told holds ids, states and our own address; never a word of a child or a caller.
 */

import type { Status } from "../core/task.ts";

export type Notifier = {
  /** Stable name of this target; part of every notice's id. */
  readonly name: string;
  /** Never rejects; resolves within about 10 s. */
  deliver(message: NoticeMessage): Promise<NoticeOutcome>;
};

export type NoticeMessage = {
  /** The same for every try of one notice, so that a receiver can tell a repeat. */
  readonly id: string;
  readonly sentAtMs: number;
  readonly body: NoticeBody;
};

export type NoticeBody = {
  readonly type: "task.settled";
  readonly timestamp: string;
  readonly data: {
    readonly taskId: string;
    readonly childThreadId: string;
    readonly nodeId: string;
    readonly settlement: number;
    readonly status: Status;
    /** Where the daemon listens; null if that is not known. */
    readonly url: string | null;
  };
};

/** `again`: may work later. `refused`: the receiver does not want it, ever (HTTP 410). */
export type NoticeOutcome =
  | { readonly kind: "delivered" }
  | { readonly kind: "again"; readonly reason: string }
  | { readonly kind: "refused"; readonly reason: string };
