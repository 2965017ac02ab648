/**
 * The only write path: load, decide, fold, append, in one transaction; then tell whoever may care.
 *
 * Invariant: nothing outside this file and `delegate.ts` (which needs the receipt in the same transaction) writes a task.
 * Invariant: listeners run after the commit, so nobody ever acts on a state that a crash could take back.
 */

import { assert } from "../core/assert.ts";
import type { Command } from "../core/command.ts";
import { decide } from "../core/decide.ts";
import type { Decision } from "../core/decision.ts";
import { foldAll } from "../core/decide-attempt.ts";
import type { TaskEventBody } from "../core/event.ts";
import type { TaskId } from "../core/ids.ts";
import { isUnfinished } from "../core/plan.ts";
import type { Task } from "../core/task.ts";
import type { Clock } from "../ports/clock.ts";
import type { Faults } from "../ports/fault.ts";
import type { Notice, Receipt, Store, StoreWriter } from "../ports/store.ts";

export type Executor = {
  /** Executes one command. `decision` is `ignored` where there was nothing to do. */
  execute(taskId: TaskId, command: Command, extras?: Extras): Promise<Executed>;
  /** For transactions that hold more than one command: writes an accepted decision. */
  append(tx: StoreWriter, before: Task | null, happened: Happened, texts: readonly Text[]): Promise<Task>;
  /** Tells the listeners of a committed change. */
  announce(before: Task | null, after: Task): void;
};

export type Happened = { readonly events: readonly TaskEventBody[]; readonly atMs: number };

export type Text = { readonly name: string; readonly body: string };

export type Extras = {
  readonly texts?: readonly Text[];
  /** Stored with the change, if there is one. */
  readonly receipt?: Receipt;
  /** Looks at more than the task before deciding; a returned decision replaces the core's. */
  readonly guard?: (tx: StoreWriter, task: Task) => Promise<Decision | null>;
  /** Commands on other tasks that belong to an accepted one: all of them are made in the same transaction. */
  readonly also?: (tx: StoreWriter) => Promise<readonly Also[]>;
};

export type Also = { readonly taskId: TaskId; readonly command: Command };

export type Executed = { readonly decision: Decision; readonly task: Task | null };

type Change = { readonly before: Task | null; readonly after: Task };

export type Listener = (before: Task | null, after: Task) => void;

export function createExecutor(
  world: {
    readonly store: Store;
    readonly clock: Clock;
    readonly faults: Faults;
    /** Whoever outside is to be told of a settlement: stored with it, so that no crash forgets them. */
    readonly noticesOf: (task: Task) => readonly Notice[];
  },
  listener: Listener,
): Executor {
  const { store, clock, faults } = world;

  async function append(
    tx: StoreWriter,
    before: Task | null,
    { events, atMs }: Happened,
    texts: readonly Text[],
  ): Promise<Task> {
    const task = foldAll(before, events, atMs);
    assert(task !== null, "an accepted command makes a task");
    const expectedVersion = before?.version ?? 0;
    const appended = await tx.append({
      task,
      events: events.map((event) => ({ ...event, atMs })),
      expectedVersion,
      texts,
    });
    assert(appended, "a transaction sees the newest version");
    await settleClaim(tx, before, task);
    if (events.some((event) => event.kind === "TaskSettled")) await tx.putNotices(world.noticesOf(task));
    return task;
  }

  async function others(tx: StoreWriter, commands: readonly Also[], atMs: number): Promise<readonly Change[]> {
    const changes: Change[] = [];
    for (const { taskId, command } of commands) {
      const before = await tx.task(taskId);
      const decision = decide(before, command, atMs);
      if (decision.kind !== "accepted" || decision.events.length === 0) continue;
      changes.push({ before, after: await append(tx, before, { events: decision.events, atMs }, []) });
    }
    return changes;
  }

  return {
    append,
    announce: listener,
    async execute(taskId, command, extras = {}) {
      // Taken before the wait for the store: wall time may jump while the machine sleeps in between (contract §13).
      const atMs = clock.wallMs();
      await faults.at("before_commit");
      const { before, also, ...executed } = await store.write(async (tx) => {
        const task = await tx.task(taskId);
        const guarded = task === null ? null : ((await extras.guard?.(tx, task)) ?? null);
        const decision = guarded ?? decide(task, command, atMs);
        if (decision.kind !== "accepted") return { before: task, also: [], decision, task };
        const also = extras.also === undefined ? [] : await others(tx, await extras.also(tx), atMs);
        if (decision.events.length === 0) return { before: task, also, decision, task };
        if (extras.receipt !== undefined) await tx.putReceipt(extras.receipt);
        const happened = { events: decision.events, atMs };
        return { before: task, also, decision, task: await append(tx, task, happened, extras.texts ?? []) };
      });
      await faults.at("after_commit");
      if (executed.task !== null && executed.task !== before) listener(before, executed.task);
      for (const change of also) listener(change.before, change.after);
      return executed;
    },
  };
}

/** A writer's claim: taken when the task opens, if it is free; held until it is settled and nothing of it is left (P5, P10). */
async function settleClaim(tx: StoreWriter, before: Task | null, after: Task): Promise<void> {
  if (after.spec.access !== "write") return;
  const wasOpen = before !== null && isUnfinished(before);
  const isOpen = isUnfinished(after);
  if (isOpen === wasOpen) return;
  const { taskId } = after.handle;
  const { caller } = after.origin;
  if (!isOpen) await tx.dropClaim(taskId);
  else if ((await tx.claimHolder(after.spec.cwd, caller)) === null) {
    await tx.putClaim({ taskId, caller, path: after.spec.cwd, sinceMs: after.run.queuedAtMs });
  }
}
