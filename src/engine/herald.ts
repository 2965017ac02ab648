/**
 * Tells the operator's notifiers of settlements, from the outbox (contract §11).
 *
 * Invariant: at least once: a notice is stored with its settlement and leaves the outbox only when it was delivered, refused
 * by its receiver, or given up after days.
 * Invariant: what is told holds ids and states; nothing that a child or a caller wrote.
 */

import { type TaskId, nodeIdOf } from "../core/ids.ts";
import { LIMITS } from "../core/limits.ts";
import type { Task } from "../core/task.ts";
import type { Clock, Timer } from "../ports/clock.ts";
import type { Log } from "../ports/log.ts";
import type { Meter } from "../ports/meter.ts";
import type { Notifier, NoticeMessage } from "../ports/notifier.ts";
import type { Notice, Store } from "../ports/store.ts";
import { pause } from "./pause.ts";

export type Herald = AsyncDisposable & {
  /** Notices of a task that has just settled, to be stored in the same transaction. */
  noticesOf(task: Task): readonly Notice[];
  /** There may be something in the outbox. */
  look(): void;
};

const AT_ONCE = 20;
/** How long a stop waits for a notifier that is being told; its notice stays stored and is told again. */
const STOP_MS = 2_000;

export function createHerald(world: {
  readonly store: Store;
  readonly clock: Clock;
  readonly log: Log;
  readonly meter: Meter;
  readonly notifiers: readonly Notifier[];
  readonly url: () => string | null;
}): Herald {
  const { store, clock, log, meter } = world;
  const notifiers = new Map(world.notifiers.map((notifier) => [notifier.name, notifier]));
  let timer: Timer | null = null;
  let working: Promise<void> | null = null;
  let again = false;
  let stopped = false;
  let abandoned = false;
  let emptied = false;

  async function deliverDue(): Promise<void> {
    for (;;) {
      const due = await store.dueNotices(clock.wallMs(), AT_ONCE);
      if (due.length === 0 || stopped) break;
      // All of them are waited for, also where one could not be written, so that none is told twice at the same time.
      const told = await Promise.allSettled(due.map(deliver));
      for (const each of told) if (each.status === "rejected") throw each.reason;
    }
    const nextMs = stopped ? null : await store.nextNoticeAtMs();
    emptied = nextMs === null;
    if (nextMs !== null) lookIn(Math.max(0, nextMs - clock.wallMs()));
  }

  async function deliver(notice: Notice): Promise<void> {
    const { noticeId, target } = notice;
    const notifier = notifiers.get(target);
    // A target that was taken out of the configuration gets nothing any more.
    if (notifier === undefined) return store.write((tx) => tx.dropNotice(noticeId));
    const outcome = await notifier.deliver(await messageOf(notice));
    // The store is closed by now; the notice is still in it.
    if (abandoned) return;
    if (outcome.kind === "delivered") {
      meter.notified("delivered");
      return store.write((tx) => tx.dropNotice(noticeId));
    }
    const ageMs = clock.wallMs() - notice.settledAtMs;
    if (outcome.kind === "refused" || ageMs >= LIMITS.noticeGiveUpMs) {
      meter.notified("given_up");
      log.error("notice_given_up", { taskId: notice.taskId, target, reason: outcome.reason });
      return store.write((tx) => tx.dropNotice(noticeId));
    }
    meter.notified("again");
    log.warn("notice_not_delivered", {
      taskId: notice.taskId,
      target,
      reason: outcome.reason,
      tries: notice.tries + 1,
    });
    const delayMs = Math.min(LIMITS.noticeBackoffMaxMs, LIMITS.noticeBackoffFirstMs * 2 ** Math.min(notice.tries, 20));
    return store.write((tx) => tx.delayNotice(noticeId, clock.wallMs() + delayMs));
  }

  async function messageOf({ noticeId, taskId, settlement, status, settledAtMs }: Notice): Promise<NoticeMessage> {
    const task = await store.task(taskId);
    const data = {
      taskId,
      childThreadId: task?.handle.childThreadId ?? "",
      nodeId: nodeIdOf(taskId),
      settlement,
      status,
      url: world.url(),
    };
    const timestamp = new Date(settledAtMs).toISOString();
    return { id: noticeId, sentAtMs: clock.wallMs(), body: { type: "task.settled", timestamp, data } };
  }

  function lookIn(delayMs: number): void {
    timer?.[Symbol.dispose]();
    timer = clock.after(delayMs, look);
  }

  function look(): void {
    // Without notifiers nothing new comes, but there may be notices for earlier ones.
    if (stopped || (notifiers.size === 0 && emptied)) return;
    if (working !== null) {
      again = true;
      return;
    }
    working = deliverDue()
      .catch((error: unknown) => {
        log.error("notices_failed", { error: String(error) });
        lookIn(LIMITS.noticeBackoffFirstMs);
      })
      .finally(() => {
        working = null;
        if (!again) return;
        again = false;
        look();
      });
  }

  return {
    look,
    noticesOf(task) {
      if (task.lastSettlement === null) return [];
      const { number: settlement, atMs, verdict } = task.lastSettlement;
      const { taskId } = task.handle;
      return [...notifiers.keys()].map((target) => ({
        noticeId: noticeIdOf(taskId, settlement, target),
        taskId,
        settlement,
        status: verdict.status,
        target,
        settledAtMs: atMs,
        dueAtMs: atMs,
        tries: 0,
      }));
    },
    async [Symbol.asyncDispose]() {
      stopped = true;
      timer?.[Symbol.dispose]();
      if (working !== null && !abandoned) await Promise.race([working, pause(clock, STOP_MS)]);
      abandoned = true;
    },
  };
}

function noticeIdOf(taskId: TaskId, settlement: number, target: string): string {
  return `${taskId}:${settlement}:${target}`;
}
