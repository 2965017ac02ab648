/**
 * The daemon's REST surface, as seen by the command line.
 *
 * Invariant: nothing is sent twice by itself; who repeats a call, and with which key, is the command's business.
 * Invariant: every answer is bounded in size and time. A wait may be held for as long as the daemon ever holds one.
 */

import type { z } from "zod";
import { LIMITS } from "../core/limits.ts";
import { type Answer, answerSchema, readProblem } from "./answer.ts";
import { EXIT, exitCodeOfRefusal } from "./exit-codes.ts";
import type { Failure } from "./failure.ts";
import type { DaemonAddress } from "./find-daemon.ts";

export type Reply = { readonly kind: "answer"; readonly answer: Answer } | Failure;

/** The tools, by their routes. A person has them over `/api`, a delegated child over `/mcp` (`child-client.ts`). */
export type ApiClient = AsyncDisposable & {
  get(path: string, query: Readonly<Record<string, string>>, signal?: AbortSignal): Promise<Reply>;
  post(path: string, body: Readonly<Record<string, unknown>>, signal?: AbortSignal): Promise<Reply>;
};

/** What only people have besides: routes that answer with data. */
export type PersonClient = ApiClient & {
  /** Asks for data of a known shape; `body` null: GET. */
  data<T>(path: string, body: Readonly<Record<string, unknown>> | null, schema: z.ZodType<T>): Promise<Data<T>>;
  /** Opens a route that answers with a stream. It is not bounded in size; `signal` ends it. */
  stream(path: string, signal: AbortSignal): Promise<Stream | Reply>;
};

export type Data<T> = { readonly kind: "data"; readonly data: T } | Reply;
export type Stream = { readonly kind: "stream"; readonly chunks: AsyncIterable<Uint8Array> };

/** Longest time that one call is held by the daemon. */
export const SLICE_MAX_MS = LIMITS.sliceMaxMs;

const MARGIN_MS = 30_000;
const CONNECT_MS = 5_000;
const BODY_BYTES_MAX = 16 * 1024 * 1024;

export async function createApiClient(address: DaemonAddress, version: string): Promise<PersonClient> {
  // Loaded when a command calls the daemon: it is a tenth of the time that the daemon itself takes to start.
  const { Agent, request } = await import("undici");
  const timeouts = {
    connect: { timeout: CONNECT_MS },
    headersTimeout: SLICE_MAX_MS + MARGIN_MS,
    bodyTimeout: SLICE_MAX_MS + MARGIN_MS,
  };
  const agent = new Agent({ ...timeouts, maxResponseSize: BODY_BYTES_MAX, connections: 4 });
  const unbounded = new Agent({ ...timeouts, connections: 2 });
  const headers = {
    accept: "application/json",
    "user-agent": `delegate-mcp-cli/${version}`,
    ...(address.token === null ? {} : { authorization: `Bearer ${address.token}` }),
  };

  const ask = (path: string, body: string | null, signal: AbortSignal | undefined, dispatcher = agent) =>
    request(`${address.base}${path}`, {
      method: body === null ? "GET" : "POST",
      dispatcher,
      headers: body === null ? headers : { ...headers, "content-type": "application/json" },
      body,
      signal: signal ?? null,
    });

  async function call(path: string, body: string | null, signal?: AbortSignal): Promise<Reply> {
    try {
      const response = await ask(path, body, signal);
      return replyOf(response.statusCode, jsonOf(await response.body.text()), address);
    } catch (error) {
      return unreachable(address, error);
    }
  }

  return {
    get: (path, query, signal) => call(`${path}${queryOf(query)}`, null, signal),
    post: (path, body, signal) => call(path, JSON.stringify(body), signal),
    async data(path, body, schema) {
      try {
        const response = await ask(path, body === null ? null : JSON.stringify(body), undefined);
        const json = jsonOf(await response.body.text());
        const parsed = response.statusCode === 200 ? schema.safeParse(json) : null;
        if (parsed?.success === true) return { kind: "data", data: parsed.data };
        return replyOf(response.statusCode, json, address);
      } catch (error) {
        return unreachable(address, error);
      }
    },
    async stream(path, signal) {
      try {
        const { statusCode, body } = await ask(path, null, signal, unbounded);
        if (statusCode === 200) return { kind: "stream", chunks: body };
        return replyOf(statusCode, jsonOf(await body.text()), address);
      } catch (error) {
        return unreachable(address, error);
      }
    },
    async [Symbol.asyncDispose]() {
      await Promise.all([agent.destroy(), unbounded.destroy()]);
    },
  };
}

/** An answer of the daemon, or why there is none. An answer that refuses is an answer. */
function replyOf(status: number, body: unknown, address: DaemonAddress): Reply {
  const answer = answerSchema.safeParse(body);
  if (answer.success) return { kind: "answer", answer: answer.data };
  const problem = readProblem(body);
  if (problem === null) return noDaemon(status, address);
  return {
    kind: "failure",
    code: problem.code,
    exitCode: exitCodeOfHttp(status, problem.code),
    what: `${problem.message}.`.replace(/([.!?])\.$/, "$1"),
    why:
      status === 401 && address.token === null
        ? "No token was found to show: neither DELEGATE_MCP_TOKEN nor a token file."
        : null,
    fix: problem.change,
  };
}

export function exitCodeOfHttp(status: number, code: string): number {
  if (status === 401 || status === 403) return EXIT.auth;
  if (status === 404) return EXIT.notFound;
  if (status === 409) return EXIT.conflict;
  if (status === 429) return EXIT.busy;
  if (status >= 500) return EXIT.unreachable;
  return status >= 400 ? EXIT.usage : exitCodeOfRefusal(code);
}

function noDaemon(status: number, address: DaemonAddress): Failure {
  return {
    kind: "failure",
    code: "not_a_daemon",
    exitCode: EXIT.unreachable,
    what: `What answers at ${address.base} is not delegate-mcp.`,
    why: `It answered with HTTP ${status} and no answer of ours.`,
    fix: "Check --url or DELEGATE_MCP_URL, and whatever stands between.",
  };
}

export function unreachable(address: { readonly base: string }, error: unknown): Failure {
  return {
    kind: "failure",
    code: "unreachable",
    exitCode: EXIT.unreachable,
    what: `The daemon cannot be reached at ${address.base}.`,
    why: reasonOf(error),
    fix: "Tasks are not lost by that. Start it again: delegate-mcp serve, or check --url.",
    cause: error,
  };
}

function reasonOf(error: unknown): string {
  const code = error instanceof Error && "code" in error ? String(error.code) : "";
  switch (code) {
    case "ECONNREFUSED":
      return "Nothing listens there.";
    case "ENOTFOUND":
    case "EAI_AGAIN":
      return "That host name is not known.";
    case "ECONNRESET":
    case "UND_ERR_SOCKET":
      return "The connection broke before the answer.";
    case "UND_ERR_CONNECT_TIMEOUT":
    case "UND_ERR_HEADERS_TIMEOUT":
    case "UND_ERR_BODY_TIMEOUT":
      return "It did not answer in time.";
    case "UND_ERR_RES_EXCEEDED_MAX_SIZE":
      return "Its answer is larger than any answer of ours.";
    default:
      return `The connection failed (${code === "" ? String(error) : code}).`;
  }
}

function queryOf(query: Readonly<Record<string, string>>): string {
  const text = new URLSearchParams(query).toString();
  return text === "" ? "" : `?${text}`;
}

export function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
