/**
 * Rules about processes: how many, whose, where, and until when.
 *
 * A process counts as a child until it is proven gone; one that a settlement lists as left running on purpose does not.
 */

import { overlaps } from "../../src/core/workspace-claim.ts";
import type { Task } from "../../src/core/task.ts";
import type { Rule } from "./history-check.ts";
import type { LiveProcess, Scene } from "./history-scene.ts";
import type { TaskId } from "../../src/core/ids.ts";

const oneChild: Rule = {
  name: "one-child",
  promises: ["P3"],
  says: "a task never has processes of two attempts at once",
  begin: (tell) => (entry, scene) => {
    if (entry.kind !== "process" || entry.did !== "started") return;
    const other = childrenOf(scene, entry.taskId).find((process) => process.epoch !== entry.epoch);
    if (other === undefined) return;
    tell(`${entry.taskId}: attempt ${entry.epoch} started while process ${other.pid} of attempt ${other.epoch} lives`);
  },
};

const markFirst: Rule = {
  name: "mark-first",
  promises: ["P5", "P12"],
  says: "nothing is started but by the newest committed attempt, and nothing after its end was proven",
  begin: (tell) => (entry, scene) => {
    if (entry.kind !== "process" || entry.did !== "started") return;
    const task = scene.tasks.get(entry.taskId);
    if (task === undefined || task.epoch !== entry.epoch) {
      tell(`${entry.taskId}: a process of attempt ${entry.epoch} at epoch ${task?.epoch ?? "none"}`);
    }
    const proven = scene.provenEpochs.get(entry.taskId) ?? 0;
    if (entry.epoch <= proven) tell(`${entry.taskId}: a process of attempt ${entry.epoch}, which is proven gone`);
  },
};

const oneWriter: Rule = {
  name: "one-writer",
  promises: ["P10"],
  says: "two tasks never write under overlapping paths at once",
  begin: (tell) => (entry, scene) => {
    if (entry.kind !== "process" || entry.did !== "started" || entry.access !== "write") return;
    for (const other of scene.processes.values()) {
      if (other.kept || other.access !== "write" || other.taskId === entry.taskId) continue;
      if (overlaps(other.path, entry.path)) {
        tell(`${entry.taskId} writes in ${entry.path} while ${other.taskId} writes in ${other.path}`);
      }
    }
  },
};

const claimed: Rule = {
  name: "claimed",
  promises: ["P10"],
  says: "a writer's processes live only while its task holds the claim",
  begin: (tell) => (entry, scene) => {
    if (entry.kind === "process" && entry.did === "started" && entry.access === "write") {
      if (scene.claims.get(entry.taskId) !== entry.path)
        tell(`${entry.taskId}: writes in ${entry.path} without a claim`);
    }
    if (entry.kind !== "claim" || entry.path !== null) return;
    const writer = childrenOf(scene, entry.taskId).find((process) => process.access === "write");
    if (writer !== undefined) tell(`${entry.taskId}: gave its claim back while process ${writer.pid} lives`);
  },
};

/** Between two looks at processes that will not end: the pause, and the stop itself. */
const LOOK_MS = 15_000;

const endedMeansStopped: Rule = {
  name: "ended-means-stopped",
  promises: ["P5", "P12"],
  says: "ended, or proven gone, is said only when no process is left but named ones",
  begin: (tell) => (entry, scene) => {
    if (entry.kind !== "event") return;
    const { event, taskId } = entry;
    if (event.kind !== "TaskSettled" && event.kind !== "AttemptStopped") return;
    const stop = event.kind === "TaskSettled" ? event.settlement.stop : event.stop;
    const named = new Set([...stop.kept, ...(stop.proof === "abandoned" ? stop.survivors : [])].map(({ pid }) => pid));
    if (stop.proof === "abandoned" && (stop.survivors.length === 0 || stop.by === null)) {
      tell(`${taskId}: abandoned without names`);
    }
    for (const process of childrenOf(scene, taskId)) {
      // What survivors started after the last look at them cannot have been named.
      if (stop.proof === "abandoned" && scene.undisturbedMs - process.sinceMs < LOOK_MS) continue;
      if (!named.has(process.pid)) tell(`${taskId}: ${event.kind} while process ${process.pid} lives`);
    }
  },
};

/** What a stop may take after the guard has decided on it. */
const STOP_MS = 15_000;

const attended: Rule = {
  name: "attended",
  promises: ["P14"],
  says: "a child that no daemon looks after is stopped within two thirds of the lease",
  begin: (tell) => {
    const told = new Set<number>();
    return (_entry, scene) => {
      const { leaseMs } = scene.header;
      if (leaseMs === null || scene.attended) return;
      const aloneMs = scene.runMs - scene.attendedAtMs;
      if (aloneMs <= (leaseMs * 2) / 3 + STOP_MS) return;
      for (const process of scene.processes.values()) {
        if (!process.guarded || mayStay(process, scene) || told.has(process.pid)) continue;
        told.add(process.pid);
        tell(`${process.taskId}: process ${process.pid} has been alone for ${aloneMs} ms`);
      }
    };
  },
};

/** How long after storage trouble something that happened in it may still have to be written. */
const UNWRITTEN_MS = 5_000;

const slots: Rule = {
  name: "slots",
  promises: ["P15"],
  says: "no daemon runs more children at once than it has places",
  begin: (tell) => {
    /** Started by the present daemon; one that has asked something gave its place away, and gets it back unconditionally. */
    const started = new Map<TaskId, number>();
    let disturbedMs = Number.NEGATIVE_INFINITY;
    return (entry, scene) => {
      const { slots } = scene.header;
      if (scene.disturbed) disturbedMs = scene.runMs;
      if (entry.kind === "daemon" && entry.did === "started") started.clear();
      // A child that waits for its own children gives its place away too.
      if (entry.kind === "call" && entry.by === "child" && entry.waitMs > 0) {
        const [, waiting] = entry.caller.split("/");
        for (const taskId of started.keys()) if (taskId === waiting) started.delete(taskId);
      }
      if (entry.kind === "event" && scene.tasks.get(entry.taskId)?.state.kind !== "running")
        started.delete(entry.taskId);
      if (slots === null || entry.kind !== "process" || entry.did !== "started" || !entry.main) return;
      if (scene.tasks.get(entry.taskId)?.state.kind === "running") started.set(entry.taskId, entry.epoch);
      // A question that cannot be written has given its place away all the same.
      if (scene.runMs - disturbedMs < UNWRITTEN_MS) return;
      if (started.size > slots) tell(`${entry.taskId}: child number ${started.size} of ${slots} was started`);
    };
  },
};

const sessions: Rule = {
  name: "sessions",
  promises: ["P6"],
  says: "an attempt goes on in the task's own conversation, and only in one of its own kind of agent",
  begin: (tell) => {
    const drivers = new Map<string, string>();
    return (entry, scene) => {
      if (entry.kind === "event" && entry.event.kind === "ChildBound") {
        const { nativeSessionId } = entry.event;
        const driver = scene.before?.spec.driver;
        if (nativeSessionId !== null && driver !== undefined) drivers.set(nativeSessionId, driver);
      }
      if (entry.kind !== "process" || entry.did !== "started" || !entry.main) return;
      const task = scene.tasks.get(entry.taskId);
      if (task === undefined) return;
      if (entry.session !== task.nativeSessionId) {
        tell(`${entry.taskId}: goes on in ${entry.session ?? "a new conversation"}, not ${sessionOf(task)}`);
      }
      const driver = entry.session === null ? task.spec.driver : drivers.get(entry.session);
      if (driver !== task.spec.driver)
        tell(`${entry.taskId}: ${task.spec.driver} is given a conversation of ${driver}`);
    };
  },
};

const nothingLeft: Rule = {
  name: "nothing-left",
  promises: ["P12"],
  says: "at rest no process of a settled task is left but those that were named as kept",
  begin: (tell) => (entry, scene) => {
    if (entry.kind !== "rest") return;
    for (const process of scene.processes.values()) {
      const settled = scene.tasks.get(process.taskId)?.state.kind === "settled";
      if (settled && !process.kept) tell(`${process.taskId}: process ${process.pid} is left`);
    }
  },
};

export const PROCESS_RULES: readonly Rule[] = [
  oneChild,
  markFirst,
  oneWriter,
  claimed,
  endedMeansStopped,
  attended,
  slots,
  sessions,
  nothingLeft,
];

function childrenOf(scene: Scene, taskId: TaskId): readonly LiveProcess[] {
  return [...scene.processes.values()].filter((process) => process.taskId === taskId && !process.kept);
}

/** Kept on purpose, or about to be: the settlement that names it may still be on its way. */
function mayStay({ kept, main, taskId }: LiveProcess, scene: Scene): boolean {
  return kept || (!main && scene.tasks.get(taskId)?.spec.background === "keep");
}

function sessionOf(task: Task): string {
  return task.nativeSessionId ?? "a new one";
}
