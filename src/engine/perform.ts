/**
 * Carries out what `plan` wants: starts, reaps, gives up, marks, expires.
 *
 * Invariant: the mark is committed before anything is spawned, so whatever a crash leaves behind can be found.
 * Invariant: a writer starts only while it holds the claim on its directory.
 * Invariant: a cancelled task is not said to be cancelled while anything below it is still being stopped (C1, P12).
 */

import { pathOf } from "../core/caller.ts";
import type { Command, StopReport } from "../core/command.ts";
import { decide } from "../core/decide.ts";
import { attemptIdOf, type TaskId } from "../core/ids.ts";
import { type Intent, REAP_AGAIN_MS } from "../core/plan.ts";
import type { Attempt, Survivor, Task } from "../core/task.ts";
import { lastStopOf } from "../core/verdict.ts";
import { overlaps } from "../core/workspace-claim.ts";
import type { Children } from "../ports/children.ts";
import type { Clock } from "../ports/clock.ts";
import type { Driver } from "../ports/driver.ts";
import type { Faults } from "../ports/fault.ts";
import type { Log } from "../ports/log.ts";
import type { Store, StoreWriter } from "../ports/store.ts";
import type { AttemptRunner } from "./attempt-runner.ts";
import type { Executor } from "./execute.ts";
import { orderOf, type OrderParts, readWords, type Words } from "./order.ts";
import type { ChildCredentials } from "../ports/credentials.ts";
import type { Meter } from "../ports/meter.ts";
import type { EngineSettings } from "../ports/settings.ts";
import type { Workspace } from "../ports/workspace.ts";

export type Performer = {
  /** Resolves with the delay after which to look again, or null where the change itself tells. */
  perform(task: Task, intent: Intent): Promise<number | null>;
  /** Tasks that wait for a directory that somebody else writes in, in the order in which they began to. */
  readonly waitingForWorkspace: ReadonlyMap<TaskId, string>;
  /** Its place among those who wait for an overlapping directory (1 = next); null if it waits for none. */
  workspacePosition(taskId: TaskId): number | null;
  /** It will have to wait, as was seen when it was accepted. */
  expectWorkspaceBusy(task: Task): void;
  /** It has ended. */
  forget(taskId: TaskId): void;
};

export type PerformerWorld = {
  readonly store: Store;
  readonly executor: Executor;
  readonly runner: AttemptRunner;
  readonly children: Children;
  readonly drivers: ReadonlyMap<string, Driver>;
  readonly settings: EngineSettings;
  readonly workspace: Workspace;
  readonly credentials: ChildCredentials;
  /** Where a child finds the tools; null while nobody listens. */
  readonly childUrl: () => string | null;
  readonly clock: Clock;
  readonly faults: Faults;
  readonly log: Log;
  readonly meter: Meter;
  readonly mask: (text: string) => string;
};

/** Command lines are the child's to write: a secret in one is not kept (X2). */
function maskedReport(report: StopReport, mask: (text: string) => string): StopReport {
  const shown = (processes: readonly Survivor[]): readonly Survivor[] =>
    processes.map(({ pid, command }) => ({ pid, command: mask(command) }));
  if (report.kind === "survivors") return { ...report, survivors: shown(report.survivors) };
  const { survivors, kept } = report.stop;
  return { ...report, stop: { ...report.stop, survivors: shown(survivors), kept: shown(kept) } };
}

/** What a driver gets to say its last word once its processes are gone. */
const LAST_WORD_MS = 1_000;

export function createPerformer(world: PerformerWorld): Performer {
  const { executor, runner, children, log } = world;
  const waitingForWorkspace = new Map<TaskId, string>();

  async function start(task: Task): Promise<null> {
    const { taskId } = task.handle;
    const words = await readWords(world.store, task);
    const { daemonId } = world.settings;
    const head = task.epoch === 0 ? await world.workspace.head(task.spec.cwd) : null;
    const command: Command = { kind: "StartAttempt", daemonId, head };
    let blocked = false;
    const executed = await executor.execute(taskId, command, {
      guard: async (tx, current) => {
        if (current.spec.access !== "write" || (await tx.hasClaim(taskId))) return null;
        // A claim is taken only together with the start: a task that has ended meanwhile would never give it back.
        const decision = decide(current, command, world.clock.wallMs());
        if (decision.kind !== "accepted") return decision;
        blocked = (await tx.claimHolder(current.spec.cwd, current.origin.caller)) !== null;
        if (blocked) return { kind: "ignored", why: "not_startable" };
        const { caller } = current.origin;
        await tx.putClaim({ taskId, caller, path: current.spec.cwd, sinceMs: world.clock.wallMs() });
        return null;
      },
    });
    if (blocked) waitingForWorkspace.set(taskId, task.spec.cwd);
    else waitingForWorkspace.delete(taskId);
    if (executed.decision.kind === "accepted" && executed.task !== null) {
      if (task.state.kind === "queued") world.meter.queueWaited(world.clock.wallMs() - task.state.dueAtMs);
      await launch(executed.task, task, words);
    }
    return null;
  }

  async function launch(started: Task, before: Task, words: Words): Promise<void> {
    const driver = world.drivers.get(started.spec.driver);
    const agent = world.settings.agents.get(started.spec.agent);
    await world.faults.at("before_spawn");
    const { taskId } = started.handle;
    if (driver === undefined || agent === undefined) {
      // The agent was removed from the configuration after the task was accepted.
      const { class: failure, nature } = { class: "config", nature: "definitive" } as const;
      const fault = { class: failure, nature, httpStatus: null, stopReason: null, retryAfterMs: null };
      const ended = { ok: false, fault, result: null, sideEffects: false, usage: null } as const;
      await executor.execute(taskId, { kind: "FinishAttempt", epoch: started.epoch, ...ended });
      return;
    }
    const { settings } = world;
    const delegation = delegationOf(started);
    runner.run(started, driver, orderOf({ settings, started, before, agent, words, delegation }));
  }

  /** A child at the limit has no credential at all (P18, E1). */
  function delegationOf({ handle, origin, epoch }: Task): OrderParts["delegation"] {
    const url = world.childUrl();
    if (url === null || origin.depth >= world.settings.limits.depthMax) return null;
    return { url, token: world.credentials.tokenOf(attemptIdOf(handle.taskId, epoch)) };
  }

  async function reap(task: Task, attempt: Attempt): Promise<number | null> {
    const { state } = task;
    const endedWell = state.kind === "stopping" && state.verdict.status === "completed";
    const background = endedWell ? task.spec.background : "reap";
    const own = await children.stop({ mark: attempt.mark, process: attempt.process, background });
    await runner.finished(task.handle.taskId, attempt.epoch, LAST_WORD_MS);
    return reportStop(task.handle.taskId, attempt.epoch, maskedReport(own, world.mask));
  }

  /** A task without an attempt of its own, cancelled while something below it had to be stopped. */
  function awaitBelow(task: Task, epoch: number): Promise<number | null> {
    return reportStop(task.handle.taskId, epoch, { kind: "proven", stop: lastStopOf(task) });
  }

  /**
   * Whether anything below holds it up is seen in the transaction that would end it: the task may have been cancelled, with
   * what is below it, while its own processes were being stopped.
   */
  async function reportStop(taskId: TaskId, epoch: number, own: StopReport): Promise<number | null> {
    await world.faults.at("before_settle");
    let report = own;
    await executor.execute(
      taskId,
      { kind: "ReportStop", epoch, report },
      {
        guard: async (tx, current) => {
          if (own.kind === "proven") report = (await stillStoppingBelow(tx, current)) ?? own;
          return decide(current, { kind: "ReportStop", epoch, report }, world.clock.wallMs());
        },
      },
    );
    if (report.kind === "proven") return null;
    if (report.survivors.length > 0) {
      log.warn("survivors", { taskId, count: report.survivors.length });
      world.meter.survivorsFound(report.survivors.length);
    }
    return REAP_AGAIN_MS;
  }

  /** What holds up the end of a cancelled task below it, as a report on the task itself; null if nothing does. */
  async function stillStoppingBelow(tx: StoreWriter, { handle, origin, state }: Task): Promise<StopReport | null> {
    if (state.kind !== "stopping" || state.verdict.status !== "cancelled") return null;
    const path = pathOf({ ancestors: origin.ancestors, taskId: handle.taskId });
    const below = (await tx.unfinishedBelow(path)).filter((task) => task.state.kind === "stopping");
    if (below.length === 0) return null;
    const survivors = below.flatMap((task) => (task.state.kind === "stopping" ? task.state.survivors : []));
    return { kind: "survivors", survivors };
  }

  function workspacePosition(taskId: TaskId): number | null {
    const wanted = waitingForWorkspace.get(taskId);
    if (wanted === undefined) return null;
    let position = 1;
    for (const [other, cwd] of waitingForWorkspace) {
      if (other === taskId) break;
      if (overlaps(cwd, wanted)) position += 1;
    }
    return position;
  }

  return {
    waitingForWorkspace,
    workspacePosition,
    expectWorkspaceBusy: ({ handle, spec }) => void waitingForWorkspace.set(handle.taskId, spec.cwd),
    forget: (taskId) => void waitingForWorkspace.delete(taskId),
    async perform(task, intent) {
      const { taskId } = task.handle;
      switch (intent.kind) {
        case "start":
          return start(task);
        case "reap":
          return reap(task, intent.attempt);
        case "awaitBelow":
          return awaitBelow(task, intent.epoch);
        case "lose": {
          const { epoch } = intent;
          const lost = { kind: "LoseAttempt", epoch, partial: null, orderly: false, unseen: true } as const;
          await executor.execute(taskId, lost);
          return null;
        }
        case "markStalled":
          await executor.execute(taskId, { kind: "MarkStalled", epoch: intent.epoch });
          return null;
        case "expireActive":
          await executor.execute(taskId, { kind: "ExpireActive", epoch: intent.epoch });
          return null;
        case "expireInput":
          await executor.execute(taskId, { kind: "ExpireInput", questionId: intent.questionId });
          return null;
      }
    },
  };
}
