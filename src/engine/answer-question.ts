/**
 * `task_answer`: an answer to a child's question, recorded once, whoever gives it and whether or not anybody waits.
 *
 * Invariant: idempotent: the same answer again is success; another one is told what was recorded and by whom (contract §3).
 * Invariant: a child never answers, and where permissions are a person's to give nobody else gives one (P18).
 */

import { actorOf, type Actor, type Caller } from "../core/caller.ts";
import type { Decision } from "../core/decision.ts";
import { headOf } from "../core/excerpt.ts";
import { questionIdOf, type TaskId } from "../core/ids.ts";
import type { NextStep } from "../core/next-step.ts";
import type { Rejection } from "../core/rejection.ts";
import type { Choice, Task } from "../core/task.ts";
import type { Answer, AnswerRequest, Recorded } from "../ports/engine.ts";
import type { IdSource } from "../ports/id-source.ts";
import type { EngineSettings } from "../ports/settings.ts";
import type { Store } from "../ports/store.ts";
import type { Executor } from "./execute.ts";
import type { Lookup } from "./lookup.ts";
import type { Presenter } from "./present.ts";
import { invalid, rejection } from "./rejections.ts";
import { whyNot } from "./view-for.ts";

export type AnswerQuestion = (request: AnswerRequest, caller: Caller) => Promise<Answer>;

export function createAnswerQuestion(world: {
  readonly store: Store;
  readonly executor: Executor;
  readonly presenter: Presenter;
  readonly lookup: Lookup;
  readonly ids: IdSource;
  readonly settings: EngineSettings;
}): AnswerQuestion {
  const { store, executor, presenter, lookup, ids, settings } = world;

  return async function answer(request, caller) {
    const task = await lookup.find(request.taskId, caller);
    if (task === null) return lookup.unknown(request.taskId, caller);
    const refuse = async (refused: Rejection, about: Task, recorded: Recorded | null = null): Promise<Answer> =>
      presenter.refusal(refused, caller, { about: presenter.view(about, caller), recorded });
    const { optionId, text } = request;
    if ((optionId === null) === (text === null)) {
      const expected = "one of optionId and text, not both";
      return refuse(invalid([{ field: optionId === null ? "optionId" : "text", expected }]), task);
    }
    const name = `answer-${ids.nonce(8)}`;
    const choice: Choice =
      optionId === null
        ? { kind: "text", text: { name, bytes: Buffer.byteLength(text ?? "") } }
        : { kind: "option", optionId };
    const texts = text === null ? [] : [{ name, body: text }];
    const asked = { ...request, optionId, text };
    const by = actorOf(caller);
    const questionId = openQuestionId(task, request.questionId);
    // Also a question that has closed or never was: the core says so, with the task as it then is.
    const command = { kind: "AnswerInput", questionId: questionId ?? UNKNOWN_QUESTION, choice, by } as const;
    const { decision, task: now } = await executor.execute(task.handle.taskId, command, {
      texts,
      guard: async (_tx, current) => notAllowed(current, request.questionId, caller),
    });
    const shown = now ?? task;
    if (decision.kind === "accepted") return presenter.answer(shown, caller, { sent: "answered" });
    const recorded = await recordedAnswer(shown, request.questionId);
    if (recorded !== null && (await isSame(shown.handle.taskId, recorded, asked))) {
      return presenter.answer(shown, caller, { alreadyDone: true });
    }
    if (decision.kind === "rejection")
      return refuse(decision, shown, recorded && shownOf(request.questionId, recorded));
    throw new Error("invariant broken: an answer is accepted or refused");
  };

  /** Decided on the task as it is in the transaction: who may answer depends on what is asked. */
  function notAllowed({ state, handle }: Task, questionId: string, caller: Caller): Decision | null {
    const isOpen = state.kind === "awaiting_answer" && state.question.questionId === questionId;
    const kind = isOpen ? state.question.kind : "question";
    const why = whyNot({ kind }, caller, settings.approvalsBy);
    if (why === null) return null;
    if (why === "scope") return rejection("not_allowed", { kind: "ask_user" }, { scope: "delegate" });
    if (why === "person") return rejection("not_allowed", { kind: "ask_user" }, { may: "person" });
    // What it asked of its own child goes on once the root caller has answered. Nothing of it is shown here.
    const next: NextStep = { kind: "wait", seen: [{ taskId: handle.taskId, news: 0, steps: 0 }] };
    return rejection("not_allowed", next, { may: "root caller" });
  }

  type Given = { readonly choice: Choice; readonly by: Actor };

  /** From the newest answer, else from the log: a question is answered once, so what is found there stays true. */
  async function recordedAnswer({ handle, lastAnswer }: Task, questionId: string): Promise<Given | null> {
    if (lastAnswer?.questionId === questionId) return lastAnswer;
    for (let after = 0; ; ) {
      const page = await store.milestones(handle.taskId, after, PAGE);
      for (const { number, event } of page) {
        after = number;
        if (event.kind === "InputAnswered" && event.questionId === questionId) return event;
      }
      if (page.length < PAGE) return null;
    }
  }

  async function isSame(taskId: TaskId, { choice }: Given, { optionId, text }: AnswerRequest): Promise<boolean> {
    if (choice.kind === "option") return choice.optionId === optionId;
    return text !== null && (await store.text(taskId, choice.text.name)) === text;
  }

  function shownOf(questionId: string, { choice, by }: Given): Recorded {
    const said = choice.kind === "option" ? headOf(choice.optionId, SHOWN_CHARACTERS) : "";
    return { questionId, kind: choice.kind, choice: said, by };
  }
}

const PAGE = 500;
const SHOWN_CHARACTERS = 60;

const UNKNOWN_QUESTION = questionIdOf(0);

/** The id of the question that is open, if it is the one that is meant. */
function openQuestionId({ state }: Task, asked: string) {
  return state.kind === "awaiting_answer" && state.question.questionId === asked ? state.question.questionId : null;
}
