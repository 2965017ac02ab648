/**
 * `wait`, and the waiting of `delegate --wait`: slice after slice until the tasks have ended.
 *
 * Invariant: the end of a wait (Ctrl-C, `--timeout`, a restart of the daemon) touches no task (P7).
 * Invariant: a wait acknowledges nothing: the caller that delegated the task is still to be told (P9).
 */

import { setTimeout as delay } from "node:timers/promises";
import { LIMITS } from "../core/limits.ts";
import { type ApiClient, createApiClient, type Reply, SLICE_MAX_MS } from "./api-client.ts";
import { type Answer, type Item, isSettled, needsAnswer } from "./answer.ts";
import { type Command, lookUp, refuse, withDaemon } from "./command.ts";
import { EXIT, exitCodeOfStatus } from "./exit-codes.ts";
import { type Failure, fail, note } from "./failure.ts";
import { findDaemon } from "./find-daemon.ts";
import { printJson } from "./print.ts";
import { printOutcome, printTasks, stateOf } from "./show-task.ts";

export type WaitOptions = {
  readonly all?: boolean;
  readonly any?: boolean;
  /** Seconds. */
  readonly timeout?: number;
};

/** How long a daemon that has gone is looked for before the wait gives up. */
const LOST_MAX_MS = 30_000;
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
  const known = new Map<string, Item>(started.map((task) => [task.taskId ?? "", task]));
  const tasks = (): readonly Item[] => [...known.values()];
  const daemon = followDaemon(command);
  let after: string | null = null;
  let last: Answer | null = started.length === 1 ? (started[0] ?? null) : null;

  while (!isOver(tasks(), options.all === true)) {
    const pending = tasks().filter((task) => !isSettled(task));
    const askedMs = Date.now();
    const waitMs = Math.min(SLICE_MAX_MS, Math.max(0, deadlineMs - askedMs));
    const body = {
      taskIds: pending.map((task) => task.taskId),
      until: options.all === true ? "all" : "any",
      waitMs,
      ...(after === null ? {} : { after }),
    };
    const reply = await daemon.post("/api/wait", body, signal);
    if (signal.aborted) return { kind: "interrupted" };
    if (reply.kind === "failure") return reply;
    last = reply.answer;
    if (last.error !== undefined && last.error.code !== "stopping") return { kind: "refused", answer: last };
    const news = takeNews(known, last);
    if (isOver(tasks(), options.all === true)) break;
    if (Date.now() >= deadlineMs) return { kind: "time_over", tasks: tasks(), last };
    for (const task of news) note(command.io, command.options, `${task.taskId}: ${stateOf(task)}`);
    after = afterOf(last) ?? after;
    if (Date.now() - askedMs < PAUSE_MS) await delay(PAUSE_MS, undefined, { signal }).catch(() => undefined);
  }
  return { kind: "ended", tasks: tasks(), last };
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

function isOver(tasks: readonly Item[], all: boolean): boolean {
  if (tasks.some(needsAnswer)) return true;
  return all ? tasks.every(isSettled) : tasks.some(isSettled);
}

/** Merges an answer into what is known; returns the tasks whose state it changed. */
function takeNews(known: Map<string, Item>, answer: Answer): readonly Item[] {
  const items: readonly Item[] = answer.tasks ?? [answer];
  return items.flatMap((item) => {
    const before = item.taskId === undefined ? undefined : known.get(item.taskId);
    if (item.taskId === undefined || before === undefined) return [];
    const now: Item = { ...before, ...item };
    known.set(item.taskId, now);
    return stateOf(before) === stateOf(now) ? [] : [now];
  });
}

function afterOf(answer: Answer): string | null {
  const after = answer.next?.kind === "wait" ? answer.next.arguments?.["after"] : undefined;
  return typeof after === "string" ? after : null;
}

/** Posts to the daemon, and to its successor when it has gone meanwhile. Gives up after `LOST_MAX_MS`. */
function followDaemon(command: Command): Pick<ApiClient, "post"> {
  return {
    async post(path, body, signal) {
      let lostSinceMs: number | null = null;
      for (let pauseMs = 250; ; pauseMs = Math.min(2_000, pauseMs * 2)) {
        const reply = await postOnce(command, path, body, signal);
        if (signal?.aborted === true || !isLoss(reply)) return reply;
        lostSinceMs ??= Date.now();
        if (Date.now() - lostSinceMs > LOST_MAX_MS) return reply;
        if (pauseMs === 250)
          note(command.io, command.options, "The daemon does not answer; the wait goes on when it is back.");
        await delay(pauseMs, undefined, signal === undefined ? {} : { signal }).catch(() => undefined);
      }
    },
  };
}

async function postOnce(command: Command, ...[path, body, signal]: Parameters<ApiClient["post"]>): Promise<Reply> {
  const address = findDaemon(command.io, command.options);
  if (address.kind === "failure") return address;
  await using api = createApiClient(address, command.version);
  return await api.post(path, body, signal);
}

function isLoss(reply: Reply): boolean {
  if (reply.kind === "failure") return reply.code === "unreachable" || reply.code === "stopping";
  return reply.answer.error?.code === "stopping";
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
