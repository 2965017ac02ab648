/**
 * Ends a task at its caller's word, and takes the caller's word that a result has been read.
 *
 * Invariant: idempotent: what has been done before is success again.
 * Invariant: a task and everything below it are cancelled in one transaction, in which no child of theirs can be accepted
 * any more: no crash leaves half a tree at work (P12, C1).
 */

import { actorOf, type Caller, pathOf } from "../core/caller.ts";
import type { Answer, AcknowledgeRequest, CancelRequest } from "../ports/engine.ts";
import type { Clock } from "../ports/clock.ts";
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
  readonly executor: Executor;
  readonly presenter: Presenter;
  readonly lookup: Lookup;
  readonly hub: WaiterHub;
  readonly clock: Clock;
}): Cancels {
  const { executor, presenter, lookup, hub, clock } = world;
  const never = new AbortController().signal;

  async function untilSettled(asked: string, caller: Caller): Promise<Awaited<ReturnType<Lookup["find"]>>> {
    const untilMs = clock.monotonicMs() + ANSWER_WITHIN_MS;
    const first = await lookup.find(asked, caller);
    if (first === null) return null;
    using waiter = hub.subscribe([first.handle.taskId]);
    for (;;) {
      const task = await lookup.find(asked, caller);
      if (task === null || task.state.kind === "settled") return task;
      const why = await waiter.sleep(untilMs, never);
      if (why !== "woken") return await lookup.find(asked, caller);
    }
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
      const alreadyDone = task.state.kind === "settled";
      const command = { kind: "CancelTask", reason, by } as const;
      if (!abandon) {
        const path = pathOf({ ancestors: task.origin.ancestors, taskId });
        await executor.execute(taskId, command, {
          also: async (tx) =>
            (await tx.unfinishedBelow(path)).map((below) => ({ taskId: below.handle.taskId, command })),
        });
      }
      const now = await untilSettled(asked, caller);
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
