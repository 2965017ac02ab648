/**
 * The talk with an agent: NDJSON over its pipes, read by our own bounded line reader, JSON-RPC by the protocol's SDK.
 *
 * Invariant: updates are handed on one by one, in order and before the answer that follows them, and the next line is read
 * only when the last one was taken: a slow store slows the agent down.
 * Invariant: nothing that an agent writes throws, stops the reading of what follows (but for a line past the limit), or
 * reaches the daemon's own output: lines that are no JSON-RPC are left out and noted once.
 * Invariant: every call ends: with its answer, or as lost when the agent is gone, or late.
 */

import type { RpcError } from "../rpc-evidence.ts";
import {
  type AgentRequestMethod,
  type AgentRequestParamsByMethod,
  type AnyMessage,
  client,
  methods,
  RequestError,
  type RequestPermissionResponse,
} from "@agentclientprotocol/sdk";
import type { Child } from "../../ports/children.ts";
import type { Clock } from "../../ports/clock.ts";
import { after } from "../after.ts";
import { type Loss, lossOf } from "../agent-loss.ts";
import { readLines } from "../line-reader.ts";
import { chunksUntilAborted } from "../read-output.ts";
import { untilQuiet } from "../until-quiet.ts";
import { type Fields, fieldsIn, isFields, textIn } from "../fields.ts";

export type AcpConnection = {
  call<Method extends AgentRequestMethod>(
    method: Method,
    params: AgentRequestParamsByMethod[Method],
    withinMs?: number,
  ): Promise<Answer>;
  /** Tells the agent to give up the turn. */
  cancel(sessionId: string): Promise<void>;
  /** Why nothing more will come. Rejects only for `onUpdate` and `onGarbage`. */
  readonly loss: Promise<Loss>;
  /** Reads no more; resolves when nothing is handed on any longer. */
  close(): Promise<void>;
};

export type Answer =
  | { readonly kind: "result"; readonly result: Fields }
  | { readonly kind: "error"; readonly error: RpcError }
  | { readonly kind: "late" }
  | { readonly kind: "lost" };

export type AcpListener = {
  /** The parameters of a `session/update`. */
  onUpdate(params: Fields): Promise<void>;
  /** Any other sign of life. */
  onLife(): Promise<void>;
  onPermission(params: Fields): Promise<RequestPermissionResponse>;
  /** The first line that is no JSON-RPC. */
  onGarbage(line: string): Promise<void>;
};

/** Requests of the agent that have no answer yet; while there are more, nothing is read. */
const OPEN_REQUESTS_MAX = 64;

export function openAcpConnection(child: Child, clock: Clock, listener: AcpListener): AcpConnection {
  const reading = new AbortController();
  const traffic = createTraffic();
  let lastByteMs = clock.monotonicMs();
  const incoming = openIncoming();
  const writable = new WritableStream<AnyMessage>({
    async write(message) {
      traffic.sent(message);
      await child.write(lineOf(message));
      traffic.answered(message);
    },
  });
  const sdk = client({ name: "delegate-mcp" })
    .onRequest(methods.client.session.requestPermission, fieldsIn, ({ params }) => listener.onPermission(params))
    .connect({ readable: incoming.readable, writable });

  async function* watched(): AsyncGenerator<Uint8Array, void> {
    for await (const chunk of chunksUntilAborted(child.stdout, reading.signal)) {
      lastByteMs = clock.monotonicMs();
      yield chunk;
    }
  }
  const pumped = pump({ lines: readLines(watched()), listener, traffic, forward: incoming.push });
  const gone = child.ended.then(() => untilQuiet(clock, () => lastByteMs)).then(() => "closed" as const);
  const loss = Promise.race([pumped, gone])
    .then((why) => (why === "line_too_long" ? { kind: why } : lossOf(child, clock)))
    // What had come is still answered; then the SDK finds its stream at its end and gives up every open call.
    .finally(() => incoming.end());
  loss.catch(() => undefined);

  return {
    async call(method, params, withinMs) {
      const answer = answerOf(sdk.agent.request(method, params));
      return withinMs === undefined ? answer : Promise.race([answer, after(clock, withinMs, LATE)]);
    },
    cancel: (sessionId) => sdk.agent.notify(methods.agent.session.cancel, { sessionId }).catch(() => undefined),
    loss,
    async close() {
      reading.abort();
      sdk.close();
      traffic.close();
      await pumped.catch(() => undefined);
    },
  };
}

const LATE: Answer = { kind: "late" };

async function answerOf(request: Promise<unknown>): Promise<Answer> {
  try {
    return { kind: "result", result: fieldsIn(await request) };
  } catch (error) {
    if (!(error instanceof RequestError)) return { kind: "lost" };
    return { kind: "error", error: { code: error.code, message: error.message, data: error.data } };
  }
}

/** Reads to the end, or to a line past the limit. */
async function pump(pipe: {
  readonly lines: AsyncIterable<{ readonly text: string; readonly cut: boolean }>;
  readonly listener: AcpListener;
  readonly traffic: Traffic;
  readonly forward: (message: AnyMessage) => void;
}): Promise<"closed" | "line_too_long"> {
  const { lines, listener, traffic, forward } = pipe;
  let garbage = false;
  for await (const { text, cut } of lines) {
    if (cut) return "line_too_long";
    const message = parse(text);
    if (message === null) {
      if (!garbage && text.trim() !== "") await listener.onGarbage(text);
      garbage ||= text.trim() !== "";
    } else if (message.kind === "notification") {
      if (message.method === methods.client.session.update) await listener.onUpdate(message.params);
      else await listener.onLife();
    } else if (message.kind === "request") {
      await listener.onLife();
      await traffic.room();
      traffic.asked();
      forward(message.raw);
    } else if (traffic.expects(message.id)) {
      forward(message.raw);
    }
  }
  return "closed";
}

/** Some agents' line readers end a line at these, too. */
const LINE_ENDS = /[\u0085\u2028\u2029]/g;

function lineOf(message: AnyMessage): string {
  const escaped = (end: string): string => `\\u${end.charCodeAt(0).toString(16).padStart(4, "0")}`;
  return `${JSON.stringify(message).replace(LINE_ENDS, escaped)}\n`;
}

type Incoming =
  | { readonly kind: "notification"; readonly method: string; readonly params: Fields }
  | { readonly kind: "request"; readonly raw: AnyMessage }
  | { readonly kind: "response"; readonly id: unknown; readonly raw: AnyMessage };

/** Null if it is no JSON-RPC message. */
function parse(line: string): Incoming | null {
  let message: unknown;
  try {
    message = JSON.parse(line);
  } catch {
    return null;
  }
  if (!isFields(message) || message["jsonrpc"] !== "2.0") return null;
  const method = textIn(message["method"]);
  const { id } = message;
  if (method !== null && id === undefined) {
    return { kind: "notification", method, params: fieldsIn(message["params"]) };
  }
  if (typeof id !== "string" && typeof id !== "number") return null;
  if (method !== null) return { kind: "request", raw: { jsonrpc: "2.0", id, method, params: message["params"] } };
  if (isFields(message["error"]))
    return { kind: "response", id, raw: { jsonrpc: "2.0", id, error: errorIn(message["error"]) } };
  if (!("result" in message)) return null;
  return { kind: "response", id, raw: { jsonrpc: "2.0", id, result: message["result"] } };
}

function errorIn({ code, message, data }: Fields): RpcError {
  return {
    code: typeof code === "number" && Number.isInteger(code) ? code : -32_603,
    message: textIn(message) ?? "",
    data,
  };
}

type Traffic = {
  sent(message: AnyMessage): void;
  /** The message has been written. */
  answered(message: AnyMessage): void;
  /** True once for every call that is open. */
  expects(id: unknown): boolean;
  asked(): void;
  /** Resolves when one more request of the agent may be taken. */
  room(): Promise<void>;
  close(): void;
};

function createTraffic(): Traffic {
  const calls = new Set<unknown>();
  let open = 0;
  let closed = false;
  let room = Promise.withResolvers<void>();
  const hasRoom = (): boolean => closed || open < OPEN_REQUESTS_MAX;
  const stir = (): void => {
    room.resolve();
    room = Promise.withResolvers<void>();
  };
  return {
    sent(message) {
      if ("method" in message && "id" in message) calls.add(message.id);
    },
    answered(message) {
      if ("method" in message) return;
      open -= 1;
      stir();
    },
    expects: (id) => calls.delete(id),
    asked() {
      open += 1;
    },
    async room() {
      while (!hasRoom()) await room.promise;
    },
    close() {
      closed = true;
      stir();
    },
  };
}

type IncomingMessages = {
  readonly readable: ReadableStream<AnyMessage>;
  push(message: AnyMessage): void;
  end(): void;
};

function openIncoming(): IncomingMessages {
  let controller: ReadableStreamDefaultController<AnyMessage> | null = null;
  const readable = new ReadableStream<AnyMessage>({
    start(given) {
      controller = given;
    },
    cancel() {
      controller = null;
    },
  });
  return {
    readable,
    push: (message) => controller?.enqueue(message),
    end() {
      controller?.close();
      controller = null;
    },
  };
}
