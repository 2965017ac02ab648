/**
 * An agent that delegates in its turn, a plain program for driver `command`: it does what the script in its task says, by plain
 * JSON-RPC and HTTP, and prints what it was told as one JSON array, an entry a step. It uses nothing of the project.
 *
 * The script is a JSON array of steps, in the task from the first `[{` to the last `]`. `"$0.answer.taskId"` anywhere in a step
 * stands for what the first step was told; within steps for another agent, `"$$0.answer.taskId"` is left to that one.
 *
 *   {"delegate": {…}, "steps": […]}                        delegates steps, with these further arguments: as "call"
 *   {"call": "task_list", "args": {…}, "show": TOKEN}     calls a tool: {status, answer} or {status, refused}
 *   {"waitEnded": "dt_…"}                                  waits slice after slice until the task has ended: {status, answer}
 *   {"http": "GET", "path": "/api/tasks", "body": {…}, "show": TOKEN}   {status, body}
 *   {"helper": [steps], "how": "child" | "session", "mcpUrl": "…"}
 *                                                          has a process without any environment do them: its report
 *   {"leave": [steps]}                                     the same in a session of its own, and does not wait for it
 *   {"env": true}                                          its environment
 *   {"waitFile": "file"}, {"save": "file"}                 waits for a file; writes the report so far into one
 *
 * TOKEN: `own` (what it was given; so unless it is named), `none`, `file:PATH`, or the token itself.
 */

import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { text } from "node:stream/consumers";
import { setTimeout as delay } from "node:timers/promises";

type Fields = Readonly<Record<string, unknown>>;
type Part = { readonly mcpUrl: string; readonly token: string; readonly steps: readonly Fields[] };

const SLICE_MS = 2_000;
const SLICES_MAX = 60;
const POLL_MS = 5;

const report: unknown[] = [];
const part = await readPart();
for (const step of part.steps) report.push(await act(filled(step)));
await new Promise<void>((resolve) => {
  process.stdout.write(JSON.stringify(report), () => resolve());
});
process.exit(0);

/** A helper is told all it has to know by its argument. */
async function readPart(): Promise<Part> {
  const given = process.argv[2];
  if (given !== undefined) return JSON.parse(given);
  const task = await text(process.stdin);
  return {
    mcpUrl: process.env["DELEGATE_CHILD_URL"] ?? "",
    token: process.env["DELEGATE_CHILD_TOKEN"] ?? "",
    steps: JSON.parse(task.slice(task.indexOf("[{"), task.lastIndexOf("]") + 1)),
  };
}

async function act(step: Fields): Promise<unknown> {
  const { show } = step;
  if (step["call"] !== undefined) return callTool(String(step["call"]), fieldsOf(step["args"]), show);
  if (step["delegate"] !== undefined) {
    const task = JSON.stringify(step["steps"]);
    return callTool("delegate_task", { ...fieldsOf(step["delegate"]), task }, show);
  }
  if (step["waitEnded"] !== undefined) return waitEnded(String(step["waitEnded"]));
  if (step["http"] !== undefined) return request(String(step["http"]), String(step["path"]), step["body"], show);
  if (step["helper"] !== undefined) return help({ ...part, mcpUrl: String(step["mcpUrl"] ?? part.mcpUrl) }, step);
  if (step["leave"] !== undefined) return leave(step["leave"]);
  if (step["env"] !== undefined) return process.env;
  if (step["waitFile"] !== undefined) {
    while (!existsSync(String(step["waitFile"]))) await delay(POLL_MS);
    return null;
  }
  if (step["save"] !== undefined) return save(String(step["save"]));
  throw new Error(`no such step: ${JSON.stringify(step)}`);
}

async function callTool(name: string, args: Fields, show: unknown): Promise<unknown> {
  const message = { jsonrpc: "2.0", id: report.length + 1, method: "tools/call", params: { name, arguments: args } };
  const { status, body } = await request("POST", "/mcp", message, show);
  const answer = fieldsOf(fieldsOf(body)["result"])["structuredContent"];
  return answer === undefined ? { status, refused: fieldsOf(body)["error"] ?? body } : { status, answer };
}

async function waitEnded(taskId: string): Promise<unknown> {
  let args: Fields = { taskIds: [taskId] };
  for (let slice = 0; slice < SLICES_MAX; slice += 1) {
    const told = fieldsOf(await callTool("task_wait", { ...args, waitMs: SLICE_MS }, "own"));
    const answer = fieldsOf(told["answer"]);
    if (answer["phase"] === "settled" || told["refused"] !== undefined) return told;
    args = fieldsOf(fieldsOf(answer["next"])["arguments"]);
  }
  throw new Error(`task ${taskId} did not end`);
}

async function request(
  method: string,
  path: string,
  body: unknown,
  show: unknown,
): Promise<{ readonly status: number; readonly body: unknown }> {
  const token = tokenOf(String(show ?? "own"));
  const response = await fetch(new URL(path, part.mcpUrl), {
    method,
    headers: {
      accept: "application/json",
      ...(body === undefined ? {} : { "content-type": "application/json" }),
      ...(token === null ? {} : { authorization: `Bearer ${token}` }),
    },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  const said = await response.text();
  return { status: response.status, body: jsonOr(said) };
}

function tokenOf(show: string): string | null {
  if (show === "none") return null;
  if (show === "own") return part.token;
  return show.startsWith("file:") ? readFileSync(show.slice("file:".length), "utf8").trim() : show;
}

async function help(known: Part, { helper: steps, how }: Fields): Promise<unknown> {
  const child = spawn(process.execPath, [import.meta.filename, JSON.stringify({ ...known, steps })], {
    detached: how === "session",
    stdio: ["ignore", "pipe", "inherit"],
    env: {},
  });
  const [said] = await Promise.all([text(child.stdout), once(child, "exit")]);
  return jsonOr(said);
}

async function leave(steps: unknown): Promise<null> {
  const child = spawn(process.execPath, [import.meta.filename, JSON.stringify({ ...part, steps })], {
    detached: true,
    stdio: "ignore",
  });
  await once(child, "spawn");
  child.unref();
  return null;
}

/** Whole or not at all, for whoever waits for it. */
function save(file: string): null {
  writeFileSync(`${file}.part`, JSON.stringify(report));
  renameSync(`${file}.part`, file);
  return null;
}

/** The step with what earlier ones were told in the places that name it. */
function filled(step: Fields): Fields {
  return JSON.parse(
    JSON.stringify(step).replaceAll(/"\$(\$*)(\d+)\.([\w.]+)"/g, (_, deeper: string, number: string, names: string) => {
      if (deeper !== "") return `"${deeper}${number}.${names}"`;
      const told = names.split(".").reduce((value, name) => fieldsOf(value)[name], report[Number(number)]);
      return JSON.stringify(told ?? null);
    }),
  );
}

function fieldsOf(value: unknown): Fields {
  return typeof value === "object" && value !== null ? Object.fromEntries(Object.entries(value)) : {};
}

function jsonOr(said: string): unknown {
  try {
    return JSON.parse(said);
  } catch {
    return said;
  }
}
