/**
 * Carries out what `plan` wants: starts, reaps, gives up, marks, expires.
 *
 * Invariant: the mark is committed before anything is spawned, so whatever a crash leaves behind can be found.
 * Invariant: a writer starts only while it holds the claim on its directory.
 */

import type { Command } from "../core/command.ts";
import { decide } from "../core/decide.ts";
import type { TaskId } from "../core/ids.ts";
import { type Intent, REAP_AGAIN_MS } from "../core/plan.ts";
import type { Attempt, Task } from "../core/task.ts";
import type { Children } from "../ports/children.ts";
import type { Clock } from "../ports/clock.ts";
import type { Driver } from "../ports/driver.ts";
import type { Faults } from "../ports/fault.ts";
import type { Log } from "../ports/log.ts";
import type { Store } from "../ports/store.ts";
import type { AttemptRunner } from "./attempt-runner.ts";
import type { Executor } from "./execute.ts";
import { orderOf, readWords, type Words } from "./order.ts";
import type { EngineSettings } from "../ports/settings.ts";

export type Performer = {
  /** Resolves with the delay after which to look again, or null where the change itself tells. */
  perform(task: Task, intent: Intent): Promise<number | null>;
  /** Tasks that wait for a directory that somebody else writes in. */
  readonly waitingForWorkspace: ReadonlySet<TaskId>;
  /** It will have to wait, as was seen when it was accepted. */
  expectWorkspaceBusy(taskId: TaskId): void;
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
  readonly clock: Clock;
  readonly faults: Faults;
  readonly log: Log;
};

/** What a driver gets to say its last word once its processes are gone. */
const LAST_WORD_MS = 1_000;

export function createPerformer(world: PerformerWorld): Performer {
  const { executor, runner, children, log } = world;
  const waitingForWorkspace = new Set<TaskId>();

  async function start(task: Task): Promise<null> {
    const { taskId } = task.handle;
    const words = await readWords(world.store, task);
    const command: Command = { kind: "StartAttempt", daemonId: world.settings.daemonId };
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
    if (blocked) waitingForWorkspace.add(taskId);
    else waitingForWorkspace.delete(taskId);
    if (executed.decision.kind === "accepted" && executed.task !== null) await launch(executed.task, task, words);
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
    runner.run(started, driver, orderOf(world.settings, started, before, agent, words));
  }

  async function reap(task: Task, attempt: Attempt): Promise<number | null> {
    const { state } = task;
    const endedWell = state.kind === "stopping" && state.verdict.status === "completed";
    const background = endedWell ? task.spec.background : "reap";
    const report = await children.stop({ mark: attempt.mark, process: attempt.process, background });
    await runner.finished(task.handle.taskId, attempt.epoch, LAST_WORD_MS);
    await world.faults.at("before_settle");
    await executor.execute(task.handle.taskId, { kind: "ReportStop", epoch: attempt.epoch, report });
    if (report.kind === "proven") return null;
    log.warn("survivors", { taskId: task.handle.taskId, count: report.survivors.length });
    return REAP_AGAIN_MS;
  }

  return {
    waitingForWorkspace,
    expectWorkspaceBusy: (taskId) => void waitingForWorkspace.add(taskId),
    forget: (taskId) => void waitingForWorkspace.delete(taskId),
    async perform(task, intent) {
      const { taskId } = task.handle;
      switch (intent.kind) {
        case "start":
          return start(task);
        case "reap":
          return reap(task, intent.attempt);
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
