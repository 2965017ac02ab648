/**
 * What leaves when something is thrown before or inside a route: one problem with a next step, whoever threw.
 *
 * Invariant: the text of an unexpected error is logged and never sent.
 */

import type { Socket } from "node:net";
import type { FastifyError, FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import type { Log } from "../ports/log.ts";
import {
  BAD_JSON,
  BAD_REQUEST,
  bodyTooLarge,
  HEADERS_TOO_LARGE,
  INTERNAL,
  MEDIA_TYPE,
  methodNotAllowed,
  NOT_FOUND,
  type Problem,
  REQUEST_TIMEOUT,
  rawProblem,
  sendProblem,
} from "./problem.ts";

const METHODS = ["GET", "POST", "PUT", "PATCH", "DELETE"] as const;

export function createErrorHandler(log: Log, bodyMaxBytes: number) {
  return (error: FastifyError, request: FastifyRequest, reply: FastifyReply): void => {
    const problem = problemOf(error, bodyMaxBytes);
    if (problem.status >= 500) {
      const route = request.routeOptions.url ?? null;
      log.error("request_failed", { requestId: request.id, method: request.method, route, message: error.message });
    }
    void sendProblem(request, reply, problem);
  };
}

/** Unknown path: 404; known path, other method: 405 with the methods that it takes. */
export function createNotFoundHandler(app: FastifyInstance) {
  return (request: FastifyRequest, reply: FastifyReply): void => {
    const url = request.url.split("?", 1)[0] ?? "/";
    const allowed = METHODS.filter((method) => app.hasRoute({ url, method }));
    void sendProblem(request, reply, allowed.length === 0 ? NOT_FOUND : methodNotAllowed(allowed));
  };
}

/** Bytes that are no HTTP request. */
export function answerClientError(error: NodeJS.ErrnoException, socket: Socket): void {
  if (error.code === "ECONNRESET" || !socket.writable) {
    socket.destroy();
    return;
  }
  socket.end(rawProblem(clientProblemOf(error.code)));
}

function clientProblemOf(code: string | undefined): Problem {
  if (code === "HPE_HEADER_OVERFLOW") return HEADERS_TOO_LARGE;
  return code === "ERR_HTTP_REQUEST_TIMEOUT" ? REQUEST_TIMEOUT : BAD_REQUEST;
}

function problemOf(error: FastifyError, bodyMaxBytes: number): Problem {
  switch (error.code) {
    case "FST_ERR_CTP_BODY_TOO_LARGE":
      return bodyTooLarge(bodyMaxBytes);
    case "FST_ERR_CTP_INVALID_MEDIA_TYPE":
      return MEDIA_TYPE;
    case "FST_ERR_CTP_INVALID_JSON_BODY":
    case "FST_ERR_CTP_EMPTY_JSON_BODY":
      return BAD_JSON;
    default:
  }
  if (error instanceof SyntaxError) return BAD_JSON;
  const status = error.statusCode ?? 500;
  return status >= 400 && status < 500 ? { ...BAD_REQUEST, status } : INTERNAL;
}
