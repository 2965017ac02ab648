/**
 * `answer`: tells a waiting child what it asked for.
 *
 * Invariant: people only. A child that could answer would approve for itself (P18).
 */

import { type Command, refuse, resolveTask, withPerson } from "./command.ts";
import { EXIT } from "./exit-codes.ts";
import { type Failure, fail, note } from "./failure.ts";
import { line, printJson } from "./print.ts";
import { handleOf } from "./show-task.ts";

export type AnswerOptions = { readonly text?: string };

/** The question, and one of its options if one was given. */
export type Answered = { readonly questionId: string; readonly optionId: string | undefined };

export async function answerQuestion(
  command: Command,
  named: string,
  { questionId, optionId }: Answered,
  options: AnswerOptions,
): Promise<number> {
  const { text } = options;
  if ((optionId === undefined) === (text === undefined))
    return fail(command.io, command.options, usage("Give one of the question's options, or --text."));
  return await withPerson(command, "answer", async (api) => {
    const task = await resolveTask(api, named);
    if (task.kind === "failure") return fail(command.io, command.options, task);
    if (task.kind === "refused") return refuse(command, task.answer);
    const body = { questionId, ...(optionId === undefined ? { text } : { optionId }) };
    const reply = await api.post(`/api/tasks/${task.taskId}/answer`, body);
    if (reply.kind === "failure") return fail(command.io, command.options, reply);
    const { answer } = reply;
    if (answer.error !== undefined) return refuse(command, answer);
    if (command.options.json === true) printJson(command.io.stdout, answer);
    else {
      command.io.stdout.write(`${line(answer.say)}\n`);
      note(command.io, command.options, handleOf(answer) ?? task.taskId);
    }
    return EXIT.ok;
  });
}

function usage(what: string): Failure {
  const fix = "See what it asks and its options: delegate-mcp show ID";
  return { kind: "failure", code: "usage", exitCode: EXIT.usage, what, why: null, fix };
}
