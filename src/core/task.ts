/**
 * The task: the one aggregate of the product, as plain data.
 *
 * Invariant: `status` has exactly five values and is derived (`describe`), never stored beside the state.
 * Invariant: `residue` is the attempt whose processes are not proven gone; while it is set nothing new is started and no
 * terminal word is said (except over survivors that a person abandoned by name).
 * Absent on purpose: long texts. Prompts and results are named by `TextRef`; bodies live in the store.
 */

import type { Actor } from "./caller.ts";
import type { FailureClass } from "./failure.ts";
import type { AttemptId, Handle, Mark, QuestionId, TaskId } from "./ids.ts";

export type Status = "working" | "input_required" | "completed" | "failed" | "cancelled";
export type TerminalStatus = "completed" | "failed" | "cancelled";
export type Phase =
  | "queued"
  | "starting"
  | "running"
  | "healing"
  | "paused"
  | "recovering"
  | "attached"
  | "awaiting_answer"
  | "stalled"
  | "stopping"
  | "settled";

export const ROLES = ["general", "implementation", "research", "review", "design", "test"] as const;
export type Role = (typeof ROLES)[number];
export const PERMISSIONS = ["plan", "ask", "accept_edits", "full"] as const;
export type Permission = (typeof PERMISSIONS)[number];
export type Access = "read" | "write";
export type Isolation = "auto" | "shared" | "worktree";
/** What a lost child means: continue in its own session, run the program again, or fail. */
export type OnLoss = "resume" | "rerun" | "fail";

/** A text of the task in the store: its name there and its size in UTF-8 bytes. */
export type TextRef = { readonly name: string; readonly bytes: number };

/** What was asked for; fixed at acceptance. */
export type Spec = {
  readonly title: string;
  readonly role: Role;
  readonly agent: string;
  readonly driver: string;
  readonly model: string | null;
  readonly options: Readonly<Record<string, string>>;
  /** Real path of the directory that the child works in. */
  readonly cwd: string;
  readonly access: Access;
  readonly isolation: Isolation;
  readonly permissions: Permission;
  readonly background: "reap" | "keep";
  readonly resultSchema: string | null;
  readonly labels: readonly string[];
  readonly onLoss: OnLoss;
  /** `explicit`: an ending that the agent cannot tell from a failure is not accepted as success. */
  readonly requireEvidence: "assumed" | "explicit";
  readonly policy: Policy;
};

/** Who works; a continuation may change it. */
export type AgentChoice = Pick<Spec, "agent" | "driver" | "model" | "options" | "onLoss" | "requireEvidence">;

/** The limits that were in force at acceptance, so that a decision never depends on today's configuration. */
export type Policy = {
  readonly maxActiveMs: number;
  readonly patienceMs: number;
  readonly backoffMaxMs: number;
  readonly unknownAttemptsMax: number;
  readonly lossesMax: number;
  readonly pauseMaxMs: number;
  readonly stallAfterMs: number;
  readonly questionDeadlineMs: number;
};

/** Who asked, under which key, from where. */
export type Origin = {
  readonly caller: string;
  readonly conversation: string | null;
  readonly clientRequestId: string;
  readonly parentTaskId: TaskId | null;
  readonly rootTaskId: TaskId;
  /** The tasks above this one, root first, its parent last. */
  readonly ancestors: readonly TaskId[];
  /** Levels below the root caller; 1 = delegated by the root caller. */
  readonly depth: number;
};

/** The operating system's name for a process that survives pid reuse. */
export type ProcessIdentity = {
  readonly pid: number;
  /** Start time in the system's own unit (Linux: clock ticks since boot). */
  readonly startTime: string;
  readonly bootId: string;
};

export type Attempt = {
  readonly attemptId: AttemptId;
  readonly epoch: number;
  readonly mark: Mark;
  readonly startedAtMs: number;
  /** Start of the present stretch of running time; waiting for an answer is none. */
  readonly activeSinceMs: number;
  readonly process: ProcessIdentity | null;
  readonly nativeSessionId: string | null;
  readonly steps: number;
  readonly lastProgressAtMs: number;
  readonly toolRunningSinceMs: number | null;
  readonly stalledSinceMs: number | null;
};

export type Question = {
  readonly questionId: QuestionId;
  readonly kind: "permission" | "question";
  readonly optionIds: readonly string[];
  /** The structured request (tool, command, paths), each value cut to 200 characters. Written by the child. */
  readonly action: Readonly<Record<string, string>>;
  /** The child's words to its options and prompt; shown only inside the fence. */
  readonly prompt: TextRef | null;
  readonly askedAtMs: number;
  readonly deadlineAtMs: number;
};

/** A passing fault that is being healed. */
export type Problem = {
  readonly class: FailureClass;
  readonly httpStatus: number | null;
  /** When the present series of faults began. */
  readonly sinceMs: number;
  readonly nextTryAtMs: number;
  readonly retriesUntilMs: number;
};

export type Usage = {
  readonly inputTokens: number | null;
  readonly outputTokens: number | null;
  readonly costUsd: number | null;
};

/** How a run ended, before or after the stop proof. */
export type Verdict = {
  readonly status: TerminalStatus;
  readonly class: FailureClass | null;
  readonly evidence: "explicit" | "assumed" | null;
  readonly httpStatus: number | null;
  readonly stopReason: string | null;
  readonly retryAtMs: number | null;
  /** True if the child may have changed files or run tools. */
  readonly sideEffects: boolean;
  readonly contextKept: boolean;
  readonly continuable: boolean;
  readonly result: TextRef | null;
  /** True if `result` is what there was of it when the run ended early. */
  readonly partial: boolean;
  readonly usage: Usage | null;
  readonly by: Actor | null;
};

export type Survivor = { readonly pid: number; readonly command: string };
export type ProofKind = "cgroup" | "pidns" | "marker+tree" | "tree" | "abandoned" | "none_started";

export type StopRecord = {
  readonly proof: ProofKind;
  readonly survivors: readonly Survivor[];
  readonly kept: readonly Survivor[];
  readonly by: Actor | null;
};

export type Settlement = {
  /** 1, 2, … within the task. */
  readonly number: number;
  readonly runOrdinal: number;
  readonly verdict: Verdict;
  readonly stop: StopRecord;
  readonly atMs: number;
  /** News counter of this settlement: an `after` at or past it acknowledges it. */
  readonly news: number;
};

export type Run = {
  readonly ordinal: number;
  readonly message: TextRef;
  readonly queuedAtMs: number;
  readonly by: Actor;
};

/** `choice`: who shall work from this message on; null: whoever does. */
export type QueuedMessage = {
  readonly message: TextRef;
  readonly by: Actor;
  readonly atMs: number;
  readonly choice: AgentChoice | null;
};

export type QueuedReason = "new" | "continued" | "healing" | "paused" | "recovering";

/** What somebody chose or wrote in answer to a question. */
export type Choice =
  | { readonly kind: "option"; readonly optionId: string }
  | { readonly kind: "text"; readonly text: TextRef };

/** The newest answer to a question of the child; kept so that whoever runs the child can hand it over. */
export type RecordedAnswer = { readonly questionId: QuestionId; readonly choice: Choice; readonly by: Actor };

export type TaskState =
  | {
      readonly kind: "queued";
      readonly reason: QueuedReason;
      readonly dueAtMs: number;
      readonly sinceMs: number;
      readonly problem: Problem | null;
      /** What is left of the attempt before this one and will not end; nothing starts beside it. */
      readonly survivors: readonly Survivor[];
    }
  | { readonly kind: "running"; readonly attempt: Attempt }
  | { readonly kind: "awaiting_answer"; readonly attempt: Attempt; readonly question: Question }
  | {
      readonly kind: "stopping";
      readonly verdict: Verdict;
      readonly sinceMs: number;
      readonly survivors: readonly Survivor[];
    }
  | { readonly kind: "settled"; readonly settlement: Settlement };

export type Task = {
  readonly handle: Handle;
  readonly spec: Spec;
  readonly origin: Origin;
  readonly createdAtMs: number;
  readonly state: TaskState;
  /** The attempt whose processes are not proven gone. */
  readonly residue: Attempt | null;
  /** How the newest attempt that is gone was proven gone. */
  readonly lastStop: StopRecord | null;
  readonly run: Run;
  readonly messages: readonly QueuedMessage[];
  /** Fencing number of the newest attempt; 0 before the first. */
  readonly epoch: number;
  /** Faulted attempts of the present series of faults. */
  readonly tries: number;
  /** Faults of unknown kind in the present series. */
  readonly unknowns: number;
  /** Losses of the present run. */
  readonly losses: number;
  /** When the present series of faults began; null while healthy. */
  readonly faultSinceMs: number | null;
  /** Running time of ended attempts of the present run. */
  readonly activeMs: number;
  /** Steps of all attempts of the present run. */
  readonly steps: number;
  readonly nativeSessionId: string | null;
  /** Commit that the directory stood at when the task first started; null outside of git, or before. */
  readonly startHead: string | null;
  readonly questions: number;
  readonly lastAnswer: RecordedAnswer | null;
  readonly settlements: number;
  /** Highest settlement that the caller has confirmed. */
  readonly acknowledgedThrough: number;
  readonly lastSettlement: Settlement | null;
  /** Counts the events that end a wait (contract §6, News). */
  readonly news: number;
  /** Number of the newest event; the fence of every write. */
  readonly version: number;
};
