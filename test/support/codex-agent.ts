/**
 * A child program that speaks as `codex app-server` does and does what a script says: what the real one was seen to do, good and
 * bad. Run by Node (`node test/support/codex-agent.ts app-server`); it uses nothing of the project, so that it can break every
 * rule.
 *
 * The setting is a JSON object in the variable CODEX_AGENT; all fields are optional:
 *   {"state": "file"}                  threads are kept there, so that a later process knows them
 *   {"log": "file"}                    every message that came, one a line
 *   {"servers": {…}}                   MCP servers of the user's own settings
 *   {"thread": {…}}                    fields put over the answer that opens a thread
 *   {"on": {"thread/start": [steps]}}  steps before the usual answer to a method; `error` and `result` answer
 *   {"turns": [[steps], [steps]]}      steps of the first, second, … turn of a thread; without: the prompt is said back
 *   {"lingers": true}                  does not end with its standard input
 *
 * A turn whose steps do not end it is completed.
 *
 *   {"say": "text", "every": 3}        a message in deltas of so many UTF-16 units (whole)
 *   {"delta": "text"}                  a part of a message that is never completed
 *   {"started": {item}}, {"completed": {item}}   work, as it is
 *   {"notify": "method", "params": {…}}          any notification; `threadId` is put in unless it is there
 *   {"used": 100}                      thread/tokenUsage/updated: so many more tokens in, a tenth of it out
 *   {"ask": "method", "params": {…}}   a request to the client; goes on when it is answered
 *   {"answers": true}                  says what the last `ask` was answered, as JSON
 *   {"echo": "prompt" | "turns" | "opened" | "turn" | "arguments" | "cwd"}   says the prompt, all prompts, parameters, …
 *   {"end": "interrupted"}             ends the turn with this status
 *   {"fail": {error}}                  ends it as failed
 *   {"error": {…}}, {"result": {…}}    answers a method (in `on`)
 *   {"raw": "text"}, {"bytes": 9000000}, {"slowly": true}, {"stderr": "text"}, {"append": "file", "text": "…"}, {"waitFile": "file"}
 *   {"start": "holding"}               a background process in a session of its own, which holds the output
 *   {"hang": true}, {"exit": 3}, {"die": "SIGKILL"}, {"closeOutput": true}
 */

import { spawn } from "node:child_process";
import { appendFileSync, closeSync, existsSync, readFileSync, renameSync, writeFileSync, writeSync } from "node:fs";
import { createInterface } from "node:readline";
import { setTimeout as delay } from "node:timers/promises";

type Fields = Readonly<Record<string, unknown>>;
type Thread = { prompts: string[]; kept: boolean; used: number };

const WAIT_MS = 5;
const HANG_MS = 600_000;

type Action = (value: unknown, step: Fields, threadId: string) => unknown;

const VERDICTS: Readonly<Record<string, (value: unknown) => Fields>> = {
  end: (value) => ({ status: value, error: null }),
  fail: (value) => ({ status: "failed", error: value }),
  result: (value) => ({ result: value }),
  error: (value) => ({ error: value }),
};

const ACTIONS: Readonly<Record<string, Action>> = {
  say: (value, step, threadId) => say(threadId, String(value), step),
  delta: (value, _, threadId) => notify("item/agentMessage/delta", { threadId, itemId: "broken", delta: value }),
  started: (value, _, threadId) => notify("item/started", { threadId, item: value }),
  completed: (value, _, threadId) => notify("item/completed", { threadId, item: value }),
  notify: (value, step, threadId) => notify(String(value), { threadId, ...fieldsOf(step["params"]) }),
  used: (value, _, threadId) => tellUsage(threadId, `turn-${turns}`, Number(value)),
  async ask(value, step, threadId) {
    answers = await request(String(value), { threadId, ...fieldsOf(step["params"]) });
  },
  answers: (_, step, threadId) => say(threadId, JSON.stringify(answers), step),
  echo: (value, step, threadId) => say(threadId, echoOf(String(value), threadId), step),
  raw: (value) => write(`${String(value)}\n`),
  bytes: (value) => write(`"${"x".repeat(Number(value) - 2)}"\n`),
  slowly() {
    slowly = true;
  },
  stderr: (value) => writeSync(2, String(value)),
  append: (value, step) => appendFileSync(String(value), String(step["text"])),
  async waitFile(value) {
    while (!existsSync(String(value))) await delay(WAIT_MS);
  },
  start: () => spawn("/bin/sleep", ["600"], { detached: true, stdio: ["ignore", "inherit", "inherit"] }).unref(),
  hang: () => delay(HANG_MS),
  exit: (value) => process.exit(Number(value)),
  async die(value) {
    process.kill(process.pid, String(value));
    await delay(HANG_MS);
  },
  closeOutput: () => closeSync(1),
};

const setting = fieldsOf(JSON.parse(process.env["CODEX_AGENT"] ?? "{}"));
const threads = new Map<string, Thread>(Object.entries(readState()));
const waiting = new Map<string, (answer: unknown) => void>();
let asked = 0;
let turns = 0;
let slowly = false;
let answers: unknown = null;
let opened: Fields = {};
let turnParams: Fields = {};
let interrupt: (() => void) | null = null;

for await (const line of createInterface({ input: process.stdin })) receive(JSON.parse(line));
if (setting["lingers"] !== true) process.exit(0);

function receive(message: Fields): void {
  if (typeof setting["log"] === "string") appendFileSync(setting["log"], `${JSON.stringify(message)}\n`);
  const { id, method } = message;
  if (method === undefined) {
    waiting.get(String(id))?.(message["result"] ?? { error: message["error"] });
    waiting.delete(String(id));
  } else if (id !== undefined) {
    void answer(id, String(method), fieldsOf(message["params"]));
  }
}

async function answer(id: unknown, method: string, params: Fields): Promise<void> {
  const special = fieldsOf(setting["on"])[method];
  const verdict = Array.isArray(special) ? await perform(special, String(params["threadId"])) : null;
  send({ id, ...(verdict ?? usual(method, params)) });
}

function usual(method: string, params: Fields): Fields {
  const threadId = String(params["threadId"]);
  const thread = threads.get(threadId);
  switch (method) {
    case "initialize":
      return { result: { userAgent: "delegate-mcp/0.171.0" } };
    case "config/read":
      return { result: { config: { mcp_servers: setting["servers"] ?? {} } } };
    case "thread/start":
      threads.set(`thread-${threads.size + 1}`, { prompts: [], kept: false, used: 0 });
      opened = params;
      return { result: surroundings(`thread-${threads.size}`, params) };
    case "thread/resume":
      opened = params;
      if (thread === undefined) return refusal(`no rollout found for thread id ${threadId}`);
      if (thread.used > 0) tellUsage(threadId, "turn-before", 0);
      return { result: surroundings(threadId, params) };
    case "thread/name/set":
      keep(threadId);
      return { result: {} };
    case "thread/turns/list":
      return { result: { data: newestTurn(thread) } };
    case "turn/interrupt":
      interrupt?.();
      return { result: {} };
    case "turn/start":
      void turn(params, threadId);
      return { result: { turn: { id: `turn-${turns + 1}`, status: "inProgress" } } };
    default:
      return refusal(`Invalid request: unknown variant \`${method}\``);
  }
}

function refusal(message: string): Fields {
  return { error: { code: -32600, message } };
}

function surroundings(threadId: string, { sandbox, approvalPolicy }: Fields): Fields {
  const types: Fields = {
    "read-only": "readOnly",
    "workspace-write": "workspaceWrite",
    "danger-full-access": "dangerFullAccess",
  };
  const given = { sandbox: { type: types[String(sandbox)] }, approvalPolicy, approvalsReviewer: "user" };
  return { thread: { id: threadId }, ...given, ...fieldsOf(setting["thread"]) };
}

function newestTurn(thread: Thread | undefined): readonly Fields[] {
  const text = thread?.prompts.at(-1);
  if (text === undefined) return [];
  return [{ id: "t", items: [{ type: "userMessage", id: "u", content: [{ type: "text", text }] }] }];
}

async function turn(params: Fields, threadId: string): Promise<void> {
  // The answer to the call comes first.
  await delay(0);
  turns += 1;
  turnParams = params;
  const id = `turn-${turns}`;
  const prompts = threads.get(threadId)?.prompts ?? [];
  const parts = Array.isArray(params["input"]) ? params["input"].map(fieldsOf) : [];
  prompts.push(parts.map(({ text }) => String(text)).join(""));
  keep(threadId);
  notify("turn/started", { threadId, turn: { id, status: "inProgress" } });
  const listed = Array.isArray(setting["turns"]) ? setting["turns"][prompts.length - 1] : undefined;
  const interrupted = new Promise<Fields>((resolve) => {
    interrupt = () => resolve({ status: "interrupted", error: null });
  });
  const steps = Array.isArray(listed) ? listed : [{ echo: "prompt" }];
  const verdict = await Promise.race([interrupted, perform(steps, threadId)]);
  notify("turn/completed", { threadId, turn: { id, ...(verdict ?? { status: "completed", error: null }) } });
}

/** What a step ends with, or null. */
async function perform(steps: readonly Fields[], threadId: string): Promise<Fields | null> {
  for (const step of steps) {
    const [name = ""] = Object.keys(step);
    const verdict = VERDICTS[name];
    if (verdict !== undefined) return verdict(step[name]);
    const act = ACTIONS[name];
    if (act === undefined) throw new Error(`no such step: ${JSON.stringify(step)}`);
    await act(step[name], step, threadId);
  }
  return null;
}

function say(threadId: string, text: string, { every }: Fields): void {
  const id = `message-${asked++}`;
  notify("item/started", { threadId, item: { type: "agentMessage", id, text: "" } });
  const size = Number(every ?? Math.max(text.length, 1));
  for (let at = 0; at < text.length; at += size)
    notify("item/agentMessage/delta", { threadId, itemId: id, delta: text.slice(at, at + size) });
  notify("item/completed", { threadId, item: { type: "agentMessage", id, text } });
}

function tellUsage(threadId: string, turnId: string, more: number): void {
  const thread = threads.get(threadId);
  if (thread === undefined) return;
  thread.used += more;
  const total = { inputTokens: thread.used, outputTokens: thread.used / 10 };
  keep(threadId);
  notify("thread/tokenUsage/updated", { threadId, turnId, tokenUsage: { total, last: total } });
}

function echoOf(what: string, threadId: string): string {
  const prompts = threads.get(threadId)?.prompts ?? [];
  if (what === "prompt") return prompts.at(-1) ?? "";
  if (what === "turns") return JSON.stringify(prompts);
  if (what === "opened") return JSON.stringify(opened);
  if (what === "turn") return JSON.stringify(turnParams);
  if (what === "arguments") return JSON.stringify(process.argv.slice(2));
  return process.cwd();
}

function request(method: string, params: Fields): Promise<unknown> {
  const id = asked++;
  return new Promise((resolve) => {
    waiting.set(String(id), resolve);
    send({ id, method, params });
  });
}

function notify(method: string, params: Fields): void {
  send({ method, params, emittedAtMs: 1 });
}

function send(message: Fields): void {
  write(`${JSON.stringify(message)}\n`);
}

/** At once and whole: what was written before a kill has been written. */
function write(text: string): void {
  const bytes = Buffer.from(text);
  for (let at = 0; at < bytes.length; ) {
    try {
      at += writeSync(1, bytes, at, slowly ? 1 : bytes.length - at);
    } catch (error) {
      if (!(error instanceof Error && "code" in error && error.code === "EAGAIN")) throw error;
    }
  }
}

function keep(threadId: string): void {
  const thread = threads.get(threadId);
  if (thread !== undefined) thread.kept = true;
  const file = setting["state"];
  if (typeof file !== "string") return;
  const kept = [...threads].filter(([, { kept: isKept }]) => isKept);
  // Whole or not at all: this process may be killed at any moment.
  writeFileSync(`${file}.new`, JSON.stringify(Object.fromEntries(kept)));
  renameSync(`${file}.new`, file);
}

function readState(): Record<string, Thread> {
  const file = setting["state"];
  return typeof file === "string" && existsSync(file) ? JSON.parse(readFileSync(file, "utf8")) : {};
}

function fieldsOf(value: unknown): Fields {
  return typeof value === "object" && value !== null ? Object.fromEntries(Object.entries(value)) : {};
}
