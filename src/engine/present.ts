/**
 * From tasks to answers: adds to a view what only the engine knows (queue, texts) and what is pending for the caller.
 */

import type { Caller } from "../core/caller.ts";
import type { TaskView } from "../core/describe.ts";
import type { TaskId } from "../core/ids.ts";
import { LIMITS } from "../core/limits.ts";
import type { NextStep } from "../core/next-step.ts";
import type { Rejection } from "../core/rejection.ts";
import type { Task, TextRef } from "../core/task.ts";
import type { Clock } from "../ports/clock.ts";
import type { Answer, RefusalAnswer, ResultText, TaskAnswer, TaskItem } from "../ports/engine.ts";
import type { Store } from "../ports/store.ts";
import { excerptNameOf, problemNameOf } from "./attempt-runner.ts";
import { type Courier, NOTHING_PENDING } from "./courier.ts";
import { isStorageTrouble } from "./storage.ts";
import type { ViewFor } from "./view-for.ts";

export type Presenter = {
  /** The task as this caller may see it. */
  view(task: Task, caller: Caller): TaskView;
  /** `isRead`: false where its texts could not be read. */
  item(task: Task, caller: Caller): Promise<{ readonly shown: TaskItem; readonly isRead: boolean }>;
  /** An answer about one task; `extra` says what is special about it. */
  answer(task: Task, caller: Caller, extra?: Partial<TaskAnswer>): Promise<Answer>;
  refusal(rejection: Rejection, caller: Caller, extra?: Partial<RefusalAnswer>): Promise<Answer>;
};

export type PresenterWorld = {
  readonly store: Store;
  readonly clock: Clock;
  readonly courier: Courier;
  readonly queueOf: (taskId: TaskId) => TaskItem["queue"];
  readonly viewFor: ViewFor;
};

export function createPresenter(world: PresenterWorld): Presenter {
  const { store, clock, courier } = world;

  const view = (task: Task, caller: Caller): TaskView => world.viewFor(task, caller, clock.wallMs());

  async function whole(task: Task, caller: Caller): Promise<TaskItem> {
    const shown = view(task, caller);
    const { taskId } = task.handle;
    const result = shown.outcome?.verdict.result ?? null;
    return {
      view: shown,
      queue: shown.phase === "queued" ? world.queueOf(taskId) : null,
      result: result === null ? null : await resultOf(taskId, result),
      questionPrompt: shown.question?.prompt ? await store.text(taskId, shown.question.prompt.name) : null,
      problemText:
        shown.outcome?.verdict.status === "failed" ? await store.text(taskId, problemNameOf(task.epoch)) : null,
    };
  }

  /** What is known of a task is told, also where its texts cannot be read (P1). */
  async function item(task: Task, caller: Caller): Promise<{ readonly shown: TaskItem; readonly isRead: boolean }> {
    try {
      return { shown: await whole(task, caller), isRead: true };
    } catch (error) {
      if (!isStorageTrouble(error)) throw error;
      return {
        shown: { view: view(task, caller), queue: null, result: null, questionPrompt: null, problemText: null },
        isRead: false,
      };
    }
  }

  async function resultOf(taskId: TaskId, ref: TextRef): Promise<ResultText | null> {
    // Only a text of more bytes than that can have been cut to an excerpt.
    const short = ref.bytes > LIMITS.childTextCharactersMax ? await store.text(taskId, excerptNameOf(ref.name)) : null;
    const text = short ?? (await store.text(taskId, ref.name));
    return text === null ? null : { text, truncated: short !== null, totalBytes: ref.bytes };
  }

  return {
    view,
    item,
    async answer(task, caller, extra = {}) {
      const { shown, isRead } = await item(task, caller);
      const next: NextStep = shown.view.next;
      return {
        kind: "task",
        item: shown,
        next,
        created: null,
        replayedAgeMs: null,
        notANewRun: false,
        movedOn: false,
        sent: null,
        waitEnded: null,
        stepsTold: 0,
        toldBefore: false,
        quietSlices: 0,
        clientRequestId: null,
        otherLive: [],
        alreadyDone: false,
        ...extra,
        storageTrouble: !isRead || (extra.storageTrouble ?? !store.healthy()),
        pending: await courier.pendingFor(caller, new Set([task.handle.taskId])),
      };
    },
    async refusal(rejection, caller, extra = {}) {
      // Where the storage itself is in trouble there is nothing to announce from.
      const broken = rejection.code === "storage_unavailable" || rejection.code === "internal";
      return {
        kind: "refusal",
        rejection,
        created: null,
        clientRequestId: null,
        about: null,
        newest: [],
        recorded: null,
        ...extra,
        pending: broken ? NOTHING_PENDING : await courier.pendingFor(caller, new Set()),
      };
    },
  };
}
