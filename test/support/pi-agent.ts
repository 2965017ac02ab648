/**
 * A child program that speaks as Pi does in its mode `rpc` and does what a script says: all that the real one was seen to do,
 * good and bad. Run by Node (`node test/support/pi-agent.ts`); it uses nothing of the project, so that it can break every rule.
 *
 * The setting is a JSON object in the variable PI_AGENT; all fields are optional:
 *   {"state": "file"}            sessions are kept there from their first message on, so that a later process knows them
 *   {"log": "file"}              every record that came, one a line, after one with the arguments
 *   {"thinking": "low"}          the level that it has, whatever is asked
 *   {"on": {"get_state": [steps]}}     steps before the usual answer to a command; `refuse` and `answer` answer
 *   {"prompts": [[steps], [steps]]}    steps of the first, second, … prompt of a session
 *   {"lingers": true}            does not end with its standard input
 *
 * A prompt without steps is said back. A run whose steps do not end it stops well.
 *
 *   {"say": "text"}              a message that ends with a tool call after it, or the run: streamed, then whole
 *   {"stream": "text"}           pieces of a message of which no end comes
 *   {"tool": "bash", "args": {…}, "output": "text", "failed": true, "open": true}
 *   {"error": "text", "said": "…"}    the last message is an error;  {"retry": "text"}: an error that Pi tries again after
 *   {"stop": "length", "raw": "…"}    the last message stops so
 *   {"aborted": true}            the run was aborted
 *   {"ask": {"method": "confirm", …}, "say": true}   a dialog; says what came back
 *   {"event": {…}}, {"raw": "text"}, {"bytes": 9000000}   a record, a line, a line of so many bytes
 *   {"refuse": "text"}, {"answer": {…}}, {"cutAnswer": 9000000}   of a command
 *   {"slowly": true}, {"stderr": "text"}, {"write": "file", "text": "…"}, {"waitFile": "file"}, {"start": "holding"}
 *   {"hang": true}, {"exit": 3}, {"die": "SIGKILL"}, {"closeOutput": true}
 */

import { spawn } from "node:child_process";
import { appendFileSync, closeSync, existsSync, readFileSync, writeFileSync, writeSync } from "node:fs";
import { setTimeout as delay } from "node:timers/promises";

type Fields = Readonly<Record<string, unknown>>;

const HANG_MS = 600_000;
const setting = fieldsOf(JSON.parse(process.env["PI_AGENT"] ?? "{}"));
const sessionId = argument("--session-id") ?? "none";
const dialogs = new Map<string, (record: Fields) => void>();
let slowly = false;
let said = "";
let outcome: Fields | null = null;
let aborted = false;

type Turn = { readonly user: string };
const turns: Turn[] = [...known()];

function known(): readonly Turn[] {
  const sessions = fieldsOf(readState());
  const kept = sessions[sessionId];
  return Array.isArray(kept) ? kept : [];
}

function readState(): unknown {
  const file = setting["state"];
  return typeof file === "string" && existsSync(file) ? JSON.parse(readFileSync(file, "utf8")) : {};
}

function keep(): void {
  const file = setting["state"];
  if (typeof file !== "string") return;
  writeFileSync(file, JSON.stringify({ ...fieldsOf(readState()), [sessionId]: turns }));
}

function argument(name: string): string | undefined {
  const at = process.argv.indexOf(name);
  return at < 0 ? undefined : process.argv[at + 1];
}

function fieldsOf(value: unknown): Fields {
  return typeof value === "object" && value !== null && !Array.isArray(value) ? { ...value } : {};
}

function stepsOf(value: unknown): readonly Fields[] | null {
  return Array.isArray(value) ? value.map(fieldsOf) : null;
}

function log(record: unknown): void {
  if (typeof setting["log"] === "string") appendFileSync(setting["log"], `${JSON.stringify(record)}\n`);
}

function writeAll(bytes: Uint8Array): void {
  for (let at = 0; at < bytes.length; ) {
    try {
      at += writeSync(1, bytes, at, slowly ? 1 : undefined);
    } catch (error) {
      if (!(error instanceof Error && "code" in error && error.code === "EAGAIN")) throw error;
    }
  }
}

function tell(record: Fields): void {
  writeAll(Buffer.from(`${JSON.stringify(record)}\n`));
}

const USAGE = { input: 90, output: 7, cacheRead: 10, cacheWrite: 0, totalTokens: 107, cost: { total: 0.25 } };

function endMessage(text: string, more: Fields): void {
  const message = { role: "assistant", content: text === "" ? [] : [{ type: "text", text }], usage: USAGE, ...more };
  tell({ type: "message_end", message });
}

function stream(text: string): void {
  for (const delta of text.match(/.{1,3}/gs) ?? [])
    tell({
      type: "message_update",
      usage: USAGE,
      assistantMessageEvent: { type: "text_delta", contentIndex: 0, delta },
    });
}

function textOf(value: unknown): string {
  return typeof value === "string" ? value : JSON.stringify(value);
}

let calls = 0;

type Action = (value: unknown, step: Fields) => unknown;

const ACTIONS: Readonly<Record<string, Action>> = {
  async ask(value, step) {
    const id = `ui-${dialogs.size}`;
    const answered = Promise.withResolvers<Fields>();
    dialogs.set(id, answered.resolve);
    tell({ type: "extension_ui_request", id, ...fieldsOf(value) });
    const { type: _, id: _id, ...answer } = await answered.promise;
    if (step["say"] === true) said = JSON.stringify(answer);
  },
  stream: (value) => stream(textOf(value)),
  say(value) {
    if (typeof value !== "string") return;
    stream(value);
    said = value;
  },
  tool(value, step) {
    const toolCallId = `t${calls++}`;
    const toolName = textOf(value);
    endMessage(said, { stopReason: "toolUse" });
    said = "";
    tell({ type: "tool_execution_start", toolCallId, toolName, args: step["args"] ?? {} });
    if (step["open"] === true) return;
    const result = { content: [{ type: "text", text: step["output"] ?? "" }] };
    tell({ type: "tool_execution_update", toolCallId, toolName, args: {}, partialResult: result });
    tell({ type: "tool_execution_end", toolCallId, toolName, result, isError: step["failed"] === true, durationMs: 1 });
  },
  retry(value) {
    endMessage("PARTIAL", { stopReason: "error", errorMessage: value });
    tell({ type: "agent_end", messages: [], willRetry: true });
    tell({ type: "auto_retry_start", attempt: 1, maxAttempts: 3, delayMs: 2_000, errorMessage: value });
    tell({ type: "auto_retry_end", success: true, attempt: 1 });
  },
  error(value, step) {
    said = textOf(step["said"] ?? "");
    outcome = { stopReason: "error", errorMessage: value };
  },
  stop: (value, step) => (outcome = { stopReason: value, rawStopReason: step["raw"] }),
  aborted() {
    aborted = true;
    outcome = { stopReason: "aborted" };
  },
  event: (value) => tell(fieldsOf(value)),
  raw: (value) => writeAll(Buffer.from(`${textOf(value)}\n`)),
  bytes: (value) => writeAll(Buffer.from(`{"type":"agent_end","messages":"${"x".repeat(Number(value))}"}\n`)),
  slowly: () => (slowly = true),
  stderr: (value) => writeSync(2, textOf(value)),
  write: (value, step) => writeFileSync(textOf(value), textOf(step["text"] ?? "")),
  async waitFile(value) {
    while (!existsSync(textOf(value))) await delay(5);
  },
  start() {
    const holder = spawn("sleep", ["600"], { detached: true, stdio: "inherit" });
    holder.unref();
  },
  hang: () => delay(HANG_MS),
  exit: (value) => process.exit(Number(value)),
  async die(value) {
    process.kill(process.pid, value === "SIGTERM" ? "SIGTERM" : "SIGKILL");
    await delay(HANG_MS);
  },
  async closeOutput() {
    closeSync(1);
    await delay(HANG_MS);
  },
};

async function play(steps: readonly Fields[]): Promise<void> {
  for (const step of steps) {
    const [name = "", value] = Object.entries(step)[0] ?? [];
    await ACTIONS[name]?.(value, step);
  }
}

async function runPrompt(text: string): Promise<void> {
  turns.push({ user: text });
  keep();
  const prompts = Array.isArray(setting["prompts"]) ? setting["prompts"] : [];
  tell({ type: "agent_start" });
  tell({ type: "message_end", message: { role: "user", content: [{ type: "text", text }] } });
  await play(stepsOf(prompts[turns.length - 1]) ?? [{ say: text }]);
  endMessage(said, outcome ?? { stopReason: "stop" });
  said = "";
  tell({ type: "agent_end", messages: [], willRetry: false });
  tell({ type: "agent_settled", aborted });
}

const ANSWERS: Readonly<Record<string, () => Fields>> = {
  get_state: () => ({ sessionId, thinkingLevel: setting["thinking"] ?? argument("--thinking") ?? "off" }),
  get_fork_messages: () => ({ messages: turns.map(({ user }, at) => ({ entryId: String(at), text: user })) }),
  prompt: () => ({ disposition: "started" }),
};

async function take(record: Fields): Promise<void> {
  const { id, type } = record;
  if (type === "extension_ui_response") return dialogs.get(String(id))?.(record);
  const command = String(type);
  const steps = stepsOf(fieldsOf(setting["on"])[command]) ?? [];
  const verdict = steps.find((step) => "refuse" in step || "answer" in step || "cutAnswer" in step) ?? {};
  await play(steps.filter((step) => step !== verdict));
  const answer = { id, type: "response", command };
  if ("refuse" in verdict) return tell({ ...answer, success: false, error: verdict["refuse"] });
  const data = "answer" in verdict ? verdict["answer"] : ANSWERS[command]?.();
  const padding = "cutAnswer" in verdict ? { padding: "x".repeat(Number(verdict["cutAnswer"])) } : {};
  tell({ ...answer, success: true, ...(data === undefined ? {} : { data: { ...fieldsOf(data), ...padding } }) });
  if (command === "prompt" && fieldsOf(data)["disposition"] === "started") await runPrompt(String(record["message"]));
}

log({ args: process.argv.slice(2), cwd: process.cwd() });
let rest = "";
for await (const chunk of process.stdin.setEncoding("utf8")) {
  rest += String(chunk);
  const lines = rest.split("\n");
  rest = lines.pop() ?? "";
  for (const line of lines) {
    const record = fieldsOf(JSON.parse(line));
    log(record);
    take(record).catch(() => process.exit(70));
  }
}
if (setting["lingers"] === true) await delay(HANG_MS);
process.exit(0);
