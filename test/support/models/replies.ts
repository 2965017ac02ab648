/**
 * One answer of the model in each of the four dialects, streamed or whole, with the faults that strike inside a stream.
 */

import type { IncomingMessage, ServerResponse } from "node:http";
import { setTimeout as sleep } from "node:timers/promises";
import type { Dialect } from "./conversation.ts";
import { type ModelFault, PARTIAL } from "./plan.ts";

export type ModelCall = {
  readonly name: string;
  readonly namespace?: string;
  readonly input: Readonly<Record<string, unknown>>;
};

export type ModelReply = {
  readonly req: IncomingMessage;
  readonly res: ServerResponse;
  readonly stream: boolean;
  readonly id: string;
  readonly model: string;
  /** A tool call, or null for a text. */
  readonly call: ModelCall | null;
  readonly text: string;
  readonly fault: ModelFault | null;
  readonly streamMs: number;
};

export function writeReply(dialect: Dialect, reply: ModelReply): Promise<void> {
  switch (dialect) {
    case "anthropic":
      return writeAnthropic(reply);
    case "responses":
      return writeResponses(reply);
    case "chat":
      return writeChat(reply);
    case "gemini":
      return writeGemini(reply);
  }
}

const HANG_SECONDS = 3_600;
const DRIP_MS = 200;
const TOKENS = { input_tokens: 100, output_tokens: 7 } as const;

async function writeAnthropic(reply: ModelReply): Promise<void> {
  const { call, res } = reply;
  const usage = { ...TOKENS, cache_creation_input_tokens: 0, cache_read_input_tokens: 0 };
  const block =
    call === null
      ? { type: "text", text: reply.text }
      : { type: "tool_use", id: `toolu_${reply.id}`, name: call.name, input: call.input };
  const stopReason = call === null ? "end_turn" : "tool_use";
  const base = { id: `msg_${reply.id}`, type: "message", role: "assistant", model: reply.model, stop_sequence: null };
  const headers = { "request-id": `req_${reply.id}` };
  if (!reply.stream) return whole(res, { ...base, content: [block], stop_reason: stopReason, usage }, headers);
  res.writeHead(200, { "content-type": "text/event-stream", ...headers });
  const send = (type: string, data: object): void => {
    res.write(`event: ${type}\ndata: ${JSON.stringify({ type, ...data })}\n\n`);
  };
  const open = (content: object): void => send("content_block_start", { index: 0, content_block: content });
  const delta = (text: string): void => send("content_block_delta", { index: 0, delta: { type: "text_delta", text } });
  send("message_start", {
    message: { ...base, content: [], stop_reason: null, usage: { ...usage, output_tokens: 1 } },
  });
  const broken = await breakOff(
    reply,
    () => {
      open({ type: "text", text: "" });
      delta(PARTIAL);
    },
    () => send("error", { error: { type: "overloaded_error", message: "Overloaded" } }),
  );
  if (broken) return;
  if (call === null) {
    open({ type: "text", text: "" });
    if (!(await drip(reply, delta))) return;
  } else {
    open(block);
    const json = { type: "input_json_delta", partial_json: JSON.stringify(call.input) };
    send("content_block_delta", { index: 0, delta: json });
  }
  send("content_block_stop", { index: 0 });
  send("message_delta", { delta: { stop_reason: stopReason, stop_sequence: null }, usage: { output_tokens: 7 } });
  send("message_stop", {});
  res.end();
}

async function writeResponses(reply: ModelReply): Promise<void> {
  const { call, res } = reply;
  const details = { input_tokens_details: { cached_tokens: 0 }, output_tokens_details: { reasoning_tokens: 0 } };
  const usage = { ...TOKENS, ...details, total_tokens: 107 };
  const itemId = call === null ? `msg_${reply.id}` : `fc_${reply.id}`;
  const item = call === null ? messageItem(itemId, reply.text) : callItem(itemId, reply.id, call);
  const response = (status: string, output: readonly object[], extra: object = {}): object => ({
    id: `resp_${reply.id}`,
    object: "response",
    status,
    model: reply.model,
    output,
    ...extra,
  });
  if (!reply.stream) return whole(res, response("completed", [item], { usage }));
  res.writeHead(200, { "content-type": "text/event-stream" });
  let sequence = 0;
  const send = (type: string, data: object): void => {
    const event = { type, sequence_number: sequence++, ...data };
    res.write(`event: ${type}\ndata: ${JSON.stringify(event)}\n\n`);
  };
  const open = (): void => {
    const started = { ...item, status: "in_progress", ...(call === null ? { content: [] } : {}) };
    send("response.output_item.added", { output_index: 0, item: started });
  };
  const delta = (text: string): void => {
    send("response.output_text.delta", { item_id: itemId, output_index: 0, content_index: 0, delta: text });
  };
  send("response.created", { response: response("in_progress", []) });
  const broken = await breakOff(
    reply,
    () => {
      if (call !== null) return;
      open();
      delta(PARTIAL);
    },
    () => {
      const error = { code: "server_is_overloaded", message: "Overloaded" };
      send("response.failed", { response: response("failed", [], { error }) });
    },
  );
  if (broken) return;
  open();
  if (call === null && !(await drip(reply, delta))) return;
  send("response.output_item.done", { output_index: 0, item });
  send("response.completed", { response: response("completed", [item], { usage }) });
  res.end();
}

function messageItem(id: string, text: string): object {
  const content = [{ type: "output_text", text, annotations: [] }];
  return { type: "message", id, role: "assistant", status: "completed", content };
}

function callItem(id: string, replyId: string, call: ModelCall): object {
  const namespace = call.namespace === undefined ? {} : { namespace: call.namespace };
  const args = JSON.stringify(call.input);
  return {
    type: "function_call",
    id,
    call_id: `call_${replyId}`,
    name: call.name,
    ...namespace,
    arguments: args,
    status: "completed",
  };
}

async function writeChat(reply: ModelReply): Promise<void> {
  const { call, res } = reply;
  const usage = { prompt_tokens: 100, completion_tokens: 7, total_tokens: 107 };
  const base = { id: `chatcmpl-${reply.id}`, created: 1, model: reply.model };
  const finish = call === null ? "stop" : "tool_calls";
  const calls =
    call === null
      ? null
      : [
          {
            id: `call_${reply.id}`,
            type: "function",
            function: { name: call.name, arguments: JSON.stringify(call.input) },
          },
        ];
  if (!reply.stream) {
    const message = {
      role: "assistant",
      content: reply.text || null,
      ...(calls === null ? {} : { tool_calls: calls }),
    };
    return whole(res, {
      ...base,
      object: "chat.completion",
      usage,
      choices: [{ index: 0, message, finish_reason: finish }],
    });
  }
  res.writeHead(200, { "content-type": "text/event-stream" });
  const send = (data: object): void => {
    res.write(`data: ${JSON.stringify({ ...base, object: "chat.completion.chunk", ...data })}\n\n`);
  };
  const delta = (change: object): void => send({ choices: [{ index: 0, delta: change, finish_reason: null }] });
  const broken = await breakOff(
    reply,
    () => delta({ role: "assistant", content: PARTIAL }),
    () => {
      const error = { message: "Overloaded", type: "server_error", code: 529 };
      res.write(`data: ${JSON.stringify({ error })}\n\n`);
    },
  );
  if (broken) return;
  if (calls === null) {
    delta({ role: "assistant", content: "" });
    if (!(await drip(reply, (content) => delta({ content })))) return;
  } else delta({ role: "assistant", tool_calls: calls.map((each, index) => ({ index, ...each })) });
  send({ choices: [{ index: 0, delta: {}, finish_reason: finish }] });
  send({ choices: [], usage });
  res.end("data: [DONE]\n\n");
}

async function writeGemini(reply: ModelReply): Promise<void> {
  const { call, res } = reply;
  const usageMetadata = { promptTokenCount: 100, candidatesTokenCount: 7, totalTokenCount: 107 };
  const part = call === null ? { text: reply.text } : { functionCall: { name: call.name, args: call.input } };
  const chunk = (parts: readonly object[], finishReason?: string): object => {
    const content = { parts, role: "model" };
    const candidate = { content, index: 0, ...(finishReason === undefined ? {} : { finishReason }) };
    return { candidates: [candidate], usageMetadata, modelVersion: reply.model };
  };
  if (!reply.stream) return whole(res, chunk([part], "STOP"));
  res.writeHead(200, { "content-type": "text/event-stream" });
  const send = (data: object): void => {
    res.write(`data: ${JSON.stringify(data)}\r\n\r\n`);
  };
  const broken = await breakOff(
    reply,
    () => send(chunk([{ text: PARTIAL }])),
    () => send({ error: { code: 503, message: "Overloaded", status: "UNAVAILABLE" } }),
  );
  if (broken) return;
  if (call === null) {
    if (!(await drip(reply, (text) => send(chunk([{ text }]))))) return;
    send(chunk([{ text: "" }], "STOP"));
  } else send(chunk([part], "STOP"));
  res.end();
}

async function whole(res: ServerResponse, body: object, headers: Readonly<Record<string, string>> = {}): Promise<void> {
  res.writeHead(200, { "content-type": "application/json", ...headers });
  res.end(JSON.stringify(body));
}

/** Sends the text in pieces; false if the reader has gone. */
async function drip(reply: ModelReply, send: (piece: string) => void): Promise<boolean> {
  const pieces = reply.text.match(/.{1,16}/gs) ?? [""];
  const ticks = Array.from({ length: Math.ceil(reply.streamMs / DRIP_MS) }, (_, tick) => `tick${tick} `);
  for (const piece of [...ticks, ...pieces]) {
    if (reply.res.destroyed) return false;
    send(piece);
    if (reply.streamMs > 0) await sleep(DRIP_MS);
  }
  return !reply.res.destroyed;
}

/** Faults that strike inside the stream. True if the answer is over. */
async function breakOff(reply: ModelReply, sendPartial: () => void, sendError: () => void): Promise<boolean> {
  const { fault, req, res } = reply;
  switch (fault?.kind) {
    case "reset-mid":
      sendPartial();
      await sleep(DRIP_MS);
      req.socket.resetAndDestroy();
      return true;
    case "hang-mid":
      sendPartial();
      await hang(res, fault);
      return true;
    case "error-mid":
      sendPartial();
      sendError();
      res.end();
      return true;
    default:
      return false;
  }
}

/** Says nothing until the time is over or the reader has gone. */
export async function hang(res: ServerResponse, fault: ModelFault): Promise<void> {
  const gone = new AbortController();
  res.once("close", () => gone.abort());
  await sleep((fault.seconds ?? HANG_SECONDS) * 1_000, undefined, { signal: gone.signal, ref: false }).catch(
    () => undefined,
  );
  res.destroy();
}
