/**
 * A child program that speaks as Claude Code does with `stream-json` in both directions, and does what a script says. Run by
 * Node (`node test/support/claude-agent.ts`); it uses nothing of the project, so that it can break every rule.
 *
 * The setting is a JSON object in the variable CLAUDE_AGENT; all fields are optional:
 *   {"state": "file"}       sessions are kept there: a later process knows them, and refuses to make one of them anew
 *   {"log": "file"}         arguments and every message that came, one a line
 *   {"turns": [[steps], [steps]]}   steps of the first, second, … message of a session; else the message is said back
 *   {"lingers": true}       does not end with its standard input
 *
 *   {"init": {…}}, {"line": {…}}, {"raw": "text"}, {"bytes": 9000000}   a `system` line `init`, any line, …
 *   {"say": "text", "parent": "id"}        an assistant message, of a helper or its own
 *   {"tool": {"id": "1", "name": "Bash", "input": {…}}}, {"toolResult": {"tool_use_id": "1", "content": "…"}}
 *   {"retry": {…}}, {"apiError": {…}}      an `api_retry` line; a message that tells a failed request
 *   {"tasks": 1}                           a `background_tasks_changed` line with so many
 *   {"ask": {"tool_name": "…", "input": {…}}}, {"answers": true}   asks, waits; says the answer as JSON
 *   {"echo": "message" | "arguments" | "env:NAME" | "mcp"}         says it; `mcp`: the file named by --mcp-config, with its mode
 *   {"result": {…}}                        a result line; text "result" is that of the last message unless given
 *   {"stderr": "text"}, {"append": "file", "text": "…"}, {"waitFile": "file"}
 *   {"hang": true}, {"exit": 3}, {"die": "SIGKILL"}, {"closeOutput": true}
 *
 * A turn whose steps have no result and do not end it gets the usual one.
 */

import { appendFileSync, closeSync, existsSync, readFileSync, statSync, writeFileSync, writeSync } from "node:fs";
import { createInterface } from "node:readline";
import { setTimeout as delay } from "node:timers/promises";

type Fields = Readonly<Record<string, unknown>>;

const WAIT_MS = 5;
const HANG_MS = 600_000;

const setting = fieldsOf(JSON.parse(process.env["CLAUDE_AGENT"] ?? "{}"));
const resumed = argumentOf("--resume");
const session = resumed ?? argumentOf("--session-id") ?? "none";
const sessions: Record<string, number> = readState();
const answers = new Map<string, (answer: unknown) => void>();
let lastSaid = "";
let message = "";
let answer: unknown = null;
let asked = 0;
let results = 0;

const ACTIONS: Readonly<Record<string, (value: unknown, step: Fields) => unknown>> = {
  init: (value) => send({ type: "system", subtype: "init", ...fieldsOf(value) }),
  line: (value) => send(fieldsOf(value)),
  raw: (value) => write(`${String(value)}\n`),
  bytes: (value) => write(`"${"x".repeat(Number(value) - 2)}"\n`),
  say: (value, step) => say(String(value), step["parent"]),
  tool: (value, step) => assistant([{ type: "tool_use", ...fieldsOf(value) }], step["parent"]),
  toolResult: (value) =>
    send({ type: "user", message: { role: "user", content: [{ type: "tool_result", ...fieldsOf(value) }] } }),
  retry: (value) => send({ type: "system", subtype: "api_retry", ...fieldsOf(value) }),
  apiError: (value) => {
    const { text, ...more } = fieldsOf(value);
    lastSaid = String(text);
    send({ type: "assistant", message: { content: [{ type: "text", text }] }, is_api_error_message: true, ...more });
  },
  tasks: (value) =>
    send({
      type: "system",
      subtype: "background_tasks_changed",
      tasks: Array.from({ length: Number(value) }, () => ({})),
    }),
  async ask(value) {
    asked += 1;
    const id = `ask-${asked}`;
    const { promise, resolve } = Promise.withResolvers<unknown>();
    answers.set(id, resolve);
    send({ type: "control_request", request_id: id, request: { subtype: "can_use_tool", ...fieldsOf(value) } });
    answer = await promise;
  },
  answers: () => say(JSON.stringify(answer), null),
  echo: (value) => say(echoOf(String(value)), null),
  result: (value) => end(fieldsOf(value)),
  stderr: (value) => writeSync(2, String(value)),
  append: (value, step) => appendFileSync(String(value), String(step["text"])),
  async waitFile(value) {
    while (!existsSync(String(value))) await delay(WAIT_MS);
  },
  hang: () => delay(HANG_MS),
  exit: (value) => process.exit(Number(value)),
  async die(value) {
    process.kill(process.pid, String(value));
    await delay(HANG_MS);
  },
  closeOutput: () => closeSync(1),
};

note({ arguments: process.argv.slice(2) });
if (resumed === null && sessions[session] !== undefined) {
  writeSync(2, `Error: Session ID ${session} is already in use.\n`);
  process.exit(1);
}
let turn: Promise<void> = Promise.resolve();
for await (const line of createInterface({ input: process.stdin })) receive(fieldsOf(JSON.parse(line)));
await turn;
if (setting["lingers"] === true) await delay(HANG_MS);

function receive(received: Fields): void {
  note(received);
  if (received["type"] === "control_response") {
    const response = fieldsOf(received["response"]);
    answers.get(String(response["request_id"]))?.(response["response"] ?? response);
  } else if (received["type"] === "user") {
    turn = turn.then(() => play(received));
  }
}

async function play(received: Fields): Promise<void> {
  if (resumed !== null && setting["state"] !== undefined && sessions[session] === undefined) {
    send({ type: "result", is_error: true, errors: [`No conversation found with session ID: ${session}`] });
    process.exit(1);
  }
  message = String(fieldsOf(listOf(fieldsOf(received["message"])["content"])[0])["text"]);
  const number = (sessions[session] ?? 0) + 1;
  sessions[session] = number;
  writeState();
  send({ type: "system", subtype: "init", session_id: session });
  const steps = listOf(listOf(setting["turns"])[number - 1] ?? [{ echo: "message" }]).map(fieldsOf);
  const before = results;
  for (const step of steps) {
    const [name = ""] = Object.keys(step);
    const act = ACTIONS[name];
    if (act === undefined) throw new Error(`no such step: ${JSON.stringify(step)}`);
    await act(step[name], step);
  }
  if (results === before) end({});
}

function end(fields: Fields): void {
  results += 1;
  send({
    type: "result",
    subtype: "success",
    is_error: false,
    terminal_reason: "completed",
    result: lastSaid,
    session_id: session,
    ...fields,
  });
}

function say(text: string, parent: unknown): void {
  if (parent === undefined || parent === null) lastSaid = text;
  assistant([{ type: "text", text }], parent);
}

function assistant(content: readonly Fields[], parent: unknown): void {
  send({ type: "assistant", message: { role: "assistant", content }, parent_tool_use_id: parent ?? null });
}

function echoOf(what: string): string {
  if (what === "message") return message;
  if (what === "arguments") return JSON.stringify(process.argv.slice(2));
  if (what !== "mcp") return process.env[what.slice("env:".length)] ?? "";
  const file = argumentOf("--mcp-config");
  return file === null ? "none" : `${(statSync(file).mode & 0o777).toString(8)} ${readFileSync(file, "utf8")}`;
}

function argumentOf(name: string): string | null {
  const found = process.argv.find((argument) => argument.startsWith(`${name}=`));
  return found === undefined ? null : found.slice(name.length + 1);
}

function send(fields: Fields): void {
  write(`${JSON.stringify(fields)}\n`);
}

/** At once and whole: what was written before a kill has been written. */
function write(text: string): void {
  const bytes = Buffer.from(text);
  for (let at = 0; at < bytes.length; ) {
    try {
      at += writeSync(1, bytes, at, bytes.length - at);
    } catch (error) {
      if (!(error instanceof Error && "code" in error && error.code === "EAGAIN")) throw error;
    }
  }
}

function note(fields: Fields): void {
  if (typeof setting["log"] === "string") appendFileSync(setting["log"], `${JSON.stringify(fields)}\n`);
}

function readState(): Record<string, number> {
  const file = setting["state"];
  return typeof file === "string" && existsSync(file) ? JSON.parse(readFileSync(file, "utf8")) : {};
}

function writeState(): void {
  if (typeof setting["state"] === "string") writeFileSync(setting["state"], JSON.stringify(sessions));
}

function listOf(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}

function fieldsOf(value: unknown): Fields {
  return typeof value === "object" && value !== null ? Object.fromEntries(Object.entries(value)) : {};
}
