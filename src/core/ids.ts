/**
 * The product's identifiers and how they derive from one another.
 *
 * Invariant: `nodeId`, run, attempt and mark are functions of the task id and small numbers, so no restart, retry or
 * replica can ever give one task two of them.
 * Absent on purpose: making new ids. That needs randomness; see `ports/id-source`.
 */

declare const brand: unique symbol;
type Branded<Name extends string> = string & { readonly [brand]: Name };

/** `dt_` and 26 Crockford base-32 characters. */
export type TaskId = Branded<"TaskId">;
/** `th_` and 26 Crockford base-32 characters: the child's conversation. */
export type ThreadId = Branded<"ThreadId">;
/** `node:delegated-task:<taskId>`. */
export type NodeId = Branded<"NodeId">;
/** `<taskId>.r<ordinal>`: one prompt turn of a task. */
export type RunId = Branded<"RunId">;
/** `<taskId>.a<epoch>`: one try of a run; the epoch is its fencing number. */
export type AttemptId = Branded<"AttemptId">;
/** `<daemonId>.<attemptId>`, inherited by every descendant of a child through its environment. */
export type Mark = Branded<"Mark">;
/** `q_<number>` within its task. */
export type QuestionId = Branded<"QuestionId">;

/** The three ids that are issued once and never change (P2). */
export type Handle = {
  readonly taskId: TaskId;
  readonly childThreadId: ThreadId;
  readonly nodeId: NodeId;
};

const ULID = "[0-9A-HJKMNP-TV-Z]{26}";
const TASK_ID = new RegExp(`^dt_${ULID}$`);
const THREAD_ID = new RegExp(`^th_${ULID}$`);
const ATTEMPT_ID = new RegExp(`^(dt_${ULID})\\.a([1-9][0-9]{0,8})$`);
const NODE_PREFIX = "node:delegated-task:";

export function taskIdFrom(ulid: string): TaskId {
  return `dt_${ulid}` as TaskId;
}

export function threadIdFrom(ulid: string): ThreadId {
  return `th_${ulid}` as ThreadId;
}

export function nodeIdOf(taskId: TaskId): NodeId {
  return `${NODE_PREFIX}${taskId}` as NodeId;
}

export function runIdOf(taskId: TaskId, ordinal: number): RunId {
  return `${taskId}.r${ordinal}` as RunId;
}

export function attemptIdOf(taskId: TaskId, epoch: number): AttemptId {
  return `${taskId}.a${epoch}` as AttemptId;
}

export function markOf(daemonId: string, attemptId: AttemptId): Mark {
  return `${daemonId}.${attemptId}` as Mark;
}

/** An attempt as its id names it. */
export type ParsedAttempt = { readonly attemptId: AttemptId; readonly taskId: TaskId; readonly epoch: number };

/** Null for what is no attempt id. */
export function parseAttemptId(text: string): ParsedAttempt | null {
  const [, taskId = "", epoch = ""] = ATTEMPT_ID.exec(text) ?? [];
  return epoch === "" ? null : { attemptId: text as AttemptId, taskId: taskId as TaskId, epoch: Number(epoch) };
}

/** What a mark says; null for what is no mark. */
export function parseMark(text: string): (ParsedAttempt & { readonly daemonId: string }) | null {
  const at = text.indexOf(".dt_");
  const attempt = at < 1 ? null : parseAttemptId(text.slice(at + 1));
  return attempt === null ? null : { ...attempt, daemonId: text.slice(0, at) };
}

export function questionIdOf(ordinal: number): QuestionId {
  return `q_${ordinal}` as QuestionId;
}

/** What a caller's string names: a task, a thread, or nothing of ours. Any of a task's three ids is accepted (contract §5). */
export type ParsedId =
  | { readonly kind: "task"; readonly taskId: TaskId }
  | { readonly kind: "thread"; readonly threadId: ThreadId }
  | { readonly kind: "foreign" };

export function parseId(text: string): ParsedId {
  const bare = text.startsWith(NODE_PREFIX) ? text.slice(NODE_PREFIX.length) : text;
  if (TASK_ID.test(bare)) return { kind: "task", taskId: bare as TaskId };
  if (THREAD_ID.test(text)) return { kind: "thread", threadId: text as ThreadId };
  return { kind: "foreign" };
}

/**
 * What the beginning of a task's id would be, as people type it: in any case, with or without `dt_`; null for what no id
 * begins with. At least one character of its own.
 */
export function taskIdPrefixOf(text: string): string | null {
  const rest = text.replace(/^dt_/i, "").toUpperCase();
  return /^[0-9A-Z]{1,26}$/.test(rest) ? `dt_${rest}` : null;
}
