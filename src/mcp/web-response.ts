/**
 * From the SDK's world to the socket: a web request made of a Fastify one, and a web response written to its reply.
 *
 * Invariant: the first bytes of a stream leave when it opens, not when its first event comes (P8).
 */

import type { FastifyReply, FastifyRequest } from "fastify";
import { echoableId, errorText, isRecord, isRpcId, withNext } from "./json-rpc.ts";
import { COMMENT } from "./stream.ts";

const READ_BY_THE_SDK = ["content-type", "accept", "mcp-protocol-version", "mcp-method", "mcp-name"];

/** Only the headers that the SDK reads; the body travels beside it, already parsed. */
export function webRequestOf(request: FastifyRequest, signal: AbortSignal): Request {
  const headers = new Headers();
  for (const name of READ_BY_THE_SDK) {
    const value = request.headers[name];
    if (typeof value === "string") headers.set(name, value);
  }
  return new Request("http://localhost/mcp", { method: "POST", headers, signal });
}

/** Writes a response; `body` is the request it answers. */
export async function writeWebResponse(response: Response, body: unknown, reply: FastifyReply): Promise<FastifyReply> {
  const isStream = response.headers.get("content-type")?.startsWith("text/event-stream") === true;
  return isStream ? pump(response, reply) : sendWhole(response, body, reply);
}

async function pump(response: Response, reply: FastifyReply): Promise<FastifyReply> {
  reply.hijack();
  const { raw } = reply;
  raw.writeHead(response.status, Object.fromEntries(response.headers));
  raw.write(COMMENT);
  const reader = response.body?.getReader();
  raw.once("close", () => void reader?.cancel().catch(() => undefined));
  for (let chunk = await reader?.read(); chunk?.done === false; chunk = await reader?.read()) {
    if (!raw.destroyed && !raw.write(chunk.value)) await drained(raw);
  }
  if (!raw.destroyed) raw.end();
  return reply;
}

async function drained(raw: FastifyReply["raw"]): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  raw.once("drain", resolve);
  raw.once("close", resolve);
  await promise;
  raw.off("drain", resolve);
  raw.off("close", resolve);
}

async function sendWhole(response: Response, body: unknown, reply: FastifyReply): Promise<FastifyReply> {
  reply.code(response.status);
  const allow = response.headers.get("allow");
  if (allow !== null) reply.header("allow", allow);
  const text = await response.text();
  if (text === "") return reply.send();
  const mayBeError = !response.ok || text.includes('"error"');
  return reply.type("application/json").send(mayBeError ? explained(text, body) : text);
}

/** An error of the SDK, with what to do next; everything else unchanged. */
function explained(text: string, body: unknown): string {
  const message: unknown = JSON.parse(text);
  if (!isRecord(message) || !isRecord(message["error"])) return text;
  const id = message["id"];
  return errorText(isRpcId(id) ? id : echoableId(body), withNext(message["error"]));
}
