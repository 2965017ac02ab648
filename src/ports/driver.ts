/**
 * A way to run one attempt of a child.
 *
 * Invariant: a driver never throws and never rejects for what a child does; it reports one `end`, last.
 * Invariant: child text leaves a driver only in fields named `text`, `prompt` and `action`.
 */

import type { FaultEvidence } from "../core/failure.ts";
import type { Mark } from "../core/ids.ts";
import type { OnLoss, ProcessIdentity, Spec, Usage } from "../core/task.ts";
import type { Children } from "./children.ts";
import type { Clock } from "./clock.ts";
import type { Log } from "./log.ts";

export type Driver = {
  readonly name: string;
  /** What a lost child means for this driver unless the operator says otherwise. */
  readonly onLoss: OnLoss;
  /** Runs one attempt; `report` is called in order and awaited, so a slow store slows the child down. */
  run(attempt: AttemptOrder, report: (event: DriverEvent) => Promise<void>, tools: DriverTools): Promise<void>;
};

export type DriverTools = {
  readonly children: Children;
  readonly clock: Clock;
  readonly log: Log;
  /** Aborts when the attempt is over for the engine (cancel, loss, shutdown): stop reading and resolve. The engine stops processes. */
  readonly signal: AbortSignal;
  /**
   * Puts a question of the child to whoever may answer it. Questions of one attempt are put one after another, in the order
   * asked; null: nobody will answer, the attempt is over. May be called again while an earlier one is open.
   */
  ask(question: DriverQuestion): Promise<DriverAnswer | null>;
};

/** All of it the child's own words. */
export type DriverQuestion = {
  readonly ask: "permission" | "question";
  readonly optionIds: readonly string[];
  readonly labels: Readonly<Record<string, string>>;
  /** The structured request (tool, command, paths). */
  readonly action: Readonly<Record<string, string>>;
  readonly prompt: string;
};

/** `option`: one of `optionIds`. A permission is always answered with an option. */
export type DriverAnswer =
  | { readonly kind: "option"; readonly optionId: string }
  | { readonly kind: "text"; readonly text: string };

export type AttemptOrder = {
  readonly mark: Mark;
  readonly spec: Spec;
  readonly command: readonly [string, ...string[]];
  readonly promptBy: "stdin" | "file";
  /** The run's prompt. */
  readonly prompt: string;
  /** Earlier turns, oldest first, for a program that keeps no session of its own. */
  readonly history: readonly { readonly message: string; readonly result: string | null }[];
  readonly nativeSessionId: string | null;
  /** `first`, or why this attempt of the same run is made. */
  readonly cause: "first" | "healing" | "recovering";
  /** The whole environment, the variables of `delegation` included. */
  readonly env: Readonly<Record<string, string>>;
  /** How the child can delegate in its turn; null if its depth forbids it. For agents that take MCP servers as data. */
  readonly delegation: { readonly url: string; readonly token: string } | null;
  /** A folder of this attempt's own, 0700, removed after it; for prompt and history files. */
  readonly scratchDir: string;
  /** Final texts longer than this are kept with a marked gap. */
  readonly resultBytesMax: number;
};

export type DriverEvent =
  | { readonly kind: "bound"; readonly process: ProcessIdentity | null; readonly nativeSessionId: string | null }
  /** `steps` 0 is a sign of life only. */
  | { readonly kind: "progress"; readonly steps: number; readonly toolRunning: boolean }
  /**
   * A piece of the conversation, for `thread_read`: what the child said, a tool call of it with what came of it, or a note of
   * the driver's about the child (a retry, a warning). Whole pieces, not tokens. Never the task or a message of the caller:
   * those are known.
   */
  | { readonly kind: "message"; readonly role: "child" | "tool" | "note"; readonly text: string }
  | ({
      readonly kind: "end";
      readonly text: string | null;
      readonly sideEffects: boolean;
      readonly usage: Usage | null;
    } & DriverEnd);

export type DriverEnd =
  | { readonly end: "success"; readonly evidence: "explicit" | "assumed" }
  | { readonly end: "fault"; readonly fault: FaultEvidence }
  /** Nobody can tell how it ended: the guard or the connection to the child is gone. */
  | { readonly end: "lost" };
