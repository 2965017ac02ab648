/**
 * JSON-RPC messages as this server reads and writes them.
 *
 * Invariant: an error always says what to do next (`error.data.next`, P1), also where the SDK made it.
 * Codes: the five of JSON-RPC; a refusal of our own that has an HTTP status uses that number, because everything from
 * -32768 to -32000 belongs to the specifications.
 * Absent on purpose: schemas. A call is checked by hand, since this runs for every request.
 */

export type RpcId = string | number;

export type RpcRequest = {
  readonly jsonrpc: "2.0";
  readonly id: RpcId;
  readonly method: string;
  readonly params?: Readonly<Record<string, unknown>>;
};

export type RpcNotification = Omit<RpcRequest, "id">;

/** What the sender should do after an error; the same words as `next` of a tool answer. */
export type RpcNext = {
  readonly kind: "fix" | "repeat_same_call" | "ask_user";
  /** What to alter in the last request, as a sentence. */
  readonly change?: string;
};

export type RpcError = {
  readonly code: number;
  readonly message: string;
  readonly data: { readonly next: RpcNext | Readonly<Record<string, unknown>>; readonly [field: string]: unknown };
};

const PARSE_ERROR = -32700;
export const INVALID_REQUEST = -32600;
export const METHOD_NOT_FOUND = -32601;
export const INVALID_PARAMS = -32602;
export const INTERNAL_ERROR = -32603;

/** True for a well-formed request. Ids are strings or whole numbers; null is none. */
export function isRequest(value: unknown): value is RpcRequest {
  return isMessage(value) && isRpcId(value["id"]);
}

export function isNotification(value: unknown): value is RpcNotification {
  return isMessage(value) && !("id" in value);
}

/** True for an answer that a client posts to a request of the server. This server sends none. */
export function isResponse(value: unknown): boolean {
  return (
    isRecord(value) && value["jsonrpc"] === "2.0" && !("method" in value) && ("result" in value || "error" in value)
  );
}

export function isRpcId(value: unknown): value is RpcId {
  return typeof value === "string" || (typeof value === "number" && Number.isInteger(value));
}

export function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** The id that an error for this body may carry: the request's own, or null if there is not exactly one. */
export function echoableId(body: unknown): RpcId | null {
  if (!isRecord(body) || typeof body["method"] !== "string") return null;
  const id = body["id"];
  return isRpcId(id) ? id : null;
}

export function rpcError(
  code: number,
  message: string,
  next: RpcNext,
  data: Readonly<Record<string, unknown>> = {},
): RpcError {
  return { code, message, data: { ...data, next } };
}

/** Serialised answer; the result goes in as it is. */
export function resultText(id: RpcId, result: unknown): string {
  return `{"jsonrpc":"2.0","id":${JSON.stringify(id)},"result":${JSON.stringify(result)}}`;
}

export function errorText(id: RpcId | null, error: RpcError): string {
  return JSON.stringify({ jsonrpc: "2.0", id, error });
}

/** Adds what to do next to an error that was made elsewhere; an error that says so already stays as it is. */
export function withNext(error: Readonly<Record<string, unknown>>): RpcError {
  const code = typeof error["code"] === "number" ? error["code"] : INTERNAL_ERROR;
  const message = typeof error["message"] === "string" ? error["message"] : "Internal error";
  const data = isRecord(error["data"]) ? error["data"] : error["data"] === undefined ? {} : { detail: error["data"] };
  const next = isRecord(data["next"]) ? data["next"] : nextFor(code);
  return { code, message, data: { ...data, next } };
}

function nextFor(code: number): RpcNext {
  switch (code) {
    case PARSE_ERROR:
    case INVALID_REQUEST:
      return { kind: "fix", change: "Send one well-formed JSON-RPC 2.0 message as the body." };
    case METHOD_NOT_FOUND:
      return { kind: "fix", change: "Use initialize, ping, tools/list or tools/call." };
    case INVALID_PARAMS:
      return { kind: "fix", change: "Correct the parameters that the message names." };
    case INTERNAL_ERROR:
      return { kind: "repeat_same_call" };
    default:
      return { kind: "fix", change: "Follow the message; it names what does not fit." };
  }
}

function isMessage(value: unknown): value is Readonly<Record<string, unknown>> & { readonly method: string } {
  return (
    isRecord(value) &&
    value["jsonrpc"] === "2.0" &&
    typeof value["method"] === "string" &&
    (value["params"] === undefined || isRecord(value["params"]))
  );
}
