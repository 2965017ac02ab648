/**
 * Driver `model`: a model asked directly over HTTP, without tools, files or a process, for work that is reading and writing of
 * text alone.
 *
 * Invariant: success is explicit: the provider's own stop, and text. A stream that ends without one is a broken connection.
 * Invariant: the key goes to the operator's address alone: no redirect is followed, and plain http stays on this machine.
 * Invariant: memory and time are bounded whatever a server sends: lines, bodies, silences.
 * Absent on purpose: retries (the engine heals), sessions (the conversation is sent anew each time), and kept connections.
 */

import type { LookupFunction } from "node:net";
import type { Dispatcher } from "undici";
import type { FaultEvidence } from "../../core/failure.ts";
import type { AttemptOrder, Driver, DriverEnd, DriverEvent, DriverTools } from "../../ports/driver.ts";
import type { ModelEndpoint } from "../../ports/settings.ts";
import { createBoundedText } from "../bounded-text.ts";
import { createProgressGate } from "../progress-gate.ts";
import { readEventData } from "./event-data.ts";
import { createModelAnswer, type ModelAnswer } from "./model-answer.ts";
import { brokenEvidence, noStreamEvidence, type Refusal, refusalEvidence } from "./model-evidence.ts";
import { type ModelRequest, requestFor } from "./model-request.ts";

export type ModelDriverLimits = {
  /** Longest silence of a server, before its answer and within it. */
  readonly silenceMs: number;
  /** How long usage may take after the last word. */
  readonly restMs: number;
};

const LIMITS: ModelDriverLimits = { silenceMs: 300_000, restMs: 2_000 };
const CONNECT_MS_MAX = 30_000;
const REFUSAL_BYTES_MAX = 64 * 1024;

type Report = (event: DriverEvent) => Promise<void>;

/** `endpoints`: by agent. */
export function createModelDriver(endpoints: ReadonlyMap<string, ModelEndpoint>, limits = LIMITS): Driver {
  return {
    name: "model",
    onLoss: "rerun",
    async run(order, report, tools) {
      if (tools.signal.aborted) return;
      await report({ kind: "bound", process: null, nativeSessionId: null });
      const endpoint = endpoints.get(order.spec.agent);
      const { model } = order.spec;
      if (endpoint === undefined || model === null) return report(nowhereToAsk(order));
      const answer = createModelAnswer(endpoint.api, order.resultBytesMax);
      const request = requestFor(endpoint, model, order);
      const fault = await ask(request, answer, { report, tools, limits });
      if (tools.signal.aborted) return;
      const text = answer.text();
      if (text !== null) await report({ kind: "message", role: "child", text });
      if (tools.signal.aborted) return;
      // What whoever looks into a fault has to read.
      if (fault?.text !== undefined) await report({ kind: "message", role: "note", text: fault.text });
      if (tools.signal.aborted) return;
      const end = fault === null ? verdictOf(answer.stopReason(), text) : ({ end: "fault", fault } as const);
      await report({ kind: "end", text, sideEffects: false, usage: answer.usage(), ...end });
    },
  };
}

type Scene = { readonly report: Report; readonly tools: DriverTools; readonly limits: ModelDriverLimits };

/** Null if the provider has said its last word. */
async function ask(request: ModelRequest, answer: ModelAnswer, scene: Scene): Promise<FaultEvidence | null> {
  // Loaded when there is something to ask: most daemons start without.
  const { Agent, request: send } = await import("undici");
  const { tools, limits } = scene;
  const { silenceMs } = limits;
  const agent = new Agent({
    connect: { timeout: CONNECT_MS_MAX, ...(request.url.startsWith("http:") ? { lookup: lookUpLoopback } : {}) },
    headersTimeout: silenceMs,
    bodyTimeout: silenceMs,
  });
  try {
    const { url, body } = request;
    const headers = { ...request.headers };
    const response = await send(url, { method: "POST", dispatcher: agent, headers, body, signal: tools.signal });
    const contentType = String(response.headers["content-type"] ?? "");
    if (response.statusCode === 200 && /^text\/event-stream\b/i.test(contentType))
      return await readAnswer(response.body, answer, scene);
    const { statusCode: status } = response;
    const refusal: Refusal = { status, contentType, headers: response.headers, body: await bodyOf(response.body) };
    return status === 200 ? noStreamEvidence(refusal) : refusalEvidence(refusal, tools.clock.wallMs());
  } catch (error) {
    return brokenEvidence(error);
  } finally {
    agent.destroy().catch(() => undefined);
  }
}

/** Null if the answer is complete. */
async function readAnswer(
  body: Dispatcher.ResponseData["body"],
  answer: ModelAnswer,
  scene: Scene,
): Promise<FaultEvidence | null> {
  const { clock } = scene.tools;
  const progress = createProgressGate(clock, scene.report);
  let complete = false;
  const rest = new DisposableStack();
  using _rest = rest;
  try {
    for await (const event of readEventData(body)) {
      if (event.kind === "too_long")
        return { transport: true, text: "the provider sent more than the limit for lines and streams" };
      const taken = answer.take(event.text);
      if (taken.kind === "error") return complete ? null : taken.fault;
      await progress.note(0);
      if (taken.kind !== "complete") continue;
      if (!taken.rest) return null;
      // What comes now is usage. Its sender may forget to close.
      if (!complete) rest.use(clock.after(scene.limits.restMs, () => body.destroy()));
      complete = true;
    }
  } catch (error) {
    return complete ? null : brokenEvidence(error);
  } finally {
    if (!scene.tools.signal.aborted) await progress.flush();
  }
  return complete ? null : { transport: true, text: "the provider's stream ended without its end marker" };
}

/** The beginning of it, as much as came. */
async function bodyOf(body: Dispatcher.ResponseData["body"]): Promise<string> {
  const text = createBoundedText({ bytesMax: REFUSAL_BYTES_MAX, headBytes: REFUSAL_BYTES_MAX });
  try {
    for await (const chunk of body) {
      if (!(chunk instanceof Uint8Array)) continue;
      text.push(chunk.subarray(0, REFUSAL_BYTES_MAX - text.totalBytes()));
      if (text.totalBytes() >= REFUSAL_BYTES_MAX) break;
    }
  } catch {
    // The status has come; that counts.
  }
  return text.text();
}

function verdictOf(stopReason: string | null, text: string | null): DriverEnd {
  if (stopReason !== "stop") return { end: "fault", fault: { stopReason: stopReason ?? "none" } };
  return text === null ? { end: "fault", fault: { empty: true } } : { end: "success", evidence: "explicit" };
}

function nowhereToAsk({ spec }: AttemptOrder): DriverEvent {
  const text = `agent ${spec.agent} has no ${spec.model === null ? "model" : "address"} in the configuration`;
  const fault = { providerKind: "option_not_found", text };
  return { kind: "end", end: "fault", fault, text: null, sideEffects: false, usage: null };
}

/** Every name of a plain http address, which is `localhost`, is this machine. */
const lookUpLoopback: LookupFunction = (_hostname, { all }, callback) => {
  if (all !== true) return callback(null, "127.0.0.1", 4);
  callback(null, [
    { address: "127.0.0.1", family: 4 },
    { address: "::1", family: 6 },
  ]);
};
