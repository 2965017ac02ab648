/**
 * The waist of the product: everything a surface can ask, and every answer it can get.
 *
 * Invariant: every answer carries a next step, and as soon as a task exists its handle (P1); `TaskView` sees to it.
 * Invariant: nothing here throws for what a caller, a child or the storage does; refusals are values.
 */

import type { Caller } from "../core/caller.ts";
import type { TaskView } from "../core/describe.ts";
import type { NextStep } from "../core/next-step.ts";
import type { Json } from "../core/receipt.ts";
import type { Rejection } from "../core/rejection.ts";
import type { Access, Isolation, Permission, Role, Status } from "../core/task.ts";

export type Engine = {
  delegate(call: KeyedCall<DelegateRequest>, caller: Caller, hold: Hold): Promise<Answer>;
  continue(call: KeyedCall<ContinueRequest>, caller: Caller, hold: Hold): Promise<Answer>;
  wait(request: WaitRequest, caller: Caller, hold: Hold): Promise<Answer>;
  status(request: StatusRequest, caller: Caller): Promise<Answer>;
  list(request: ListRequest, caller: Caller): Promise<Answer>;
  cancel(request: CancelRequest, caller: Caller): Promise<Answer>;
  acknowledge(request: AcknowledgeRequest, caller: Caller): Promise<Answer>;
};

/**
 * A call with a key. The key is looked up before the rest is validated, so that a repeat is recognised even where its
 * fields are not valid any more: `read` is called only after that.
 */
export type KeyedCall<Request> = {
  /** Null if it is missing or malformed. */
  readonly clientRequestId: string | null;
  /** The arguments as sent. */
  readonly sent: { readonly [field: string]: Json | undefined };
  read(): Read<Request>;
};

export type Read<Request> =
  | { readonly kind: "read"; readonly request: Request }
  | { readonly kind: "invalid"; readonly problems: readonly FieldProblem[] };

export type FieldProblem = { readonly field: string; readonly expected: string };

/** How a call may be held. */
export type Hold = {
  /** Milliseconds that the call may be held; 0 answers at once. */
  readonly waitMs: number;
  /** Aborts when the caller has gone: the wait ends, the task does not (P7). */
  readonly signal: AbortSignal;
  /** Called once as soon as there is a task to name, before the call is held. */
  readonly onHeld: ((views: readonly TaskView[]) => void) | null;
};

export type DelegateRequest = {
  readonly task: string;
  readonly title: string | null;
  readonly role: Role;
  readonly agent: string | null;
  readonly model: string | null;
  readonly options: Readonly<Record<string, string>>;
  readonly cwd: string | null;
  readonly access: Access | null;
  readonly isolation: Isolation;
  readonly permissions: Permission | null;
  readonly maxActiveMs: number | null;
  readonly resultSchema: string | null;
  readonly onBusy: "refuse" | "queue";
  readonly background: "reap" | "keep";
  readonly labels: readonly string[];
};

export type ContinueRequest = {
  readonly taskId: string;
  readonly message: string;
  readonly afterSettlement: number | null;
  readonly agent: string | null;
  readonly model: string | null;
};

export type WaitRequest = {
  /** Any of a task's three ids each; null: the open and unread tasks of this conversation, else of the caller. */
  readonly taskIds: readonly string[] | null;
  readonly until: "any" | "all";
  readonly after: string | null;
};

export type StatusRequest = { readonly taskId: string | null; readonly clientRequestId: string | null };

export type ListRequest = {
  readonly open: boolean;
  readonly unread: boolean;
  readonly conversation: "all" | "this";
  readonly status: Status | null;
  readonly parentTaskId: string | null;
  readonly idPrefix: string | null;
  readonly limit: number;
  readonly cursor: string | null;
};

export type CancelRequest = { readonly taskId: string; readonly reason: string | null; readonly abandon: boolean };
export type AcknowledgeRequest = { readonly taskId: string; readonly settlement: number };

export type Answer = { readonly pending: Pending } & (TaskAnswer | TasksAnswer | ListAnswer | RefusalAnswer);

export type Created = "new" | "replayed" | "joined" | "none";
export type WaitEnded = "news" | "slice" | "shutdown";

/** About one task. */
export type TaskAnswer = {
  readonly kind: "task";
  readonly item: TaskItem;
  readonly next: NextStep;
  readonly created: Created | null;
  readonly replayedAgeMs: number | null;
  /** True if the replayed task ended, was read and is old: more likely new work than a repeat. */
  readonly notANewRun: boolean;
  /** Why nothing was sent: somebody continued the task past `afterSettlement`. */
  readonly movedOn: boolean;
  /** How a message to a running task was taken. */
  readonly sent: "started" | "queued" | null;
  readonly waitEnded: WaitEnded | null;
  /** Steps of the run that the caller has been told of before. */
  readonly stepsTold: number;
  readonly clientRequestId: string | null;
  readonly otherLive: readonly OtherLive[];
  /** True if the asked-for change had been made before (cancel of a settled task, second acknowledgement). */
  readonly alreadyDone: boolean;
  /** True while nothing can be written (contract §12): what is shown may be older than what happened. */
  readonly storageTrouble: boolean;
};

/** About several tasks: a wait. */
export type TasksAnswer = {
  readonly kind: "tasks";
  readonly items: readonly WaitItem[];
  readonly next: NextStep;
  readonly waitEnded: WaitEnded;
  readonly counts: Readonly<Partial<Record<Status, number>>>;
  readonly storageTrouble: boolean;
};

export type WaitItem =
  | { readonly kind: "news"; readonly item: TaskItem }
  | { readonly kind: "quiet"; readonly view: TaskView }
  | { readonly kind: "unknown"; readonly asked: string };

export type ListAnswer = {
  readonly kind: "list";
  readonly views: readonly TaskView[];
  readonly next: NextStep;
  readonly nextCursor: string | null;
};

export type RefusalAnswer = {
  readonly kind: "refusal";
  readonly rejection: Rejection;
  readonly created: "none" | null;
  readonly clientRequestId: string | null;
  /** The caller's task that the refused call was about, so that no refusal loses its handle (P1). */
  readonly about: TaskView | null;
  /** The caller's newest tasks, where that helps (unknown ids). */
  readonly newest: readonly TaskView[];
};

export type TaskItem = {
  readonly view: TaskView;
  readonly queue: { readonly position: number; readonly reason: "slots" | "workspace" } | null;
  readonly result: ResultText | null;
  readonly questionPrompt: string | null;
};

/** Text that the child wrote: its whole or an excerpt with a marked gap. */
export type ResultText = { readonly text: string; readonly truncated: boolean; readonly totalBytes: number };

export type OtherLive = {
  readonly taskId: string;
  readonly title: string;
  readonly access: Access;
  readonly cwd: string;
};

/** Settlements that the caller has not confirmed (contract §6). */
export type Pending = {
  readonly completions: readonly PendingCompletion[];
  /** Further ones, of this or other conversations. */
  readonly count: number;
};

export type PendingCompletion = {
  readonly taskId: string;
  readonly nodeId: string;
  readonly settlement: number;
  readonly status: Status;
  readonly title: string;
};
