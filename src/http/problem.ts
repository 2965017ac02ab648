/**
 * Every refusal that HTTP itself makes, as a table: status, code, what is wrong, and what to do next (P1).
 *
 * On `/mcp` a problem is written as a JSON-RPC error (`error.data.next`), everywhere else as `{error, next, requestId}`.
 *
 * Invariant: no refusal leaves without `next`, and none shows a token, a query string or a path of this machine.
 */

import type { FastifyReply, FastifyRequest } from "fastify";

export type Problem = {
  readonly status: number;
  readonly code: string;
  readonly message: string;
  readonly next: ProblemNext;
  readonly headers?: Readonly<Record<string, string>>;
};

/** The same words as `next` of a tool answer; `change` says in a sentence what to alter in the last request. */
export type ProblemNext = {
  readonly kind: "fix" | "repeat_same_call" | "ask_user";
  readonly change?: string;
};

/** Where JSON-RPC is spoken. */
const MCP_PATH = "/mcp";

const RPC_PARSE_ERROR = -32700;
const RPC_INTERNAL_ERROR = -32603;

/** Answers a request with a problem. */
export function sendProblem(request: FastifyRequest, reply: FastifyReply, problem: Problem): FastifyReply {
  const requestId = request.id;
  const { code, message, next } = problem;
  const body = isMcp(request)
    ? {
        jsonrpc: "2.0",
        id: rpcIdOf(request.body),
        error: { code: rpcCode(problem), message, data: { code, next, requestId } },
      }
    : { error: { code, message }, next, requestId };
  return reply
    .code(problem.status)
    .headers({ ...problem.headers, "x-request-id": requestId })
    .type("application/json")
    .send(JSON.stringify(body));
}

/** What leaves on a socket whose bytes are no HTTP request: there is no route yet, so no JSON-RPC form either. */
export function rawProblem(problem: Problem): string {
  const body = JSON.stringify({ error: { code: problem.code, message: problem.message }, next: problem.next });
  const length = Buffer.byteLength(body);
  return (
    `HTTP/1.1 ${problem.status} ${problem.code}\r\nContent-Type: application/json\r\nContent-Length: ${length}\r\n` +
    `Connection: close\r\n\r\n${body}`
  );
}

export const HOST_REFUSED: Problem = {
  status: 403,
  code: "host_not_allowed",
  message: "This Host is not on the allow-list",
  next: fix("Call 127.0.0.1 or localhost, or have the operator add the host name to server.allowedHosts."),
};

export const ORIGIN_REFUSED: Problem = {
  status: 403,
  code: "origin_not_allowed",
  message: "This Origin is not on the allow-list",
  next: fix("Call from a loopback page, or have the operator add the origin to server.allowedOrigins."),
};

export const TOKEN_IN_URL: Problem = {
  status: 400,
  code: "token_in_url",
  message: "The URL carries a token; URLs end up in logs, so it is not accepted there",
  next: fix(
    "Remove it from the URL, send it as header Authorization: Bearer, and replace the token: it may have leaked.",
  ),
};

export const BAD_JSON: Problem = {
  status: 400,
  code: "bad_json",
  message: "The body is not valid JSON",
  next: fix("Send valid JSON with Content-Type: application/json."),
};

export const BAD_REQUEST: Problem = {
  status: 400,
  code: "bad_request",
  message: "The request is not well-formed",
  next: fix("Check method, path, headers and body against the documentation."),
};

export const NOT_FOUND: Problem = {
  status: 404,
  code: "not_found",
  message: "There is nothing at this path",
  next: fix("MCP clients use POST /mcp."),
};

export const MEDIA_TYPE: Problem = {
  status: 415,
  code: "media_type",
  message: "This content type is not accepted",
  next: fix("Send Content-Type: application/json."),
};

export const INTERNAL: Problem = {
  status: 500,
  code: "internal",
  message: "Internal error",
  next: { kind: "repeat_same_call" },
};

export const HEADERS_TOO_LARGE: Problem = {
  status: 431,
  code: "headers_too_large",
  message: "The request headers are too large",
  next: fix("Send fewer or shorter headers."),
};

export const REQUEST_TIMEOUT: Problem = {
  status: 408,
  code: "request_timeout",
  message: "The request did not arrive in time",
  next: { kind: "repeat_same_call" },
};

export function bodyTooLarge(bytesMax: number): Problem {
  return {
    status: 413,
    code: "body_too_large",
    message: `The body is larger than ${bytesMax} bytes`,
    next: fix("Put long material into a file and name its path instead."),
    // What is left of the body is not read, so the connection cannot be used again.
    headers: { connection: "close" },
  };
}

export function methodNotAllowed(allow: readonly string[]): Problem {
  return {
    status: 405,
    code: "method_not_allowed",
    message: "This path does not take this method",
    next: fix(`Use ${allow.join(" or ")}.`),
    headers: { allow: allow.join(", ") },
  };
}

export function fix(change: string): ProblemNext {
  return { kind: "fix", change };
}

function isMcp(request: FastifyRequest): boolean {
  return request.url === MCP_PATH || request.url.startsWith(`${MCP_PATH}?`);
}

/** A status of HTTP is a code of our own: everything from -32768 to -32000 belongs to the specifications. */
function rpcCode(problem: Problem): number {
  if (problem.code === BAD_JSON.code) return RPC_PARSE_ERROR;
  return problem.status >= 500 ? RPC_INTERNAL_ERROR : problem.status;
}

function rpcIdOf(body: unknown): string | number | null {
  if (typeof body !== "object" || body === null || !("id" in body)) return null;
  return typeof body.id === "string" || typeof body.id === "number" ? body.id : null;
}
