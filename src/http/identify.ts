/**
 * Who is at the other end: a delegated child by the mark of its process or by its own credential, else whoever the token names.
 *
 * Invariant: a marked process is its task's child whatever token it sends (P18): a token that it has found makes it no more.
 * Invariant: a child whose attempt is over is nobody: neither its credential nor its process opens anything.
 * Invariant: the process of a connection is looked up once; a connection cannot change hands unnoticed by more than what a
 * child gives away itself (see the security page).
 */

import type { Caller } from "../core/caller.ts";
import { type AttemptId, type Mark, parseMark } from "../core/ids.ts";
import type { ChildCredentials } from "../ports/credentials.ts";
import type { Peers } from "../ports/peers.ts";
import type { Authenticate, AuthProblem, Peer } from "./auth.ts";

export type IdentifyOptions = {
  /** Marks of other daemons are somebody else's business. */
  readonly daemonId: string;
  readonly byToken: (token: string | null) => Caller | AuthProblem;
  readonly peers: Peers;
  readonly credentials: Pick<ChildCredentials, "attemptOf">;
  /** The caller that an attempt's child is; null if the attempt is over. */
  readonly childOf: (attemptId: AttemptId) => Promise<Caller | null>;
};

export function createIdentify(options: IdentifyOptions): Authenticate {
  const { daemonId, byToken, peers, credentials } = options;
  const marks = new WeakMap<Peer, Promise<Mark | null>>();

  function markOf(peer: Peer): Promise<Mark | null> {
    const known = marks.get(peer);
    if (known !== undefined) return known;
    const mark = peers.markOf(peer);
    marks.set(peer, mark);
    return mark;
  }

  async function childOf(attemptId: AttemptId): Promise<Caller | AuthProblem> {
    return (await options.childOf(attemptId)) ?? { problem: "child_ended" };
  }

  return async (token, peer) => {
    const mark = await markOf(peer);
    const marked = mark === null ? null : parseMark(mark);
    if (marked?.daemonId === daemonId) return childOf(marked.attemptId);
    const attemptId = token === null ? null : credentials.attemptOf(token);
    return attemptId === null ? byToken(token) : childOf(attemptId);
  };
}
