/**
 * Wakes the calls that wait for a task.
 *
 * Invariant: a wake is a hint: whoever is woken reads the store again. Subscribe before you read, and no wake is lost.
 * Invariant: a set per task: waking one of thousands costs as much as waking one of one.
 */

import type { TaskId } from "../core/ids.ts";
import type { Clock } from "../ports/clock.ts";

export type WaiterHub = {
  subscribe(taskIds: readonly TaskId[]): Waiter;
  wake(taskId: TaskId): void;
  /** Ends every wait, now and in future: the daemon is stopping. */
  close(): void;
  readonly size: number;
};

export type Awoken = "woken" | "deadline" | "gone" | "closing";

export type Waiter = Disposable & {
  /** Sleeps until a wake (also one since the last sleep), the deadline, the caller's leaving or the daemon's stop. */
  sleep(untilMonotonicMs: number, signal: AbortSignal): Promise<Awoken>;
};

export function createWaiterHub(clock: Clock): WaiterHub {
  const waiters = new Map<TaskId, Set<Sleeper>>();
  const sleepers = new Set<Sleeper>();
  let closed = false;

  return {
    subscribe(taskIds) {
      const sleeper: Sleeper = { pending: closed ? "closing" : null, fire: null };
      sleepers.add(sleeper);
      for (const taskId of taskIds) addTo(waiters, taskId, sleeper);
      return {
        sleep: (untilMonotonicMs, signal) => sleep(sleeper, clock, untilMonotonicMs, signal),
        [Symbol.dispose]() {
          sleepers.delete(sleeper);
          for (const taskId of taskIds) removeFrom(waiters, taskId, sleeper);
        },
      };
    },
    wake(taskId) {
      for (const sleeper of waiters.get(taskId) ?? []) rouse(sleeper, "woken");
    },
    close() {
      closed = true;
      for (const sleeper of sleepers) rouse(sleeper, "closing");
    },
    get size() {
      return sleepers.size;
    },
  };
}

type Sleeper = { pending: "woken" | "closing" | null; fire: ((why: Awoken) => void) | null };

function rouse(sleeper: Sleeper, why: "woken" | "closing"): void {
  sleeper.pending = sleeper.pending === "closing" ? "closing" : why;
  sleeper.fire?.(sleeper.pending);
}

async function sleep(sleeper: Sleeper, clock: Clock, untilMonotonicMs: number, signal: AbortSignal): Promise<Awoken> {
  // A stopping daemon tells its callers so, also those whose call it has just told to end.
  if (signal.aborted && sleeper.pending !== "closing") return "gone";
  const remainingMs = untilMonotonicMs - clock.monotonicMs();
  if (sleeper.pending === null && remainingMs <= 0) return "deadline";
  const why = sleeper.pending ?? (await nextOf(sleeper, clock, remainingMs, signal));
  if (why === "woken") sleeper.pending = null;
  return why;
}

function nextOf(sleeper: Sleeper, clock: Clock, remainingMs: number, signal: AbortSignal): Promise<Awoken> {
  return new Promise((resolve) => {
    const leave = (): void => sleeper.fire?.("gone");
    const timer = clock.after(remainingMs, () => sleeper.fire?.("deadline"));
    sleeper.fire = (why) => {
      sleeper.fire = null;
      timer[Symbol.dispose]();
      signal.removeEventListener("abort", leave);
      resolve(why);
    };
    signal.addEventListener("abort", leave, { once: true });
  });
}

function addTo(waiters: Map<TaskId, Set<Sleeper>>, taskId: TaskId, sleeper: Sleeper): void {
  const set = waiters.get(taskId);
  if (set === undefined) waiters.set(taskId, new Set([sleeper]));
  else set.add(sleeper);
}

function removeFrom(waiters: Map<TaskId, Set<Sleeper>>, taskId: TaskId, sleeper: Sleeper): void {
  const set = waiters.get(taskId);
  set?.delete(sleeper);
  if (set?.size === 0) waiters.delete(taskId);
}
