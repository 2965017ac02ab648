/**
 * `task_wait`: one bounded slice of waiting, without any effect on what is waited for (P7).
 *
 * Invariant: subscribe, then read: a change between the two wakes the sleeper.
 * Invariant: an end for whatever reason (news, slice, shutdown, the caller gone) leaves nothing behind.
 */

import { actorOf, type Caller, type Lineage, parentOf, reachOf } from "../core/caller.ts";
import { isNews, isQuiet, statusOf, type TaskView } from "../core/describe.ts";
import { type After, quietSlicesOf, readAfter, toldOf } from "../core/after.ts";
import type { TaskId } from "../core/ids.ts";
import { LIMITS } from "../core/limits.ts";
import type { NextStep, Seen } from "../core/next-step.ts";
import type { Status, Task } from "../core/task.ts";
import type { Clock } from "../ports/clock.ts";
import type { Answer, Hold, TaskAnswer, WaitEnded, WaitItem, WaitRequest } from "../ports/engine.ts";
import type { Store } from "../ports/store.ts";
import type { Courier } from "./courier.ts";
import type { Executor } from "./execute.ts";
import { ALL_OF, type Lookup } from "./lookup.ts";
import type { Presenter } from "./present.ts";
import { isStorageTrouble } from "./storage.ts";
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
  /** Runs `wait`, during which the child of this task does nothing but wait for its own children: it holds no slot. */
  readonly whileLeaning: <T>(child: Lineage, wait: () => Promise<T>) => Promise<T>;
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
    if (hub.size >= world.waitsMax && hold.waitMs > 0) return waitsFull(tasks, after, caller);
    const taskIds = tasks.map((task) => task.handle.taskId);
    const watched: Watched = { taskIds, until: request.until, after, since: null, unknown };
    const seeing = await watch(tasks, watched, caller, hold);
    return answerOf(seeing, quietAfter(request.after, seeing.ended), caller);
  }

  /** Holds until there is something to tell, or the slice is over. `known`: the tasks as the call found them. */
  async function watch(known: readonly Task[], asked: Watched, caller: Caller, hold: Hold): Promise<Seeing> {
    const untilMs = world.clock.monotonicMs() + Math.min(hold.waitMs, LIMITS.sliceMaxMs);
    using waiter = hub.subscribe(asked.taskIds);
    let seen = known;
    let told = asked;
    let why: Awoken | null = null;
    for (let first = true; ; first = false) {
      // Read again at the end too: what is told is true then, not when the slice began.
      const now = await look(told, caller);
      if (now === null) return { seen, told, ended: "slice", unread: true };
      seen = now;
      if (isOver(seen, told)) return { seen, told, ended: hasNews(seen, told) ? "news" : "slice", unread: false };
      if (why === "closing") return { seen, told, ended: "shutdown", unread: false };
      if (why === "deadline" || why === "gone") return { seen, told, ended: "slice", unread: false };
      // Whoever is woken because nothing can be written hears so now; later waits are held as usual, and say so too.
      if (why === "woken" && !store.healthy()) return { seen, told, ended: "slice", unread: false };
      if (first) {
        hold.onHeld?.(seen.map((task) => presenter.view(task, caller)));
        // A wait that begins on healthy work is told of whatever is news from then on; what is news already stays it.
        const healthy = seen.filter((task) => !isNews(task, newsTold(asked, task)));
        told = { ...asked, since: new Map(healthy.map((task) => [task.handle.taskId, task.news])) };
      }
      const sleep = (): Promise<Awoken> => waiter.sleep(untilMs, hold.signal);
      // Only a child that really waits leaves its place to others: a look at its tasks must not start anything.
      const leaves = caller.kind === "child" && untilMs > world.clock.monotonicMs();
      why = await (leaves ? world.whileLeaning(caller.lineage, sleep) : sleep());
    }
  }

  /** The tasks as they are; null where the storage does not say, so that a call that knows them can still name them. */
  async function look({ taskIds }: Watched, caller: Caller): Promise<readonly Task[] | null> {
    try {
      return inOrder(taskIds, await store.tasks(taskIds, reachOf(caller)));
    } catch (error) {
      if (isStorageTrouble(error)) return null;
      throw error;
    }
  }

  async function answerOf(seeing: Seeing, quietSlices: number, caller: Caller): Promise<Answer> {
    const { seen, told: watched, ended } = seeing;
    let storageTrouble = seeing.unread || !store.healthy();
    const single = seen[0];
    if (watched.taskIds.length === 1 && watched.unknown.length === 0 && single !== undefined) {
      const before = toldOf(watched.after, single.handle.taskId);
      const told = { stepsTold: before?.steps ?? 0, toldBefore: before !== null, quietSlices };
      return presenter.answer(single, caller, { waitEnded: ended, ...told, storageTrouble });
    }
    const items: WaitItem[] = watched.unknown.map((asked) => ({ kind: "unknown", asked }));
    for (const task of seen) {
      if (isNews(task, newsTold(watched, task))) {
        const { shown, isRead } = await presenter.item(task, caller);
        items.push({ kind: "news", item: shown });
        storageTrouble ||= !isRead;
      } else items.push({ kind: "quiet", view: presenter.view(task, caller) });
    }
    return {
      kind: "tasks",
      items,
      waitEnded: ended,
      quietSlices,
      counts: countsOf(seen),
      next: nextOf(seen.map((task) => presenter.view(task, caller))),
      storageTrouble,
      pending: await world.courier.pendingFor(caller, new Set(watched.taskIds)),
    };
  }

  async function nothingToWaitFor(caller: Caller): Promise<Answer> {
    const next: NextStep = { kind: "fix", tool: "task_list", arguments: {} };
    const pending = await world.courier.pendingFor(caller, new Set());
    return {
      kind: "tasks",
      items: [],
      waitEnded: "slice",
      quietSlices: 0,
      counts: {},
      next,
      storageTrouble: false,
      pending,
    };
  }

  /** The same wait again: nothing is shown here, so it claims no more than the caller was told before (P9). */
  function waitsFull(tasks: readonly Task[], after: After | null, caller: Caller): Promise<Answer> {
    const seen = tasks.map(({ handle: { taskId } }) => ({ taskId, ...(toldOf(after, taskId) ?? NOTHING_TOLD) }));
    const next: NextStep = { kind: "wait", seen };
    const detail = { limit: world.waitsMax };
    return presenter.refusal({ kind: "rejection", code: "capacity_full", next, detail }, caller);
  }

  /** Open and unread tasks of this conversation, else of the caller. */
  async function ownTasks(caller: Caller): Promise<readonly TaskId[]> {
    const here = caller.conversation === null ? [] : await openAndUnread(caller, caller.conversation);
    return here.length > 0 ? here : openAndUnread(caller, null);
  }

  async function openAndUnread(caller: Caller, conversation: string | null): Promise<readonly TaskId[]> {
    // What its children delegate in their turn is theirs to wait for.
    const mine = { ...ALL_OF, ...reachOf(caller), caller: caller.name, parentTaskId: parentOf(caller) ?? ROOT };
    const of = { ...mine, conversation, limit: LIMITS.waitTasksMax };
    const open = await store.list({ ...of, open: true });
    const unread = await store.list({ ...of, unread: true });
    const ids = [...open.tasks, ...unread.tasks].map((task) => task.handle.taskId);
    return [...new Set(ids)].slice(0, LIMITS.waitTasksMax);
  }

  /** What the caller was told, by its own word, is read (P9). */
  async function acknowledge(tasks: readonly Task[], after: After | null, caller: Caller): Promise<void> {
    // A person who looks on does not speak for the caller.
    if (caller.kind === "person") return;
    for (const task of tasks) {
      // Nor does whoever looks on at what its children, or another caller, have delegated: that is theirs to be told.
      const { origin } = task;
      if (origin.parentTaskId !== parentOf(caller) || origin.caller !== caller.name) continue;
      const told = toldOf(after, task.handle.taskId)?.news ?? null;
      const settlement = task.lastSettlement;
      if (told === null || settlement === null || told < settlement.news) continue;
      if (task.acknowledgedThrough >= settlement.number) continue;
      const command = { kind: "AckDelivery", settlement: settlement.number, by: actorOf(caller) } as const;
      try {
        await world.executor.execute(task.handle.taskId, command);
      } catch (error) {
        // Only the announcement goes on; the caller's word comes again with its next wait.
        if (!isStorageTrouble(error)) throw error;
      }
    }
  }

  return {
    wait,
    async waitForOne(task, caller, hold, extra) {
      // A call that cannot be held is answered like one that did not ask for it.
      if (hold.waitMs <= 0 || hub.size >= world.waitsMax) return presenter.answer(task, caller, extra);
      const { taskId } = task.handle;
      const watched: Watched = { taskIds: [taskId], until: "any", after: null, since: null, unknown: [] };
      const { seen, ended, unread } = await watch([task], watched, caller, hold);
      const storageTrouble = unread || !store.healthy();
      const quietSlices = quietAfter(null, ended);
      return presenter.answer(seen[0] ?? task, caller, { ...extra, waitEnded: ended, quietSlices, storageTrouble });
    },
  };
}

/** Waits in a row without news, this one included; `after` counts the ones before. */
function quietAfter(after: string | null, ended: WaitEnded): number {
  return ended === "slice" ? 1 + (after === null ? 0 : quietSlicesOf(after)) : 0;
}

const ROOT = "root" as const;
const NOTHING_TOLD = { news: 0, steps: 0 };

type Watched = {
  readonly taskIds: readonly TaskId[];
  readonly until: "any" | "all";
  readonly after: After | null;
  /** News counters when the call began to be held; for tasks of which `after` does not speak. */
  readonly since: ReadonlyMap<TaskId, number> | null;
  readonly unknown: readonly string[];
};

/** `told`: what was watched, with what counts as told by then. */
type Seeing = {
  readonly seen: readonly Task[];
  readonly told: Watched;
  readonly ended: WaitEnded;
  /** True if the storage did not say how they are now. */
  readonly unread: boolean;
};

/** True if the wait has something to tell, or can never have. */
function isOver(tasks: readonly Task[], watched: Watched): boolean {
  const { until, unknown } = watched;
  if (unknown.length > 0) return true;
  const told = (task: Task): number | null => newsTold(watched, task);
  if (tasks.every((task) => isQuiet(task, told(task)))) return true;
  if (until === "any") return tasks.some((task) => isNews(task, told(task)));
  const allEnded = tasks.every((task) => task.state.kind === "settled");
  return allEnded || tasks.some((task) => needsSomebody(task) && isNews(task, told(task)));
}

function hasNews(tasks: readonly Task[], watched: Watched): boolean {
  return watched.unknown.length > 0 || tasks.some((task) => isNews(task, newsTold(watched, task)));
}

function needsSomebody({ state }: Task): boolean {
  if (state.kind === "awaiting_answer") return true;
  if (state.kind === "stopping" || state.kind === "queued") return state.survivors.length > 0;
  return state.kind === "running" && state.attempt.stalledSinceMs !== null;
}

/**
 * A question first; else, where other tasks remain open, the wait that also acknowledges what this answer told; where every
 * one has failed there is no result to use, and the first says how to go on.
 */
function nextOf(views: readonly TaskView[]): NextStep {
  const question = views.find(({ next }) => next.kind === "answer");
  if (question !== undefined) return question.next;
  const open = views.filter((view) => view.phase !== "settled");
  if (open.length > 0) return { kind: "wait", seen: views.map(seenOf) };
  const [first] = views;
  const allFailed = first !== undefined && views.every(({ status }) => status === "failed");
  return allFailed ? first.next : { kind: "use_result" };
}

function newsTold({ after, since }: Watched, { handle }: Task): number | null {
  return toldOf(after, handle.taskId)?.news ?? since?.get(handle.taskId) ?? null;
}

function seenOf({ handle, news, steps }: TaskView): Seen {
  return { taskId: handle.taskId, news, steps };
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
