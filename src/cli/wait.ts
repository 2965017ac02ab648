/**
 * `wait`, and the waiting of `delegate --wait`: slice after slice until the tasks have ended.
 *
 * Invariant: the end of a wait (Ctrl-C, `--timeout`, a restart of the daemon) touches no task (P7).
 * Invariant: a wait acknowledges nothing: the caller that delegated the task is still to be told (P9).
 */

import { setTimeout as delay } from "node:timers/promises";
import { LIMITS } from "../core/limits.ts";
import { SLICE_MAX_MS } from "./api-client.ts";
import { type Answer, type Item, isSettled, needsAnswer } from "./answer.ts";
import { type Command, lookUp, type Refused, refuse, withDaemon } from "./command.ts";
import { EXIT, exitCodeOfStatus } from "./exit-codes.ts";
import { type Failure, fail, note } from "./failure.ts";
import { callPatiently } from "./patient-call.ts";
import { printJson } from "./print.ts";
import { printOutcome, printTasks, stateOf } from "./show-task.ts";

export type WaitOptions = {
  readonly all?: boolean;
  readonly any?: boolean;
  /** Seconds. */
  readonly timeout?: number;
};

/** Pause after a slice that came back at once without news, so that no mistake of either side can spin. */
const PAUSE_MS = 500;

export async function wait(command: Command, named: readonly string[], options: WaitOptions): Promise<number> {
  if (options.all === true && options.any === true)
    return fail(command.io, command.options, usage("Give --any or --all, not both."));
  if (named.length > LIMITS.waitTasksMax) {
    return fail(command.io, command.options, usage(`One wait names at most ${LIMITS.waitTasksMax} tasks.`));
  }
  using interruption = onInterrupt(command);
  return await withDaemon(command, async (api) => {
    const tasks: Answer[] = [];
    for (const name of named) {
      const looked = await lookUp(api, name, interruption.signal);
      if (looked.kind === "task") tasks.push(looked.answer);
      else return report(command, named, interruption.signal.aborted ? { kind: "interrupted" } : looked, options);
    }
    return report(command, named, await waitForTasks(command, tasks, options, interruption.signal), options);
  });
}

export type WaitEnd =
  /** `tasks`: what is known of each, in the order asked for. `say`: the daemon's last word, if there was one. */
  | { readonly kind: "ended"; readonly tasks: readonly Item[]; readonly last: Answer | null }
  | { readonly kind: "time_over"; readonly tasks: readonly Item[]; readonly last: Answer | null }
  | { readonly kind: "interrupted" }
  | { readonly kind: "refused"; readonly answer: Answer }
  | Failure;

/** Waits until any (or all) of the tasks have ended, or one asks something. `started`: what is known of each. */
export async function waitForTasks(
  command: Command,
  started: readonly Answer[],
  options: WaitOptions,
  signal: AbortSignal,
): Promise<WaitEnd> {
  const deadlineMs = options.timeout === undefined ? Number.POSITIVE_INFINITY : Date.now() + options.timeout * 1_000;
  const watch = watchTasks(started, options.all === true);
  while (!watch.isOver()) {
    const askedMs = Date.now();
    const waitMs = Math.min(SLICE_MAX_MS, Math.max(0, deadlineMs - askedMs));
    const question = watch.question(waitMs);
    const reply = await callPatiently(command, (api) => api.post("/api/wait", question, signal), {
      signal,
      deadlineMs,
    });
    if (signal.aborted) return { kind: "interrupted" };
    if (reply.kind === "failure") return reply;
    const taken = watch.take(reply.answer);
    if (taken.kind === "refused") return { kind: "refused", answer: taken.answer };
    if (watch.isOver()) break;
    if (Date.now() >= deadlineMs) return { kind: "time_over", tasks: watch.tasks(), last: watch.last() };
    for (const task of taken.changed) note(command.io, command.options, `${task.taskId}: ${stateOf(task)}`);
    if (Date.now() - askedMs < PAUSE_MS) await delay(PAUSE_MS, undefined, { signal }).catch(() => undefined);
  }
  return { kind: "ended", tasks: watch.tasks(), last: watch.last() };
}

type Watch = {
  tasks(): readonly Item[];
  last(): Answer | null;
  isOver(): boolean;
  /** Arguments of the next wait: the tasks that have not ended, and what has been told of them. */
  question(waitMs: number): Readonly<Record<string, unknown>>;
  /** Takes an answer in; tells the tasks whose state it changed. */
  take(answer: Answer): { readonly kind: "taken"; readonly changed: readonly Item[] } | Refused;
};

function watchTasks(started: readonly Answer[], all: boolean): Watch {
  const known = new Map<string, Item>(started.map((task) => [task.taskId ?? "", task]));
  const tasks = (): readonly Item[] => [...known.values()];
  const [only, ...others] = started;
  let last: Answer | null = others.length === 0 ? (only ?? null) : null;
  let after: string | null = null;

  const merge = (item: Item): readonly Item[] => {
    const before = known.get(item.taskId ?? "");
    if (item.taskId === undefined || before === undefined) return [];
    const now: Item = { ...before, ...item };
    known.set(item.taskId, now);
    return stateOf(before) === stateOf(now) ? [] : [now];
  };

  return {
    tasks,
    last: () => last,
    isOver() {
      if (tasks().some(needsAnswer)) return true;
      return all ? tasks().every(isSettled) : tasks().some(isSettled);
    },
    question(waitMs) {
      const taskIds = tasks()
        .filter((task) => !isSettled(task))
        .map((task) => task.taskId);
      return { taskIds, until: all ? "all" : "any", waitMs, ...(after === null ? {} : { after }) };
    },
    take(answer) {
      const items: readonly Item[] = answer.tasks ?? [answer];
      const error = answer.error ?? items.find((item) => item.error !== undefined)?.error;
      if (error !== undefined) return { kind: "refused", answer: { ...answer, error } };
      last = answer;
      after = afterOf(answer) ?? after;
      return { kind: "taken", changed: items.flatMap(merge) };
    },
  };
}

/** Shows how a wait ended, and returns the exit code. */
export function report(command: Command, taskIds: readonly string[], end: WaitEnd, options: WaitOptions = {}): number {
  const { io, options: globals } = command;
  switch (end.kind) {
    case "failure":
      return fail(io, globals, end);
    case "refused":
      return refuse(command, end.answer);
    case "interrupted":
      return fail(io, globals, { ...INTERRUPTED, fix: `Wait again: delegate-mcp wait ${taskIds.join(" ")}` });
    case "time_over":
      showTasks(command, end.tasks, end.last);
      note(io, globals, `The wait is over, the task goes on. Wait again: delegate-mcp wait ${taskIds.join(" ")}`);
      return EXIT.waitOver;
    case "ended":
      showTasks(command, end.tasks, end.last);
      return exitCodeOf(end.tasks, options.all === true);
  }
}

function showTasks(command: Command, tasks: readonly Item[], last: Answer | null): void {
  const { io, options } = command;
  const [only, ...others] = tasks;
  const single = only !== undefined && others.length === 0;
  if (options.json === true) printJson(io.stdout, single ? (last ?? only) : { tasks });
  else if (single) printOutcome(command, only, last?.say ?? "");
  else printTasks(command, tasks, Date.now());
}

/** A question counts before a failure, a failure before success; tasks that go on do not count. */
function exitCodeOf(tasks: readonly Item[], all: boolean): number {
  const counted = tasks
    .filter((task) => all || isSettled(task) || needsAnswer(task))
    .map((task) => exitCodeOfStatus(task.status));
  for (const code of [EXIT.inputRequired, EXIT.taskFailed, EXIT.waitOver]) if (counted.includes(code)) return code;
  return EXIT.ok;
}

function afterOf(answer: Answer): string | null {
  const after = answer.next?.kind === "wait" ? answer.next.arguments?.["after"] : undefined;
  return typeof after === "string" ? after : null;
}

export type Interruption = Disposable & { readonly signal: AbortSignal };

/** Ctrl-C ends the wait; a second one ends the command at once. */
export function onInterrupt(command: Command): Interruption {
  const controller = new AbortController();
  const handler = command.io.onSignals(["SIGINT"], () => {
    if (controller.signal.aborted) command.io.exitNow(EXIT.interrupted);
    controller.abort();
  });
  return { signal: controller.signal, [Symbol.dispose]: () => handler[Symbol.dispose]() };
}

const INTERRUPTED: Failure = {
  kind: "failure",
  code: "interrupted",
  exitCode: EXIT.interrupted,
  what: "The wait was interrupted. The task goes on.",
  why: null,
  fix: null,
};

function usage(what: string): Failure {
  return {
    kind: "failure",
    code: "usage",
    exitCode: EXIT.usage,
    what,
    why: null,
    fix: "See: delegate-mcp wait --help",
  };
}
