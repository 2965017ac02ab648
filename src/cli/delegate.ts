/**
 * `delegate` and `continue`: the two commands that start something, and so the two that carry a key.
 *
 * Invariant: a call whose answer was lost is repeated with its own key and no other, so that nothing starts twice (P3).
 * Invariant: when the command cannot tell what became of its call, it says the key to ask again with (P1).
 */

import { randomInt } from "node:crypto";
import path from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { LIMITS } from "../core/limits.ts";
import type { ApiClient, Reply } from "./api-client.ts";
import { type Answer, isSettled } from "./answer.ts";
import { type Command, refuse, resolveTask, withDaemon } from "./command.ts";
import { EXIT } from "./exit-codes.ts";
import { type Failure, fail, note } from "./failure.ts";
import { printJson } from "./print.ts";
import { handleOf } from "./show-task.ts";
import { onInterrupt, report, type WaitEnd, waitForTasks } from "./wait.ts";

export type DelegateOptions = {
  readonly key?: string;
  readonly agent?: string;
  readonly model?: string;
  readonly title?: string;
  readonly cwd?: string;
  readonly access?: string;
  readonly wait?: boolean;
  /** Seconds, with `wait`. */
  readonly timeout?: number;
};

export async function delegate(command: Command, text: string, options: DelegateOptions): Promise<number> {
  const task = await textOf(command, text);
  if (typeof task !== "string") return fail(command.io, command.options, task);
  const { agent, model, title, access } = options;
  const cwd = path.resolve(command.io.cwd, options.cwd ?? ".");
  return await withDaemon(command, async (api) => {
    const body = { task, cwd, ...given({ agent, model, title, access }) };
    return await startAndReport(command, api, { route: "/api/tasks", body }, options);
  });
}

export type ContinueOptions = {
  readonly key?: string;
  readonly agent?: string;
  readonly model?: string;
  readonly afterSettlement?: number;
  readonly wait?: boolean;
  readonly timeout?: number;
};

export async function continueTask(
  command: Command,
  named: string,
  text: string,
  options: ContinueOptions,
): Promise<number> {
  const message = await textOf(command, text);
  if (typeof message !== "string") return fail(command.io, command.options, message);
  return await withDaemon(command, async (api) => {
    const task = await resolveTask(api, named);
    if (task.kind === "failure") return fail(command.io, command.options, task);
    if (task.kind === "refused") return refuse(command, task.answer);
    const { afterSettlement, agent, model } = options;
    const body = { message, ...given({ afterSettlement, agent, model }) };
    return await startAndReport(command, api, { route: `/api/tasks/${task.taskId}/continue`, body }, options);
  });
}

type StartOptions = Pick<DelegateOptions, "key" | "wait" | "timeout">;

/** A call that starts something, but for its key. */
type Call = { readonly route: string; readonly body: Readonly<Record<string, unknown>> };

async function startAndReport(command: Command, api: ApiClient, call: Call, options: StartOptions): Promise<number> {
  const key = options.key ?? newKey();
  using interruption = onInterrupt(command);
  const { signal } = interruption;
  const keyed = { ...call, body: { ...call.body, clientRequestId: key, mode: "async" } };
  const reply = await startOnce(command, api, keyed, signal);
  if (signal.aborted || reply.kind === "failure") return fail(command.io, command.options, unclear(reply, key, signal));
  const { answer } = reply;
  if (answer.error !== undefined || answer.taskId === undefined) return refuse(command, answer);
  if (options.wait !== true) return accepted(command, answer, key);
  for (const text of [answer.say, handleOf(answer) ?? "", `key ${key}`]) note(command.io, command.options, text);
  const end = await waitForTasks(command, [answer], options, signal);
  const exitCode = report(command, [answer.taskId], end);
  await acknowledge(api, answer, end);
  return exitCode;
}

/** Tells who was started: the id to a program, all of the handle to a person. */
function accepted(command: Command, answer: Answer, key: string): number {
  const { io, options } = command;
  if (options.json === true) {
    printJson(io.stdout, answer);
    return EXIT.ok;
  }
  note(io, options, answer.say);
  if (io.stdout.isTTY) io.stdout.write(`${handleOf(answer) ?? ""}\n`);
  else io.stdout.write(`${answer.taskId}\n`);
  note(io, options, `key ${key}`);
  note(io, options, `Wait for it: delegate-mcp wait ${answer.taskId}`);
  return EXIT.ok;
}

/**
 * Tells the daemon that the result has arrived: here the command itself is the caller. A joined task belongs to another
 * call, which is still to be told.
 */
async function acknowledge(api: ApiClient, started: Answer, end: WaitEnd): Promise<void> {
  const [task] = end.kind === "ended" ? end.tasks : [];
  if (started.created === "joined" || task === undefined || !isSettled(task) || task.settlement === undefined) return;
  await api.post(`/api/tasks/${task.taskId}/ack`, { settlement: task.settlement });
}

const TRIES = 4;

/** Sends the call, and the same call again when its answer was lost. */
async function startOnce(command: Command, api: ApiClient, { route, body }: Call, signal: AbortSignal): Promise<Reply> {
  for (let attempt = 1; ; attempt++) {
    const reply = await api.post(route, body, signal);
    if (reply.kind !== "failure" || reply.code !== "unreachable" || signal.aborted || attempt === TRIES) return reply;
    if (attempt === 1) note(command.io, command.options, "No answer; asking again with the same key.");
    await delay(250 * 2 ** attempt, undefined, { signal }).catch(() => undefined);
  }
}

function unclear(reply: Reply, key: string, signal: AbortSignal): Failure {
  const again = `To learn what became of it, send the same command with --key ${key}: it never starts a second child.`;
  if (signal.aborted) {
    const what = "Interrupted before the answer came. The task may have been started.";
    return { kind: "failure", code: "interrupted", exitCode: EXIT.interrupted, what, why: null, fix: again };
  }
  if (reply.kind === "answer") throw new Error("invariant broken: an answer is not unclear");
  return reply.code === "unreachable" ? { ...reply, fix: again } : reply;
}

/** The text of an argument, or of standard input for `-`. */
async function textOf(command: Command, text: string): Promise<string | Failure> {
  const read = text === "-" ? await command.io.readStdin() : text;
  if (read.trim() === "")
    return usage("The text is empty.", 'Give it as one argument in quotes, or as "-" on standard input.');
  const bytes = Buffer.byteLength(read);
  if (bytes <= LIMITS.taskBytesMax) return read;
  return usage(
    `The text has ${bytes} bytes; at most ${LIMITS.taskBytesMax} are taken.`,
    "Put long material into a file and name its path.",
  );
}

/** `cli-` and 16 random characters: nobody else's key. */
function newKey(): string {
  const letters = "0123456789abcdefghijklmnopqrstuvwxyz";
  return `cli-${Array.from({ length: 16 }, () => letters.charAt(randomInt(letters.length))).join("")}`;
}

function given(fields: Readonly<Record<string, unknown>>): Readonly<Record<string, unknown>> {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined));
}

function usage(what: string, fix: string): Failure {
  return { kind: "failure", code: "usage", exitCode: EXIT.usage, what, why: null, fix };
}
