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
import { type Dialect, dialectOf } from "./models/conversation.ts";
import { inlineMarkerOf, type ModelFault, markerOf, type Plan } from "./models/plan.ts";
import { dueStep, type Question, readQuestion } from "./models/question.ts";
import { refusalOf } from "./models/refusals.ts";
import { hang, writeReply } from "./models/replies.ts";
import { callOf, filledText } from "./models/steps.ts";

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

const NO_QUESTION = { dialect: null, main: false, plan: null, step: 0, loop: 0, model: "" } as const;
const NOTHING_SEEN: Seen = { requests: 0, shown: [], userTexts: [], tools: [], lastBody: "" };
const GAP_MS = 1_000;
const SESSION_HEADERS = ["x-claude-code-session-id", "thread-id", "session-id", "session_id"];

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
    if (dialect === null) {
      note(req, path, null, null);
      return sideRoute(req, res, path);
    }
    const question = readQuestion(dialect, parsed(raw) ?? {}, plans);
    const fault = pickFault(question);
    note(req, path, question, fault);
    remember(question, raw);
    if (fault !== null && (await refuse(fault, dialect, req, res))) return;
    await play(question, fault, req, res);
  }

  /** Answers with the step that is due. */
  async function play(question: Question, fault: ModelFault | null, req: IncomingMessage, res: ServerResponse) {
    const { dialect, found, standing } = question;
    const step = dueStep(question);
    if (standing.loops > 0) await sleep(step.gapMs ?? GAP_MS);
    if (step.delayMs !== undefined) await sleep(step.delayMs);
    if (res.destroyed) return;
    await writeReply(dialect, {
      req,
      res,
      stream: dialect === "gemini" ? /stream/i.test(req.url ?? "") : at(question.body, "stream") === true,
      id: `${(found?.plan.id ?? "x").replace(/[^A-Za-z0-9]/g, "")}_${requests.length}`,
      model: textAt(question.body, "model") || "fake-model",
      call: callOf(step, question),
      text: "text" in step ? filledText(step.text, question.turns) : "",
      fault,
      streamMs: step.streamMs ?? 0,
    });
  }

  function note(req: IncomingMessage, path: string, question: Question | null, fault: ModelFault | null): void {
    requests.push({
      atMs: Math.round(performance.now() - startedMs),
      method: req.method ?? "",
      path,
      fault: fault?.kind ?? null,
      ...(question === null ? NO_QUESTION : asked(question)),
      session: headerOf(req, SESSION_HEADERS),
      userAgent: req.headers["user-agent"] ?? null,
    });
  }

  function pickFault({ found, main, standing }: Question): ModelFault | null {
    if (found === null || !main || healed.has(found.plan.id)) return null;
    const { plan } = found;
    for (const [index, fault] of (plan.faults ?? []).entries()) {
      if (fault.step !== undefined && fault.step !== standing.step) continue;
      const key = `${plan.id}#${index}`;
      const times = fired.get(key) ?? 0;
      if (fault.always !== true && times >= (fault.first ?? 1)) continue;
      fired.set(key, times + 1);
      return fault;
    }
    return null;
  }

  function remember({ found, main, turns, tools, standing }: Question, raw: string): void {
    if (found === null || !main) return;
    const planId = found.plan.id;
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

function asked({ dialect, main, found, standing, body }: Question) {
  const model = textAt(body, "model");
  return { dialect, main, plan: found?.plan.id ?? null, step: standing.step, loop: standing.loops, model };
}

/** Faults before the stream. True if nothing more is to be written. */
async function refuse(
  fault: ModelFault,
  dialect: Dialect,
  req: IncomingMessage,
  res: ServerResponse,
): Promise<boolean> {
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
  if (req.method !== "HEAD")
    return json(404, { type: "error", error: { type: "not_found_error", message: "no such route" } });
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
