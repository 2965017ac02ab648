/**
 * An orderly stop: ends every running child with proof and records that this was no loss, so that the next start goes on
 * at once.
 *
 * Invariant: what cannot be proven or recorded in time is left as it is; the next start reaps it.
 */

import { attemptOf } from "../core/evolve.ts";
import type { TaskId } from "../core/ids.ts";
import type { Task } from "../core/task.ts";
import type { Children } from "../ports/children.ts";
import type { Log } from "../ports/log.ts";
import type { Store } from "../ports/store.ts";
import type { Executor } from "./execute.ts";

export async function drainAttempts(world: {
  readonly store: Store;
  readonly executor: Executor;
  readonly children: Children;
  readonly log: Log;
  /** True if this daemon runs the attempt. */
  readonly holds: (taskId: TaskId, epoch: number) => boolean;
}): Promise<void> {
  const { store, log } = world;
  try {
    const tasks = await store.unfinished();
    await Promise.all(tasks.map((task) => endOne(task, world)));
  } catch (error) {
    log.error("drain_incomplete", { error: String(error) });
  }
}

async function endOne(task: Task, world: Parameters<typeof drainAttempts>[0]): Promise<void> {
  const { executor, children, log } = world;
  const attempt = attemptOf(task.state);
  if (attempt === null) return;
  const { taskId } = task.handle;
  const { epoch, mark, process } = attempt;
  const unseen = world.holds(taskId, epoch) ? {} : ({ unseen: true } as const);
  const report = await children.stop({ mark, process, background: "reap" });
  const lost = await executor.execute(taskId, { kind: "LoseAttempt", epoch, partial: null, orderly: true, ...unseen });
  // Cancelled meanwhile: it is not over before everything below it is, and the next start sees to that (P12).
  const now = lost.task?.state;
  if (now?.kind === "stopping" && now.verdict.status === "cancelled") return;
  await executor.execute(taskId, { kind: "ReportStop", epoch, report });
  log.info("child_stopped_for_shutdown", { taskId, proven: report.kind === "proven" });
}
