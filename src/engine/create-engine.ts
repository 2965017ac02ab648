/**
 * Puts the engine together: one write path, one loop, one hub, and the verbs of `Engine` over them.
 *
 * Invariant: every verb answers; what is thrown inside becomes a refusal by name (contract §12).
 * Invariant: after `drain` nothing more is recorded, and what the daemon stopped itself is no loss.
 */

import type { Caller } from "../core/caller.ts";
import type { TaskView } from "../core/describe.ts";
import type { AttemptId, TaskId } from "../core/ids.ts";
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
import type { AgentProbe } from "../ports/agent-probe.ts";
import type { ChildCredentials } from "../ports/credentials.ts";
import type { Meter } from "../ports/meter.ts";
import type { Notifier } from "../ports/notifier.ts";
import type { Upkeep } from "../ports/upkeep.ts";
import type { Workspace } from "../ports/workspace.ts";
import { createAgents } from "./agents.ts";
import { createAnswerQuestion } from "./answer-question.ts";
import { createAttemptRunner } from "./attempt-runner.ts";
import { childOf } from "./child-of.ts";
import { createCancels } from "./cancel.ts";
import { createContinue } from "./continue-task.ts";
import { createCourier } from "./courier.ts";
import { createDelegate } from "./delegate.ts";
import { drainAttempts } from "./drain.ts";
import { createUpkeep } from "./upkeep.ts";
import { createFollowers } from "./followers.ts";
import { createHerald } from "./herald.ts";
import { createExecutor, type Executor } from "./execute.ts";
import { createLeaseKeeper } from "./lease-keeper.ts";
import { createLiveTasks } from "./live-tasks.ts";
import { createLookup } from "./lookup.ts";
import { createMachineSleep, type MachineSleep } from "./machine-sleep.ts";
import { measureAnswer, measureChange } from "./measure.ts";
import { createPerformer } from "./perform.ts";
import { createPresenter } from "./present.ts";
import { createReads } from "./read.ts";
import { createReadThread } from "./read-thread.ts";
import { createReceipts } from "./receipts.ts";
import { createRetention } from "./retention.ts";
import type { EngineSettings } from "../ports/settings.ts";
import { isStorageTrouble, rejectionOf } from "./storage.ts";
import { createSupervisor } from "./supervisor.ts";
import { createViewFor } from "./view-for.ts";
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
  readonly meter: Meter;
  readonly credentials: ChildCredentials;
  readonly probe: AgentProbe;
  readonly notifiers: readonly Notifier[];
  /** Takes secrets out of what a child wrote before it is stored. */
  readonly mask: (text: string) => string;
  /** Where the tools are served (`…/mcp`); null while nobody listens. */
  readonly mcpUrl: () => string | null;
};

export type RunningEngine = Engine & {
  readonly upkeep: Upkeep;
  /** The caller that an attempt's child is; null if that attempt is over or never was. */
  childOf(attemptId: AttemptId): Promise<Caller | null>;
  /** Children with a running turn, and tasks that wait for a place. */
  load(): { readonly running: number; readonly queued: number };
  /** Looks at everything unfinished; from here on the engine acts by itself. */
  start(): Promise<void>;
  /** Refuses new calls, ends waits with `shutdown`, stops children (or hands them to the guard), records what it stopped. */
  drain(mode: "stop" | "hand_over"): Promise<void>;
  /** Calls that are being held. */
  readonly waiting: number;
};

export function createEngine(world: EngineWorld): RunningEngine {
  const { store, clock, ids, log, settings, children, meter } = world;
  const hub = createWaiterHub(clock);
  const courier = createCourier(store);
  const live = createLiveTasks();
  const followers = createFollowers(clock, log);
  const herald = createHerald({ ...world, url: () => world.mcpUrl()?.replace(/\/mcp$/, "") ?? null });
  const recorded = createExecutor({ ...world, noticesOf: herald.noticesOf }, changed);
  const sleeps = createMachineSleep({ store, clock, log, executor: recorded });
  const executor = createCarefulExecutor(recorded, sleeps, doubted);
  const runner = createAttemptRunner({
    ...world,
    executor,
    onEnded,
    onIdle: () => supervisor.slotFreed(),
    onUnwritten: hub.wake,
    onMessage: tellFollowers,
  });
  const performer = createPerformer({ ...world, executor, runner, childUrl: world.mcpUrl });
  const supervisor = createSupervisor({
    store,
    clock,
    log,
    slotsMax: settings.limits.concurrentChildren,
    holds: runner.holds,
    onRead: runner.changed,
    slotsTaken: runner.running,
    perform: performer.perform,
  });
  const viewFor = createViewFor(settings.approvalsBy);
  const presenter = createPresenter({ store, clock, courier, queueOf, viewFor });
  const lookup = createLookup(store, presenter);
  const receipts = createReceipts({ store, clock, ids, presenter });
  const shared = { ...world, executor, presenter, lookup, receipts, courier, hub, live };
  const waits = createWaits({ ...shared, waitsMax: settings.limits.waitsMax, whileLeaning: runner.whileLeaning });
  const agents = createAgents({
    settings,
    probe: world.probe,
    courier,
    healing: live.healing,
    running: runner.running,
    queued: supervisor.queued,
  });
  const verbs = {
    ...shared,
    waitForOne: waits.waitForOne,
    expectWorkspaceBusy: performer.expectWorkspaceBusy,
    defaultAgent: agents.default,
  };
  const delegate = createDelegate(verbs);
  const continueTask = createContinue(verbs);
  const reads = createReads(shared);
  const cancels = createCancels(shared);
  const answerQuestion = createAnswerQuestion(shared);
  const readThread = createReadThread(shared);
  const retention = createRetention({ ...world, retention: settings.retention });
  const upkeep = createUpkeep({
    ...shared,
    retention,
    followers,
    queued: supervisor.queued,
    waiting: () => hub.size,
  });
  const leases = createLeaseKeeper({
    clock,
    children,
    leaseMs: settings.guardLeaseMs,
    onBeat: noticeSleep,
  });
  let stopping = false;

  /** Runs after every commit. */
  function changed(before: Task | null, after: Task): void {
    measureChange(meter, before, after);
    live.changed(after);
    runner.changed(after);
    followers.tell(after);
    supervisor.look(after);
    if (before?.state.kind === "running" && after.state.kind !== "running") supervisor.slotFreed();
    if (after.state.kind === "settled") {
      performer.forget(after.handle.taskId);
      herald.look();
      // A cancelled task above may wait for this one's end.
      for (const taskId of after.origin.ancestors) lookAt(taskId);
    }
    if (before !== null && isUnfinished(before) && !isUnfinished(after)) {
      for (const taskId of performer.waitingForWorkspace.keys()) lookAt(taskId);
    }
    if (before?.news === after.news && before.settlements === after.settlements) return;
    courier.changed(after);
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
    const place = performer.workspacePosition(taskId);
    if (place !== null) return { position: place, reason: "workspace" };
    const position = supervisor.queuePosition(taskId);
    return position === null ? null : { position, reason: "slots" };
  }

  function tellFollowers(taskId: TaskId): void {
    const task = live.task(taskId);
    if (task !== null) followers.tell(task);
  }

  function noticeSleep(): void {
    sleeps.noticed().catch((error: unknown) => log.error("sleep_not_forgiven", { error: String(error) }));
  }

  /** Every verb answers, also while stopping and whatever breaks. `asked`: the id of the task that it is about. */
  async function answering(
    caller: Caller,
    about: { readonly tool: string; readonly starts?: boolean; readonly asked?: string | null },
    work: () => Promise<Answer>,
  ): Promise<Answer> {
    const answer = await answerOf(caller, about, work);
    measureAnswer(meter, about.tool, answer);
    return answer;
  }

  async function answerOf(
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
    return task === null ? null : presenter.view(task, caller);
  }

  return {
    upkeep,
    childOf: (attemptId) => childOf(store, attemptId),
    load: () => ({ running: runner.running(), queued: supervisor.queued() }),
    delegate(call, caller, hold) {
      return answering(caller, { tool: "delegate_task", starts: true }, () => delegate(call, caller, hold));
    },
    continue(call, caller, hold) {
      const { taskId } = call.sent;
      const asked = typeof taskId === "string" ? taskId : null;
      const about = { tool: "task_continue", starts: true, asked };
      return answering(caller, about, () => continueTask(call, caller, hold));
    },
    wait(request, caller, hold) {
      const asked = request.taskIds?.length === 1 ? (request.taskIds[0] ?? null) : null;
      return answering(caller, { tool: "task_wait", asked }, () => waits.wait(request, caller, hold));
    },
    status(request, caller) {
      return answering(caller, { tool: "task_status", asked: request.taskId }, () => reads.status(request, caller));
    },
    list: (request, caller) => answering(caller, { tool: "task_list" }, () => reads.list(request, caller)),
    cancel(request, caller) {
      return answering(caller, { tool: "task_cancel", asked: request.taskId }, () => cancels.cancel(request, caller));
    },
    acknowledge(request, caller) {
      const about = { tool: "task_ack", asked: request.taskId };
      return answering(caller, about, () => cancels.acknowledge(request, caller));
    },
    answer(request, caller) {
      const about = { tool: "task_answer", asked: request.taskId };
      return answering(caller, about, () => answerQuestion(request, caller));
    },
    read(request, caller) {
      return answering(caller, { tool: "thread_read", asked: request.id }, () => readThread(request, caller));
    },
    agents: (caller) => answering(caller, { tool: "list_agents" }, () => agents.list(caller)),
    get waiting() {
      return hub.size;
    },
    async start() {
      const tasks = await store.unfinished();
      for (const task of tasks) live.changed(task);
      sleeps.start(tasks);
      leases.start();
      await supervisor.start();
      retention.start();
      herald.look();
    },
    async drain(mode) {
      stopping = true;
      hub.close();
      runner.mute();
      retention[Symbol.dispose]();
      await herald[Symbol.asyncDispose]();
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
