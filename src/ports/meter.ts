/**
 * What is counted and measured, by name. Every method is one metric; labels are few and bounded.
 *
 * Absent on purpose: gauges (tasks by status, slots, waits). They are read off the engine when somebody looks.
 */

import type { FailureClass } from "../core/failure.ts";
import type { TerminalStatus } from "../core/task.ts";

export type Meter = {
  /** A task waited so long for its place before a child was started for it. */
  queueWaited(waitedMs: number): void;
  /** A held call ended; `client`: its name, bounded by the adapter. */
  sliceEnded(outcome: "news" | "slice" | "shutdown" | "gone", client: string | null): void;
  /** A key came again. */
  replayed(tool: string): void;
  conflicted(tool: string): void;
  /** A delegation joined work that was under way. */
  joined(): void;
  refused(code: string): void;
  accepted(): void;
  settled(status: TerminalStatus, failure: FailureClass | null): void;
  /** A passing fault is healed inside the child's conversation. */
  healed(failure: FailureClass): void;
  /** A child was lost and goes on. */
  recovered(): void;
  survivorsFound(count: number): void;
  stoodStill(): void;
  asked(kind: "permission" | "question"): void;
  storeTook(operation: "read" | "write", tookMs: number): void;
  notified(outcome: "delivered" | "again" | "given_up"): void;
};
