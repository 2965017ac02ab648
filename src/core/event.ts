/**
 * What has happened to a task: the log that every other form of it is folded from.
 *
 * Invariant: append only, numbered 1, 2, … within a task without a gap; a kind or field is never reused for another meaning.
 * Absent on purpose: lease renewals and heartbeats. The log holds decisions.
 */

import type { Actor } from "./caller.ts";
import type { Fault } from "./failure.ts";
import type { AttemptId, Handle, Mark, QuestionId } from "./ids.ts";
import type {
  AgentChoice,
  Choice,
  Origin,
  Problem,
  ProcessIdentity,
  QueuedReason,
  Question,
  Settlement,
  Spec,
  StopRecord,
  Survivor,
  TextRef,
  Verdict,
} from "./task.ts";

export type TaskEvent = { readonly atMs: number } & TaskEventBody;

export type TaskEventBody =
  | {
      readonly kind: "TaskAccepted";
      readonly handle: Handle;
      readonly spec: Spec;
      readonly origin: Origin;
      readonly message: TextRef;
      readonly by: Actor;
    }
  | {
      readonly kind: "RunQueued";
      readonly ordinal: number;
      readonly message: TextRef;
      readonly by: Actor;
      readonly reason: "new" | "continued";
    }
  | {
      readonly kind: "AttemptStarted";
      readonly attemptId: AttemptId;
      readonly epoch: number;
      readonly mark: Mark;
      readonly head: string | null;
    }
  | {
      readonly kind: "ChildBound";
      readonly epoch: number;
      readonly process: ProcessIdentity | null;
      readonly nativeSessionId: string | null;
    }
  | {
      readonly kind: "ProgressRecorded";
      readonly epoch: number;
      readonly steps: number;
      readonly toolRunningSinceMs: number | null;
    }
  | { readonly kind: "InputRequested"; readonly epoch: number; readonly question: Question }
  | { readonly kind: "InputAnswered"; readonly questionId: QuestionId; readonly choice: Choice; readonly by: Actor }
  | { readonly kind: "InputExpired"; readonly questionId: QuestionId; readonly verdict: Verdict }
  | { readonly kind: "AttemptSucceeded"; readonly epoch: number; readonly verdict: Verdict }
  /** `verdict`: what the task settles as unless a RetryScheduled follows. */
  | { readonly kind: "AttemptFailed"; readonly epoch: number; readonly fault: Fault; readonly verdict: Verdict }
  /** `unseen`: no daemon saw it end. */
  | {
      readonly kind: "AttemptLost";
      readonly epoch: number;
      readonly counted: boolean;
      readonly unseen?: true;
      readonly verdict: Verdict;
    }
  | { readonly kind: "AttemptAdopted"; readonly epoch: number; readonly attemptId: AttemptId }
  | {
      readonly kind: "RetryScheduled";
      readonly dueAtMs: number;
      readonly reason: QueuedReason;
      readonly problem: Problem | null;
    }
  | { readonly kind: "StallBegan"; readonly epoch: number }
  | { readonly kind: "StallEnded"; readonly epoch: number }
  | { readonly kind: "SleepForgiven"; readonly gapMs: number }
  | {
      readonly kind: "MessageQueued";
      readonly message: TextRef;
      readonly by: Actor;
      readonly choice: AgentChoice | null;
    }
  /** `choice`: what changes of who works. */
  | { readonly kind: "TaskReopened"; readonly by: Actor; readonly choice: Partial<AgentChoice> }
  | { readonly kind: "CancelRequested"; readonly reason: string | null; readonly by: Actor; readonly verdict: Verdict }
  /** What a child still said after its task was being cancelled. */
  | { readonly kind: "LateResultKept"; readonly epoch: number; readonly result: TextRef }
  | { readonly kind: "AttemptStopped"; readonly epoch: number; readonly stop: StopRecord }
  | { readonly kind: "SurvivorsFound"; readonly epoch: number; readonly survivors: readonly Survivor[] }
  | { readonly kind: "TaskSettled"; readonly settlement: Settlement }
  | { readonly kind: "DeliveryAcked"; readonly settlement: number; readonly by: Actor };

export type TaskEventKind = TaskEventBody["kind"];
