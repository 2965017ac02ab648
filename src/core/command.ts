/**
 * What may be asked of a task. Every change of a task is one of these, whoever asks.
 *
 * Invariant: whatever a decision needs to know travels in the command (`circumstances`) or stands in the task.
 */

import type { Actor } from "./caller.ts";
import type { Fault } from "./failure.ts";
import type { Handle, QuestionId } from "./ids.ts";
import type {
  AgentChoice,
  Choice,
  Origin,
  ProcessIdentity,
  Spec,
  StopRecord,
  Survivor,
  TextRef,
  Usage,
} from "./task.ts";

export type Command =
  | DelegateTask
  /** `head`: the commit that its directory stands at, where it is the first attempt of the task and there is one. */
  | { readonly kind: "StartAttempt"; readonly daemonId: string; readonly head: string | null }
  | {
      readonly kind: "BindChild";
      readonly epoch: number;
      readonly process: ProcessIdentity | null;
      readonly nativeSessionId: string | null;
    }
  /** `steps`: steps since the last report; 0 = a sign of life only. */
  | {
      readonly kind: "RecordProgress";
      readonly epoch: number;
      readonly steps: number;
      readonly toolRunningSinceMs: number | null;
    }
  | { readonly kind: "AskInput"; readonly epoch: number; readonly ask: InputAsked }
  | { readonly kind: "AnswerInput"; readonly questionId: QuestionId; readonly choice: Choice; readonly by: Actor }
  | { readonly kind: "ExpireInput"; readonly questionId: QuestionId }
  | FinishAttempt
  /**
   * `orderly`: the daemon stopped the child itself to shut down; no loss is counted. `unseen`: it was found without anybody
   * who runs it, so nobody knows when it ended.
   */
  | {
      readonly kind: "LoseAttempt";
      readonly epoch: number;
      readonly partial: TextRef | null;
      readonly orderly: boolean;
      readonly unseen?: true;
    }
  | { readonly kind: "AdoptAttempt"; readonly epoch: number }
  | { readonly kind: "ReportStop"; readonly epoch: number; readonly report: StopReport }
  | { readonly kind: "MarkStalled"; readonly epoch: number }
  | { readonly kind: "ExpireActive"; readonly epoch: number }
  | { readonly kind: "ForgiveSleep"; readonly gapMs: number }
  | ContinueTask
  /** `below`: something that it has delegated has to be stopped too, and it ends after that. */
  | { readonly kind: "CancelTask"; readonly reason: string | null; readonly by: Actor; readonly below?: true }
  | { readonly kind: "AbandonSurvivors"; readonly by: Actor }
  | { readonly kind: "AckDelivery"; readonly settlement: number; readonly by: Actor };

export type DelegateTask = {
  readonly kind: "DelegateTask";
  readonly handle: Handle;
  readonly spec: Spec;
  readonly origin: Origin;
  readonly message: TextRef;
  readonly by: Actor;
  readonly circumstances: Circumstances;
};

/** What the shell looked up, inside the same transaction, before it asked. */
export type Circumstances = {
  /** Tasks that are not settled, of all callers, and the limit. */
  readonly openTasks: number;
  readonly openTasksMax: number;
  readonly depthMax: number;
  /** Tasks below the same root, and the limit. */
  readonly tasksInTree: number;
  readonly tasksPerTreeMax: number;
  /** Accepted delegations of this caller within the last minute, and the limit. */
  readonly delegationsLastMinute: number;
  readonly delegationsPerMinuteMax: number;
  /** True if a child delegates whose attempt is over: it must not start anything any more. */
  readonly delegatorGone: boolean;
  /** Who holds a claim that overlaps the wanted one; null if free or not wanted. */
  readonly claimHolder: ClaimHolder | null;
  /** True if that is a task above this one: waiting for it would be waiting for itself. */
  readonly holderIsAbove: boolean;
  readonly onBusy: "refuse" | "queue";
};

export type ClaimHolder =
  | { readonly mine: true; readonly handle: Handle; readonly sinceMs: number }
  | { readonly mine: false; readonly sinceMs: number };

export type InputAsked = {
  readonly kind: "permission" | "question";
  readonly optionIds: readonly string[];
  readonly action: Readonly<Record<string, string>>;
  readonly prompt: TextRef | null;
};

export type FinishAttempt = {
  readonly kind: "FinishAttempt";
  readonly epoch: number;
  /** Final text of the child, or what there was of it. */
  readonly result: TextRef | null;
  /** True if the child may have changed files or run tools. */
  readonly sideEffects: boolean;
  readonly usage: Usage | null;
} & ({ readonly ok: true; readonly evidence: "explicit" | "assumed" } | { readonly ok: false; readonly fault: Fault });

export type StopReport =
  | { readonly kind: "proven"; readonly stop: StopRecord }
  | { readonly kind: "survivors"; readonly survivors: readonly Survivor[] };

export type ContinueTask = {
  readonly kind: "ContinueTask";
  readonly message: TextRef;
  readonly afterSettlement: number | null;
  readonly by: Actor;
  /** Null: whoever works now goes on. */
  readonly choice: AgentChoice | null;
};
