/**
 * `list`, `show` and `cancel`.
 */

import type { ApiClient } from "./api-client.ts";
import { isSettled } from "./answer.ts";
import { type Command, lookUp, refuse, resolveTask, withDaemon } from "./command.ts";
import { EXIT } from "./exit-codes.ts";
import { fail, note } from "./failure.ts";
import { refuseChild } from "./find-daemon.ts";
import { line, printJson } from "./print.ts";
import { handleOf, printTask, printTasks } from "./show-task.ts";

export type ListOptions = {
  readonly open?: boolean;
  readonly unread?: boolean;
  readonly status?: string;
  readonly limit?: number;
  readonly cursor?: string;
};

export function list(command: Command, filter: ListOptions): Promise<number> {
  return withDaemon(command, async (api) => {
    const reply = await api.get("/api/tasks", queryOf(filter));
    if (reply.kind === "failure") return fail(command.io, command.options, reply);
    const { answer } = reply;
    if (answer.error !== undefined) return refuse(command, answer);
    if (command.options.json === true) {
      printJson(command.io.stdout, answer);
      return EXIT.ok;
    }
    const tasks = answer.tasks ?? [];
    if (tasks.length > 0) printTasks(command, tasks, Date.now());
    else note(command.io, command.options, 'No tasks. Start one: delegate-mcp delegate "TEXT"');
    if (answer.nextCursor !== undefined) note(command.io, command.options, `More: --cursor ${answer.nextCursor}`);
    return EXIT.ok;
  });
}

export function show(command: Command, named: string): Promise<number> {
  return withDaemon(command, async (api) => {
    const task = await lookUp(api, named);
    if (task.kind === "failure") return fail(command.io, command.options, task);
    if (task.kind === "refused") return refuse(command, task.answer);
    if (command.options.json === true) printJson(command.io.stdout, task.answer);
    else printTask(command, task.answer);
    return EXIT.ok;
  });
}

export type CancelOptions = { readonly reason?: string; readonly abandon?: boolean };

export async function cancel(command: Command, named: string, options: CancelOptions): Promise<number> {
  const refused = options.abandon === true ? refuseChild(command.io, "`cancel --abandon`") : null;
  if (refused !== null) return fail(command.io, command.options, refused);
  return await withDaemon(command, async (api) => {
    const task = await resolveTask(api, named);
    if (task.kind === "failure") return fail(command.io, command.options, task);
    if (task.kind === "refused") return refuse(command, task.answer);
    return await cancelTask(command, api, task.taskId, options);
  });
}

async function cancelTask(command: Command, api: ApiClient, taskId: string, options: CancelOptions): Promise<number> {
  const { reason, abandon } = options;
  const body = { ...(reason === undefined ? {} : { reason }), ...(abandon === true ? { abandon: true } : {}) };
  const reply = await api.post(`/api/tasks/${taskId}/cancel`, body);
  if (reply.kind === "failure") return fail(command.io, command.options, reply);
  const { answer } = reply;
  if (answer.error !== undefined) return refuse(command, answer);
  const exitCode = isSettled(answer) ? EXIT.ok : EXIT.waitOver;
  if (command.options.json === true) {
    printJson(command.io.stdout, answer);
    return exitCode;
  }
  command.io.stdout.write(`${line(answer.say)}\n`);
  note(command.io, command.options, handleOf(answer) ?? taskId);
  if (exitCode !== EXIT.ok)
    note(command.io, command.options, `It is still stopping. Look again: delegate-mcp show ${taskId}`);
  return exitCode;
}

function queryOf(filter: ListOptions): Readonly<Record<string, string>> {
  return {
    ...(filter.open === true ? { open: "1" } : {}),
    ...(filter.unread === true ? { unread: "1" } : {}),
    ...(filter.status === undefined ? {} : { status: filter.status }),
    ...(filter.limit === undefined ? {} : { limit: String(filter.limit) }),
    ...(filter.cursor === undefined ? {} : { cursor: filter.cursor }),
  };
}
