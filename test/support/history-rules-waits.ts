/**
 * Rules about when callers are answered, and whether it is true then.
 *
 * Measured in undisturbed time: nobody is late while no daemon could answer.
 */

import { readAfter, toldOf } from "../../src/core/after.ts";
import { isNews, statusOf } from "../../src/core/describe.ts";
import type { TaskId } from "../../src/core/ids.ts";
import { LIMITS } from "../../src/core/limits.ts";
import type { Status, Task } from "../../src/core/task.ts";
import type { Rule } from "./history-check.ts";
import { type OpenCall, type Scene, taskIdsOf } from "./history-scene.ts";

const slices: Rule = {
  name: "slices",
  promises: ["P7", "P8"],
  says: "no call is held longer than it may be",
  begin: (tell) => {
    const told = new Set<number>();
    return (entry, scene) => {
      const { answerWithinMs } = scene.header;
      if (answerWithinMs === null) return;
      for (const call of scene.openCalls.values()) {
        const lateMs = scene.undisturbedMs - call.sinceUndisturbedMs - heldMs(call) - answerWithinMs;
        if (lateMs <= 0 || told.has(call.id)) continue;
        told.add(call.id);
        tell(`call ${call.id}: ${call.tool} is held ${lateMs} ms too long`);
      }
      if (entry.kind !== "rest") return;
      for (const call of scene.openCalls.values()) tell(`call ${call.id}: ${call.tool} was never answered`);
    };
  },
};

const wakes: Rule = {
  name: "wakes",
  promises: ["P8"],
  says: "what ends a wait ends it at once, not at the end of its slice",
  begin: (tell) => {
    const due = new Map<number, number>();
    const excused = new Set<number>();
    const begun = new Map<number, ReadonlyMap<TaskId, number>>();
    /** What happened at the moment that is over now: a commit of several events is one change. */
    let moment = { runMs: -1, undisturbedMs: 0, changed: false, answered: false };

    function judge(scene: Scene): void {
      for (const call of scene.openCalls.values()) {
        if (due.has(call.id) || excused.has(call.id) || call.doubtful || call.sinceUndisturbedMs > moment.undisturbedMs)
          continue;
        if (!hasNewsFor(call, scene, begun.get(call.id) ?? null)) continue;
        // An answer to a question reaches the store beside the engine, which has no verb for it yet.
        if (moment.answered) excused.add(call.id);
        else due.set(call.id, moment.undisturbedMs);
      }
    }

    return (entry, scene) => {
      const { answerWithinMs } = scene.header;
      if (answerWithinMs === null) return;
      const { runMs, undisturbedMs } = scene;
      if (runMs > moment.runMs) {
        if (moment.changed && entry.kind !== "event") judge(scene);
        if (entry.kind !== "event") moment = { runMs, undisturbedMs, changed: false, answered: false };
      }
      if (entry.kind === "event" || entry.kind === "call") {
        const answered = entry.kind === "event" && entry.event.kind === "InputAnswered";
        moment = { runMs, undisturbedMs, changed: true, answered: moment.answered || answered };
      }
      for (const call of scene.openCalls.values()) {
        if (begun.has(call.id) || undisturbedMs - call.sinceUndisturbedMs < BEGUN_MS) continue;
        begun.set(call.id, new Map([...scene.tasks].map(([taskId, task]) => [taskId, task.news])));
      }
      for (const [id, sinceMs] of due) {
        const call = scene.openCalls.get(id);
        if (call !== undefined && undisturbedMs - sinceMs <= answerWithinMs) continue;
        due.delete(id);
        if (call?.doubtful) continue;
        // Without `after` some news passes by itself: what was over before the call was looked at, need not be told.
        if (call === undefined || !hasNewsFor(call, scene, begun.get(id) ?? null)) continue;
        tell(`call ${id}: has had news for ${undisturbedMs - sinceMs} ms`);
      }
      if (entry.kind === "answer" || entry.kind === "unanswered") due.delete(entry.id);
    };
  },
};

/** After this a call that was sent has begun to be held. */
const BEGUN_MS = 500;

type Told = { readonly version: number; readonly atMs: number; readonly status: Status; readonly phase: string };

const truth: Rule = {
  name: "truth",
  promises: ["P1"],
  says: "an answer tells what is true at that moment, not what was true before it was held",
  begin: (tell) => {
    const told = new Map<TaskId, Told[]>();
    return (entry, scene) => {
      if (entry.kind === "event") {
        const task = scene.tasks.get(entry.taskId);
        if (task === undefined) return;
        const list = told.get(entry.taskId) ?? [];
        list.push({ version: task.version, atMs: scene.undisturbedMs, status: statusOf(task), phase: task.state.kind });
        told.set(entry.taskId, list);
      }
      const { answerWithinMs } = scene.header;
      if (entry.kind !== "answer" || answerWithinMs === null || entry.stale) return;
      for (const shown of entry.tasks) {
        const list = told.get(shown.taskId) ?? [];
        const then = list.find(({ version }) => version === shown.version);
        if (then !== undefined && then.status !== shown.status) {
          tell(`call ${entry.id}: ${shown.taskId} was ${then.status} at version ${shown.version}, not ${shown.status}`);
        }
        const settledAt = list.findLast(({ atMs }) => atMs < scene.undisturbedMs - answerWithinMs);
        if (settledAt !== undefined && settledAt.version > shown.version) {
          const lateMs = scene.undisturbedMs - settledAt.atMs;
          tell(`call ${entry.id}: shows ${shown.taskId} at version ${shown.version}, passed ${lateMs} ms ago`);
        }
      }
    };
  },
};

export const WAIT_RULES: readonly Rule[] = [slices, wakes, truth];

/** A cancel answers with what is still stopping after this. */
const CANCEL_MS = 8_000;

function heldMs(call: OpenCall): number {
  return call.tool === "task_cancel" ? CANCEL_MS : Math.min(call.waitMs, LIMITS.sliceMaxMs);
}

/**
 * Whether this wait has something to tell. `begun`: news counters when it began to be held, for tasks of which `after` does
 * not speak. Waits without ids are not judged: which tasks they hold is not told.
 */
function hasNewsFor(call: OpenCall, scene: Scene, begun: ReadonlyMap<TaskId, number> | null): boolean {
  if (call.tool !== "task_wait" || call.waitMs === 0 || call.about === null) return false;
  const tasks = taskIdsOf(call, scene).flatMap((taskId) => scene.tasks.get(taskId) ?? []);
  const own = tasks.filter((task) => task.origin.caller === call.caller);
  if (own.length === 0) return false;
  const after = call.after === null ? null : readAfter(call.after);
  const tells = (task: Task): boolean => {
    const { taskId } = task.handle;
    return isNews(task, toldOf(after, taskId)?.news ?? begun?.get(taskId) ?? null);
  };
  if (call.until === "all") return own.every((task) => task.state.kind === "settled") && own.some(tells);
  return own.some(tells);
}
