/**
 * Who sends a request: reads the bearer token, asks the injected `authenticate`, and says in a 401 what is probably wrong.
 *
 * Comparing tokens (in constant time) is the business of whoever implements `authenticate`; this file never holds one
 * longer than a request.
 *
 * Invariant: a token is read from the Authorization header only; one in the URL is refused with 400 and never logged.
 * Invariant: a child's credential is good for `/mcp` alone (P18).
 */

import type { Socket } from "node:net";
import type { FastifyRequest, onRequestHookHandler } from "fastify";
import { assert } from "../core/assert.ts";
import type { Caller, Scope } from "../core/caller.ts";
import { fix, type Problem, sendProblem } from "./problem.ts";

declare module "fastify" {
  interface FastifyContextConfig {
    /** `open`: no token is asked for (health, the static page). */
    readonly access?: "open";
    /** `off`: any Host may ask (liveness probes of orchestrators). */
    readonly hostCheck?: "off";
  }
}

/** The other end of a connection, the same object for each of its requests; on loopback its process can be looked up. */
export type Peer = {
  readonly remoteAddress: string | undefined;
  readonly remotePort: number | undefined;
  readonly localPort: number | undefined;
};

/** `child_ended`: a child whose attempt is over. */
export type AuthProblem = { readonly problem: "missing" | "unknown" | "revoked" | "child_ended" };

/** Finds the caller behind a token (null: none was sent). Compares in constant time, never throws. */
export type Authenticate = (token: string | null, peer: Peer) => Caller | AuthProblem | Promise<Caller | AuthProblem>;

const DECORATOR = "caller";
const TOKEN_CHARACTERS_MAX = 4_096;
const BEARER = /^Bearer +(\S+) *$/i;
/** `${TOKEN}`, `$TOKEN`, `{{token}}`, `%TOKEN%`, `<token>`: a variable that the client was expected to fill in. */
const UNFILLED = /^(\$\{.*\}|\$[A-Za-z_]\w*|\{\{.*\}\}|\{env:.*\}|%\w+%|<.*>)$/;
const TOKEN_PARAMETER = /[?&](access_?token|auth_?token|token|bearer|authorization|api_?key)=/i;

/** To be called on the app before routes are added. */
export const CALLER_DECORATOR: readonly [string, null] = [DECORATOR, null];

/** The authenticated caller of a request. Only for routes that are not open. */
export function callerOf(request: FastifyRequest): Caller {
  const caller = request.getDecorator<Caller | null>(DECORATOR);
  assert(caller !== null, "a route that reads the caller is authenticated");
  return caller;
}

export function hasTokenInUrl(url: string): boolean {
  return url.includes("?") && TOKEN_PARAMETER.test(url);
}

/** Authenticates every request except open routes and paths that do not exist. */
export function createAuthHook(authenticate: Authenticate): onRequestHookHandler {
  return (request, reply, done) => {
    if (request.routeOptions.config.access === "open" || request.is404) return done();
    const token = tokenOf(request.headers.authorization);
    const settle = (found: Caller | AuthProblem): void => {
      if ("problem" in found) return void sendProblem(request, reply, refusal(found.problem, request, token));
      request.setDecorator<Caller>(DECORATOR, found);
      done();
    };
    const found = authenticate(token, peerOf(request));
    if (found instanceof Promise) found.then(settle).catch((fault: unknown) => done(errorOf(fault)));
    else settle(found);
  };
}

/** Lets only people's and callers' tokens with this scope pass, and marks what comes by this surface as a person's. */
export function createPersonHook(): onRequestHookHandler {
  return (request, reply, done) => {
    if (request.routeOptions.config.access === "open" || request.is404) return done();
    const caller = callerOf(request);
    if (caller.kind === "child") return void sendProblem(request, reply, CHILD_REFUSED);
    request.setDecorator<Caller>(DECORATOR, { ...caller, kind: "person" });
    done();
  };
}

/** Whether the token of a request that was let in still holds: for answers that go on for long. */
export async function isStillKnown(request: FastifyRequest, authenticate: Authenticate): Promise<boolean> {
  return !("problem" in (await authenticate(tokenOf(request.headers.authorization), peerOf(request))));
}

/** For routes that need a scope: `admin` includes the others, `delegate` includes `read`. */
export function requireScope(scope: Scope): onRequestHookHandler {
  return (request, reply, done) => {
    if (hasScope(callerOf(request), scope)) done();
    else void sendProblem(request, reply, scopeMissing(scope));
  };
}

export function hasScope(caller: Caller, scope: Scope): boolean {
  if (caller.scopes.includes("admin") || caller.scopes.includes(scope)) return true;
  return scope === "read" && caller.scopes.includes("delegate");
}

function tokenOf(header: string | undefined): string | null {
  if (header === undefined || header.length > TOKEN_CHARACTERS_MAX) return null;
  return BEARER.exec(header)?.[1] ?? null;
}

const PEERS = new WeakMap<Socket, Peer>();

function peerOf({ socket }: FastifyRequest): Peer {
  const known = PEERS.get(socket);
  if (known !== undefined) return known;
  const { remoteAddress, remotePort, localPort } = socket;
  const peer = { remoteAddress, remotePort, localPort };
  PEERS.set(socket, peer);
  return peer;
}

function refusal(problem: AuthProblem["problem"], request: FastifyRequest, token: string | null): Problem {
  if (problem === "child_ended") {
    return unauthorized(
      "child_ended",
      "This is a delegated child whose run is over",
      "Nothing more can be done from it; its result is kept for whoever delegated it.",
    );
  }
  const header = request.headers.authorization;
  if (header !== undefined && header !== "" && token === null) {
    return unauthorized(
      "token_malformed",
      "The Authorization header is not of the form: Bearer TOKEN",
      "Send header Authorization: Bearer TOKEN, with the token from the data directory or from: delegate-mcp token add NAME",
    );
  }
  if (token === null) {
    return unauthorized(
      "token_missing",
      "No token was sent",
      "Send header Authorization: Bearer TOKEN, with the token from the data directory or from: delegate-mcp token add NAME",
    );
  }
  if (UNFILLED.test(token)) {
    return unauthorized(
      "token_is_placeholder",
      "The token is the literal name of a variable: the client did not fill it in",
      "Set that variable in the environment of the client, or write the token itself into its configuration.",
    );
  }
  return problem === "revoked"
    ? unauthorized("token_revoked", "This token was revoked", "Make a new one: delegate-mcp token add NAME")
    : unauthorized(
        "token_unknown",
        "This token is not known here: it was revoked, mistyped, or belongs to another data directory",
        "Compare it with the token file of the running daemon, or make a new one: delegate-mcp token add NAME",
      );
}

/** RFC 6750: without a token the challenge names no error. */
function unauthorized(code: string, message: string, change: string): Problem {
  const error = code === "token_missing" ? "" : `, error="invalid_token", error_description="${message}"`;
  const challenge = `Bearer realm="delegate-mcp"${error}`;
  return { status: 401, code, message, next: { kind: "ask_user", change }, headers: { "www-authenticate": challenge } };
}

function scopeMissing(scope: Scope): Problem {
  return {
    status: 403,
    code: "not_allowed",
    message: `This token lacks the scope ${scope}`,
    next: { kind: "ask_user", change: `Use a token with that scope: delegate-mcp token add NAME --scope ${scope}` },
    headers: { "www-authenticate": `Bearer realm="delegate-mcp", error="insufficient_scope", scope="${scope}"` },
  };
}

const CHILD_REFUSED: Problem = {
  status: 403,
  code: "not_allowed",
  message: "A delegated child may not use this interface",
  next: fix("Use the tools at /mcp."),
};

function errorOf(fault: unknown): Error {
  return fault instanceof Error ? fault : new Error(String(fault));
}
