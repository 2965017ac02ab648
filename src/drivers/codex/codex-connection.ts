/**
 * The talk with `codex app-server`: JSON-RPC messages without the version field, one a line, over its pipes.
 *
 * Invariant: notifications are handed on one by one, in order and before the answer that follows them, and the next line is
 * read only when the last one was taken: a slow store slows the agent down.
 * Invariant: nothing that the agent writes throws, stops the reading of what follows (but for a line past the limit), or
 * reaches the daemon's own output.
 * Invariant: every call ends: with its answer, or as lost when the agent is gone, or late.
 */

import type { RpcError } from "../rpc-evidence.ts";
import type { Child } from "../../ports/children.ts";
import type { Clock } from "../../ports/clock.ts";
import { type Fields, fieldsIn, isFields, numberIn, textIn } from "../fields.ts";
import { after } from "../after.ts";
import { type Loss, lossOf } from "../agent-loss.ts";
import { type Line, readLines } from "../line-reader.ts";
import { chunksUntilAborted } from "../read-output.ts";
import { untilQuiet } from "../until-quiet.ts";

export type CodexConnection = {
  call(method: string, params: Fields, withinMs: number): Promise<Answer>;
  notify(method: string): Promise<void>;
  /** Why nothing more will come. Rejects only for `onNotification` and `onGarbage`. */
  readonly loss: Promise<Loss>;
  /** Reads no more; resolves when nothing is handed on any longer. */
  close(): Promise<void>;
};

export type Answer =
  | { readonly kind: "result"; readonly result: Fields }
  | { readonly kind: "error"; readonly error: RpcError }
  | { readonly kind: "late" }
  | { readonly kind: "lost" };

/** What a request of the agent is answered; null: there is no such thing here. */
export type Reply = Fields | null;

export type CodexListener = {
  onNotification(method: string, params: Fields): Promise<void>;
  onRequest(method: string, params: Fields): Promise<Reply>;
  /** The first line that is no message. */
  onGarbage(line: string): Promise<void>;
};

/** Requests of the agent that have no answer yet; while there are more, nothing is read. */
const OPEN_REQUESTS_MAX = 64;
const NO_METHOD = -32_601;
const INTERNAL = -32_603;
/** Some line readers end a line at these, too. */
const LINE_ENDS = /[\u0085\u2028\u2029]/g;

export function openCodexConnection(child: Child, clock: Clock, listener: CodexListener): CodexConnection {
  const reading = new AbortController();
  const calls = new Map<number, (answer: Answer) => void>();
  const requests = createOpenRequests();
  let lastId = 0;
  let over = false;
  let lastByteMs = clock.monotonicMs();

  const send = (message: Fields): Promise<void> => child.write(lineOf(message)).catch(() => undefined);
  const giveUp = (): void => {
    over = true;
    for (const settle of calls.values()) settle({ kind: "lost" });
    calls.clear();
    requests.close();
  };
  const reply = async (id: string | number, method: string, params: Fields): Promise<void> => {
    try {
      const result = await listener.onRequest(method, params);
      await send(result === null ? { id, error: noMethod(method) } : { id, result });
    } catch (error) {
      await send({ id, error: { code: INTERNAL, message: String(error) } });
    } finally {
      requests.answered();
    }
  };
  const take = async (message: Incoming): Promise<void> => {
    if (message.kind === "notification") return listener.onNotification(message.method, message.params);
    if (message.kind === "request") {
      await requests.room();
      requests.asked();
      if (!over) void reply(message.id, message.method, message.params);
      return;
    }
    calls.get(message.id)?.(message.answer);
    calls.delete(message.id);
  };
  async function* watched(): AsyncGenerator<Uint8Array, void> {
    for await (const chunk of chunksUntilAborted(child.stdout, reading.signal)) {
      lastByteMs = clock.monotonicMs();
      yield chunk;
    }
  }
  const pumped = pump(readLines(watched()), take, listener.onGarbage);
  // A background process of the agent may hold its output open.
  const gone = child.ended.then(() => untilQuiet(clock, () => lastByteMs)).then(() => "closed" as const);
  const loss = Promise.race([pumped, gone])
    .then((why) => (why === "line_too_long" ? { kind: why } : lossOf(child, clock)))
    .finally(giveUp);
  loss.catch(() => undefined);

  return {
    async call(method, params, withinMs) {
      if (over) return { kind: "lost" };
      lastId += 1;
      const id = lastId;
      const { promise, resolve } = Promise.withResolvers<Answer>();
      calls.set(id, resolve);
      await Promise.race([send({ id, method, params }), promise]);
      return Promise.race([promise, after<Answer>(clock, withinMs, { kind: "late" })]);
    },
    notify: (method) => send({ method }),
    loss,
    async close() {
      reading.abort();
      giveUp();
      await pumped.catch(() => undefined);
    },
  };
}

/** Reads to the end, or to a line past the limit. */
async function pump(
  lines: AsyncIterable<Line>,
  take: (message: Incoming) => Promise<void>,
  onGarbage: CodexListener["onGarbage"],
): Promise<"closed" | "line_too_long"> {
  let garbage = false;
  for await (const { text, cut } of lines) {
    if (cut) return "line_too_long";
    if (text.trim() === "") continue;
    const message = parse(text);
    if (message !== null) await take(message);
    else if (!garbage) await onGarbage(text);
    garbage ||= message === null;
  }
  return "closed";
}

type Incoming =
  | { readonly kind: "notification"; readonly method: string; readonly params: Fields }
  | { readonly kind: "request"; readonly id: string | number; readonly method: string; readonly params: Fields }
  | { readonly kind: "answer"; readonly id: number; readonly answer: Answer };

/** Null if it is no message. */
function parse(line: string): Incoming | null {
  let message: unknown;
  try {
    message = JSON.parse(line);
  } catch {
    return null;
  }
  if (!isFields(message)) return null;
  const { id } = message;
  const method = textIn(message["method"]);
  const params = fieldsIn(message["params"]);
  if (method !== null && id === undefined) return { kind: "notification", method, params };
  if (typeof id !== "string" && typeof id !== "number") return null;
  if (method !== null) return { kind: "request", id, method, params };
  // All of ours are numbers.
  if (typeof id !== "number") return null;
  if (isFields(message["error"]))
    return { kind: "answer", id, answer: { kind: "error", error: errorIn(message["error"]) } };
  if (!("result" in message)) return null;
  return { kind: "answer", id, answer: { kind: "result", result: fieldsIn(message["result"]) } };
}

function errorIn({ code, message, data }: Fields): RpcError {
  return { code: numberIn(code) ?? INTERNAL, message: textIn(message) ?? "", data };
}

function noMethod(method: string): Fields {
  return { code: NO_METHOD, message: `not offered here: ${method}` };
}

function lineOf(message: Fields): string {
  const escaped = (end: string): string => `\\u${end.charCodeAt(0).toString(16).padStart(4, "0")}`;
  return `${JSON.stringify(message).replace(LINE_ENDS, escaped)}\n`;
}

type OpenRequests = {
  asked(): void;
  answered(): void;
  /** Resolves when one more may be taken. */
  room(): Promise<void>;
  close(): void;
};

function createOpenRequests(): OpenRequests {
  let open = 0;
  let closed = false;
  let stirred = Promise.withResolvers<void>();
  const hasRoom = (): boolean => closed || open < OPEN_REQUESTS_MAX;
  const stir = (): void => {
    stirred.resolve();
    stirred = Promise.withResolvers<void>();
  };
  return {
    asked() {
      open += 1;
    },
    answered() {
      open -= 1;
      stir();
    },
    async room() {
      while (!hasRoom()) await stirred.promise;
    },
    close() {
      closed = true;
      stir();
    },
  };
}
