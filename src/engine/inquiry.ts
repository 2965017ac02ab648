/**
 * The questions of one attempt: put one after another, each until somebody answers or the attempt is over.
 *
 * Invariant: what is handed to the child is the answer as it was committed, whoever gave it and whether or not anybody waited.
 * Invariant: an open question holds no slot (contract §10).
 * Invariant: an option is stored under the name that callers see and answer with, whatever the child called it.
 * Absent on purpose: deadlines. The supervisor expires a question; the attempt is over then.
 */

import type { TaskId } from "../core/ids.ts";
import { LIMITS } from "../core/limits.ts";
import { excerpt } from "../core/excerpt.ts";
import { sanitiseShort } from "../core/sanitise.ts";
import type { QuestionId } from "../core/ids.ts";
import type { Choice, RecordedAnswer, Task, TextRef } from "../core/task.ts";
import type { Clock } from "../ports/clock.ts";
import type { DriverAnswer, DriverQuestion } from "../ports/driver.ts";
import type { Store } from "../ports/store.ts";
import type { Executor } from "./execute.ts";
import { pause } from "./pause.ts";
import { isStorageTrouble } from "./storage.ts";

export type Inquiry = {
  ask(question: DriverQuestion): Promise<DriverAnswer | null>;
  /** A commit of this task was made. */
  changed(task: Task): void;
  /** True while a question waits for its answer. */
  isOpen(): boolean;
};

export type InquiryWorld = {
  readonly executor: Executor;
  readonly store: Store;
  readonly clock: Clock;
  readonly mask: (text: string) => string;
  readonly taskId: TaskId;
  readonly epoch: number;
  /** Aborts when the attempt is over. */
  readonly signal: AbortSignal;
  /** Between two tries to write while the storage is in trouble. */
  readonly writeAgainMs: number;
};

export function createInquiry(world: InquiryWorld): Inquiry {
  const { executor, store, clock, taskId, epoch, signal } = world;
  let asked = 0;
  let turn: Promise<unknown> = Promise.resolve();
  let isOpen = false;
  let newest: RecordedAnswer | null = null;
  let newestVersion = 0;
  let wake: (() => void) | null = null;
  signal.addEventListener("abort", () => wake?.(), { once: true });

  async function put(question: DriverQuestion): Promise<DriverAnswer | null> {
    if (signal.aborted) return null;
    // Before the commit that tells the supervisor: whoever looks for a free place then must find this one.
    isOpen = true;
    try {
      const questionId = await record(question);
      if (questionId === null) return null;
      const choice = await answerTo(questionId);
      return choice === null ? null : await handedOver(choice, question);
    } finally {
      isOpen = false;
    }
  }

  /** A question outlives storage trouble in memory, as an outcome does (contract §12). Null: the attempt is over. */
  async function record(question: DriverQuestion): Promise<QuestionId | null> {
    asked += 1;
    const { text, ask } = stored(question, `question-${epoch}-${asked}`, world.mask);
    for (;;) {
      try {
        const { task } = await executor.execute(taskId, { kind: "AskInput", epoch, ask }, { texts: [text] });
        // Also asked where the try before was written and could not be confirmed: the text is this question's own.
        return task === null ? null : openedAs(task, text.name);
      } catch (error) {
        if (!isStorageTrouble(error)) throw error;
        if (signal.aborted) return null;
        await pause(clock, world.writeAgainMs);
      }
    }
  }

  function openedAs({ state }: Task, promptName: string): QuestionId | null {
    if (state.kind !== "awaiting_answer" || state.question.prompt?.name !== promptName) return null;
    return state.question.questionId;
  }

  async function answerTo(questionId: QuestionId): Promise<Choice | null> {
    for (;;) {
      if (newest?.questionId === questionId) return newest.choice;
      if (signal.aborted) return null;
      await new Promise<void>((resolve) => {
        wake = resolve;
      });
    }
  }

  async function handedOver(choice: Choice, { optionIds }: DriverQuestion): Promise<DriverAnswer | null> {
    if (choice.kind === "option") {
      const chosen = optionIds[optionNames(optionIds, world.mask).indexOf(choice.optionId)];
      return { kind: "option", optionId: chosen ?? choice.optionId };
    }
    for (;;) {
      try {
        return { kind: "text", text: (await store.text(taskId, choice.text.name)) ?? "" };
      } catch (error) {
        if (!isStorageTrouble(error)) throw error;
        if (signal.aborted) return null;
        await pause(clock, world.writeAgainMs);
      }
    }
  }

  return {
    ask(question) {
      const answer = turn.then(() => put(question));
      turn = answer.catch(() => undefined);
      return answer;
    },
    changed({ lastAnswer, version }) {
      // What was read before the newest commit may arrive after it.
      if (version < newestVersion) return;
      newestVersion = version;
      newest = lastAnswer;
      wake?.();
    },
    isOpen: () => isOpen,
  };
}

/** The child's words with a bound on each; long ones go into a text of their own. */
function stored(question: DriverQuestion, name: string, mask: (text: string) => string) {
  const cut = (text: string, charactersMax: number): string => excerpt(mask(text).toWellFormed(), charactersMax);
  const action = Object.entries(question.action)
    .slice(0, LIMITS.questionFieldsMax)
    .map(([field, value]) => [cut(field, 60), cut(value, LIMITS.questionActionCharactersMax)] as const);
  const optionIds = optionNames(question.optionIds, mask);
  const labelOf = new Map(Object.entries(question.labels));
  const labels = optionIds.flatMap((name, index) => {
    const label = labelOf.get(question.optionIds[index] ?? "");
    return label === undefined ? [] : [[name, cut(label, 200)] as const];
  });
  const prompt = cut(question.prompt, LIMITS.questionPromptCharactersMax);
  const body = JSON.stringify({ prompt, labels: Object.fromEntries(labels) });
  const ref: TextRef = { name, bytes: Buffer.byteLength(body) };
  return {
    text: { name, body },
    ask: { kind: question.ask, optionIds, action: Object.fromEntries(action), prompt: ref },
  };
}

const OPTION_CHARACTERS_MAX = 60;

/** A name for each option that can be shown as it is; options that would look alike, or like nothing, are numbered. */
function optionNames(optionIds: readonly string[], mask: (text: string) => string): readonly string[] {
  const names: string[] = [];
  for (const [index, optionId] of optionIds.slice(0, LIMITS.questionOptionsMax).entries()) {
    const name = sanitiseShort(mask(optionId), OPTION_CHARACTERS_MAX);
    const isTaken = name === "" || names.includes(name);
    names.push(isTaken ? `${sanitiseShort(name, OPTION_CHARACTERS_MAX - 5)} #${index + 1}`.trim() : name);
  }
  return names;
}
