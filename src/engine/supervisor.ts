/**
 * One loop that asks `plan` what should be true of each unfinished task and has it made so.
 *
 * Invariant: level-triggered: it acts on what the store says, never on why it was woken. A lost wake costs one poll.
 * Invariant: at most one action per task at a time; no child is started while `slots` of them have a running turn. One that
 * had given its place up (a question, a wait for its own children) goes on at once, so for a while there may be more.
 * Absent on purpose: recovery. After a restart the same loop finds the same states.
 */

import type { TaskId } from "../core/ids.ts";
import { LIMITS } from "../core/limits.ts";
import { type Intent, isUnfinished, plan } from "../core/plan.ts";
import type { Task } from "../core/task.ts";
import type { Clock, Timer } from "../ports/clock.ts";
import type { Log } from "../ports/log.ts";
import type { Store } from "../ports/store.ts";

export type Supervisor = {
  /** Reads what is unfinished and starts looking. Resolves once every task has been seen. */
  start(): Promise<void>;
  /** Something may have changed: look soon. */
  look(task: Task): void;
  /** A place may be free: let the first in the queue try. */
  slotFreed(): void;
  /** Place in the queue for a slot (1 = next), or null if it does not wait for one. */
  queuePosition(taskId: TaskId): number | null;
  /** Tasks that wait for a place. */
  queued(): number;
  /** Ends the loop; resolves when the actions in flight are over. */
  stop(): Promise<void>;
};

export type SupervisorWorld = {
  readonly store: Store;
  readonly clock: Clock;
  readonly log: Log;
  readonly slotsMax: number;
  /** True if this daemon runs the attempt. */
  readonly holds: (taskId: TaskId, epoch: number) => boolean;
  /** An unfinished task as it was just read; whoever missed a commit of it learns it here. */
  readonly onRead: (task: Task) => void;
  /** Attempts with a running turn. */
  readonly slotsTaken: () => number;
  /** Carries an intent out. Resolves with a delay after which to look again, or null if the change itself will tell. */
  readonly perform: (task: Task, intent: Intent) => Promise<number | null>;
};

export function createSupervisor(world: SupervisorWorld): Supervisor {
  const { store, clock, log } = world;
  const dueAtMs = new Map<TaskId, number>();
  const busy = new Map<TaskId, Promise<void>>();
  const again = new Set<TaskId>();
  const queue = new Set<TaskId>();
  let timer: Timer | null = null;
  let armedForMs = Number.POSITIVE_INFINITY;
  let poll: Timer | null = null;
  const starting = new Set<TaskId>();
  let stopped = true;

  function schedule(taskId: TaskId, atMs: number): void {
    dueAtMs.set(taskId, atMs);
    if (atMs < armedForMs) arm(atMs);
  }

  function arm(atMs: number): void {
    timer?.[Symbol.dispose]();
    armedForMs = atMs;
    timer = stopped ? null : clock.after(Math.max(0, atMs - clock.wallMs()), lookAtDue);
  }

  function lookAtDue(): void {
    const nowMs = clock.wallMs();
    armedForMs = Number.POSITIVE_INFINITY;
    let earliestMs = Number.POSITIVE_INFINITY;
    for (const [taskId, atMs] of dueAtMs) {
      if (atMs > nowMs) earliestMs = Math.min(earliestMs, atMs);
      else {
        dueAtMs.delete(taskId);
        begin(taskId);
      }
    }
    if (earliestMs < armedForMs) arm(earliestMs);
  }

  /** `read`: the task, where it has just been read. */
  function begin(taskId: TaskId, read?: Task): void {
    if (stopped) return;
    if (busy.has(taskId)) {
      again.add(taskId);
      return;
    }
    const work = attend(taskId, read)
      .catch((error: unknown) => {
        log.error("supervisor_action_failed", { taskId, error: String(error) });
        schedule(taskId, clock.wallMs() + LIMITS.supervisorPollMs);
      })
      .finally(() => {
        busy.delete(taskId);
        if (again.delete(taskId)) begin(taskId);
      });
    busy.set(taskId, work);
  }

  async function attend(taskId: TaskId, read?: Task): Promise<void> {
    const task = await (read ?? store.task(taskId));
    if (task === null || stopped) return;
    world.onRead(task);
    const held = world.holds(taskId, task.epoch);
    const { intent, lookAgainAtMs } = plan(task, clock.wallMs(), held);
    if (intent?.kind !== "start") queue.delete(taskId);
    if (intent === null) {
      if (lookAgainAtMs !== null) schedule(taskId, lookAgainAtMs);
      return;
    }
    if (intent.kind === "start") {
      if (mayStart(taskId)) await startNow(task, intent);
      return;
    }
    const againInMs = await world.perform(task, intent);
    if (againInMs !== null) schedule(taskId, clock.wallMs() + againInMs);
  }

  /** Holds the slot from the decision on, not only from the moment the driver runs. */
  async function startNow(task: Task, intent: Intent): Promise<void> {
    const { taskId } = task.handle;
    starting.add(taskId);
    try {
      await world.perform(task, intent);
    } finally {
      starting.delete(taskId);
      // What did not start after all (its directory is busy) leaves its place to the next.
      slotFreed();
    }
  }

  /** First come, first served: a later task never passes an earlier one that waits for the same slots. */
  function mayStart(taskId: TaskId): boolean {
    queue.add(taskId);
    let free = slotsFree();
    for (const waiting of queue) {
      if (free <= 0) return false;
      if (waiting === taskId) return queue.delete(taskId);
      free -= 1;
    }
    return false;
  }

  function slotsFree(): number {
    return world.slotsMax - world.slotsTaken() - starting.size;
  }

  function slotFreed(): void {
    let free = slotsFree();
    for (const taskId of queue) {
      if (free <= 0) return;
      free -= 1;
      begin(taskId);
    }
  }

  async function readAll(): Promise<void> {
    for (const task of await store.unfinished()) begin(task.handle.taskId, task);
  }

  function pollLater(): void {
    poll = clock.after(LIMITS.supervisorPollMs, () => {
      readAll()
        .catch((error: unknown) => log.error("supervisor_poll_failed", { error: String(error) }))
        .finally(() => {
          if (!stopped) pollLater();
        });
    });
  }

  return {
    async start() {
      stopped = false;
      await readAll();
      pollLater();
    },
    look(task) {
      if (isUnfinished(task)) begin(task.handle.taskId);
      else {
        dueAtMs.delete(task.handle.taskId);
        queue.delete(task.handle.taskId);
      }
    },
    slotFreed,
    queuePosition(taskId) {
      let position = 0;
      for (const waiting of queue) {
        position += 1;
        if (waiting === taskId) return position;
      }
      // It has just come and is not in the queue yet, but will be.
      const isNew = busy.has(taskId) && !starting.has(taskId);
      return isNew && slotsFree() <= position ? position + 1 : null;
    },
    queued: () => queue.size,
    async stop() {
      stopped = true;
      timer?.[Symbol.dispose]();
      poll?.[Symbol.dispose]();
      await Promise.all(busy.values());
    },
  };
}
