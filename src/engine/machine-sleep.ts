/**
 * Notices that the machine slept, and has nobody suffer for it (contract §13).
 *
 * Invariant: no command is decided between a sleep and its forgiveness: wall time jumps at once, and the first thing that
 * looks at it may be a watchdog, a deadline or a provider's broken stream.
 * Invariant: a sleep that could not be recorded is not forgotten; it is tried again with the next command.
 */

import { attemptOf } from "../core/evolve.ts";
import type { TaskId } from "../core/ids.ts";
import type { Clock } from "../ports/clock.ts";
import type { Log } from "../ports/log.ts";
import type { Store } from "../ports/store.ts";
import type { Executor } from "./execute.ts";

export type MachineSleep = {
  /** From here on gaps are noticed. */
  start(): void;
  /** Looks for a gap; resolves when it, or one that was found before, has been forgiven. Never rejects. */
  noticed(): Promise<void>;
};

/** A wall clock that is corrected by less than this is not machine sleep. */
const SLEEP_GAP_MS = 10_000;

export function createMachineSleep(world: {
  readonly store: Store;
  readonly clock: Clock;
  readonly log: Log;
  readonly executor: Executor;
  /** True if this daemon runs the attempt. */
  readonly holds: (taskId: TaskId, epoch: number) => boolean;
}): MachineSleep {
  const { store, clock, log, executor } = world;
  /** Slept, and not yet told to the tasks. */
  let sleptMs = 0;
  const owed = new Map<TaskId, number>();
  let forgiving: Promise<void> | null = null;
  let last = now();

  function now(): { readonly wallMs: number; readonly monotonicMs: number } {
    return { wallMs: clock.wallMs(), monotonicMs: clock.monotonicMs() };
  }

  async function forgive(): Promise<void> {
    if (sleptMs > 0) {
      const tasks = await store.unfinished();
      for (const { handle } of tasks) owed.set(handle.taskId, (owed.get(handle.taskId) ?? 0) + sleptMs);
      sleptMs = 0;
    }
    for (const [taskId, gapMs] of owed) {
      // An attempt that nobody runs gets no fresh period: it is about to be called lost, and ran until its last sign of life.
      if (await isOrphaned(taskId)) continue;
      await executor.execute(taskId, { kind: "ForgiveSleep", gapMs });
      owed.delete(taskId);
    }
  }

  async function isOrphaned(taskId: TaskId): Promise<boolean> {
    const task = await store.task(taskId);
    return task !== null && attemptOf(task.state) !== null && !world.holds(taskId, task.epoch);
  }

  return {
    start() {
      last = now();
    },
    async noticed() {
      const before = last;
      last = now();
      const gapMs = last.wallMs - before.wallMs - (last.monotonicMs - before.monotonicMs);
      if (gapMs > SLEEP_GAP_MS) {
        sleptMs += gapMs;
        log.info("machine_slept", { gapMs });
      }
      if (forgiving === null && sleptMs === 0 && owed.size === 0) return;
      forgiving ??= forgive()
        .catch((error: unknown) => log.error("sleep_not_forgiven", { error: String(error) }))
        .finally(() => {
          forgiving = null;
        });
      await forgiving;
    },
  };
}
