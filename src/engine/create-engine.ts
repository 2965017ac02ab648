/**
 * Puts the engine together: one write path, one loop, one hub, and the verbs of `Engine` over them.
 *
 * Invariant: every verb answers; what is thrown inside becomes a refusal by name (contract §12).
 * Invariant: after `drain` nothing more is recorded, and what the daemon stopped itself is no loss.
 */

import type { Caller } from "../core/caller.ts";
import type { TaskView } from "../core/describe.ts";
import type { TaskId } from "../core/ids.ts";
import { isUnfinished } from "../core/plan.ts";
import type { NextStep } from "../core/next-step.ts";
import type { Task } from "../core/task.ts";
import type { Children } from "../ports/children.ts";
import type { Clock } from "../ports/clock.ts";
import type { Driver } from "../ports/driver.ts";
import type { Answer, Engine, TaskItem } from "../ports/engine.ts";
import type { Faults } from "../ports/fault.ts";
import type { IdSource } from "../ports/id-source.ts";
import type { Log } from "../ports/log.ts";
import type { Store } from "../ports/store.ts";
import type { Workspace } from "../ports/workspace.ts";
import { createAttemptRunner } from "./attempt-runner.ts";
import { createCancels } from "./cancel.ts";
import { createContinue } from "./continue-task.ts";
import { createCourier } from "./courier.ts";
import { createDelegate } from "./delegate.ts";
import { drainAttempts } from "./drain.ts";
import { createExecutor, type Executor } from "./execute.ts";
import { createLeaseKeeper } from "./lease-keeper.ts";
import { createLiveTasks } from "./live-tasks.ts";
import { createLookup } from "./lookup.ts";
import { createMachineSleep, type MachineSleep } from "./machine-sleep.ts";
import { createPerformer } from "./perform.ts";
import { createPresenter } from "./present.ts";
import { createReads } from "./read.ts";
import { createReceipts } from "./receipts.ts";
import type { EngineSettings } from "../ports/settings.ts";
import { isStorageTrouble, rejectionOf } from "./storage.ts";
import { createSupervisor } from "./supervisor.ts";
import { createWaits } from "./wait.ts";
import { createWaiterHub } from "./waiter-hub.ts";

export type EngineWorld = {
  readonly store: Store;
  readonly drivers: ReadonlyMap<string, Driver>;
  readonly children: Children;
  readonly workspace: Workspace;
  readonly clock: Clock;
  readonly ids: IdSource;
  readonly log: Log;
  readonly faults: Faults;
  readonly settings: EngineSettings;
};

export type RunningEngine = Engine & {
  /** Looks at everything unfinished; from here on the engine acts by itself. */
  start(): Promise<void>;
  /** Refuses new calls, ends waits with `shutdown`, stops children (or hands them to the guard), records what it stopped. */
  drain(mode: "stop" | "hand_over"): Promise<void>;
  /** Calls that are being held. */
  readonly waiting: number;
};

export function createEngine(world: EngineWorld): RunningEngine {
  const { store, clock, ids, log, settings, children } = world;
  const hub = createWaiterHub(clock);
  const courier = createCourier(store);
  const live = createLiveTasks();
  const recorded = createExecutor(world, changed);
  const sleeps = createMachineSleep({ store, clock, log, executor: recorded });
  const executor = createCarefulExecutor(recorded, sleeps, doubted);
  const runner = createAttemptRunner({ ...world, executor, onEnded, onUnwritten: hub.wake });
  const performer = createPerformer({ ...world, executor, runner });
  const supervisor = createSupervisor({
    store,
    clock,
    log,
    slotsMax: settings.limits.concurrentChildren,
    holds: runner.holds,
    slotsTaken: runner.running,
    perform: performer.perform,
  });
  const presenter = createPresenter({ store, clock, courier, queueOf });
  const lookup = createLookup(store, presenter);
  const receipts = createReceipts({ store, clock, ids, presenter });
  const shared = { ...world, executor, presenter, lookup, receipts, courier, hub, live };
  const waits = createWaits({ ...shared, waitsMax: settings.limits.waitsMax });
  const verbs = { ...shared, waitForOne: waits.waitForOne, expectWorkspaceBusy: performer.expectWorkspaceBusy };
  const delegate = createDelegate(verbs);
  const continueTask = createContinue(verbs);
  const reads = createReads(shared);
  const cancels = createCancels(shared);
  const leases = createLeaseKeeper({
    clock,
    children,
    leaseMs: settings.guardLeaseMs,
    onBeat: noticeSleep,
  });
  let stopping = false;

  /** Runs after every commit. */
  function changed(before: Task | null, after: Task): void {
    live.changed(after);
    supervisor.look(after);
    if (before?.state.kind === "running" && after.state.kind !== "running") supervisor.slotFreed();
    if (after.state.kind === "settled") performer.forget(after.handle.taskId);
    if (before !== null && isUnfinished(before) && !isUnfinished(after)) {
      for (const taskId of performer.waitingForWorkspace) lookAt(taskId);
    }
    if (before?.news === after.news && before.settlements === after.settlements) return;
    courier.changed(after.origin.caller);
    hub.wake(after.handle.taskId);
  }

  function doubted(taskId: TaskId): void {
    courier.uncertain();
    hub.wake(taskId);
  }

  function lookAt(taskId: TaskId): void {
    store
      .task(taskId)
      .then((task) => (task === null ? undefined : supervisor.look(task)))
      .catch((error: unknown) => log.error("look_failed", { taskId, error: String(error) }));
  }

  function onEnded(taskId: TaskId): void {
    supervisor.slotFreed();
    lookAt(taskId);
  }

  function queueOf(taskId: TaskId): TaskItem["queue"] {
    if (performer.waitingForWorkspace.has(taskId)) return { position: 1, reason: "workspace" };
    const position = supervisor.queuePosition(taskId);
    return position === null ? null : { position, reason: "slots" };
  }

  function noticeSleep(): void {
    sleeps.noticed().catch((error: unknown) => log.error("sleep_not_forgiven", { error: String(error) }));
  }

  /** Every verb answers, also while stopping and whatever breaks. `asked`: the id of the task that it is about. */
  async function answering(
    caller: Caller,
    { starts = false, asked = null }: { readonly starts?: boolean; readonly asked?: string | null },
    work: () => Promise<Answer>,
  ): Promise<Answer> {
    if (stopping && starts) {
      const next: NextStep = { kind: "repeat_same_call" };
      return presenter.refusal({ kind: "rejection", code: "stopping", next, detail: {} }, caller, { created: "none" });
    }
    try {
      return await work();
    } catch (error) {
      const rejection = rejectionOf(error);
      log.error("call_failed", { code: rejection.code, error: String(error) });
      const about = asked === null ? null : await viewOf(asked, caller);
      return presenter.refusal(rejection, caller, { about, ...(starts ? { created: "none" } : {}) });
    }
  }

  /** What can still be said of a task when a call about it has failed. */
  async function viewOf(asked: string, caller: Caller): Promise<TaskView | null> {
    const task = await lookup.find(asked, caller).catch(() => null);
    return task === null ? null : presenter.view(task);
  }

  return {
    delegate: (call, caller, hold) => answering(caller, { starts: true }, () => delegate(call, caller, hold)),
    continue(call, caller, hold) {
      const { taskId } = call.sent;
      const asked = typeof taskId === "string" ? taskId : null;
      return answering(caller, { starts: true, asked }, () => continueTask(call, caller, hold));
    },
    wait(request, caller, hold) {
      const asked = request.taskIds?.length === 1 ? (request.taskIds[0] ?? null) : null;
      return answering(caller, { asked }, () => waits.wait(request, caller, hold));
    },
    status: (request, caller) => answering(caller, { asked: request.taskId }, () => reads.status(request, caller)),
    list: (request, caller) => answering(caller, {}, () => reads.list(request, caller)),
    cancel: (request, caller) => answering(caller, { asked: request.taskId }, () => cancels.cancel(request, caller)),
    acknowledge: (request, caller) =>
      answering(caller, { asked: request.taskId }, () => cancels.acknowledge(request, caller)),
    get waiting() {
      return hub.size;
    },
    async start() {
      const tasks = await store.unfinished();
      for (const task of tasks) live.changed(task);
      sleeps.start(tasks);
      leases.start();
      await supervisor.start();
    },
    async drain(mode) {
      stopping = true;
      hub.close();
      runner.mute();
      await supervisor.stop();
      await drainAttempts({ store, executor, children, log, holds: runner.holds });
      leases[Symbol.dispose]();
      await children.release(mode);
    },
  };
}

/**
 * Decides nothing by a clock that has jumped. A write that failed may have been made all the same (a sync that was not
 * confirmed), so whoever lives by being told of changes is told to look.
 */
function createCarefulExecutor(executor: Executor, sleeps: MachineSleep, onDoubt: (taskId: TaskId) => void): Executor {
  return {
    ...executor,
    async execute(taskId, command, extras) {
      await sleeps.noticed();
      try {
        return await executor.execute(taskId, command, extras);
      } catch (error) {
        if (isStorageTrouble(error)) onDoubt(taskId);
        throw error;
      }
    },
  };
}
