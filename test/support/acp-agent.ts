/**
 * A child program that speaks the Agent Client Protocol (version 1) and does what a script says: all that real agents were
 * seen to do, good and bad. Run by Node (`node test/support/acp-agent.ts`); it uses nothing of the project and no SDK, so that
 * it can break every rule.
 *
 * The setting is a JSON object in the variable ACP_AGENT; all fields are optional:
 *   {"state": "file"}            sessions are kept there, so that a later process knows them
 *   {"log": "file"}              every message that came, one a line; a `wedged` line if a second prompt came meanwhile
 *   {"version": 1, "name": "…"}  what `initialize` answers
 *   {"load": true, "resume": true, "close": true, "http": true}   what it offers
 *   {"options": […], "modes": {…}}                 config options and modes of its sessions
 *   {"on": {"session/new": [steps]}}               steps before the usual answer to a method; `error` and `result` answer
 *   {"prompts": [[steps], [steps]]}                steps of the first, second, … prompt of a session
 *   {"ignoreCancel": true}, {"lingers": true}      does not end its turn, does not end with its standard input
 *
 * A prompt without steps there holds them itself, from the first `[{` to the last `]`, else it is said back. A turn whose
 * steps do not end it ends with `end_turn`.
 *
 *   {"say": "text", "id": "m1", "every": 3}   a message in chunks of so many UTF-16 units (whole), with a message id or without
 *   {"think": "text"}, {"update": {…}}        a thought; any update, as it is
 *   {"tool": {…}}, {"toolUpdate": {…}}        a tool call, an update of one
 *   {"ask": [{"toolCall": {…}, "options": […]}, …]}   permission requests, all at once; goes on when all are answered
 *   {"request": "fs/read_text_file", "params": {…}}   any request to the client; goes on when it is answered
 *   {"answers": true}                         says what the last `ask` or `request` was answered, as JSON
 *   {"echo": "prompt" | "history" | "servers" | "config" | "env:NAME" | "cwd"}   says the prompt, all prompts as JSON, …
 *   {"end": "max_tokens"}, {"result": {…}}    ends the turn with this stop reason, or this result
 *   {"error": {"code": -32000, "message": "…", "data": …}}
 *   {"raw": "text"}, {"bytes": 9000000}       a line as it is; a line of so many bytes
 *   {"slowly": true}                          from here on one byte at a time
 *   {"stderr": "text"}, {"write": "file", "text": "…"}, {"append": "file", "text": "…"}, {"waitFile": "file"}
 *   {"start": "session" | "holding"}          a background process in a session of its own, which holds the output or not
 *   {"hang": true}, {"exit": 3}, {"die": "SIGKILL"}, {"closeOutput": true}
 */

import { spawn } from "node:child_process";
import { appendFileSync, closeSync, existsSync, readFileSync, renameSync, writeFileSync, writeSync } from "node:fs";
import { createInterface } from "node:readline";
import { setTimeout as delay } from "node:timers/promises";

type Fields = Readonly<Record<string, unknown>>;
type Session = { prompts: string[]; said: string[]; config: Record<string, unknown>; cwd: string; servers: unknown };

const WAIT_MS = 5;
const HANG_MS = 600_000;

type Action = (value: unknown, step: Fields, sessionId: string) => unknown;

const VERDICTS: Readonly<Record<string, (value: unknown) => Fields>> = {
  end: (value) => ({ result: { stopReason: value } }),
  result: (value) => ({ result: value }),
  error: (value) => ({ error: value }),
};

const ACTIONS: Readonly<Record<string, Action>> = {
  say: (value, step, sessionId) => say(sessionId, String(value), step),
  think: (text, _, sessionId) =>
    update(sessionId, { sessionUpdate: "agent_thought_chunk", content: { type: "text", text } }),
  update: (value, _, sessionId) => update(sessionId, fieldsOf(value)),
  tool: (value, _, sessionId) => update(sessionId, { sessionUpdate: "tool_call", ...fieldsOf(value) }),
  toolUpdate: (value, _, sessionId) => update(sessionId, { sessionUpdate: "tool_call_update", ...fieldsOf(value) }),
  async ask(value, _, sessionId) {
    const questions = Array.isArray(value) ? value : [];
    answers = await Promise.all(
      questions.map((question) => request("session/request_permission", { sessionId, ...fieldsOf(question) })),
    );
  },
  async request(value, step) {
    answers = await request(String(value), fieldsOf(step["params"] ?? {}));
  },
  answers: (_, step, sessionId) => say(sessionId, JSON.stringify(answers), step),
  echo: (value, step, sessionId) => say(sessionId, echoOf(String(value), sessionId), step),
  raw: (value) => write(`${String(value)}\n`),
  bytes: (value) => write(`"${"x".repeat(Number(value) - 2)}"\n`),
  slowly() {
    slowly = true;
  },
  stderr: (value) => writeSync(2, String(value)),
  write: (value, step) => writeFileSync(String(value), String(step["text"] ?? process.pid)),
  append: (value, step) => appendFileSync(String(value), String(step["text"])),
  async waitFile(value) {
    while (!existsSync(String(value))) await delay(WAIT_MS);
  },
  start(value) {
    const output = value === "holding" ? "inherit" : "ignore";
    spawn("/bin/sleep", ["600"], { detached: true, stdio: ["ignore", output, output] }).unref();
  },
  hang: () => delay(HANG_MS),
  exit: (value) => process.exit(Number(value)),
  async die(value) {
    process.kill(process.pid, String(value));
    await delay(HANG_MS);
  },
  closeOutput: () => closeSync(1),
};

const setting = fieldsOf(JSON.parse(process.env["ACP_AGENT"] ?? "{}"));
const sessions = new Map<string, Session>(Object.entries(readState()));
const waiting = new Map<string, (answer: unknown) => void>();
let asked = 0;
let slowly = false;
let answers: unknown = null;
let promptRunning = false;
let cancelTurn: (() => void) | null = null;

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
  } else if (method === "session/cancel" && setting["ignoreCancel"] !== true) {
    cancelTurn?.();
  }
}

async function answer(id: unknown, method: string, params: Fields): Promise<void> {
  const special = fieldsOf(setting["on"])[method];
  const verdict = Array.isArray(special) ? await perform(special, String(params["sessionId"])) : null;
  send({ id, ...(verdict ?? (await usual(method, params))) });
}

async function usual(method: string, params: Fields): Promise<Fields> {
  const sessionId = String(params["sessionId"]);
  const session = sessions.get(sessionId);
  switch (method) {
    case "initialize":
      return { result: initialized() };
    case "session/new": {
      const name = `session-${sessions.size + 1}`;
      sessions.set(name, {
        prompts: [],
        said: [],
        config: {},
        cwd: String(params["cwd"]),
        servers: params["mcpServers"],
      });
      writeState();
      return { result: { sessionId: name, ...surroundings() } };
    }
    case "session/load":
    case "session/resume":
      if (session === undefined) return { error: { code: -32002, message: "Resource not found", data: { sessionId } } };
      session.servers = params["mcpServers"];
      if (method === "session/load") replay(sessionId, session);
      return { result: surroundings() };
    case "session/set_config_option":
      return setOption(params, session);
    case "session/set_mode":
      if (session !== undefined) session.config["mode"] = params["modeId"];
      writeState();
      return { result: {} };
    case "session/close":
      return { result: {} };
    case "session/prompt":
      return prompted(params, sessionId, session);
    default:
      return { error: { code: -32601, message: `"Method not found": ${method}` } };
  }
}

function initialized(): Fields {
  const offer = (name: string): Fields => (setting[name] === true ? { [name]: {} } : {});
  return {
    protocolVersion: setting["version"] ?? 1,
    agentInfo: { name: setting["name"] ?? "acp-agent", version: "1" },
    agentCapabilities: {
      loadSession: setting["load"] === true,
      mcpCapabilities: { http: setting["http"] === true },
      sessionCapabilities: { ...offer("resume"), ...offer("close") },
    },
    authMethods: [],
  };
}

function surroundings(): Fields {
  return {
    ...(setting["options"] === undefined ? {} : { configOptions: setting["options"] }),
    ...(setting["modes"] === undefined ? {} : { modes: setting["modes"] }),
  };
}

function setOption({ configId, value }: Fields, session: Session | undefined): Fields {
  const options = Array.isArray(setting["options"]) ? setting["options"].map(fieldsOf) : [];
  const option = options.find(({ id }) => id === configId);
  const values = JSON.stringify(option?.["options"] ?? []);
  const known = option?.["type"] === "boolean" || values.includes(`"value":${JSON.stringify(value)}`);
  if (option === undefined || !known)
    return { error: { code: -32602, message: `Invalid params: no such value ${String(value)}` } };
  if (session !== undefined) session.config[String(configId)] = value;
  writeState();
  return { result: { configOptions: options } };
}

function replay(sessionId: string, { prompts, said }: Session): void {
  for (const [at, text] of prompts.entries()) {
    update(sessionId, { sessionUpdate: "user_message_chunk", content: { type: "text", text } });
    update(sessionId, {
      sessionUpdate: "tool_call",
      toolCallId: `old-${at}`,
      title: "old",
      kind: "edit",
      status: "completed",
    });
    update(sessionId, { sessionUpdate: "agent_message_chunk", content: { type: "text", text: said[at] ?? "" } });
  }
}

async function prompted(params: Fields, sessionId: string, session: Session | undefined): Promise<Fields> {
  if (session === undefined) return { error: { code: -32002, message: "Resource not found" } };
  if (promptRunning) {
    // As some agents do: neither the one nor the other is ever answered.
    if (typeof setting["log"] === "string") appendFileSync(setting["log"], '{"wedged": true}\n');
    await delay(HANG_MS);
  }
  promptRunning = true;
  const text = textOf(params["prompt"]);
  const number = session.prompts.push(text);
  session.said.push("");
  writeState();
  const cancelled = new Promise<Fields>((resolve) => {
    cancelTurn = () => resolve({ result: { stopReason: "cancelled" } });
  });
  const verdict = await Promise.race([cancelled, perform(stepsFor(text, number), sessionId)]);
  promptRunning = false;
  writeState();
  return verdict ?? { result: { stopReason: "end_turn" } };
}

function stepsFor(text: string, number: number): readonly Fields[] {
  const listed = Array.isArray(setting["prompts"]) ? setting["prompts"][number - 1] : undefined;
  if (Array.isArray(listed)) return listed;
  const from = text.indexOf("[{");
  const until = text.lastIndexOf("]");
  return from < 0 || until < from ? [{ echo: "prompt" }] : JSON.parse(text.slice(from, until + 1));
}

/** The answer that a step gives, or null. */
async function perform(steps: readonly Fields[], sessionId: string): Promise<Fields | null> {
  for (const step of steps) {
    const [name = ""] = Object.keys(step);
    const verdict = VERDICTS[name];
    if (verdict !== undefined) return verdict(step[name]);
    const act = ACTIONS[name];
    if (act === undefined) throw new Error(`no such step: ${JSON.stringify(step)}`);
    await act(step[name], step, sessionId);
  }
  return null;
}

function say(sessionId: string, text: string, { id, every }: Fields): void {
  const session = sessions.get(sessionId);
  if (session !== undefined) session.said[session.said.length - 1] += text;
  const size = Number(every ?? Math.max(text.length, 1));
  for (let at = 0; at < text.length; at += size) {
    const content = { type: "text", text: text.slice(at, at + size) };
    update(sessionId, {
      sessionUpdate: "agent_message_chunk",
      content,
      ...(id === undefined ? {} : { messageId: id }),
    });
  }
}

function echoOf(what: string, sessionId: string): string {
  const session = sessions.get(sessionId);
  if (what === "prompt") return session?.prompts.at(-1) ?? "";
  if (what === "history") return JSON.stringify(session?.prompts);
  if (what === "servers") return JSON.stringify(session?.servers);
  if (what === "config") return JSON.stringify(session?.config);
  if (what === "cwd") return process.cwd();
  return process.env[what.slice("env:".length)] ?? "";
}

function request(method: string, params: Fields): Promise<unknown> {
  asked += 1;
  const id = `ours-${asked}`;
  return new Promise((resolve) => {
    waiting.set(id, resolve);
    send({ id, method, params });
  });
}

function update(sessionId: string, fields: Fields): void {
  send({ method: "session/update", params: { sessionId, update: fields } });
}

function send(message: Fields): void {
  write(`${JSON.stringify({ jsonrpc: "2.0", ...message })}\n`);
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

function textOf(blocks: unknown): string {
  return (Array.isArray(blocks) ? blocks : []).map((block) => String(fieldsOf(block)["text"] ?? "")).join("");
}

function readState(): Record<string, Session> {
  const file = setting["state"];
  return typeof file === "string" && existsSync(file) ? JSON.parse(readFileSync(file, "utf8")) : {};
}

function writeState(): void {
  const file = setting["state"];
  if (typeof file !== "string") return;
  // Whole or not at all: this process may be killed at any moment.
  writeFileSync(`${file}.new`, JSON.stringify(Object.fromEntries(sessions)));
  renameSync(`${file}.new`, file);
}

function fieldsOf(value: unknown): Fields {
  return typeof value === "object" && value !== null ? Object.fromEntries(Object.entries(value)) : {};
}
