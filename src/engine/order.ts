/**
 * The order that a driver gets for one attempt: prompt, history, environment, scratch folder.
 *
 * Invariant: what has to be read is read before the attempt is recorded as started, so that a store that cannot be read then
 * costs no attempt.
 */

import { join } from "node:path";

import { attemptOf } from "../core/evolve.ts";
import { attemptIdOf, type TaskId } from "../core/ids.ts";
import { LIMITS } from "../core/limits.ts";
import type { Task, TextRef } from "../core/task.ts";
import type { AttemptOrder } from "../ports/driver.ts";
import type { Store } from "../ports/store.ts";
import type { AgentSettings, EngineSettings } from "../ports/settings.ts";
import { excerptNameOf } from "./attempt-runner.ts";

/** The words of a run, as they are stored. */
export type Words = Pick<AttemptOrder, "prompt" | "history">;

export async function readWords(store: Store, task: Task): Promise<Words> {
  const { run, handle } = task;
  const prompt = (await store.text(handle.taskId, run.message.name)) ?? "";
  return { prompt, history: run.ordinal === 1 ? [] : await historyOf(store, task) };
}

/** Everything that an order is made of. */
export type OrderParts = {
  readonly settings: EngineSettings;
  readonly started: Task;
  /** The task as it was queued; it says why this attempt is made. */
  readonly before: Task;
  readonly agent: AgentSettings;
  readonly words: Words;
  /** How this child can delegate; null if it must not. */
  readonly delegation: AttemptOrder["delegation"];
};

export function orderOf({ settings, started, before, agent, words, delegation }: OrderParts): AttemptOrder {
  const { taskId } = started.handle;
  const mark = attemptOf(started.state)?.mark;
  if (mark === undefined) throw new Error("invariant broken: an order needs a running attempt");
  return {
    mark,
    spec: started.spec,
    command: agent.command,
    promptBy: agent.promptBy,
    ...words,
    nativeSessionId: started.nativeSessionId,
    cause: causeOf(before),
    env: { ...agent.env, ...(delegation === null ? {} : childVariables(taskId, delegation)) },
    delegation,
    scratchDir: join(settings.scratchRoot, attemptIdOf(taskId, started.epoch)),
    resultBytesMax: LIMITS.resultBytesMax,
  };
}

function causeOf(before: Task): AttemptOrder["cause"] {
  if (before.state.kind !== "queued") return "first";
  if (before.state.reason === "healing" || before.state.reason === "paused") return "healing";
  return before.state.reason === "recovering" ? "recovering" : "first";
}

/** Contract §2; the mark is the guard's to set. */
function childVariables(
  taskId: TaskId,
  { url, token }: NonNullable<AttemptOrder["delegation"]>,
): Record<string, string> {
  return { DELEGATE_CHILD_URL: url, DELEGATE_CHILD_TOKEN: token, DELEGATE_CHILD_TASK_ID: taskId };
}

const PAGE = 500;

/** Results of earlier runs together, in bytes: a child cannot make its own next run cost the daemon its memory (P15). */
const HISTORY_BYTES_MAX = 8 * 1_024 * 1_024;

/**
 * Earlier runs with their results, oldest first, read from the log. Of results past the limit, counted from the newest, there is
 * only the excerpt that answers show.
 */
async function historyOf(store: Store, task: Task): Promise<AttemptOrder["history"]> {
  const { taskId } = task.handle;
  const messages = new Map<number, string>();
  const results = new Map<number, TextRef>();
  for (let after = 0; ; ) {
    const page = await store.milestones(taskId, after, PAGE);
    for (const { number, event } of page) {
      after = number;
      if (event.kind === "RunQueued") messages.set(event.ordinal, event.message.name);
      if (event.kind !== "TaskSettled") continue;
      const { result } = event.settlement.verdict;
      if (result !== null) results.set(event.settlement.runOrdinal, result);
    }
    if (page.length < PAGE) break;
  }
  let left = HISTORY_BYTES_MAX;
  const history: { readonly message: string; readonly result: string | null }[] = [];
  for (const [ordinal, name] of [...messages].filter(([ordinal]) => ordinal < task.run.ordinal).reverse()) {
    const ref = results.get(ordinal) ?? null;
    left -= ref?.bytes ?? 0;
    const message = (await store.text(taskId, name)) ?? "";
    history.push({ message, result: ref === null ? null : await resultOf(ref, left >= 0) });
  }
  return history.reverse();

  async function resultOf(ref: TextRef, whole: boolean): Promise<string | null> {
    const short = whole ? null : await store.text(taskId, excerptNameOf(ref.name));
    return short ?? store.text(taskId, ref.name);
  }
}
