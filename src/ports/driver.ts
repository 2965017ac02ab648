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
};

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
  readonly cause: "first" | "healing" | "recovering" | "answered";
  /** The answer to the child's question, if that is the cause. */
  readonly answer: string | null;
  readonly env: Readonly<Record<string, string>>;
  /** A folder of this attempt's own, 0700, removed after it; for prompt and history files. */
  readonly scratchDir: string;
  /** Final texts longer than this are kept with a marked gap. */
  readonly resultBytesMax: number;
};

export type DriverEvent =
  | { readonly kind: "bound"; readonly process: ProcessIdentity | null; readonly nativeSessionId: string | null }
  /** `steps` 0 is a sign of life only. */
  | { readonly kind: "progress"; readonly steps: number; readonly toolRunning: boolean }
  | {
      readonly kind: "asked";
      readonly ask: "permission" | "question";
      readonly optionIds: readonly string[];
      readonly labels: Readonly<Record<string, string>>;
      readonly action: Readonly<Record<string, string>>;
      readonly prompt: string;
    }
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
