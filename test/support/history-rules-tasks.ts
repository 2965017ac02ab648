/**
 * Rules about what is committed: the log of each task and what it may say.
 */

import { isDeepStrictEqual } from "node:util";
import type { TaskId } from "../../src/core/ids.ts";
import { isUnfinished } from "../../src/core/plan.ts";
import type { Task } from "../../src/core/task.ts";
import type { Rule } from "./history-check.ts";
import type { Entry, EntryOf } from "./history.ts";

const numbering: Rule = {
  name: "numbering",
  promises: ["P3"],
  says: "a task's events are numbered 1, 2, … without a gap, and each can follow the one before",
  begin: (tell) => (entry, scene) => {
    if (entry.kind !== "event") return;
    const expected = (scene.before?.version ?? 0) + 1;
    if (entry.number !== expected) tell(`${entry.taskId}: event ${entry.number} where ${expected} was next`);
    if (scene.broken !== null) tell(`${entry.taskId}: ${entry.event.kind} cannot follow: ${scene.broken}`);
  },
};

const snapshot: Rule = {
  name: "snapshot",
  promises: ["P3"],
  says: "what the store holds of a task is what its events fold to",
  begin: (tell) => (entry, scene) => {
    if (entry.kind !== "snapshot") return;
    const { taskId } = entry.task.handle;
    if (!isDeepStrictEqual(scene.tasks.get(taskId), entry.task))
      tell(`${taskId}: the snapshot differs from its events`);
  },
};

const settlements: Rule = {
  name: "settlements",
  promises: ["P2"],
  says: "settlements are numbered 1, 2, … and news counts on with each",
  begin: (tell) => (entry, scene) => {
    if (entry.kind !== "event" || entry.event.kind !== "TaskSettled" || scene.before === null) return;
    const { number, news } = entry.event.settlement;
    const expected = scene.before.settlements + 1;
    if (number !== expected) tell(`${entry.taskId}: settlement ${number} where ${expected} was next`);
    if (news <= scene.before.news) tell(`${entry.taskId}: settlement ${number} is no news (${news})`);
  },
};

const epochs: Rule = {
  name: "epochs",
  promises: ["P3"],
  says: "nothing of an older attempt is recorded once a newer one has started",
  begin: (tell) => (entry, scene) => {
    if (entry.kind !== "event" || !("epoch" in entry.event) || scene.before === null) return;
    const { kind, epoch } = entry.event;
    const opens = kind === "AttemptStarted" || kind === "AttemptAdopted";
    const expected = scene.before.epoch + (opens ? 1 : 0);
    if (epoch !== expected) tell(`${entry.taskId}: ${kind} of epoch ${epoch} at epoch ${scene.before.epoch}`);
  },
};

const evidence: Rule = {
  name: "evidence",
  promises: ["P13"],
  says: "completed has evidence and something to show",
  begin: (tell) => (entry) => {
    if (entry.kind !== "event" || entry.event.kind !== "TaskSettled") return;
    const { verdict } = entry.event.settlement;
    if (verdict.status !== "completed") return;
    const shows = verdict.evidence !== null && (verdict.result?.bytes ?? 0) > 0 && !verdict.partial;
    if (!shows) tell(`${entry.taskId}: completed without evidence`);
  },
};

/** A wall clock may be set by this much without anybody noticing; limits that are kept by it may be off as much. */
const CLOCK_MS = 10_000;

const patience: Rule = {
  name: "patience",
  promises: ["P6"],
  says: "a passing fault within the patience, measured in running time, ends nothing",
  begin: (tell) => {
    // `asleepMs`: slept, not forgiven yet; a daemon that dies meanwhile never notices, and then it counts as time.
    type Series = {
      sinceMs: number | null;
      attemptSinceMs: number;
      open: string | null;
      asleepMs: number;
      lostMs: number;
    };
    const series = new Map<TaskId, Series>();
    return (entry, scene) => {
      for (const one of series.values()) {
        if (entry.kind === "slept") one.asleepMs += entry.gapMs;
        const unnoticed = entry.kind === "slept" ? !scene.attended : entry.kind === "daemon" && entry.did === "started";
        if (!unnoticed) continue;
        one.lostMs += one.asleepMs;
        one.asleepMs = 0;
      }
      if (entry.kind !== "event") return;
      const { taskId, event } = entry;
      const one = series.get(taskId) ?? { sinceMs: null, attemptSinceMs: 0, open: null, asleepMs: 0, lostMs: 0 };
      series.set(taskId, one);
      const runMs = scene.runMs + one.lostMs;
      if (event.kind === "SleepForgiven") one.asleepMs = Math.max(0, one.asleepMs - event.gapMs);
      if (one.open !== null && event.kind !== "RetryScheduled") tell(one.open);
      one.open = null;
      if (event.kind === "RunQueued") one.sinceMs = null;
      if (event.kind === "AttemptStarted") one.attemptSinceMs = runMs;
      if (event.kind !== "AttemptFailed" || event.fault.nature === "definitive") return;
      const { before } = scene;
      if (before === null || before.state.kind !== "running") return;
      const { policy } = before.spec;
      const healthy = runMs - one.attemptSinceMs > policy.backoffMaxMs && before.state.attempt.steps > 0;
      one.sinceMs = healthy ? runMs : (one.sinceMs ?? runMs);
      if (event.fault.nature === "unknown") return;
      const { class: failure, retryAfterMs } = event.fault;
      const endless = failure === "quota" && (retryAfterMs === null || retryAfterMs > policy.pauseMaxMs);
      const leftMs = policy.patienceMs - (runMs - one.sinceMs);
      if (endless || leftMs <= CLOCK_MS) return;
      one.open = `${taskId}: ended by ${failure} with ${leftMs} ms of patience left`;
    };
  },
};

/** A commit that takes longer than this is late. */
const LATE_COMMIT_MS = 1_000;
const LATE_COMMIT_MAX_MS = 120_000;

const stalls: Rule = {
  name: "stalls",
  promises: ["P6", "P7"],
  says: "a child is called stalled, or out of time, only by time in which it could run",
  begin: (tell) => {
    type Life = { signMs: number; activeMs: number; ranSinceMs: number | null };
    const lives = new Map<TaskId, Life>();
    const SIGNS = new Set(["AttemptStarted", "ProgressRecorded", "InputAnswered", "StallEnded"]);
    return (entry, scene) => {
      // A frozen daemon hears nothing, so what it thinks of a child's silence when it thaws says nothing.
      if (entry.kind === "daemon" && entry.did === "froze") {
        for (const life of lives.values()) life.signMs = Number.NEGATIVE_INFINITY;
      }
      if (entry.kind !== "event") return;
      const { taskId, event } = entry;
      const { aliveMs, runMs, before } = scene;
      const life = lives.get(taskId) ?? { signMs: runMs, activeMs: 0, ranSinceMs: null };
      lives.set(taskId, life);
      const ranMs = life.activeMs + (life.ranSinceMs === null ? 0 : aliveMs - life.ranSinceMs);
      const quietMs = runMs - life.signMs + CLOCK_MS;
      if (before !== null && event.kind === "StallBegan" && quietMs < before.spec.policy.stallAfterMs) {
        tell(`${taskId}: stalled after ${runMs - life.signMs} ms`);
      }
      if (before !== null && event.kind === "AttemptFailed" && event.fault.class === "deadline") {
        if (ranMs + CLOCK_MS < before.spec.policy.maxActiveMs) tell(`${taskId}: out of time after ${ranMs} ms`);
      }
      // Decided long before it was committed (a frozen daemon, a slow disk): silence is counted from the decision.
      const late = entry.atMs - event.atMs > LATE_COMMIT_MS;
      if (SIGNS.has(event.kind)) life.signMs = late ? Number.NEGATIVE_INFINITY : runMs;
      if (event.kind === "RunQueued") life.activeMs = 0;
      const running = scene.tasks.get(taskId)?.state.kind === "running";
      // Running time counts from the decision, however long its commit took.
      const lateMs = Math.min(LATE_COMMIT_MAX_MS, Math.max(0, entry.atMs - event.atMs));
      if (running && life.ranSinceMs === null) life.ranSinceMs = aliveMs - lateMs;
      if (running || life.ranSinceMs === null) return;
      life.activeMs = ranMs;
      life.ranSinceMs = null;
    };
  },
};

/** How long a new daemon may take to see to what an old one left running. */
const AFTER_START_MS = 10_000;

const restarts: Rule = {
  name: "restarts",
  promises: ["P14"],
  says: "a new daemon soon sees to every attempt that an old one left running",
  begin: (tell) => {
    const left = new Map<TaskId, { epoch: number; untilMs: number }>();
    return (entry, scene) => {
      if (entry.kind === "daemon" && entry.did === "started") {
        for (const [taskId, task] of scene.tasks) {
          const runs = task.state.kind === "running" || task.state.kind === "awaiting_answer";
          if (runs) left.set(taskId, { epoch: task.epoch, untilMs: scene.undisturbedMs + AFTER_START_MS });
        }
      }
      if (entry.kind === "daemon" && entry.did !== "started") left.clear();
      if (entry.kind === "event") left.delete(entry.taskId);
      for (const [taskId, { epoch, untilMs }] of left) {
        if (scene.undisturbedMs <= untilMs) continue;
        tell(`${taskId}: attempt ${epoch} still counts as running ${AFTER_START_MS} ms after a start`);
        left.delete(taskId);
      }
    };
  },
};

const reported: Rule = {
  name: "reported",
  promises: ["P6", "P14"],
  says: "an ending that a living daemon was told of is recorded, not taken for a loss",
  begin: (tell) => {
    const told = new Map<TaskId, EntryOf<"reported">>();
    return (entry) => {
      if (entry.kind === "daemon" && (entry.did === "crashed" || entry.did === "draining")) told.clear();
      if (entry.kind === "reported" && entry.end !== "lost" && !told.has(entry.taskId)) told.set(entry.taskId, entry);
      if (entry.kind !== "event") return;
      const one = told.get(entry.taskId);
      if (entry.event.kind === "AttemptStarted") told.delete(entry.taskId);
      if (one === undefined || entry.event.kind !== "AttemptLost" || entry.event.epoch !== one.epoch) return;
      tell(`${entry.taskId}: attempt ${one.epoch} had ended (${one.end}) and was called lost`);
    };
  },
};

/** Endings that are the daemon's own word. */
const OWN_ENDINGS: ReadonlySet<string> = new Set(["deadline", "config"]);

const ownWord: Rule = {
  name: "own-word",
  promises: ["P5", "P13"],
  says: "an attempt ends by what its own driver said, not by the word of an older one",
  begin: (tell) => {
    const said = new Set<string>();
    return (entry, scene) => {
      if (entry.kind === "reported") said.add(`${entry.taskId} ${entry.epoch}`);
      if (entry.kind !== "event" || !scene.tells.has("reported")) return;
      const { event, taskId } = entry;
      if (event.kind !== "AttemptSucceeded" && event.kind !== "AttemptFailed") return;
      if (event.kind === "AttemptFailed" && OWN_ENDINGS.has(event.fault.class)) return;
      if (!said.has(`${taskId} ${event.epoch}`))
        tell(`${taskId}: ${event.kind} of attempt ${event.epoch}, which said nothing`);
    };
  },
};

const rest: Rule = {
  name: "rest",
  promises: ["P7", "P14"],
  says: "at rest every task is settled or asks, and nothing is held for anybody",
  begin: (tell) => (entry, scene) => {
    if (entry.kind !== "rest") return;
    for (const task of scene.tasks.values()) tellUnrested(task);
    for (const taskId of scene.claims.keys()) {
      const task = scene.tasks.get(taskId);
      if (task === undefined || !isUnfinished(task)) tell(`${taskId}: holds a claim and is not open`);
    }
    if (entry.waiting > 0) tell(`${entry.waiting} waits are held`);
    if (entry.timers > 0) tell(`${entry.timers} timers are set`);

    function tellUnrested({ handle, state }: Task): void {
      if (state.kind !== "settled" && state.kind !== "awaiting_answer") tell(`${handle.taskId}: is ${state.kind}`);
    }
  },
};

export const TASK_RULES: readonly Rule[] = [
  numbering,
  snapshot,
  settlements,
  epochs,
  evidence,
  patience,
  stalls,
  restarts,
  reported,
  ownWord,
  rest,
];

/** The events of a history, for rules that count them. */
export function isEventOf<Kind extends EntryOf<"event">["event"]["kind"]>(
  entry: Entry,
  kind: Kind,
): entry is EntryOf<"event"> & { readonly event: Extract<EntryOf<"event">["event"], { readonly kind: Kind }> } {
  return entry.kind === "event" && entry.event.kind === kind;
}
