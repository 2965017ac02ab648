/**
 * Ends a task at its caller's word, and takes the caller's word that a result has been read.
 *
 * Invariant: idempotent: what has been done before is success again.
 * Invariant: a task and everything below it are cancelled in one transaction, in which no child of theirs can be accepted
 * any more: no crash leaves half a tree at work (P12, C1).
 */

import { type Actor, actorOf, type Caller, pathOf, reachOf } from "../core/caller.ts";
import type { Command } from "../core/command.ts";
import { decide } from "../core/decide.ts";
import type { TaskId } from "../core/ids.ts";
import type { Task } from "../core/task.ts";
import type { Answer, AcknowledgeRequest, CancelRequest } from "../ports/engine.ts";
import type { Clock } from "../ports/clock.ts";
import type { Store } from "../ports/store.ts";
import type { Executor } from "./execute.ts";
import type { Lookup } from "./lookup.ts";
import type { Presenter } from "./present.ts";
import type { WaiterHub } from "./waiter-hub.ts";

export type Cancels = {
  /** Answers once the child is proven gone, or after a few seconds with what is still stopping. */
  cancel(request: CancelRequest, caller: Caller): Promise<Answer>;
  acknowledge(request: AcknowledgeRequest, caller: Caller): Promise<Answer>;
};

/** The stop ladder needs about 3 s where a child ignores SIGTERM; the shortest client limit is far above this. */
const ANSWER_WITHIN_MS = 8_000;

export function createCancels(world: {
  readonly store: Store;
  readonly executor: Executor;
  readonly presenter: Presenter;
  readonly lookup: Lookup;
  readonly hub: WaiterHub;
  readonly clock: Clock;
}): Cancels {
  const { store, executor, presenter, lookup, hub, clock } = world;
  const never = new AbortController().signal;

  /** Until the task and what was stopped below it have ended. */
  async function untilSettled(asked: string, caller: Caller, stopped: readonly TaskId[]): Promise<Task | null> {
    const untilMs = clock.monotonicMs() + ANSWER_WITHIN_MS;
    const first = await lookup.find(asked, caller);
    if (first === null) return null;
    using waiter = hub.subscribe([first.handle.taskId, ...stopped]);
    for (;;) {
      const task = await lookup.find(asked, caller);
      if (task === null || (isSettled(task) && (await allSettled(stopped, caller)))) return task;
      const why = await waiter.sleep(untilMs, never);
      if (why !== "woken") return await lookup.find(asked, caller);
    }
  }

  async function allSettled(taskIds: readonly TaskId[], caller: Caller): Promise<boolean> {
    return taskIds.length === 0 || (await store.tasks(taskIds, reachOf(caller))).every(isSettled);
  }

  /** Stops the task and everything below it. What below it had not ended. */
  async function cancelTree({ handle, origin }: Task, reason: string | null, by: Actor): Promise<readonly TaskId[]> {
    const path = pathOf({ ancestors: origin.ancestors, taskId: handle.taskId });
    let below: readonly Task[] = [];
    const commandFor = (taskId: TaskId): Command => {
      const hasBelow = below.some((task) => task.origin.ancestors.includes(taskId));
      return { kind: "CancelTask", reason, by, ...(hasBelow ? { below: true } : {}) };
    };
    await executor.execute(handle.taskId, commandFor(handle.taskId), {
      guard: async (tx, current) => {
        below = (await tx.unfinishedBelow(path)).filter((task) => !isSettled(task));
        return decide(current, commandFor(handle.taskId), clock.wallMs());
      },
      also: async () => below.map(({ handle: { taskId } }) => ({ taskId, command: commandFor(taskId) })),
    });
    return below.map((task) => task.handle.taskId);
  }

  return {
    async cancel({ taskId: asked, reason, abandon }, caller) {
      const task = await lookup.find(asked, caller);
      if (task === null) return lookup.unknown(asked, caller);
      const { taskId } = task.handle;
      const by = actorOf(caller);
      if (abandon) {
        const { decision } = await executor.execute(taskId, { kind: "AbandonSurvivors", by });
        if (decision.kind === "rejection")
          return presenter.refusal(decision, caller, { about: presenter.view(task, caller) });
      }
      const stopped = abandon ? [] : await cancelTree(task, reason, by);
      const now = await untilSettled(asked, caller, stopped);
      const alreadyDone = isSettled(task) && stopped.length === 0;
      return presenter.answer(now ?? task, caller, { alreadyDone });
    },
    async acknowledge({ taskId: asked, settlement }, caller) {
      const task = await lookup.find(asked, caller);
      if (task === null) return lookup.unknown(asked, caller);
      const command = { kind: "AckDelivery", settlement, by: actorOf(caller) } as const;
      const executed = await executor.execute(task.handle.taskId, command);
      const alreadyDone = task.acknowledgedThrough >= settlement;
      return presenter.answer(executed.task ?? task, caller, { alreadyDone });
    },
  };
}

function isSettled({ state }: Task): boolean {
  return state.kind === "settled";
}
