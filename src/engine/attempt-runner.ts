/**
 * Runs attempts: hands the driver its order, turns what it reports into commands that carry the attempt's epoch.
 *
 * Invariant: a child is started only from a committed `AttemptStarted`; what it does is only ever recorded under its epoch.
 * Invariant: a driver that throws, or ends without a word, has lost its attempt; it never decides a task by accident.
 * Invariant: every text of a child passes `mask` before it is stored, so that a secret it printed is not kept (X2).
 * Absent on purpose: stopping. The supervisor's `reap` does that, for runners that live and for ones that are gone.
 */

import type { Lineage } from "../core/caller.ts";
import { classify } from "../core/classify.ts";
import { attemptOf } from "../core/evolve.ts";
import { excerpt, headOf } from "../core/excerpt.ts";
import { type AttemptId, attemptIdOf, type TaskId } from "../core/ids.ts";
import { LIMITS } from "../core/limits.ts";
import type { Attempt, Task, TextRef } from "../core/task.ts";
import type { Children } from "../ports/children.ts";
import type { Clock } from "../ports/clock.ts";
import type { AttemptOrder, Driver, DriverEvent, DriverTools } from "../ports/driver.ts";
import type { Faults } from "../ports/fault.ts";
import type { Log } from "../ports/log.ts";
import type { Store, TranscriptRole } from "../ports/store.ts";
import type { Executor, Text } from "./execute.ts";
import { createInquiry, type Inquiry } from "./inquiry.ts";
import { pause } from "./pause.ts";
import { isStorageTrouble } from "./storage.ts";

export type AttemptRunner = {
  /** Begins to run the attempt; returns at once. */
  run(task: Task, driver: Driver, order: AttemptOrder): void;
  holds(taskId: TaskId, epoch: number): boolean;
  /** Attempts with a running turn: a child that waits for an answer, or for its own children, holds no slot. */
  running(): number;
  /** Runs `wait`, during which the child of this task does nothing but wait for its own children. */
  whileLeaning<T>(child: Lineage, wait: () => Promise<T>): Promise<T>;
  /** A commit was made: an answer may have come. */
  changed(task: Task): void;
  /** Resolves when the driver of this attempt has said its last word, or after `waitMs`; then nothing more is recorded. */
  finished(taskId: TaskId, epoch: number, waitMs: number): Promise<void>;
  /** From now on reports are dropped: the daemon itself is ending the children. */
  mute(): void;
};

export type RunnerWorld = {
  readonly executor: Executor;
  readonly store: Store;
  readonly mask: (text: string) => string;
  readonly children: Children;
  readonly clock: Clock;
  readonly log: Log;
  readonly faults: Faults;
  /** An attempt has ended: a slot may be free, the task needs a look. */
  readonly onEnded: (task: TaskId) => void;
  /** A slot may be free. */
  readonly onIdle: () => void;
  /** What happened to this task cannot be written at present; it is kept in memory and tried again. */
  readonly onUnwritten: (task: TaskId) => void;
  /** Something was added to its transcript. */
  readonly onMessage: (task: TaskId) => void;
};

/** Between two tries to write what happened while the storage is in trouble. */
const WRITE_AGAIN_MS = 1_000;

type Running = {
  readonly epoch: number;
  readonly abort: AbortController;
  done: Promise<void>;
  toolRunningSinceMs: number | null;
  readonly inquiry: Inquiry;
  /** The newest piece of its conversation that the child said. */
  lastSaid: string | null;
};

export function createAttemptRunner(world: RunnerWorld): AttemptRunner {
  const attempts = new Map<TaskId, Running>();
  // By attempt: a wait that an attempt has left behind says nothing about the one after it.
  const leaning = new Map<AttemptId, number>();
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
    const tools: DriverTools = {
      children: world.children,
      clock: world.clock,
      log: world.log,
      signal,
      ask: (question) => running.inquiry.ask(question),
    };
    try {
      await driver.run(order, report, tools);
    } catch (error) {
      // What was thrown may quote what a child wrote, so above debug there is only its kind.
      world.log.error("driver_failed", { taskId, driver: driver.name, error: kindOf(error) });
      world.log.debug("driver_failed", { taskId, driver: driver.name, error: String(error) });
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
        if (event.kind === "progress" || event.kind === "message" || muted) return;
        await pause(world.clock, WRITE_AGAIN_MS);
      }
    }
  }

  async function record(taskId: TaskId, attempt: Attempt, event: DriverEvent, running: Running): Promise<void> {
    const { epoch } = attempt;
    const { executor, clock, faults } = world;
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
      case "message": {
        const text = world.mask(event.text);
        await keepPiece(taskId, event.role, text);
        if (event.role === "child") running.lastSaid = text;
        return;
      }
      case "end": {
        const text = event.text === null ? null : world.mask(event.text);
        // The final text belongs to the conversation, whether or not the driver told it piece by piece.
        if (text !== null && text !== running.lastSaid && VISIBLE.test(text)) {
          await keepPiece(taskId, "child", text);
          running.lastSaid = text;
        }
        await faults.at("before_finish");
        await recordEnd(executor, taskId, epoch, masked({ ...event, text }, world.mask));
        return;
      }
    }
  }

  /** A sign of life that may be missed: the next one comes with the child's next call. */
  async function noteTool(taskId: TaskId, epoch: number, toolRunningSinceMs: number | null): Promise<void> {
    if (muted || attempts.get(taskId)?.epoch !== epoch) return;
    try {
      await world.executor.execute(taskId, { kind: "RecordProgress", epoch, steps: 0, toolRunningSinceMs });
    } catch (error) {
      if (!isStorageTrouble(error)) throw error;
    }
  }

  async function keepPiece(taskId: TaskId, role: TranscriptRole, text: string): Promise<void> {
    const entry = { role, atMs: world.clock.wallMs(), text: pieceOf(text) };
    await world.store.write((tx) => tx.appendTranscript(taskId, [entry], LIMITS.transcriptBytesMax));
    world.onMessage(taskId);
  }

  return {
    run(task, driver, order) {
      const attempt = attemptOf(task.state);
      if (attempt === null) return;
      const { taskId } = task.handle;
      const { epoch } = attempt;
      const abort = new AbortController();
      const running: Running = {
        epoch,
        abort,
        done: Promise.resolve(),
        toolRunningSinceMs: null,
        inquiry: createInquiry({ ...world, taskId, epoch, signal: abort.signal, writeAgainMs: WRITE_AGAIN_MS }),
        lastSaid: null,
      };
      attempts.set(taskId, running);
      running.done = drive(task, attempt, driver, order, running)
        .catch((error: unknown) => world.log.error("attempt_not_recorded", { taskId, error: String(error) }))
        .finally(() => {
          if (attempts.get(taskId) === running) attempts.delete(taskId);
          abort.abort();
          world.onEnded(taskId);
        });
    },
    holds: (taskId, epoch) => attempts.get(taskId)?.epoch === epoch,
    running() {
      let count = 0;
      for (const [taskId, { inquiry, epoch }] of attempts) {
        if (!inquiry.isOpen() && !leaning.has(attemptIdOf(taskId, epoch))) count += 1;
      }
      return count;
    },
    async whileLeaning({ taskId, epoch }, wait) {
      const attemptId = attemptIdOf(taskId, epoch);
      const isFirst = !leaning.has(attemptId);
      leaning.set(attemptId, (leaning.get(attemptId) ?? 0) + 1);
      world.onIdle();
      try {
        // Waiting for its own children is its work; nobody calls that silence a stall.
        if (isFirst) await noteTool(taskId, epoch, world.clock.wallMs());
        return await wait();
      } finally {
        const left = (leaning.get(attemptId) ?? 1) - 1;
        if (left > 0) leaning.set(attemptId, left);
        else {
          leaning.delete(attemptId);
          await noteTool(taskId, epoch, attempts.get(taskId)?.toolRunningSinceMs ?? null);
        }
      }
    },
    changed(task) {
      attempts.get(task.handle.taskId)?.inquiry.changed(task);
    },
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

type Ended = Extract<DriverEvent, { readonly kind: "end" }>;

/** A driver's evidence may quote the child too; of it only the stop reason and the text are kept. */
function masked(event: Ended, mask: (text: string) => string): Ended {
  if (event.end !== "fault") return event;
  const { stopReason, text } = event.fault;
  return {
    ...event,
    fault: {
      ...event.fault,
      ...(text === undefined ? {} : { text: mask(text).toWellFormed() }),
      ...(stopReason === undefined
        ? {}
        : { stopReason: headOf(mask(stopReason).toWellFormed(), STOP_REASON_CHARACTERS_MAX) }),
    },
  };
}

const STOP_REASON_CHARACTERS_MAX = 200;

function kindOf(error: unknown): string {
  return error instanceof Error ? error.name : typeof error;
}

/** A piece of the conversation, never so long that one of them fills the transcript. */
function pieceOf(text: string): string {
  return excerpt(text.toWellFormed(), LIMITS.transcriptPieceCharactersMax);
}

async function recordEnd(executor: Executor, taskId: TaskId, epoch: number, event: Ended): Promise<void> {
  const { texts, result } = textsOf(epoch, event.text);
  const { sideEffects, usage } = event;
  if (event.end === "lost") {
    await executor.execute(taskId, { kind: "LoseAttempt", epoch, partial: result, orderly: false }, { texts });
    return;
  }
  const problem = event.end === "fault" ? problemOf(epoch, event.fault.text ?? "") : [];
  const how =
    event.end === "success"
      ? ({ ok: true, evidence: event.evidence } as const)
      : ({ ok: false, fault: classify(event.fault) } as const);
  await executor.execute(
    taskId,
    { kind: "FinishAttempt", epoch, result, sideEffects, usage, ...how },
    { texts: [...texts, ...problem] },
  );
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

/** What was said of the fault, for whoever asks why the task failed. */
function problemOf(epoch: number, text: string): readonly Text[] {
  return VISIBLE.test(text) ? [{ name: problemNameOf(epoch), body: excerpt(text.trim(), PROBLEM_CHARACTERS_MAX) }] : [];
}

const PROBLEM_CHARACTERS_MAX = 500;

export function problemNameOf(epoch: number): string {
  return `problem-${epoch}`;
}

export function excerptNameOf(name: string): string {
  return `${name}.excerpt`;
}
