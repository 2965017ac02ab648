/**
 * What every command that talks to the daemon needs: the process, the options, and a connection that ends with it.
 */

import { parseId } from "../core/ids.ts";
import type { Code } from "../core/rejection.ts";
import { type ApiClient, createApiClient, type PersonClient } from "./api-client.ts";
import type { Answer } from "./answer.ts";
import { EXIT, exitCodeOfRefusal } from "./exit-codes.ts";
import { type Failure, fail, type GlobalOptions } from "./failure.ts";
import { findChildAddress, findDaemon, refuseChild } from "./find-daemon.ts";
import type { Io } from "./io.ts";
import { line, printJson } from "./print.ts";

export type Command = { readonly io: Io; readonly options: GlobalOptions; readonly version: string };

/** Runs `work` with a client of the daemon; says why if there is no daemon. Returns the exit code. */
export async function withDaemon(command: Command, work: (api: ApiClient) => Promise<number>): Promise<number> {
  const opened = await openClient(command);
  if (opened.kind === "failure") return fail(command.io, command.options, opened);
  await using api = opened.api;
  return await work(api);
}

/** The same for what people alone may do; a delegated child is told so. `verb`: as it is typed. */
export async function withPerson(
  command: Command,
  verb: string,
  work: (api: PersonClient) => Promise<number>,
): Promise<number> {
  const refused = refuseChild(command.io, `\`${verb}\``);
  if (refused !== null) return fail(command.io, command.options, refused);
  const address = findDaemon(command.io, command.options);
  if (address.kind === "failure") return fail(command.io, command.options, address);
  await using api = await createApiClient(address, command.version);
  return await work(api);
}

/** A client of the daemon: a delegated child's by its own credential, else a person's. To be disposed of. */
export async function openClient(
  command: Command,
): Promise<{ readonly kind: "opened"; readonly api: ApiClient } | Failure> {
  const child = findChildAddress(command.io, command.options);
  if (child?.kind === "failure") return child;
  if (child !== null) {
    const { createChildClient } = await import("./child-client.ts");
    return { kind: "opened", api: createChildClient(child, command.version) };
  }
  const address = findDaemon(command.io, command.options);
  if (address.kind === "failure") return address;
  return { kind: "opened", api: await createApiClient(address, command.version) };
}

/** The task that a text names: by one of its ids, or by the beginning of one that only it has. */
export async function lookUp(
  api: ApiClient,
  named: string,
  signal?: AbortSignal,
): Promise<{ readonly kind: "task"; readonly taskId: string; readonly answer: Answer } | Failure | Refused> {
  const reply = await api.get(`/api/tasks/${encodeURIComponent(named)}`, {}, signal);
  if (reply.kind === "failure") return reply;
  const { answer } = reply;
  if (answer.error !== undefined || answer.taskId === undefined) return { kind: "refused", answer };
  return { kind: "task", taskId: answer.taskId, answer };
}

/** The full id of a named task; asks the daemon only where it is not written in full. */
export async function resolveTask(
  api: ApiClient,
  named: string,
): Promise<{ readonly kind: "task"; readonly taskId: string } | Failure | Refused> {
  const parsed = parseId(named);
  return parsed.kind === "task" ? { kind: "task", taskId: parsed.taskId } : await lookUp(api, named);
}

/** An answer that refuses. */
export type Refused = { readonly kind: "refused"; readonly answer: Answer };

/** Shows a refusal (the answer itself in JSON mode), and returns its exit code. */
export function refuse(command: Command, answer: Answer): number {
  const code = answer.error?.code ?? "ambiguous";
  const exitCode = answer.error === undefined ? EXIT.conflict : exitCodeOfRefusal(code);
  if (command.options.json === true) {
    printJson(command.io.stdout, answer);
    return exitCode;
  }
  const what = answer.error === undefined ? "That beginning of an id names several tasks." : answer.say;
  const tasks = (answer.tasks ?? []).map((task) => `${task.taskId ?? ""}  ${task.status ?? ""}  ${line(task.title)}`);
  const details = [...questionLines(answer), ...tasks];
  const fix = adviceOf(answer, code);
  return fail(command.io, command.options, { kind: "failure", code, exitCode, what, why: null, details, fix });
}

/** The answer that a question had already got and whose it was, or what it can be answered with. */
function questionLines({ error, question, meta }: Answer): readonly string[] {
  if (question === undefined || (error?.code !== "not_pending" && error?.code !== "invalid_arguments")) return [];
  const { questionId = "", optionIds = [], answer } = question;
  if (answer === undefined) return optionIds.length === 0 ? [] : [`${questionId}  options: ${optionIds.join(", ")}`];
  const by = [meta?.by?.kind, meta?.by?.name].filter((part) => part !== undefined).join(" ");
  return [`${questionId}  answered: ${answer}${by === "" ? "" : `  by ${by}`}`];
}

/** The next step in words of the command line; what the daemon says is meant for models and names its tools. */
function adviceOf(answer: Answer, code: string): string | null {
  if (code === "duplicate_work" || code === "workspace_busy") {
    const related = answer.next?.arguments?.["taskIds"];
    const other = Array.isArray(related) && typeof related[0] === "string" ? `: delegate-mcp wait ${related[0]}` : "";
    return `Wait for the other task${other}, or work in another directory.`;
  }
  if (code === "invalid_arguments") return expectedOf(answer);
  if (code === "idempotency_conflict" && answer.related?.taskId !== undefined)
    return `For the work that it names: delegate-mcp wait ${answer.related.taskId}. ${ADVICE.idempotency_conflict}`;
  if (code === "not_pending" && answer.taskId !== undefined)
    return `See how the task stands: delegate-mcp show ${answer.taskId}`;
  return Object.entries(ADVICE).find(([known]) => known === code)?.[1] ?? null;
}

/** What each argument that did not fit should have been. */
function expectedOf({ next }: Answer): string | null {
  if (typeof next?.change !== "object") return next?.change ?? null;
  const expected = Object.entries(next.change).map(([name, what]) => `${name} (expected ${String(what)})`);
  return expected.length === 0 ? null : `Put right: ${expected.join("; ")}.`;
}

const SAME_KEY = "Nothing was started. The same command with the same --key can be sent again.";

const ADVICE: Readonly<Partial<Record<Code | "ambiguous", string>>> = {
  ambiguous: "Give more of it.",
  unknown_task: "See your tasks: delegate-mcp list",
  unknown_thread: "See your tasks: delegate-mcp list",
  missing_client_request_id: "Give --key 8 to 256 characters, or leave it out.",
  workspace_failed: "Name another directory with --cwd.",
  idempotency_conflict: "For new work, leave out --key or choose another.",
  expired_receipt: "For new work, leave out --key or choose another.",
  unknown_agent: "See the agents: delegate-mcp agents. What is missing: delegate-mcp doctor",
  agent_unavailable: "See the agents: delegate-mcp agents",
  workspace_not_allowed: "Name a directory below workspaces.roots with --cwd, or have the operator add one.",
  not_pending: "See how the task stands: delegate-mcp show ID",
  capacity_full: SAME_KEY,
  tree_limit: SAME_KEY,
  rate_limit: SAME_KEY,
  storage_unavailable: SAME_KEY,
  stopping: SAME_KEY,
  internal: SAME_KEY,
};
