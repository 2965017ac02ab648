/**
 * Rules about calls and their answers: what callers were told, and what their words did.
 */

import { readAfter, toldOf } from "../../src/core/after.ts";
import { nodeIdOf, type TaskId } from "../../src/core/ids.ts";
import { attemptOf } from "../../src/core/evolve.ts";
import type { Task } from "../../src/core/task.ts";
import type { Rule } from "./history-check.ts";
import { isEventOf } from "./history-rules-tasks.ts";
import { audienceOf, maySee, type Scene, taskIdsOf } from "./history-scene.ts";

const handleOrNext: Rule = {
  name: "handle-or-next",
  promises: ["P1"],
  says: "every answer has a next step, and an answer about a task has its handle",
  begin: (tell) => (entry) => {
    if (entry.kind !== "answer") return;
    if (entry.next === null) tell(`call ${entry.id}: no next step`);
    if (entry.form === "task" && entry.tasks.length !== 1) tell(`call ${entry.id}: no handle`);
  },
};

const identity: Rule = {
  name: "identity",
  promises: ["P2"],
  says: "a task's three ids are the same in every answer",
  begin: (tell) => (entry, scene) => {
    if (entry.kind !== "answer") return;
    for (const { taskId, childThreadId, nodeId } of entry.tasks) {
      const handle = scene.tasks.get(taskId)?.handle;
      if (nodeId !== nodeIdOf(taskId)) tell(`call ${entry.id}: ${taskId} has node ${nodeId}`);
      if (handle !== undefined && handle.childThreadId !== childThreadId) {
        tell(`call ${entry.id}: ${taskId} has thread ${childThreadId}, first ${handle.childThreadId}`);
      }
    }
  },
};

const durable: Rule = {
  name: "durable",
  promises: ["P4"],
  says: "no answer tells of a task, or of a change of it, that is not committed",
  begin: (tell) => (entry, scene) => {
    if (entry.kind !== "answer") return;
    for (const { taskId, version } of entry.tasks) {
      const committed = scene.tasks.get(taskId)?.version ?? 0;
      if (version > committed) tell(`call ${entry.id}: ${taskId} at version ${version}, ${committed} is committed`);
    }
  },
};

const onePerKey: Rule = {
  name: "one-per-key",
  promises: ["P3"],
  says: "a key names one task for ever, and creates at most one",
  begin: (tell) => {
    const accepted = new Map<string, TaskId>();
    const named = new Map<string, TaskId>();
    const created = new Map<string, number>();
    return (entry, scene) => {
      if (isEventOf(entry, "TaskAccepted")) {
        const { caller, parentTaskId, clientRequestId } = entry.event.origin;
        const key = JSON.stringify([caller, parentTaskId, clientRequestId]);
        const first = accepted.get(key);
        if (first !== undefined) tell(`key ${clientRequestId} of ${caller} made ${entry.taskId} beside ${first}`);
        accepted.set(key, entry.taskId);
      }
      if (entry.kind !== "answer" || entry.created === null || entry.created === "none") return;
      const call = scene.calls.get(entry.id);
      const taskId = entry.tasks[0]?.taskId;
      if (call === undefined || taskId === undefined || call.key === null) return;
      const about = call.tool === "task_continue" ? taskId : null;
      const key = JSON.stringify([call.caller, call.tool, about, call.key]);
      const first = named.get(key);
      if (first !== undefined && first !== taskId)
        tell(`key ${call.key} of ${call.caller} names ${taskId} and ${first}`);
      named.set(key, taskId);
      if (entry.created !== "new") return;
      const earlier = created.get(key);
      if (earlier !== undefined)
        tell(`key ${call.key}: calls ${earlier} and ${entry.id} were both told that it was new`);
      created.set(key, entry.id);
    };
  },
};

const committedIsTold: Rule = {
  name: "committed-is-told",
  promises: ["P1", "P3"],
  says: "a call whose work was committed is not refused",
  begin: (tell) => {
    const overlapping = new Map<string, number>();
    const committed = new Map<string, number>();
    return (entry, scene) => {
      if (entry.kind === "call" && entry.key !== null) {
        const key = JSON.stringify([entry.caller, entry.tool, entry.key]);
        overlapping.set(key, (overlapping.get(key) ?? 0) + 1);
      }
      if (entry.kind === "receipt")
        committed.set(JSON.stringify([entry.caller, entry.tool, entry.key]), entry.runMs ?? 0);
      if (entry.kind !== "answer" || entry.form !== "refusal" || entry.created !== "none") return;
      const call = scene.calls.get(entry.id);
      if (call === undefined || call.key === null || call.doubtful) return;
      const key = JSON.stringify([call.caller, call.tool, call.key]);
      if (committed.has(key) && overlapping.get(key) === 1) {
        tell(`call ${entry.id}: refused with ${entry.code ?? "nothing"} although its work was committed`);
      }
    };
  },
};

const continued: Rule = {
  name: "continued",
  promises: ["P1", "P3"],
  says: "a message is sent once per key, and an answer says so only if it was",
  begin: (tell) => {
    const sent = new Map<TaskId, number>();
    const keys = new Map<TaskId, Set<string>>();
    const told = new Map<TaskId, number>();
    return (entry, scene) => {
      if (entry.kind === "event" && entry.event.kind === "MessageQueued") {
        const count = (sent.get(entry.taskId) ?? 0) + 1;
        sent.set(entry.taskId, count);
        const limit = keys.get(entry.taskId)?.size ?? 0;
        if (scene.tells.has("call") && count > limit)
          tell(`${entry.taskId}: ${count} messages queued for ${limit} keys`);
      }
      if (entry.kind === "call" && entry.tool === "task_continue") {
        for (const taskId of taskIdsOf(entry, scene)) {
          const known = keys.get(taskId) ?? new Set();
          keys.set(taskId, known.add(`${entry.caller} ${entry.key ?? ""}`));
        }
      }
      if (entry.kind !== "answer" || entry.created !== "new") return;
      const taskId = entry.tasks[0]?.taskId;
      if (scene.calls.get(entry.id)?.tool !== "task_continue" || taskId === undefined) return;
      const count = (told.get(taskId) ?? 0) + 1;
      told.set(taskId, count);
      const queued = sent.get(taskId) ?? 0;
      if (count > queued) tell(`call ${entry.id}: ${count} messages to ${taskId} are said to be sent, ${queued} were`);
    };
  },
};

const findable: Rule = {
  name: "findable",
  promises: ["P3"],
  says: "nobody is told that nothing was accepted under a key that names a task",
  begin: (tell) => {
    const accepted = new Set<string>();
    const known = new Map<number, boolean>();
    return (entry, scene) => {
      if (entry.kind === "receipt" && entry.tool === "delegate_task") accepted.add(`${entry.caller} ${entry.key}`);
      if (entry.kind === "call" && entry.tool === "task_status" && entry.key !== null) {
        known.set(entry.id, accepted.has(`${entry.caller} ${entry.key}`));
      }
      if (entry.kind !== "answer" || entry.code !== "unknown_task" || !known.get(entry.id)) return;
      tell(`call ${entry.id}: ${scene.calls.get(entry.id)?.key ?? ""} is said to name nothing`);
    };
  },
};

const byWord: Rule = {
  name: "by-word",
  promises: ["P7", "P9"],
  says: "only a caller's own words cancel a task or clear a delivery",
  begin: (tell) => {
    const cancels = new Set<TaskId>();
    const words = new Map<TaskId, number>();
    const hears = (taskId: TaskId, settlement: number): void => {
      words.set(taskId, Math.max(words.get(taskId) ?? 0, settlement));
    };
    const settledNews = new Map<TaskId, { readonly number: number; readonly news: number }[]>();
    return (entry, scene) => {
      if (!scene.tells.has("call")) return;
      if (entry.kind === "call") {
        for (const taskId of taskIdsOf(entry, scene)) {
          if (entry.tool === "task_cancel") cancels.add(taskId);
          if (entry.tool === "task_ack") hears(taskId, entry.settlement ?? 0);
          if (entry.tool === "task_continue") hears(taskId, Number.POSITIVE_INFINITY);
        }
        if (entry.tool === "task_wait" && entry.after !== null) {
          const after = readAfter(entry.after);
          for (const taskId of scene.tasks.keys()) {
            const told = toldOf(after, taskId)?.news ?? -1;
            for (const { number, news } of settledNews.get(taskId) ?? []) if (news <= told) hears(taskId, number);
          }
        }
      }
      if (entry.kind !== "event") return;
      const { taskId, event } = entry;
      if (event.kind === "TaskSettled") {
        const { number, news } = event.settlement;
        settledNews.set(taskId, [...(settledNews.get(taskId) ?? []), { number, news }]);
      }
      if (event.kind === "CancelRequested") {
        const above = scene.tasks.get(taskId)?.origin.ancestors ?? [];
        if (![taskId, ...above].some((id) => cancels.has(id))) tell(`${taskId}: cancelled without a cancel`);
      }
      if (event.kind === "DeliveryAcked" && event.settlement > (words.get(taskId) ?? 0)) {
        tell(`${taskId}: settlement ${event.settlement} counts as read without its caller's word`);
      }
    };
  },
};

const cancelled: Rule = {
  name: "cancelled",
  promises: ["P12"],
  says: "after an answered cancel nothing is started until somebody continues the task",
  begin: (tell) => {
    const messages = new Map<TaskId, number>();
    const asOf = new Map<number, ReadonlyMap<TaskId, number>>();
    const holds = new Map<TaskId, number>();
    return (entry, scene) => {
      if (entry.kind === "call" && entry.tool === "task_cancel") asOf.set(entry.id, new Map(messages));
      if (entry.kind === "answer" && entry.form === "task" && scene.calls.get(entry.id)?.tool === "task_cancel") {
        const taskId = entry.tasks[0]?.taskId;
        if (taskId === undefined) return;
        if ((messages.get(taskId) ?? 0) === (asOf.get(entry.id)?.get(taskId) ?? 0)) holds.set(taskId, entry.id);
      }
      if (entry.kind !== "event") return;
      const { taskId, event } = entry;
      if (event.kind === "MessageQueued") {
        messages.set(taskId, (messages.get(taskId) ?? 0) + 1);
        holds.delete(taskId);
      }
      const call = holds.get(taskId);
      if (event.kind === "AttemptStarted" && call !== undefined) {
        tell(`${taskId}: attempt ${event.epoch} started after its cancel (call ${call}) was answered`);
      }
    };
  },
};

const rereading: Rule = {
  name: "rereading",
  promises: ["P9"],
  says: "a result reads the same every time",
  begin: (tell) => {
    const results = new Map<string, string | null>();
    return (entry) => {
      if (entry.kind !== "answer" || entry.form === "list" || entry.stale) return;
      for (const shown of entry.tasks) {
        if (shown.phase !== "settled" || !shown.told) continue;
        const key = `${shown.taskId}:${shown.settlements}`;
        const first = results.get(key);
        if (first === undefined) results.set(key, shown.result);
        else if (first !== shown.result)
          tell(`call ${entry.id}: ${key} reads ${shown.result ?? "-"}, first ${first ?? "-"}`);
      }
    };
  },
};

const pending: Rule = {
  name: "pending",
  promises: ["P9"],
  says: "every settlement is announced until its caller has confirmed it",
  begin: (tell) => {
    const heard = new Map<string, Set<string>>();
    const atRest = new Set<string>();
    return (entry, scene) => {
      if (entry.kind === "rest") {
        for (const caller of atRest) {
          for (const { handle, settlements } of unreadOf(scene, caller)) {
            if (heard.get(caller)?.has(`${handle.taskId}:${settlements}`)) continue;
            tell(`${handle.taskId}: settlement ${settlements} was never told`);
          }
        }
      }
      if (entry.kind !== "answer") return;
      const call = scene.calls.get(entry.id);
      if (call === undefined) return;
      const words = heard.get(call.caller) ?? new Set();
      heard.set(call.caller, words);
      for (const { taskId, settlement } of entry.pending.completions) {
        words.add(`${taskId}:${settlement}`);
        const origin = scene.tasks.get(taskId)?.origin;
        const owner = origin === undefined ? call.caller : audienceOf(origin.caller, origin.parentTaskId);
        if (owner !== call.caller) tell(`call ${entry.id}: announces ${taskId} of ${owner}`);
      }
      for (const shown of entry.tasks) if (shown.phase === "settled") words.add(`${shown.taskId}:${shown.settlements}`);
      if (!call.atRest) return;
      atRest.add(call.caller);
      const unread = unreadOf(scene, call.caller);
      const shownHere = unread.filter((task) => entry.tasks.some(({ taskId }) => taskId === task.handle.taskId)).length;
      const told = entry.pending.completions.length + entry.pending.count;
      if (told > unread.length || told < unread.length - shownHere) {
        tell(`call ${entry.id}: announces ${told} settlements, ${unread.length} are unread`);
      }
    };
  },
};

const foreign: Rule = {
  name: "foreign",
  promises: ["P16"],
  says: "a caller is never told of another's task, and a child of nothing but its own and what is below it",
  begin: (tell) => (entry, scene) => {
    if (entry.kind !== "answer") return;
    const call = scene.calls.get(entry.id);
    for (const { taskId } of entry.tasks) {
      const task = scene.tasks.get(taskId);
      if (call !== undefined && task !== undefined && !maySee(call.caller, task))
        tell(`call ${entry.id}: shows ${taskId} of ${task.origin.caller} to ${call.caller}`);
    }
  },
};

const tree: Rule = {
  name: "tree",
  promises: ["P12"],
  says: "a cancel reaches everything below its task, which grows no more, and is over when all of it is gone",
  begin: (tell) => {
    type Below = ReadonlyMap<TaskId, number>;
    const cancelledWith = new Map<TaskId, Below>();
    return (entry, scene) => {
      if (entry.kind !== "event") return;
      const { taskId, event } = entry;
      const task = scene.tasks.get(taskId);
      if (event.kind === "TaskAccepted") {
        const parent = event.origin.parentTaskId === null ? null : scene.tasks.get(event.origin.parentTaskId);
        if (parent === undefined || (parent !== null && attemptOf(parent.state) === null)) {
          tell(`${taskId}: accepted from ${event.origin.parentTaskId}, which has no child at work`);
        }
      }
      if (event.kind === "CancelRequested") {
        const below = [...scene.tasks.values()].filter(({ origin, state }) => {
          return origin.ancestors.includes(taskId) && state.kind !== "settled";
        });
        cancelledWith.set(taskId, new Map(below.map(({ handle, run }) => [handle.taskId, run.ordinal])));
      }
      if (event.kind !== "TaskSettled" || event.settlement.verdict.status !== "cancelled" || task === undefined) return;
      if (event.settlement.stop.proof === "abandoned") return;
      for (const [below, ordinal] of cancelledWith.get(taskId) ?? []) {
        const other = scene.tasks.get(below);
        // Whoever continued it meanwhile wants it; whatever waits for no proof was never started again.
        if (other === undefined || other.state.kind === "settled" || other.run.ordinal > ordinal) continue;
        tell(`${taskId}: cancelled while ${below} below it is ${other.state.kind}`);
      }
      cancelledWith.delete(taskId);
    };
  },
};

export const CALL_RULES: readonly Rule[] = [
  handleOrNext,
  identity,
  durable,
  onePerKey,
  committedIsTold,
  continued,
  findable,
  byWord,
  cancelled,
  rereading,
  pending,
  foreign,
  tree,
];

function unreadOf(scene: Scene, caller: string): readonly Task[] {
  return [...scene.tasks.values()].filter(
    (task) =>
      audienceOf(task.origin.caller, task.origin.parentTaskId) === caller &&
      task.state.kind === "settled" &&
      task.acknowledgedThrough < task.state.settlement.number,
  );
}
