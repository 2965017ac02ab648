/**
 * Tasks for tests, with a history: each helper answers with the change that a store would be given.
 *
 * Invariant: tasks come out of `evolve`, so a sample can never be in a state that no history leads to.
 * Invariant: ids are valid and ordered by `n`; nothing is random.
 */

import { type Actor, pathOf } from "../../src/core/caller.ts";
import type { TaskEvent, TaskEventBody } from "../../src/core/event.ts";
import { evolve } from "../../src/core/evolve.ts";
import {
  attemptIdOf,
  markOf,
  nodeIdOf,
  questionIdOf,
  type TaskId,
  taskIdFrom,
  type ThreadId,
  threadIdFrom,
} from "../../src/core/ids.ts";
import type { Origin, Spec, Task, TerminalStatus, Verdict } from "../../src/core/task.ts";
import type { Receipt, TaskChange } from "../../src/ports/store.ts";

/** 2026-01-01T00:00:00Z; sample number n is created n seconds later. */
export const SAMPLE_START_MS = Date.UTC(2026, 0, 1);

export type SampleOptions = {
  readonly caller?: string;
  readonly conversation?: string | null;
  readonly parent?: Task | null;
  readonly cwd?: string;
  readonly key?: string;
  readonly createdAtMs?: number;
  readonly prompt?: string;
};

export function sampleTaskId(n: number): TaskId {
  return taskIdFrom(sampleUlid(n));
}

export function sampleThreadId(n: number): ThreadId {
  return threadIdFrom(sampleUlid(n));
}

/** The path to a task: its root first, itself last. */
export function samplePath({ handle, origin }: Task): readonly TaskId[] {
  return pathOf({ ancestors: origin.ancestors, taskId: handle.taskId });
}

/** Accepts and queues task number `n`: version 2, with its prompt as a text. */
export function sampleAccepted(n: number, options: SampleOptions = {}): TaskChange {
  const atMs = options.createdAtMs ?? SAMPLE_START_MS + n * 1_000;
  const caller = options.caller ?? "alice";
  const taskId = sampleTaskId(n);
  const prompt = options.prompt ?? `Do piece ${n}.`;
  const message = { name: "prompt.r1", bytes: Buffer.byteLength(prompt) };
  const by: Actor = { kind: "caller", name: caller };
  const change = sampleChange(
    null,
    atMs,
    {
      kind: "TaskAccepted",
      handle: { taskId, childThreadId: sampleThreadId(n), nodeId: nodeIdOf(taskId) },
      spec: sampleSpec(n, options.cwd ?? `/repo/repo-${n}`),
      origin: sampleOrigin(n, { ...options, caller }),
      message,
      by,
    },
    { kind: "RunQueued", ordinal: 1, message, by, reason: "new" },
  );
  return { ...change, texts: [{ name: message.name, body: prompt }] };
}

function sampleOrigin(n: number, options: SampleOptions & { readonly caller: string }): Origin {
  const parent = options.parent ?? null;
  return {
    caller: options.caller,
    conversation: options.conversation ?? null,
    clientRequestId: options.key ?? `sample-key-${n}`,
    parentTaskId: parent?.handle.taskId ?? null,
    rootTaskId: parent?.origin.rootTaskId ?? sampleTaskId(n),
    ancestors: parent === null ? [] : samplePath(parent),
    depth: (parent?.origin.depth ?? 0) + 1,
  };
}

/** Starts an attempt of a queued task. */
export function sampleStarted(task: Task): TaskChange {
  const epoch = task.epoch + 1;
  const attemptId = attemptIdOf(task.handle.taskId, epoch);
  const mark = markOf("daemon", attemptId);
  return sampleChange(task, laterThan(task, 1), { kind: "AttemptStarted", attemptId, epoch, mark, head: null });
}

type Action = Readonly<Record<string, string>>;
const ACTION: Action = { tool: "shell", command: "make" };

/** A running task asks for permission. */
export function sampleAsked(task: Task, { action = ACTION }: { readonly action?: Action } = {}): TaskChange {
  const askedAtMs = laterThan(task, 2);
  return sampleChange(task, askedAtMs, {
    kind: "InputRequested",
    epoch: task.epoch,
    question: {
      questionId: questionIdOf(task.questions + 1),
      kind: "permission",
      optionIds: ["allow", "deny"],
      action,
      prompt: null,
      askedAtMs,
      deadlineAtMs: askedAtMs + 60_000,
    },
  });
}

/** Ends a running task, its processes proven gone unless `leavesResidue`. */
export function sampleSettled(
  task: Task,
  status: TerminalStatus = "completed",
  options: { readonly atMs?: number; readonly leavesResidue?: boolean } = {},
): TaskChange {
  const atMs = options.atMs ?? laterThan(task, 3);
  const verdict = sampleVerdict(status);
  const stop = { proof: "marker+tree", survivors: [], kept: [], by: null } as const;
  const ended: TaskEventBody =
    status === "completed"
      ? { kind: "AttemptSucceeded", epoch: task.epoch, verdict }
      : { kind: "CancelRequested", reason: null, by: { kind: "person", name: "pat" }, verdict };
  const stopped: readonly TaskEventBody[] = options.leavesResidue
    ? []
    : [{ kind: "AttemptStopped", epoch: task.epoch, stop }];
  return sampleChange(task, atMs, ended, ...stopped, {
    kind: "TaskSettled",
    settlement: {
      number: task.settlements + 1,
      runOrdinal: task.run.ordinal,
      verdict,
      stop,
      atMs,
      news: task.news + 1,
    },
  });
}

/** Queues another run of a settled task. */
export function sampleContinued(task: Task): TaskChange {
  const by: Actor = { kind: "caller", name: task.origin.caller };
  const message = { name: `prompt.r${task.run.ordinal + 1}`, bytes: 8 };
  return {
    ...sampleChange(
      task,
      laterThan(task, 10),
      { kind: "TaskReopened", by, choice: {} },
      { kind: "RunQueued", ordinal: task.run.ordinal + 1, message, by, reason: "continued" },
    ),
    texts: [{ name: message.name, body: "Continue" }],
  };
}

/** The caller confirms the newest settlement. */
export function sampleAcked(task: Task): TaskChange {
  const by: Actor = { kind: "caller", name: task.origin.caller };
  return sampleChange(task, laterThan(task, 20), { kind: "DeliveryAcked", settlement: task.settlements, by });
}

/** Folds events onto a task. */
function sampleChange(before: Task | null, atMs: number, ...bodies: readonly TaskEventBody[]): TaskChange {
  const events: readonly TaskEvent[] = bodies.map((body) => ({ atMs, ...body }));
  const task = events.reduce<Task | null>(evolve, before);
  if (task === null) throw new Error("a change needs an event");
  return { task, events, expectedVersion: before?.version ?? 0, texts: [] };
}

export function sampleReceipt(task: Task, change: Partial<Receipt> = {}): Receipt {
  return {
    caller: task.origin.caller,
    parentTaskId: task.origin.parentTaskId,
    tool: "delegate_task",
    aboutTaskId: null,
    clientRequestId: task.origin.clientRequestId,
    fingerprint: `fingerprint of ${task.handle.taskId}`,
    fingerprintVersion: 1,
    fieldDigests: { task: "digest of task", cwd: "digest of cwd" },
    taskId: task.handle.taskId,
    childThreadId: task.handle.childThreadId,
    createdAtMs: task.createdAtMs,
    ...change,
  };
}

function sampleSpec(n: number, cwd: string): Spec {
  return {
    title: `Piece ${n}`,
    role: "implementation",
    agent: "codex",
    driver: "codex",
    model: null,
    options: {},
    cwd,
    access: "write",
    isolation: "auto",
    permissions: "accept_edits",
    background: "reap",
    resultSchema: null,
    labels: ["sample"],
    onLoss: "resume",
    requireEvidence: "assumed",
    policy: {
      maxActiveMs: 86_400_000,
      patienceMs: 14_400_000,
      backoffMaxMs: 60_000,
      unknownAttemptsMax: 2,
      lossesMax: 5,
      pauseMaxMs: 21_600_000,
      stallAfterMs: 300_000,
      questionDeadlineMs: 86_400_000,
    },
  };
}

function sampleVerdict(status: TerminalStatus): Verdict {
  return {
    status,
    class: status === "failed" ? "auth" : null,
    evidence: status === "completed" ? "explicit" : null,
    httpStatus: status === "failed" ? 401 : null,
    stopReason: null,
    retryAtMs: null,
    sideEffects: true,
    contextKept: true,
    continuable: status !== "cancelled",
    result: { name: "result.r1", bytes: 12 },
    partial: false,
    usage: { inputTokens: 10, outputTokens: 20, costUsd: null },
    by: null,
  };
}

function laterThan(task: Task, seconds: number): number {
  return task.createdAtMs + seconds * 1_000;
}

const CROCKFORD = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";

function sampleUlid(n: number): string {
  let rest = n;
  let text = "";
  for (let place = 0; place < 23; place++) {
    text = CROCKFORD.charAt(rest % 32) + text;
    rest = Math.floor(rest / 32);
  }
  return `01K${text}`;
}
