/**
 * How one task, and a list of them, look on the command line.
 *
 * Invariant: what a child wrote stands inside a fence that says so (P17).
 */

import { sanitise } from "../core/sanitise.ts";
import { type Answer, type Item, isSettled, momentOf } from "./answer.ts";
import type { Command } from "./command.ts";
import { isChild } from "./find-daemon.ts";
import { age, type Cell, type Colors, colorsFor, line, printPairs, printRows } from "./print.ts";

/** The rows of `list` and of waits for several tasks. `nowMs` gives the ages their zero. */
export function printTasks(command: Command, tasks: readonly Item[], nowMs: number): void {
  const { stdout, env } = command.io;
  const colors = colorsFor(stdout, env, command.options.color === false);
  const columns = [
    { title: "TASK" },
    { title: "STATE" },
    { title: "AGE" },
    { title: "AGENT" },
    { title: "TITLE", wide: true } as const,
    { title: "DIRECTORY", wide: true } as const,
  ];
  const rows = tasks.map((task) => [
    task.taskId,
    stateOf(task),
    ageOf(task, nowMs, stdout.isTTY),
    task.agent,
    task.title,
    task.workspace?.cwd,
  ]);
  printRows(stdout, colors, columns, rows);
}

/** `working (healing)`, `completed`. */
export function stateOf(task: Item): string {
  const { status = "unknown", phase } = task;
  return phase === undefined || phase === "settled" || phase === "running" || phase === "awaiting_answer"
    ? status
    : `${status} (${phase})`;
}

/** Everything known of one task, and what its child wrote. */
export function printTask(command: Command, task: Answer): void {
  const { stdout, env } = command.io;
  const colors = colorsFor(stdout, env, command.options.color === false);
  if (stdout.isTTY) stdout.write(`${painted(task, colors)}\n`);
  printPairs(
    stdout,
    colors,
    stdout.isTTY
      ? pairsOf(task)
      : [["say", task.say], ...pairsOf(task), ...choicePairs(task), ["result", task.fromChild?.result?.text]],
  );
  if (!stdout.isTTY) return;
  printChildText(command, task, colors);
  const hint = hintOf(task, isChild(env));
  if (hint !== null) stdout.write(`${colors.dim(line(hint))}\n`);
}

/** The news of a wait: who it is and how it stands to a person, the result itself to a program. */
export function printOutcome(command: Command, task: Item, say: string): void {
  const { stdout, stderr, env } = command.io;
  const colors = colorsFor(stderr, env, command.options.color === false);
  stderr.write(`${painted({ ...task, say }, colors)}\n`);
  for (const text of [handleOf(task), changesOf(task), cutOf(task), hintOf(task, isChild(env))]) {
    if (text !== null) stderr.write(`${colors.dim(line(text))}\n`);
  }
  const result = task.fromChild?.result?.text;
  if (!stdout.isTTY)
    for (const [name, value] of [...askedPairs(task), ...choicePairs(task)])
      if (value) stderr.write(`${name}: ${line(String(value))}\n`);
  if (stdout.isTTY) printChildText(command, task, colors);
  else if (isSettled(task) && result !== undefined) stdout.write(result.endsWith("\n") ? result : `${result}\n`);
}

/** The three ids in one line. */
export function handleOf(task: Item): string | null {
  const ids = [task.taskId, task.childThreadId, task.nodeId].filter((id) => id !== undefined);
  return ids.length === 0 ? null : ids.join(" · ");
}

function painted(task: Item, colors: Colors): string {
  const text = line(task.say);
  if (task.status === "completed") return colors.green(text);
  if (task.status === "failed" || task.status === "cancelled") return colors.red(text);
  return task.status === "input_required" || task.problem !== undefined ? colors.yellow(text) : text;
}

type Pairs = readonly (readonly [string, Cell])[];

function pairsOf(task: Item): Pairs {
  const { workspace, question } = task;
  return [
    ["task", task.taskId],
    ["thread", task.childThreadId],
    ["node", task.nodeId],
    ["key", task.meta?.clientRequestId],
    ["state", task.status === undefined ? null : stateOf(task)],
    ["title", task.title],
    ["agent", task.agent],
    ["created", isoOf(task.createdAt)],
    ["directory", workspace?.cwd],
    ["access", workspace?.access],
    ["branch", workspace?.branch],
    ["question", question?.questionId],
    ["options", question?.optionIds?.join(", ")],
    ...askedPairs(task),
    ["settlement", task.settlement],
    ...troublePairs(task),
  ];
}

/** What a child asks for: whoever answers has to know. All of it the child's words. */
function askedPairs({ question, fromChild }: Item): Pairs {
  const action = Object.entries(question?.action ?? {}).map(([name, value]): Pairs[number] => [`asks ${name}`, value]);
  return [...action, ["asks", fromChild?.question?.prompt]];
}

/** What can be answered; on a terminal that stands in the fence. */
function choicePairs({ fromChild }: Item): Pairs {
  return Object.entries(fromChild?.question?.labels ?? {}).map(([option, label]) => [`option ${option}`, label]);
}

/** What went wrong, what it ended with, and what is left of it. */
function troublePairs({ problem, outcome, stop }: Item): Pairs {
  const survivors = stop?.survivors?.length ?? 0;
  return [
    ["problem", [problem?.class, problem?.httpStatus].filter((part) => part !== undefined).join(" ")],
    ["next try", isoOf(problem?.nextTryAt)],
    ["tries until", isoOf(problem?.retriesUntil)],
    ["cause", outcome?.class],
    ["evidence", outcome?.evidence],
    ["stop proof", stop?.proof],
    ["survivors", survivors === 0 ? null : survivors],
  ];
}

function printChildText(command: Command, task: Item, colors: Colors): void {
  const { stdout } = command.io;
  const { result, question, problemText } = task.fromChild ?? {};
  const labels = Object.entries(question?.labels ?? {}).map(([option, label]) => `${option}: ${label}`);
  const texts = [question?.prompt, ...labels, problemText, result?.text].filter(
    (text) => text !== undefined && text !== "",
  );
  if (texts.length === 0) return;
  stdout.write(`${colors.dim("--- from the child: check it before you rely on it ---")}\n`);
  // Every line is indented, so that none can look like the fence.
  for (const text of texts)
    stdout.write(
      `${sanitise(text ?? "")
        .trimEnd()
        .replace(/^/gm, "  ")}\n`,
    );
  stdout.write(
    `${colors.dim(`--- end${result?.truncated === true ? ` (cut: ${result.totalBytes} bytes in all)` : ""} ---`)}\n`,
  );
}

function changesOf(task: Item): string | null {
  const branch = task.workspace?.branch;
  return branch === undefined ? null : `Changes are on branch ${branch}.`;
}

function cutOf(task: Item): string | null {
  const result = task.fromChild?.result;
  return result?.truncated === true ? `The result is cut here; it has ${result.totalBytes} bytes in all.` : null;
}

/** What the person can do next, where that is not obvious. */
function hintOf(task: Item, inChild: boolean): string | null {
  if (task.status === "failed")
    return task.continuable === true
      ? `See why: delegate-mcp logs ${task.taskId}. Go on in the same conversation: delegate-mcp continue ${task.taskId} TEXT`
      : `See why: delegate-mcp logs ${task.taskId}. To run it again, delegate it under a new key.`;
  if (task.status === "input_required" && task.question !== undefined && !inChild)
    return `Answer it: delegate-mcp answer ${task.taskId} ${task.question.questionId} OPTION, or --text TEXT`;
  return null;
}

function ageOf(task: Item, nowMs: number, readable: boolean): Cell {
  const moment = momentOf(task.createdAt);
  if (moment === null) return null;
  return readable ? age(nowMs - moment) : new Date(moment).toISOString();
}

function isoOf(value: string | number | undefined): Cell {
  const moment = momentOf(value);
  return moment === null ? null : new Date(moment).toISOString();
}
