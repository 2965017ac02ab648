/**
 * The waist of the product: everything a surface can ask, and every answer it can get.
 *
 * Invariant: every answer carries a next step, and as soon as a task exists its handle (P1); `TaskView` sees to it.
 * Invariant: nothing here throws for what a caller, a child or the storage does; refusals are values.
 */

import type { Actor, Caller } from "../core/caller.ts";
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
  answer(request: AnswerRequest, caller: Caller): Promise<Answer>;
  read(request: ReadRequest, caller: Caller): Promise<Answer>;
  agents(caller: Caller): Promise<Answer>;
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
  readonly options: Readonly<Record<string, string>>;
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
/** One of `optionId` and `text`. */
export type AnswerRequest = {
  readonly taskId: string;
  readonly questionId: string;
  readonly optionId: string | null;
  readonly text: string | null;
};

export type ThreadViewName = "result" | "messages" | "changes" | "events";

export type ReadRequest = {
  /** A thread, or any other id of its task. */
  readonly id: string;
  readonly view: ThreadViewName;
  /** Only the places that contain this text, case-insensitively. */
  readonly find: string | null;
  /** `nextCursor` of the page before. */
  readonly cursor: string | null;
  /** Characters of the page. */
  readonly limit: number;
};

export type AcknowledgeRequest = { readonly taskId: string; readonly settlement: number };

export type Answer = { readonly pending: Pending } & (
  | TaskAnswer
  | TasksAnswer
  | ListAnswer
  | PageAnswer
  | AgentsAnswer
  | RefusalAnswer
);

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
  /** How a message or an answer to the child was taken. */
  readonly sent: "started" | "queued" | "answered" | null;
  readonly waitEnded: WaitEnded | null;
  /** Steps of the run that the caller has been told of before. */
  readonly stepsTold: number;
  /** True if the caller has been told of the task before, by its own word. */
  readonly toldBefore: boolean;
  /** Waits in a row that have ended without news, this one included; 0 where this answer is not of that kind. */
  readonly quietSlices: number;
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
  /** As for one task. */
  readonly quietSlices: number;
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

/** A page of a child's thread. */
export type PageAnswer = {
  readonly kind: "page";
  readonly view: TaskView;
  readonly next: NextStep;
  readonly page: ThreadPage;
};

export type ThreadPage = {
  readonly name: ThreadViewName;
  readonly parts: readonly ThreadPart[];
  /** Null on the last page. */
  readonly nextCursor: string | null;
  /** Bytes of the whole text, for views that are one text. */
  readonly totalBytes: number | null;
  /** Why there is nothing to show; null if there is. */
  readonly empty: EmptyPage | null;
};

export type EmptyPage =
  | "no_result"
  | "nothing_yet"
  | "past_retention"
  | "not_a_repository"
  | "no_changes"
  | "not_found"
  | "not_found_yet"
  | "past_end"
  | "unreadable";

export type ThreadPart = {
  /** Whose words they are; `gap`: ours, about what is left out. */
  readonly who: "caller" | "person" | "child" | "tool" | "note" | "event" | "gap";
  readonly atMs: number | null;
  /** A number that finds the place again (of an entry or event, or the first character of a piece of text). */
  readonly at: number;
  readonly text: string;
};

export type AgentsAnswer = {
  readonly kind: "agents";
  readonly agents: readonly AgentLine[];
  readonly limits: AgentLimits;
  readonly next: NextStep;
};

export type AgentLine = {
  readonly name: string;
  readonly driver: string;
  readonly isDefault: boolean;
  readonly model: string | null;
  /** Permission levels that a caller may ask of it here. */
  readonly permissions: readonly Permission[];
  readonly trusted: boolean;
  readonly health: AgentHealth;
  /** Children of it that heal a passing fault just now. */
  readonly healing: number;
};

export type AgentHealth = "ready" | "missing" | "unknown";

export type AgentLimits = {
  readonly concurrentChildren: number;
  readonly running: number;
  readonly queued: number;
  readonly queueMax: number;
  readonly depthMax: number;
  readonly tasksPerTreeMax: number;
  readonly permissionsMax: Permission;
  readonly approvalsBy: "caller" | "person";
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
  /** The answer that the question had already got (`not_pending`). */
  readonly recorded: Recorded | null;
};

/** `choice`: an option's id, which the child wrote, or the beginning of a text that somebody wrote to it. */
export type Recorded = {
  readonly questionId: string;
  readonly kind: "option" | "text";
  readonly choice: string;
  readonly by: Actor;
};

export type TaskItem = {
  readonly view: TaskView;
  readonly queue: { readonly position: number; readonly reason: "slots" | "workspace" } | null;
  readonly result: ResultText | null;
  readonly questionPrompt: string | null;
  /** What the agent or its provider said of the fault that ended a failed task; null if nothing. */
  readonly problemText: string | null;
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
