/**
 * One scripted model server on loopback for four wire dialects: Anthropic Messages, OpenAI Responses, OpenAI chat
 * completions and Gemini generateContent, streamed or whole. What it does is a plan (`models/plan.ts`) that a prompt
 * names; it keeps a log of every request and of what the model was shown.
 */

import http from "node:http";
import type { IncomingMessage, ServerResponse } from "node:http";
import type { Socket } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { at, parsed, textAt } from "./json.ts";
import {
  type Dialect,
  dialectOf,
  type OfferedTool,
  readTools,
  readTurns,
  type Standing,
  standingOf,
  type Turn,
} from "./models/conversation.ts";
import { inlineMarkerOf, markerOf, type ModelFault, type Plan, planIn, type Step } from "./models/plan.ts";
import { refusalOf } from "./models/refusals.ts";
import { hang, type ModelCall, writeReply } from "./models/replies.ts";
import { handleOf, nextOf } from "./models/shown.ts";

export type ModelRequest = {
  readonly atMs: number;
  readonly method: string;
  readonly path: string;
  readonly dialect: Dialect | null;
  /** True if tools were offered: the harness's main loop, not a title or a classifier. */
  readonly main: boolean;
  readonly plan: string | null;
  readonly step: number;
  readonly loop: number;
  readonly fault: ModelFault["kind"] | null;
  readonly model: string;
  /** The harness's own session id, where it sends one. */
  readonly session: string | null;
  readonly userAgent: string | null;
};

export type Seen = {
  /** Requests that belong to the plan. */
  readonly requests: number;
  /** Tool results as the model got them, in order. */
  readonly shown: readonly string[];
  readonly userTexts: readonly string[];
  /** Names of the offered tools, with the namespace where there is one. */
  readonly tools: readonly string[];
  /** The last request body. */
  readonly lastBody: string;
};

export type Models = AsyncDisposable & {
  readonly url: string;
  readonly requests: readonly ModelRequest[];
  /** Registers a plan; the marker for the prompt. */
  add(plan: Plan): string;
  /** A marker that holds the whole plan. */
  inline(plan: Plan): string;
  seen(planId: string): Seen;
  /** Main requests of a plan. */
  of(planId: string): readonly ModelRequest[];
  /** Distinct harness sessions of a plan. */
  sessions(planId: string): readonly string[];
  /** Ends all faults of a plan. */
  heal(planId: string): void;
};

const NOTHING_SEEN: Seen = { requests: 0, shown: [], userTexts: [], tools: [], lastBody: "" };
const GAP_MS = 1_000;
const LAST_CHARACTERS_MAX = 400;
const SESSION_HEADERS = ["x-claude-code-session-id", "thread-id", "session-id", "session_id"];
/** Gemini CLI asks a classifier before it asks the model. */
const GEMINI_SIDE_ANSWER = JSON.stringify({
  reasoning: "x",
  next_speaker: "user",
  model_choice: "flash",
  complexity_score: 10,
  complexity_reasoning: "x",
});

export async function startModels(): Promise<Models> {
  const startedMs = performance.now();
  const plans = new Map<string, Plan>();
  const healed = new Set<string>();
  const fired = new Map<string, number>();
  const seen = new Map<string, Seen>();
  const requests: ModelRequest[] = [];
  const sockets = new Set<Socket>();

  async function answer(req: IncomingMessage, res: ServerResponse): Promise<void> {
    const raw = await bodyOf(req);
    if (raw === null) return;
    const path = (req.url ?? "/").split("?", 1)[0] ?? "/";
    const dialect = req.method === "POST" ? dialectOf(path) : null;
    const body = parsed(raw) ?? {};
    const turns = dialect === null ? [] : readTurns(dialect, body);
    const tools = dialect === null ? [] : readTools(dialect, body);
    const found = planOf(turns, plans);
    const standing = found === null ? NOWHERE : standingOf(found.plan, turns, found.from);
    const main = tools.length > 0;
    const fault = found !== null && main ? pickFault(found.plan, standing.step) : null;
    const request: ModelRequest = {
      atMs: Math.round(performance.now() - startedMs),
      method: req.method ?? "",
      path,
      dialect,
      main,
      plan: found?.plan.id ?? null,
      step: standing.step,
      loop: standing.loops,
      fault: fault?.kind ?? null,
      model: textAt(body, "model"),
      session: headerOf(req, SESSION_HEADERS),
      userAgent: req.headers["user-agent"] ?? null,
    };
    requests.push(request);
    if (dialect === null) return sideRoute(req, res, path);
    if (found !== null && main) remember(found.plan.id, turns, tools, standing, raw);
    if (fault !== null && (await refuse(fault, dialect, req, res))) return;
    const step = main ? stepOf(found?.plan, standing) : sideStep(dialect);
    if (standing.loops > 0) await sleep(step.gapMs ?? GAP_MS);
    if (step.delayMs !== undefined) await sleep(step.delayMs);
    if (res.destroyed) return;
    const id = `${(found?.plan.id ?? "x").replace(/[^A-Za-z0-9]/g, "")}_${requests.length}`;
    const stream = dialect === "gemini" ? /stream/i.test(path) : at(body, "stream") === true;
    const call = callOf(step, dialect, tools, turns, found?.plan.server ?? "delegate");
    const text = "text" in step ? filledText(step.text, turns) : "";
    const model = request.model === "" ? "fake-model" : request.model;
    await writeReply(dialect, { req, res, stream, id, model, call, text, fault, streamMs: step.streamMs ?? 0 });
  }

  function pickFault(plan: Plan, step: number): ModelFault | null {
    if (healed.has(plan.id)) return null;
    for (const [index, fault] of (plan.faults ?? []).entries()) {
      if (fault.step !== undefined && fault.step !== step) continue;
      const key = `${plan.id}#${index}`;
      const times = fired.get(key) ?? 0;
      if (fault.always !== true && times >= (fault.first ?? 1)) continue;
      fired.set(key, times + 1);
      return fault;
    }
    return null;
  }

  function remember(planId: string, turns: readonly Turn[], tools: readonly OfferedTool[], standing: Standing, raw: string): void {
    seen.set(planId, {
      requests: (seen.get(planId)?.requests ?? 0) + 1,
      shown: standing.results,
      userTexts: turns.filter((turn) => turn.role === "user").map((turn) => turn.text),
      tools: tools.map((tool) => (tool.namespace === undefined ? tool.name : `${tool.namespace}.${tool.name}`)),
      lastBody: raw,
    });
  }

  const server = http.createServer((req, res) => {
    answer(req, res).catch(() => res.destroy());
  });
  server.requestTimeout = 0;
  server.headersTimeout = 0;
  server.keepAliveTimeout = 60_000;
  server.on("connection", (socket) => {
    sockets.add(socket);
    socket.on("close", () => sockets.delete(socket));
    socket.on("error", () => socket.destroy());
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const address = server.address();
  if (address === null || typeof address === "string") throw new Error("the model server has no port");
  const of = (planId: string): readonly ModelRequest[] => requests.filter(({ plan, main }) => plan === planId && main);
  return {
    url: `http://127.0.0.1:${address.port}`,
    requests,
    add(plan) {
      plans.set(plan.id, plan);
      return markerOf(plan);
    },
    inline: inlineMarkerOf,
    seen: (planId) => seen.get(planId) ?? NOTHING_SEEN,
    of,
    sessions: (planId) => [...new Set(of(planId).flatMap(({ session }) => (session === null ? [] : [session])))],
    heal: (planId) => void healed.add(planId),
    async [Symbol.asyncDispose]() {
      for (const socket of sockets) socket.destroy();
      await new Promise<void>((resolve) => server.close(() => resolve()));
    },
  };
}

const NOWHERE: Standing = { step: 0, loops: 0, results: [] };

/** The plan that the last marked user text names, and the first turn that carries the same marker. */
function planOf(turns: readonly Turn[], plans: ReadonlyMap<string, Plan>): { plan: Plan; from: number } | null {
  for (const turn of turns.toReversed()) {
    const found = turn.role === "user" ? planIn(turn.text, plans) : null;
    if (found === null) continue;
    const from = turns.findIndex((each) => each.role === "user" && each.text.includes(found.marker));
    return { plan: found.plan, from };
  }
  return null;
}

function stepOf(plan: Plan | undefined, standing: Standing): Step {
  if (plan === undefined) return { text: "ok" };
  return plan.steps[standing.step] ?? { text: `nothing left to do (${plan.id})` };
}

function sideStep(dialect: Dialect): Step {
  return { text: dialect === "gemini" ? GEMINI_SIDE_ANSWER : "Title" };
}

/** Faults before the stream. True if nothing more is to be written. */
async function refuse(fault: ModelFault, dialect: Dialect, req: IncomingMessage, res: ServerResponse): Promise<boolean> {
  if (fault.kind === "reset") {
    req.socket.resetAndDestroy();
    return true;
  }
  if (fault.kind === "hang") {
    await hang(res, fault);
    return true;
  }
  const refusal = refusalOf(fault, dialect);
  if (refusal === null) return false;
  res.writeHead(refusal.status, refusal.headers);
  res.end(refusal.body);
  return true;
}

/** A step as a call of one of the tools that the harness offers. */
function callOf(
  step: Step,
  dialect: Dialect,
  tools: readonly OfferedTool[],
  turns: readonly Turn[],
  server: string,
): ModelCall | null {
  if ("text" in step) return null;
  if ("shell" in step) return shellCall(step.shell, step.escalate === true, dialect, tools);
  if ("tool" in step) {
    const namespace = step.namespace === undefined ? {} : { namespace: step.namespace };
    return { name: step.tool, ...namespace, input: filledRecord(step.input ?? {}, turns) };
  }
  const offered = tools.find(({ name }) => name === step.mcp || name.endsWith(`_${step.mcp}`));
  const fallback: OfferedTool =
    dialect === "responses"
      ? { name: step.mcp, namespace: `mcp__${server}` }
      : { name: `mcp__${server}__${step.mcp}` };
  const next = step.follow === true ? nextOf(shownBy(turns).at(-1) ?? "") : null;
  const followed = next?.tool === step.mcp ? next.arguments : null;
  return { ...(offered ?? fallback), input: followed ?? filledRecord(step.args ?? {}, turns) };
}

function shellCall(command: string, escalate: boolean, dialect: Dialect, tools: readonly OfferedTool[]): ModelCall {
  const has = (name: string): boolean => tools.some((tool) => tool.name === name);
  const description = "run the step";
  if (dialect === "gemini") return { name: "run_shell_command", input: { command, description } };
  if (dialect !== "responses") return { name: has("Bash") ? "Bash" : "bash", input: { command, description } };
  const up = escalate ? { sandbox_permissions: "require_escalated", justification: "the step needs it" } : {};
  if (has("exec_command")) return { name: "exec_command", input: { cmd: command, ...up } };
  if (has("shell_command")) return { name: "shell_command", input: { command, ...up } };
  return { name: "shell", input: { command: ["sh", "-c", command], ...up } };
}

function filledRecord(values: Readonly<Record<string, unknown>>, turns: readonly Turn[]): Record<string, unknown> {
  return Object.fromEntries(Object.entries(values).map(([key, value]) => [key, filled(value, turns)]));
}

function filled(value: unknown, turns: readonly Turn[]): unknown {
  if (typeof value === "string") return filledText(value, turns);
  if (Array.isArray(value)) return value.map((each) => filled(each, turns));
  return typeof value === "object" && value !== null ? filledRecord({ ...value }, turns) : value;
}

function filledText(text: string, turns: readonly Turn[]): string {
  const shown = shownBy(turns);
  const taskId = shown.map(handleOf).find((handle) => handle !== null)?.taskId ?? "unknown";
  const last = (shown.at(-1) ?? "").slice(0, LAST_CHARACTERS_MAX);
  return text.replaceAll("$taskId", taskId).replaceAll("{{taskId}}", taskId).replaceAll("{{last}}", last);
}

function shownBy(turns: readonly Turn[]): readonly string[] {
  return turns.filter((turn) => turn.role === "tool").map((turn) => turn.text);
}

/** Routes beside the model: token counts, model lists, liveness. */
function sideRoute(req: IncomingMessage, res: ServerResponse, path: string): void {
  const json = (status: number, body: object): void => {
    res.writeHead(status, { "content-type": "application/json" });
    res.end(JSON.stringify(body));
  };
  if (path.endsWith("count_tokens")) return json(200, { input_tokens: 42 });
  if (path.endsWith(":countTokens")) return json(200, { totalTokens: 42 });
  if (req.method === "GET" && path.includes("models")) {
    return json(200, { object: "list", data: [{ id: "fake-model", object: "model" }], models: [] });
  }
  if (req.method !== "HEAD") return json(404, { type: "error", error: { type: "not_found_error", message: "no such route" } });
  res.writeHead(200);
  res.end();
}

async function bodyOf(req: IncomingMessage): Promise<string | null> {
  const chunks: Buffer[] = [];
  try {
    for await (const chunk of req) chunks.push(chunk);
  } catch {
    return null;
  }
  return Buffer.concat(chunks).toString();
}

function headerOf(req: IncomingMessage, names: readonly string[]): string | null {
  for (const name of names) {
    const value = req.headers[name];
    if (typeof value === "string") return value;
  }
  return null;
}
