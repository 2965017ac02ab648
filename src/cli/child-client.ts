/**
 * The daemon as a delegated child sees it from the command line: the tools over `/mcp`, with the child's own credential.
 *
 * Invariant: no file of the data directory and no variable of the person is read on this way (P18).
 * Invariant: nothing is sent twice by itself, as in `api-client.ts`.
 */

import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport, StreamableHTTPError } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { z } from "zod";
import { parseId, taskIdPrefixOf } from "../core/ids.ts";
import { type ApiClient, exitCodeOfHttp, jsonOf, type Reply, SLICE_MAX_MS, unreachable } from "./api-client.ts";
import { type Answer, answerSchema } from "./answer.ts";
import { EXIT } from "./exit-codes.ts";
import type { Failure } from "./failure.ts";
import type { ChildAddress } from "./find-daemon.ts";

type Fields = Readonly<Record<string, unknown>>;
type Call = { readonly tool: string; readonly args: Fields };
type CallTool = (call: Call, signal: AbortSignal | undefined) => Promise<Reply>;

/** The daemon answers within four fifths of what it is told a client bears. */
const BEARS_MS = SLICE_MAX_MS / 0.8;
const CONNECT_MS = 5_000;
/** A tree has far fewer tasks; more pages than these would be no tree of ours. */
const PAGES_MAX = 20;
const PAGE_TASKS = 100;
const MATCHES_SHOWN = 10;

export function createChildClient(address: ChildAddress, version: string): ApiClient {
  let connected: Promise<Connection> | null = null;
  const callTool: CallTool = async (call, signal) => {
    try {
      connected ??= connect(address, version);
      return answered(await (await connected).call(call, signal));
    } catch (error) {
      connected = null;
      return failureOf(error, address.mcpUrl);
    }
  };
  const route = async (method: "GET" | "POST", path: string, fields: Fields, signal?: AbortSignal): Promise<Reply> => {
    const found = ROUTES.find(({ on, pattern }) => on === method && pattern.test(path));
    if (found === undefined) return notForChild(path);
    const id = decodeURIComponent(found.pattern.exec(path)?.[1] ?? "");
    if (id === "") return await callTool({ tool: found.tool, args: fields }, signal);
    const named = await taskNamed(id, callTool, signal);
    return named.kind === "id"
      ? await callTool({ tool: found.tool, args: found.args(named.id, fields) }, signal)
      : named;
  };
  return {
    get: (path, query, signal) => route("GET", path, withFlags(query), signal),
    post: (path, body, signal) => route("POST", path, body, signal),
    async [Symbol.asyncDispose]() {
      await (await connected?.catch(() => null))?.close();
    },
  };
}

const named = (taskId: string, fields: Fields): Fields => ({ ...fields, taskId });

/** Which route of `/api` is which tool. */
const ROUTES: readonly {
  readonly on: "GET" | "POST";
  /** Its group is the id. */
  readonly pattern: RegExp;
  readonly tool: string;
  readonly args: (id: string, fields: Fields) => Fields;
}[] = [
  { on: "POST", pattern: /^\/api\/tasks$/, tool: "delegate_task", args: named },
  { on: "GET", pattern: /^\/api\/tasks$/, tool: "task_list", args: named },
  { on: "POST", pattern: /^\/api\/wait$/, tool: "task_wait", args: named },
  { on: "GET", pattern: /^\/api\/tasks\/([^/]+)$/, tool: "task_status", args: named },
  { on: "POST", pattern: /^\/api\/tasks\/([^/]+)\/continue$/, tool: "task_continue", args: named },
  { on: "POST", pattern: /^\/api\/tasks\/([^/]+)\/cancel$/, tool: "task_cancel", args: named },
  { on: "POST", pattern: /^\/api\/tasks\/([^/]+)\/ack$/, tool: "task_ack", args: named },
  { on: "GET", pattern: /^\/api\/threads\/([^/]+)$/, tool: "thread_read", args: threadArguments },
  { on: "GET", pattern: /^\/api\/agents$/, tool: "list_agents", args: named },
];

function threadArguments(id: string, fields: Fields): Fields {
  return parseId(id).kind === "thread" ? { ...fields, childThreadId: id } : { ...fields, taskId: id };
}

/** The id that a text names in full or by its beginning, among the tasks that this child has delegated. */
async function taskNamed(
  text: string,
  callTool: CallTool,
  signal: AbortSignal | undefined,
): Promise<{ readonly kind: "id"; readonly id: string } | Reply> {
  const prefix = parseId(text).kind === "foreign" ? taskIdPrefixOf(text) : null;
  if (prefix === null) return { kind: "id", id: text };
  const found: NonNullable<Answer["tasks"]> = [];
  let cursor: string | undefined;
  for (let page = 0; page < PAGES_MAX; page += 1) {
    const args = { limit: PAGE_TASKS, ...(cursor === undefined ? {} : { cursor }) };
    const listed = await callTool({ tool: "task_list", args }, signal);
    if (listed.kind === "failure" || listed.answer.error !== undefined) return listed;
    found.push(...(listed.answer.tasks ?? []).filter(({ taskId }) => taskId?.startsWith(prefix) === true));
    cursor = listed.answer.nextCursor;
    if (cursor === undefined) break;
  }
  const [only, ...others] = found;
  if (only?.taskId === undefined) return { kind: "id", id: text };
  if (others.length === 0) return { kind: "id", id: only.taskId };
  const say = `${found.length} tasks begin so.`;
  return { kind: "answer", answer: { say, tasks: found.slice(0, MATCHES_SHOWN) } };
}

type Connection = {
  call(call: Call, signal: AbortSignal | undefined): Promise<unknown>;
  close(): Promise<void>;
};

async function connect({ mcpUrl, token }: ChildAddress, version: string): Promise<Connection> {
  const client = new Client({ name: "delegate-mcp-cli", version });
  // No reconnection: a call whose answer was lost is repeated by who made it, with its key.
  const transport = new StreamableHTTPClientTransport(new URL(mcpUrl), {
    requestInit: { headers: { authorization: `Bearer ${token}`, "x-request-timeout-ms": String(BEARS_MS) } },
    reconnectionOptions: {
      maxRetries: 0,
      initialReconnectionDelay: 1,
      maxReconnectionDelay: 1,
      reconnectionDelayGrowFactor: 1,
    },
  });
  await client.connect(transport, { timeout: CONNECT_MS });
  return {
    async call({ tool, args }, signal) {
      const broken = new AbortController();
      client.onerror = (error) => broken.abort(error);
      const either = AbortSignal.any(signal === undefined ? [broken.signal] : [broken.signal, signal]);
      const options = { timeout: BEARS_MS, signal: either };
      return (await client.callTool({ name: tool, arguments: { ...args } }, undefined, options)).structuredContent;
    },
    close: () => client.close(),
  };
}

function answered(structured: unknown): Reply {
  const answer = answerSchema.safeParse(structured);
  if (answer.success) return { kind: "answer", answer: answer.data };
  return {
    kind: "failure",
    code: "not_a_daemon",
    exitCode: EXIT.unreachable,
    what: "What answers at DELEGATE_CHILD_URL is not delegate-mcp.",
    why: "Its answer is none of ours.",
    fix: null,
  };
}

/** A refusal of HTTP on `/mcp`, as far as the client library hands it on. */
const refusalSchema = z.looseObject({
  error: z.looseObject({
    message: z.string(),
    data: z.looseObject({ code: z.string(), next: z.looseObject({ change: z.string().optional() }).optional() }),
  }),
});

function failureOf(error: unknown, mcpUrl: string): Failure {
  const status = error instanceof StreamableHTTPError ? (error.code ?? 0) : 0;
  if (!(error instanceof Error) || status < 400) return unreachable({ base: mcpUrl }, causeOf(error));
  const refusal = refusalSchema.safeParse(jsonOf(error.message.slice(error.message.indexOf("{"))));
  const { message, data } = refusal.success ? refusal.data.error : { message: `HTTP ${status}`, data: undefined };
  const code = data?.code ?? "refused";
  return {
    kind: "failure",
    code,
    exitCode: exitCodeOfHttp(status, code),
    what: `${message}.`,
    why: status === 401 ? "The credential of a child holds for as long as its task runs." : null,
    fix: data?.next?.change ?? null,
    cause: error,
  };
}

/** `fetch` wraps what really happened. */
function causeOf(error: unknown): unknown {
  return error instanceof Error && error.cause instanceof Error ? error.cause : error;
}

function notForChild(path: string): Failure {
  return {
    kind: "failure",
    code: "child",
    exitCode: EXIT.auth,
    what: `This is a delegated child: ${path} is not for it.`,
    why: null,
    fix: null,
  };
}

/** `open=1` is how the query of a URL writes it. */
function withFlags(query: Readonly<Record<string, string>>): Fields {
  return Object.fromEntries(
    Object.entries(query).map(([name, value]) => [name, name === "open" || name === "unread" ? value === "1" : value]),
  );
}
