/**
 * The commands about tasks, their options and their help.
 */

import { type Command as Parser, InvalidArgumentError, Option } from "commander";
import { agents } from "./agents.ts";
import { type AnswerOptions, answerQuestion } from "./answer-question.ts";
import type { Command } from "./command.ts";
import { type ContinueOptions, continueTask, type DelegateOptions, delegate } from "./delegate.ts";
import { type LogsOptions, logs } from "./logs.ts";
import { type CancelOptions, cancel, type ListOptions, list, show } from "./tasks.ts";
import { VIEWS } from "./thread-page.ts";
import { type WaitOptions, wait } from "./wait.ts";

/** Has a command do `work` with the operands that were given. */
export type Run = (verb: Parser, work: (command: Command, ...operands: string[]) => Promise<number> | number) => void;

export function addTaskVerbs(program: Parser, run: Run): void {
  addStarts(program, run);
  addLooks(program, run);
  addWords(program, run);
}

function addStarts(program: Parser, run: Run): void {
  const delegateVerb = program
    .command("delegate")
    .argument("<text>", 'the task, or "-" for standard input')
    .description("hand a task to an agent; prints its id and leaves it running")
    .option("--key <key>", "name of this piece of work; the same key never starts a second child (default: a new one)")
    .option("--agent <name>", "agent to use (default: the configured one)")
    .option("--model <name>", "model to use")
    .option("--cwd <dir>", "directory to work in (default: the current one)")
    .addOption(new Option("--access <mode>", "what the child may do to files").choices(["read", "write"]))
    .option("--title <text>", "short name shown in lists")
    .option("--wait", "wait for the result and print it")
    .option("--timeout <seconds>", "with --wait: how long", seconds);
  run(delegateVerb, (command, text = "") => delegate(command, text, delegateVerb.opts<DelegateOptions>()));

  const waitVerb = program
    .command("wait")
    .argument("<id...>", "tasks, by id or unique beginning of one")
    .description("wait until a task has ended or asks something; never stops it")
    .option("--any", "until one of them has news (default)")
    .option("--all", "until all of them have ended")
    .option("--timeout <seconds>", "how long at most; then exit code 6", seconds);
  run(waitVerb, (command, ...ids) => wait(command, ids, waitVerb.opts<WaitOptions>()));
}

function addLooks(program: Parser, run: Run): void {
  const listVerb = program
    .command("list")
    .alias("ls")
    .description("show tasks, newest first")
    .option("--open", "only tasks that have not ended")
    .option("--unread", "only tasks whose result nobody has confirmed")
    .addOption(
      new Option("--status <status>", "only this status").choices([
        "working",
        "input_required",
        "completed",
        "failed",
        "cancelled",
      ]),
    )
    .option("--limit <n>", "how many at most", wholeNumber)
    .option("--cursor <text>", "go on from an earlier list");
  run(listVerb, (command) => list(command, listVerb.opts<ListOptions>()));

  const showVerb = program.command("show").argument("<id>", "task").description("show one task and its result");
  run(showVerb, (command, id = "") => show(command, id));

  const logsVerb = program
    .command("logs")
    .argument("<id>", "task")
    .description("show what its child was told, said and did")
    .option("-f, --follow", "go on until the task has ended")
    .addOption(new Option("--view <view>", "what to show (default: messages)").choices(VIEWS))
    .option("--find <text>", "only the places that contain this text");
  run(logsVerb, (command, id = "") => logs(command, id, logsVerb.opts<LogsOptions>()));

  run(program.command("agents").description("show who can be a child here"), agents);
}

/** What is said to a child, and its end. */
function addWords(program: Parser, run: Run): void {
  const continueVerb = program
    .command("continue")
    .argument("<id>", "task")
    .argument("<text>", 'the message, or "-" for standard input')
    .description("send a further message to the child of a task, in the same conversation")
    .option("--key <key>", "name of this message (default: a new one)")
    .option("--agent <name>", "another agent for the same task")
    .option("--model <name>", "another model")
    .option("--after-settlement <n>", "send nothing if somebody has continued past this result", wholeNumber)
    .option("--wait", "wait for the result and print it")
    .option("--timeout <seconds>", "with --wait: how long", seconds);
  run(continueVerb, (command, id = "", text = "") =>
    continueTask(command, id, text, continueVerb.opts<ContinueOptions>()),
  );

  const answerVerb = program
    .command("answer")
    .argument("<id>", "task")
    .argument("<question>", "question, as show names it")
    .argument("[option]", "one of its options")
    .description("answer what a child asks")
    .option("--text <text>", "an answer in words instead of an option");
  run(answerVerb, (command, id = "", questionId = "", ...rest) =>
    answerQuestion(command, id, { questionId, optionId: rest[0] }, answerVerb.opts<AnswerOptions>()),
  );

  const cancelVerb = program
    .command("cancel")
    .argument("<id>", "task")
    .description("stop a task and everything it has started")
    .option("--reason <text>", "why, for the record")
    .option("--abandon", "give up processes that cannot be stopped, by name");
  run(cancelVerb, (command, id = "") => cancel(command, id, cancelVerb.opts<CancelOptions>()));
}

function seconds(text: string): number {
  const value = Number(text);
  if (text.trim() === "" || !Number.isFinite(value) || value < 0 || value > 31_536_000) {
    throw new InvalidArgumentError("Expected seconds.");
  }
  return value;
}

function wholeNumber(text: string): number {
  if (!/^\d{1,9}$/.test(text)) throw new InvalidArgumentError("Expected a whole number.");
  return Number(text);
}
