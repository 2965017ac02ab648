/**
 * Runs attempts: hands the driver its order, turns what it reports into commands that carry the attempt's epoch.
 *
 * Invariant: a child is started only from a committed `AttemptStarted`; what it does is only ever recorded under its epoch.
 * Invariant: a driver that throws, or ends without a word, has lost its attempt; it never decides a task by accident.
 * Absent on purpose: stopping. The supervisor's `reap` does that, for runners that live and for ones that are gone.
 */

import { classify } from "../core/classify.ts";
import { attemptOf } from "../core/evolve.ts";
import { excerpt } from "../core/excerpt.ts";
import type { TaskId } from "../core/ids.ts";
import { LIMITS } from "../core/limits.ts";
import type { Attempt, Task, TextRef } from "../core/task.ts";
import type { Children } from "../ports/children.ts";
import type { Clock } from "../ports/clock.ts";
import type { AttemptOrder, Driver, DriverEvent } from "../ports/driver.ts";
import type { Faults } from "../ports/fault.ts";
import type { Log } from "../ports/log.ts";
import type { Executor, Text } from "./execute.ts";
import { isStorageTrouble } from "./storage.ts";

export type AttemptRunner = {
  /** Begins to run the attempt; returns at once. */
  run(task: Task, driver: Driver, order: AttemptOrder): void;
  holds(taskId: TaskId, epoch: number): boolean;
  /** Attempts with a running turn: a child that waits for an answer holds no slot. */
  running(): number;
  /** Resolves when the driver of this attempt has said its last word, or after `waitMs`; then nothing more is recorded. */
  finished(taskId: TaskId, epoch: number, waitMs: number): Promise<void>;
  /** From now on reports are dropped: the daemon itself is ending the children. */
  mute(): void;
};

export type RunnerWorld = {
  readonly executor: Executor;
  readonly children: Children;
  readonly clock: Clock;
  readonly log: Log;
  readonly faults: Faults;
  /** An attempt has ended or stopped running: a slot may be free, the task needs a look. */
  readonly onEnded: (task: TaskId) => void;
  /** What happened to this task cannot be written at present; it is kept in memory and tried again. */
  readonly onUnwritten: (task: TaskId) => void;
};

/** Between two tries to write what happened while the storage is in trouble. */
const WRITE_AGAIN_MS = 1_000;

type Running = {
  readonly epoch: number;
  readonly abort: AbortController;
  done: Promise<void>;
  toolRunningSinceMs: number | null;
  /** Questions of this attempt so far; names their texts. */
  questions: number;
};

export function createAttemptRunner(world: RunnerWorld): AttemptRunner {
  const attempts = new Map<TaskId, Running>();
  const awaiting = new Set<TaskId>();
  let muted = false;

  async function drive(
    task: Task,
    attempt: Attempt,
    driver: Driver,
    order: AttemptOrder,
    running: Running,
  ): Promise<void> {
    const { taskId } = task.handle;
    const { signal } = running.abort;
    let ended = false;
    const report = async (event: DriverEvent): Promise<void> => {
      if (ended || muted || signal.aborted) return;
      ended = event.kind === "end";
      await recordSurely(taskId, attempt, event, running);
    };
    const tools = { children: world.children, clock: world.clock, log: world.log, signal };
    try {
      await driver.run(order, report, tools);
    } catch (error) {
      world.log.error("driver_failed", { taskId, driver: driver.name, error: String(error) });
    }
    await report({ kind: "end", end: "lost", text: null, sideEffects: true, usage: null });
  }

  /** An outcome outlives storage trouble in memory (contract §12); a progress report does not need to. */
  async function recordSurely(taskId: TaskId, attempt: Attempt, event: DriverEvent, running: Running): Promise<void> {
    for (;;) {
      try {
        return await record(taskId, attempt, event, running);
      } catch (error) {
        if (!isStorageTrouble(error)) throw error;
        world.log.warn("outcome_not_written", { taskId, event: event.kind, storageCode: error.storageCode });
        world.onUnwritten(taskId);
        if (event.kind === "progress" || muted) return;
        await pause(world.clock, WRITE_AGAIN_MS);
      }
    }
  }

  async function record(taskId: TaskId, attempt: Attempt, event: DriverEvent, running: Running): Promise<void> {
    const { epoch } = attempt;
    const { executor, clock, faults } = world;
    // A child that says anything but a question goes on: it has a running turn again.
    if (event.kind !== "asked") awaiting.delete(taskId);
    switch (event.kind) {
      case "bound": {
        const { process, nativeSessionId } = event;
        await faults.at("before_bind");
        await executor.execute(taskId, { kind: "BindChild", epoch, process, nativeSessionId });
        return;
      }
      case "progress": {
        running.toolRunningSinceMs = event.toolRunning ? (running.toolRunningSinceMs ?? clock.wallMs()) : null;
        const { toolRunningSinceMs } = running;
        await executor.execute(taskId, { kind: "RecordProgress", epoch, steps: event.steps, toolRunningSinceMs });
        return;
      }
      case "asked":
        awaiting.add(taskId);
        running.questions += 1;
        await recordQuestion(executor, taskId, `question-${epoch}-${running.questions}`, epoch, event);
        return;
      case "end":
        await faults.at("before_finish");
        await recordEnd(executor, taskId, epoch, event);
        return;
    }
  }

  return {
    run(task, driver, order) {
      const attempt = attemptOf(task.state);
      if (attempt === null) return;
      const { taskId } = task.handle;
      const running: Running = {
        epoch: attempt.epoch,
        abort: new AbortController(),
        done: Promise.resolve(),
        toolRunningSinceMs: null,
        questions: 0,
      };
      attempts.set(taskId, running);
      running.done = drive(task, attempt, driver, order, running)
        .catch((error: unknown) => world.log.error("attempt_not_recorded", { taskId, error: String(error) }))
        .finally(() => {
          if (attempts.get(taskId) === running) attempts.delete(taskId);
          awaiting.delete(taskId);
          world.onEnded(taskId);
        });
    },
    holds: (taskId, epoch) => attempts.get(taskId)?.epoch === epoch,
    running: () => attempts.size - awaiting.size,
    async finished(taskId, epoch, waitMs) {
      const running = attempts.get(taskId);
      if (running === undefined || running.epoch !== epoch) return;
      await Promise.race([running.done, pause(world.clock, waitMs)]);
      running.abort.abort();
    },
    mute() {
      muted = true;
      for (const running of attempts.values()) running.abort.abort();
    },
  };
}

type Asked = Extract<DriverEvent, { readonly kind: "asked" }>;
type Ended = Extract<DriverEvent, { readonly kind: "end" }>;

async function recordQuestion(
  executor: Executor,
  taskId: TaskId,
  name: string,
  epoch: number,
  event: Asked,
): Promise<void> {
  const body = JSON.stringify({ prompt: event.prompt, labels: event.labels });
  const prompt: TextRef = { name, bytes: Buffer.byteLength(body) };
  const ask = { kind: event.ask, optionIds: event.optionIds, action: event.action, prompt };
  await executor.execute(taskId, { kind: "AskInput", epoch, ask }, { texts: [{ name, body }] });
}

async function recordEnd(executor: Executor, taskId: TaskId, epoch: number, event: Ended): Promise<void> {
  const { texts, result } = textsOf(epoch, event.text);
  const { sideEffects, usage } = event;
  if (event.end === "lost") {
    await executor.execute(taskId, { kind: "LoseAttempt", epoch, partial: result, orderly: false }, { texts });
    return;
  }
  const how =
    event.end === "success"
      ? ({ ok: true, evidence: event.evidence } as const)
      : ({ ok: false, fault: classify(event.fault) } as const);
  await executor.execute(taskId, { kind: "FinishAttempt", epoch, result, sideEffects, usage, ...how }, { texts });
}

/** White space and invisible characters are no result (P13). */
const VISIBLE = /[^\s\p{Cc}\p{Cf}]/u;

/** The final text and, where it does not fit into an answer, the excerpt that answers show. */
function textsOf(epoch: number, text: string | null): { texts: readonly Text[]; result: TextRef | null } {
  if (text === null || !VISIBLE.test(text)) return { texts: [], result: null };
  const name = `result-${epoch}`;
  const whole: Text = { name, body: text };
  const short = excerpt(text, LIMITS.childTextCharactersMax);
  const texts = short === text ? [whole] : [whole, { name: excerptNameOf(name), body: short }];
  return { texts, result: { name, bytes: Buffer.byteLength(text) } };
}

export function excerptNameOf(name: string): string {
  return `${name}.excerpt`;
}

function pause(clock: Clock, delayMs: number): Promise<void> {
  return new Promise((resolve) => {
    clock.after(delayMs, resolve);
  });
}
