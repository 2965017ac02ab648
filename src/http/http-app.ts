/**
 * The HTTP server: what happens to every request before a surface sees it, and the slots for the surfaces.
 *
 * Order: request id, Host and Origin, token in the URL, authentication, body limit, JSON. A surface is a Fastify plugin
 * handed over by the composition root; each gets a context of its own, so hooks of one never touch another.
 *
 * For the composition root: `mcp` takes the plugin of `createMcpPlugin`, whose `callerOf` is the one of `auth`; `people`
 * takes what people use (`/api`, `/metrics`, the page): children are refused there and callers count as persons.
 *
 * Invariant: no route except `/livez` is reached with a foreign Host or Origin.
 * Invariant: nothing here ever answers 503 to a request that was read, also while the server closes.
 */

import type { Socket } from "node:net";
import Fastify, { type FastifyInstance, type FastifyPluginAsync, type onRequestHookHandler } from "fastify";
import type { Log } from "../ports/log.ts";
import { type Authenticate, CALLER_DECORATOR, createAuthHook, createPersonHook, hasTokenInUrl } from "./auth.ts";
import { answerClientError, createErrorHandler, createNotFoundHandler } from "./error-handler.ts";
import { createHealthPlugin } from "./health.ts";
import { createHostOriginGuard, type HostOriginGuard, type HostOriginRules } from "./host-origin.ts";
import { BAD_REQUEST, HOST_REFUSED, ORIGIN_REFUSED, type Problem, sendProblem, TOKEN_IN_URL } from "./problem.ts";

export type HttpAppOptions = HostOriginRules & {
  readonly authenticate: Authenticate;
  readonly isReady: () => boolean;
  readonly mcp: FastifyPluginAsync;
  readonly people: readonly FastifyPluginAsync[];
  readonly log: Log;
  /** `server.bodyMaxBytes`. */
  readonly bodyMaxBytes?: number;
  /** `server.keepAliveMs`: how long an idle connection stays open. */
  readonly keepAliveMs?: number;
};

const BODY_BYTES_MAX = 4 * 1_024 * 1_024;
const KEEP_ALIVE_MS = 10_000;
/** A request has to arrive within this time; answers may take as long as they need. */
const RECEIVE_MS = 60_000;

/** A ready app that is not yet listening. */
export async function createHttpApp(options: HttpAppOptions): Promise<FastifyInstance> {
  const { log } = options;
  const bodyMaxBytes = options.bodyMaxBytes ?? BODY_BYTES_MAX;
  let requests = 0;
  const app = Fastify({
    logger: false,
    bodyLimit: bodyMaxBytes,
    keepAliveTimeout: options.keepAliveMs ?? KEEP_ALIVE_MS,
    requestTimeout: RECEIVE_MS,
    return503OnClosing: false,
    forceCloseConnections: "idle",
    requestIdHeader: false,
    genReqId: () => `r${((requests += 1)).toString(36)}`,
    clientErrorHandler: answerClientError,
    frameworkErrors: (_error, request, reply) => void sendProblem(request, reply, BAD_REQUEST),
    schemaController: { compilersFactory: { buildValidator: noCompiler, buildSerializer: noCompiler } },
  });
  app.removeContentTypeParser("text/plain");
  app.decorateRequest(...CALLER_DECORATOR);
  app.setErrorHandler(createErrorHandler(log, bodyMaxBytes));
  app.setNotFoundHandler(createNotFoundHandler(app));
  closeConnectionsOnceAnswered(app);
  app.addHook("onRequest", createDoor(createHostOriginGuard(options), log));
  app.addHook("onRequest", createAuthHook(options.authenticate));
  await app.register(createHealthPlugin(options.isReady));
  await app.register(options.mcp);
  await app.register(async (people) => {
    people.addHook("onRequest", createPersonHook());
    for (const plugin of options.people) await people.register(plugin);
  });
  await app.ready();
  return app;
}

/** No route has a schema. Without this, the libraries that compile them are loaded at every start. */
function noCompiler(): never {
  throw new Error("invariant broken: a route has a schema");
}

/**
 * Two kinds of connections would hold up the stop for as long as their clients keep them: those whose stream began before
 * the close (it promised to keep the connection alive), and those that were opened in advance and never used.
 */
function closeConnectionsOnceAnswered(app: FastifyInstance): void {
  const unused = new Set<Socket>();
  let closing = false;
  app.server.on("connection", (socket) => {
    unused.add(socket);
    socket.once("close", () => unused.delete(socket));
  });
  app.server.on("request", (request) => unused.delete(request.socket));
  app.addHook("preClose", async () => {
    closing = true;
    for (const socket of unused) socket.destroy();
  });
  app.addHook("onResponse", (request, _reply, done) => {
    if (closing) request.raw.socket.end();
    done();
  });
}

/** The first look at a request: nothing is read, nothing is started before it. */
function createDoor(guard: HostOriginGuard, log: Log): onRequestHookHandler {
  return (request, reply, done) => {
    const problem = refusalOf(request.headers, request.url, request.routeOptions.config.hostCheck === "off", guard);
    if (problem === null) return done();
    log.warn("request_refused", { requestId: request.id, method: request.method, reason: problem.code });
    void sendProblem(request, reply, problem);
  };
}

function refusalOf(
  headers: { readonly host?: string | undefined; readonly origin?: string | undefined },
  url: string,
  anyHost: boolean,
  guard: HostOriginGuard,
): Problem | null {
  if (!anyHost && !guard.allowsHost(headers.host)) return HOST_REFUSED;
  if (!anyHost && !guard.allowsOrigin(headers.origin)) return ORIGIN_REFUSED;
  return hasTokenInUrl(url) ? TOKEN_IN_URL : null;
}
