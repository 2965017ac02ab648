/**
 * What the wire knows about one HTTP request before it looks at the message: who asks, through which client, how long
 * that client waits, and whether it reads event streams.
 *
 * Invariant: client name and conversation are hints; they choose slices and displays, never permissions or keys.
 */

import { CLIENT_INFO_META_KEY } from "@modelcontextprotocol/server";
import type { FastifyRequest } from "fastify";
import type { Caller } from "../core/caller.ts";
import { timeLimitMs } from "./budget.ts";
import type { Era } from "./client-profile.ts";
import { isRecord } from "./json-rpc.ts";
import type { CallOwner } from "./open-calls.ts";
import { clientInfoOf, type Session } from "./session-id.ts";
import type { ClientInfo } from "./tool.ts";

export type Exchange = {
  readonly era: Era;
  /** The authenticated caller with its conversation hint; `kind` is `caller` unless it is a child. */
  readonly caller: Caller;
  readonly owner: CallOwner;
  readonly client: ClientInfo | null;
  /** The client's own limit for this request in ms. */
  readonly requestTimeoutMs: number | null;
  /** Header `X-Delegate-Cwd`. */
  readonly cwd: string | null;
  readonly acceptsStream: boolean;
};

const CWD_CHARACTERS_MAX = 4_096;
const CONVERSATION_CHARACTERS_MAX = 200;

export function exchangeOf(
  request: FastifyRequest,
  era: Era,
  authenticated: Caller,
  session: Session | null,
): Exchange {
  const meta = metaOf(request.body);
  const nonce = session?.nonce ?? null;
  const { headers } = request;
  return {
    era,
    caller: callerIn(authenticated, threadIdOf(meta) ?? nonce),
    owner: { caller: ownerOf(authenticated), nonce },
    client: era === "modern" ? clientInfoOf(meta?.[CLIENT_INFO_META_KEY]) : (session?.client ?? null),
    requestTimeoutMs: timeLimitMs(headers["x-request-timeout-ms"]) ?? queryLimitMs(request.query),
    cwd: cwdOf(headers["x-delegate-cwd"]),
    acceptsStream: headers.accept?.includes("text/event-stream") === true,
  };
}

/** A child is told apart by its task, not by a conversation. */
function callerIn(authenticated: Caller, conversation: string | null): Caller {
  if (authenticated.kind === "child") return authenticated;
  const { name, scopes } = authenticated;
  return { kind: "caller", name, scopes, conversation };
}

/** Whose calls these are: a child must not end or resume a call of its root caller, whose name it has. */
function ownerOf(caller: Caller): string {
  return caller.kind === "child" ? `${caller.name}/${caller.lineage.taskId}` : caller.name;
}

/** `_meta` of a single request; undefined where there is none. */
export function metaOf(body: unknown): Readonly<Record<string, unknown>> | undefined {
  if (!isRecord(body) || !isRecord(body["params"])) return undefined;
  const meta = body["params"]["_meta"];
  return isRecord(meta) ? meta : undefined;
}

/** Codex names its thread in every call. */
function threadIdOf(meta: Readonly<Record<string, unknown>> | undefined): string | null {
  const threadId = meta?.["threadId"];
  if (typeof threadId !== "string" || threadId === "" || threadId.length > CONVERSATION_CHARACTERS_MAX) return null;
  return threadId;
}

function queryLimitMs(query: unknown): number | null {
  return isRecord(query) ? timeLimitMs(query["requestTimeoutMs"]) : null;
}

/** Header bytes arrive as Latin-1; a path in UTF-8 is put together again. */
function cwdOf(header: string | readonly string[] | undefined): string | null {
  if (typeof header !== "string" || header === "" || header.length > CWD_CHARACTERS_MAX) return null;
  const utf8 = Buffer.from(header, "latin1").toString("utf8");
  return utf8.includes("\uFFFD") ? header : utf8;
}
