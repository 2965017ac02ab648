/**
 * `task_wait`: one bounded slice of waiting, without any effect on what is waited for (P7).
 *
 * Invariant: subscribe, then read: a change between the two wakes the sleeper.
 * Invariant: an end for whatever reason (news, slice, shutdown, the caller gone) leaves nothing behind.
 */

import { actorOf, type Caller } from "../core/caller.ts";
import { isNews, isQuiet, statusOf } from "../core/describe.ts";
import { type After, readAfter, toldOf } from "../core/after.ts";
import type { TaskId } from "../core/ids.ts";
import { LIMITS } from "../core/limits.ts";
import type { NextStep, Seen } from "../core/next-step.ts";
import type { Status, Task } from "../core/task.ts";
import type { Clock } from "../ports/clock.ts";
import type { Answer, Hold, TaskAnswer, WaitEnded, WaitItem, WaitRequest } from "../ports/engine.ts";
import type { Store } from "../ports/store.ts";
import type { Courier } from "./courier.ts";
import type { Executor } from "./execute.ts";
import { ALL_OF, type Lookup, scopeOf } from "./lookup.ts";
import type { Presenter } from "./present.ts";
import type { Awoken, WaiterHub } from "./waiter-hub.ts";

export type WaitForOne = (task: Task, caller: Caller, hold: Hold, extra: Partial<TaskAnswer>) => Promise<Answer>;

export type WaitWorld = {
  readonly store: Store;
  readonly executor: Executor;
  readonly presenter: Presenter;
  readonly lookup: Lookup;
  readonly courier: Courier;
  readonly hub: WaiterHub;
  readonly clock: Clock;
  readonly waitsMax: number;
};

export type Waits = {
  wait(request: WaitRequest, caller: Caller, hold: Hold): Promise<Answer>;
  /** Waits for one task as part of another call (`mode: "wait"`). */
  waitForOne: WaitForOne;
};

export function createWaits(world: WaitWorld): Waits {
  const { store, presenter, lookup, hub } = world;

  async function wait(request: WaitRequest, caller: Caller, hold: Hold): Promise<Answer> {
    const after = request.after === null ? null : readAfter(request.after);
    const asked = request.taskIds ?? (await ownTasks(caller));
    const found = await lookup.findAll(asked, caller);
    const unknown = asked.filter((text) => !found.has(text));
    if (asked.length > 0 && found.size === 0) return lookup.unknown(asked[0] ?? "", caller);
    const tasks = [...new Map([...found.values()].map((task) => [task.handle.taskId, task])).values()];
    await acknowledge(tasks, after, caller);
    if (tasks.length === 0) return nothingToWaitFor(caller);
    if (hub.size >= world.waitsMax && hold.waitMs > 0) return waitsFull(tasks, caller);
    const watched: Watched = { taskIds: tasks.map((task) => task.handle.taskId), until: request.until, after, unknown };
    const { seen, ended } = await watch(watched, caller, hold);
    return answerOf(seen, watched, ended, caller);
  }

  /** Holds until there is something to tell, or the slice is over. */
  async function watch(
    watched: Watched,
    caller: Caller,
    hold: Hold,
  ): Promise<{ seen: readonly Task[]; ended: WaitEnded }> {
    const untilMs = world.clock.monotonicMs() + Math.min(hold.waitMs, LIMITS.sliceMaxMs);
    using waiter = hub.subscribe(watched.taskIds);
    let why: Awoken | null = null;
    for (let first = true; ; first = false) {
      // Read again at the end too: what is told is true then, not when the slice began.
      const seen = inOrder(watched.taskIds, await store.tasks(watched.taskIds, scopeOf(caller)));
      if (isOver(seen, watched)) return { seen, ended: hasNews(seen, watched) ? "news" : "slice" };
      if (why === "closing") return { seen, ended: "shutdown" };
      if (why === "deadline" || why === "gone") return { seen, ended: "slice" };
      // Whoever is woken because nothing can be written hears so now; later waits are held as usual, and say so too.
      if (why === "woken" && !store.healthy()) return { seen, ended: "slice" };
      if (first) hold.onHeld?.(seen.map((task) => presenter.view(task)));
      why = await waiter.sleep(untilMs, hold.signal);
    }
  }

  async function answerOf(seen: readonly Task[], watched: Watched, ended: WaitEnded, caller: Caller): Promise<Answer> {
    const single = seen[0];
    if (watched.taskIds.length === 1 && watched.unknown.length === 0 && single !== undefined) {
      const told = toldOf(watched.after, single.handle.taskId);
      return presenter.answer(single, caller, { waitEnded: ended, stepsTold: told?.steps ?? 0 });
    }
    const items: WaitItem[] = watched.unknown.map((asked) => ({ kind: "unknown", asked }));
    for (const task of seen) {
      if (isNews(task, newsTold(watched.after, task))) items.push({ kind: "news", item: await presenter.item(task) });
      else items.push({ kind: "quiet", view: presenter.view(task) });
    }
    return {
      kind: "tasks",
      items,
      waitEnded: ended,
      counts: countsOf(seen),
      next: nextOf(seen),
      storageTrouble: !store.healthy(),
      pending: await world.courier.pendingFor(caller, new Set(watched.taskIds)),
    };
  }

  async function nothingToWaitFor(caller: Caller): Promise<Answer> {
    const next: NextStep = { kind: "fix", tool: "task_list", arguments: {} };
    const pending = await world.courier.pendingFor(caller, new Set());
    return { kind: "tasks", items: [], waitEnded: "news", counts: {}, next, storageTrouble: false, pending };
  }

  function waitsFull(tasks: readonly Task[], caller: Caller): Promise<Answer> {
    const next: NextStep = { kind: "wait", seen: tasks.map(seenOf) };
    const detail = { limit: world.waitsMax };
    return presenter.refusal({ kind: "rejection", code: "capacity_full", next, detail }, caller);
  }

  /** Open and unread tasks of this conversation, else of the caller. */
  async function ownTasks(caller: Caller): Promise<readonly TaskId[]> {
    const here = caller.conversation === null ? [] : await openAndUnread(caller, caller.conversation);
    return here.length > 0 ? here : openAndUnread(caller, null);
  }

  async function openAndUnread(caller: Caller, conversation: string | null): Promise<readonly TaskId[]> {
    const of = { ...ALL_OF, caller: caller.name, conversation, limit: LIMITS.waitTasksMax };
    const open = await store.list({ ...of, open: true });
    const unread = await store.list({ ...of, unread: true });
    const ids = [...open.tasks, ...unread.tasks].map((task) => task.handle.taskId);
    return [...new Set(ids)].slice(0, LIMITS.waitTasksMax);
  }

  /** What the caller was told, by its own word, is read (P9). */
  async function acknowledge(tasks: readonly Task[], after: After | null, caller: Caller): Promise<void> {
    for (const task of tasks) {
      const told = newsTold(after, task);
      const settlement = task.lastSettlement;
      if (told === null || settlement === null || told < settlement.news) continue;
      if (task.acknowledgedThrough >= settlement.number) continue;
      const by = actorOf(caller);
      await world.executor.execute(task.handle.taskId, { kind: "AckDelivery", settlement: settlement.number, by });
    }
  }

  return {
    wait,
    async waitForOne(task, caller, hold, extra) {
      if (hold.waitMs <= 0) return presenter.answer(task, caller, extra);
      const { taskId } = task.handle;
      const watched: Watched = { taskIds: [taskId], until: "any", after: null, unknown: [] };
      const { seen, ended } = await watch(watched, caller, hold);
      return presenter.answer(seen[0] ?? task, caller, { ...extra, waitEnded: ended });
    },
  };
}

type Watched = {
  readonly taskIds: readonly TaskId[];
  readonly until: "any" | "all";
  readonly after: After | null;
  readonly unknown: readonly string[];
};

/** True if the wait has something to tell, or can never have. */
function isOver(tasks: readonly Task[], { until, after, unknown }: Watched): boolean {
  if (unknown.length > 0) return true;
  const told = (task: Task): number | null => newsTold(after, task);
  if (tasks.every((task) => isQuiet(task, told(task)))) return true;
  if (until === "any") return tasks.some((task) => isNews(task, told(task)));
  const allEnded = tasks.every((task) => task.state.kind === "settled");
  return allEnded || tasks.some((task) => needsSomebody(task) && isNews(task, told(task)));
}

function hasNews(tasks: readonly Task[], { after, unknown }: Watched): boolean {
  return unknown.length > 0 || tasks.some((task) => isNews(task, newsTold(after, task)));
}

function needsSomebody({ state }: Task): boolean {
  if (state.kind === "awaiting_answer") return true;
  if (state.kind === "stopping") return state.survivors.length > 0;
  return state.kind === "running" && state.attempt.stalledSinceMs !== null;
}

/** A question first; else, where other tasks remain open, the wait that also acknowledges what this answer told. */
function nextOf(tasks: readonly Task[]): NextStep {
  for (const { handle, state } of tasks) {
    if (state.kind !== "awaiting_answer") continue;
    return { kind: "answer", taskId: handle.taskId, questionId: state.question.questionId };
  }
  const open = tasks.filter((task) => task.state.kind !== "settled");
  return open.length === 0 ? { kind: "use_result" } : { kind: "wait", seen: tasks.map(seenOf) };
}

function newsTold(after: After | null, task: Task): number | null {
  return toldOf(after, task.handle.taskId)?.news ?? null;
}

function seenOf(task: Task): Seen {
  return { taskId: task.handle.taskId, news: task.news, steps: task.steps };
}

function countsOf(tasks: readonly Task[]): Partial<Record<Status, number>> {
  const counts: Partial<Record<Status, number>> = {};
  for (const task of tasks) {
    const status = statusOf(task);
    counts[status] = (counts[status] ?? 0) + 1;
  }
  return counts;
}

function inOrder(taskIds: readonly TaskId[], tasks: readonly Task[]): readonly Task[] {
  const byId = new Map(tasks.map((task) => [task.handle.taskId, task]));
  return taskIds.flatMap((taskId) => byId.get(taskId) ?? []);
}
