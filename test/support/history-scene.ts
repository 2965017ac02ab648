/**
 * What is true at one entry of a history: the folded tasks, what lives, who holds what. Rules look at it and at the entry.
 *
 * Invariant: folded from the entries alone; nothing is asked of a store or a clock.
 * Invariant: `undisturbedMs` stands still while no daemon could answer (dead, frozen, storage in trouble), so that limits of
 * answers can be measured in it.
 */

import type { TaskEvent } from "../../src/core/event.ts";
import { evolve } from "../../src/core/evolve.ts";
import { parseId, type TaskId } from "../../src/core/ids.ts";
import type { Task } from "../../src/core/task.ts";
import type { Entry, EntryOf, HistoryHeader } from "./history.ts";

export type LiveProcess = EntryOf<"process"> & {
  /** In undisturbed time. */
  readonly sinceMs: number;
  /** False once the guard that had started it died, or its end was given up: nobody is bound to end it in time. */
  readonly guarded: boolean;
  /** True once a settlement listed it as left running on purpose. */
  readonly kept: boolean;
};

export type Scene = {
  readonly header: HistoryHeader;
  /** The kinds of entries that the history has at all. */
  readonly tells: ReadonlySet<Entry["kind"]>;
  readonly runMs: number;
  readonly undisturbedMs: number;
  readonly disturbed: boolean;
  readonly attended: boolean;
  /** Running time during which a daemon was alive, frozen or not. */
  readonly aliveMs: number;
  /** Running time at which a daemon was last alive and moving. */
  readonly attendedAtMs: number;
  readonly tasks: ReadonlyMap<TaskId, Task>;
  /** The task of this entry's event as it was before; null for its first event and for other entries. */
  readonly before: Task | null;
  /** Why this entry's event could not be folded. */
  readonly broken: string | null;
  readonly processes: ReadonlyMap<number, LiveProcess>;
  readonly claims: ReadonlyMap<TaskId, string>;
  /** Highest epoch of a task that was proven gone. */
  readonly provenEpochs: ReadonlyMap<TaskId, number>;
  readonly calls: ReadonlyMap<number, OpenCall>;
  readonly openCalls: ReadonlyMap<number, OpenCall>;
};

export type OpenCall = EntryOf<"call"> & {
  readonly sinceUndisturbedMs: number;
  /** True if a commit may have been made meanwhile of which the daemon heard that it failed. */
  doubtful: boolean;
};

export type SceneFold = {
  readonly scene: Scene;
  see(entry: Entry): Scene;
  /** Closes what the entry ended; called after the rules have looked at it. */
  leave(entry: Entry): void;
};

const DISTURBING = ["storage", "doubtful_storage", "slow_storage"] as const;

type Writable<T> = { -readonly [Field in keyof T]: T[Field] };

export function createScene(header: HistoryHeader, tells: Scene["tells"]): SceneFold {
  const tasks = new Map<TaskId, Task>();
  const processes = new Map<number, LiveProcess>();
  const claims = new Map<TaskId, string>();
  const provenEpochs = new Map<TaskId, number>();
  const calls = new Map<number, OpenCall>();
  const openCalls = new Map<number, OpenCall>();
  const troubles = new Set<string>();
  let alive = false;
  let frozen = false;
  let started = false;

  const scene: Writable<Scene> = {
    header,
    tells,
    runMs: 0,
    undisturbedMs: 0,
    disturbed: false,
    attended: false,
    aliveMs: 0,
    attendedAtMs: 0,
    tasks,
    before: null,
    broken: null,
    processes,
    claims,
    provenEpochs,
    calls,
    openCalls,
  };

  function moveTime(entry: Entry): void {
    const runMs = entry.runMs ?? entry.atMs;
    const passedMs = started ? Math.max(0, runMs - scene.runMs) : 0;
    started = true;
    if (!scene.disturbed) scene.undisturbedMs += passedMs;
    scene.runMs = runMs;
    if (alive) scene.aliveMs += passedMs;
    if (scene.attended) scene.attendedAtMs = runMs;
  }

  function seeDaemon({ did }: EntryOf<"daemon">): void {
    if (did === "started") {
      alive = true;
      frozen = false;
    }
    if (did === "crashed" || did === "drained") alive = false;
    if (did === "froze") frozen = true;
    if (did === "thawed") frozen = false;
  }

  function seeEvent({ taskId, event }: EntryOf<"event">): void {
    const before = tasks.get(taskId) ?? null;
    scene.before = before;
    const folded = fold(before, event);
    if (typeof folded === "string") {
      scene.broken = folded;
      return;
    }
    tasks.set(taskId, folded);
    if (event.kind === "AttemptStopped") provenEpochs.set(taskId, event.epoch);
    if (event.kind !== "TaskSettled") return;
    const kept = new Set(event.settlement.stop.kept.map((survivor) => survivor.pid));
    for (const [pid, process] of processes) if (kept.has(pid)) processes.set(pid, { ...process, kept: true });
  }

  return {
    scene,
    see(entry) {
      scene.before = null;
      scene.broken = null;
      moveTime(entry);
      if (entry.kind === "daemon") seeDaemon(entry);
      if (entry.kind === "trouble") {
        if (entry.on) troubles.add(entry.what);
        else troubles.delete(entry.what);
        if (entry.what === "doubtful_storage" && entry.on) for (const call of openCalls.values()) call.doubtful = true;
        if (entry.what === "guard" && entry.on) {
          for (const [pid, process] of processes) processes.set(pid, { ...process, guarded: false });
        }
      }
      if (entry.kind === "event") seeEvent(entry);
      if (entry.kind === "claim") {
        if (entry.path === null) claims.delete(entry.taskId);
        else claims.set(entry.taskId, entry.path);
      }
      if (entry.kind === "process" && entry.did === "started") {
        // What a child starts that has outlived its guard, no guard knows of.
        const wild = [...processes.values()].some(({ mark, guarded }) => mark === entry.mark && !guarded);
        const guarded = !entry.stubborn && !wild && !troubles.has("guard");
        processes.set(entry.pid, { ...entry, guarded, kept: false, sinceMs: scene.undisturbedMs });
      }
      if (entry.kind === "call") {
        const doubtful = troubles.has("doubtful_storage");
        const call = { ...entry, sinceUndisturbedMs: scene.undisturbedMs, doubtful };
        calls.set(entry.id, call);
        openCalls.set(entry.id, call);
      }
      scene.attended = alive && !frozen;
      if (scene.attended) scene.attendedAtMs = scene.runMs;
      scene.disturbed = !scene.attended || DISTURBING.some((what) => troubles.has(what));
      return scene;
    },
    leave(entry) {
      if (entry.kind === "process" && entry.did === "ended") processes.delete(entry.pid);
      if (entry.kind === "answer" || entry.kind === "unanswered") openCalls.delete(entry.id);
    },
  };
}

/** The task after the event, or why there is none. */
function fold(task: Task | null, event: TaskEvent): Task | string {
  try {
    return evolve(task, event);
  } catch (error) {
    return String(error);
  }
}

/** The tasks that a call names by any of their ids, as far as they exist. */
export function taskIdsOf(call: EntryOf<"call">, scene: Scene): readonly TaskId[] {
  return (call.about ?? []).flatMap((text) => {
    const parsed = parseId(text);
    if (parsed.kind === "task") return [parsed.taskId];
    const named = [...scene.tasks.values()].find((task) => task.handle.childThreadId === text);
    return named === undefined ? [] : [named.handle.taskId];
  });
}

/** Who is told of a task's end and whose keys are whose: a root caller by its name, a child by the task that it works for too. */
export function audienceOf(caller: string, parentTaskId: TaskId | null): string {
  return parentTaskId === null ? caller : `${caller}/${parentTaskId}`;
}

/** Whether a caller, as a history names it, may be told of a task. */
export function maySee(caller: string, { handle, origin }: Task): boolean {
  const [name, below] = caller.split("/");
  if (name !== origin.caller) return false;
  return below === undefined || handle.taskId === below || origin.ancestors.some((taskId) => taskId === below);
}
