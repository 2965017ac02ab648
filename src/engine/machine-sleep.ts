/**
 * Notices that the machine slept, and has nobody suffer for it (contract §13).
 *
 * Invariant: no command is decided between a sleep and its forgiveness: wall time jumps at once, and the first thing that
 * looks at it may be a watchdog, a deadline or a provider's broken stream.
 * Invariant: a sleep that could not be recorded is not forgotten; it is tried again with the next command.
 */

import { attemptOf } from "../core/evolve.ts";
import type { TaskId } from "../core/ids.ts";
import type { Task } from "../core/task.ts";
import type { Clock } from "../ports/clock.ts";
import type { Log } from "../ports/log.ts";
import type { Store } from "../ports/store.ts";
import type { Executor } from "./execute.ts";

export type MachineSleep = {
  /** Called once, before any command. `tasks`: what an earlier daemon left unfinished. */
  start(tasks: readonly Task[]): void;
  /** Looks for a gap; resolves when it, or one that was found before, has been forgiven. Rejects if that is not to be had. */
  noticed(): Promise<void>;
};

/** A wall clock that is corrected by less than this is not machine sleep. */
const SLEEP_GAP_MS = 10_000;

export function createMachineSleep(world: {
  readonly store: Store;
  readonly clock: Clock;
  readonly log: Log;
  readonly executor: Executor;
}): MachineSleep {
  const { store, clock, log, executor } = world;
  /** Slept, and not yet told to the tasks. */
  let sleptMs = 0;
  const owed = new Map<TaskId, number>();
  /** Owed to attempts that an earlier daemon ran and nobody runs now, which are by their epoch in `orphans`. */
  const deferred = new Map<TaskId, number>();
  const orphans = new Map<TaskId, number>();
  let forgiving: Promise<void> | null = null;
  let last = now();

  function now(): { readonly wallMs: number; readonly monotonicMs: number } {
    return { wallMs: clock.wallMs(), monotonicMs: clock.monotonicMs() };
  }

  function look(): void {
    const before = last;
    last = now();
    const gapMs = last.wallMs - before.wallMs - (last.monotonicMs - before.monotonicMs);
    if (gapMs <= SLEEP_GAP_MS) return;
    sleptMs += gapMs;
    log.info("machine_slept", { gapMs });
  }

  async function forgive(): Promise<void> {
    await share();
    for (const taskId of owed.keys()) {
      const orphaned = await isOrphaned(taskId);
      // Shared again before each: what is recorded counts as of now, so it has to hold all that was slept until now.
      await share();
      const gapMs = owed.get(taskId) ?? 0;
      owed.delete(taskId);
      try {
        // What nobody runs gets no fresh period: it is about to be called lost, and ran until its last sign of life.
        if (orphaned) owe(deferred, taskId, gapMs);
        else await executor.execute(taskId, { kind: "ForgiveSleep", gapMs });
      } catch (error) {
        owe(owed, taskId, gapMs);
        throw error;
      }
    }
  }

  /** Owes every task what was slept; at its end no gap is left unseen. */
  async function share(): Promise<void> {
    for (look(); sleptMs > 0; look()) {
      const gapMs = sleptMs;
      for (const { handle } of await store.unfinished()) owe(owed, handle.taskId, gapMs);
      sleptMs -= gapMs;
    }
  }

  async function isOrphaned(taskId: TaskId): Promise<boolean> {
    const epoch = orphans.get(taskId);
    if (epoch === undefined) return false;
    const task = await store.task(taskId);
    const orphaned = task !== null && task.epoch === epoch && attemptOf(task.state) !== null;
    if (!orphaned) orphans.delete(taskId);
    return orphaned;
  }

  return {
    start(tasks) {
      for (const { handle, state, epoch } of tasks) if (attemptOf(state) !== null) orphans.set(handle.taskId, epoch);
    },
    async noticed() {
      for (const [taskId, gapMs] of deferred) owe(owed, taskId, gapMs);
      deferred.clear();
      for (;;) {
        // Looked for again after every wait: the machine may have slept during it.
        look();
        if (forgiving === null && sleptMs === 0 && owed.size === 0) return;
        forgiving ??= forgive().finally(() => {
          forgiving = null;
        });
        await forgiving;
      }
    },
  };
}

function owe(to: Map<TaskId, number>, taskId: TaskId, gapMs: number): void {
  to.set(taskId, (to.get(taskId) ?? 0) + gapMs);
}
