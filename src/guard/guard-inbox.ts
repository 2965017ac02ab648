/**
 * What the daemon hears from a guard, sorted to those who wait for it: children, and requests by their numbers.
 *
 * Invariant: after `lose` every child has ended and every request is answered; nobody waits for a guard that is gone.
 */

import type { StopReport } from "../core/command.ts";
import type { SpawnResult } from "../ports/children.ts";
import { decodePayload } from "./guard-codec.ts";
import { FRAME, type Frame, PROTOCOL_VERSION } from "./guard-protocol.ts";
import { createPending, type Pending } from "./pending.ts";
import { createRemoteChild, type RemoteChild } from "./remote-child.ts";

export type GuardInbox = {
  /** True: the guard speaks this version. */
  readonly hello: Pending<boolean>;
  readonly spawns: Pending<SpawnResult>;
  /** Null: it could not report. */
  readonly stops: Pending<StopReport | null>;
  readonly releases: Pending<void>;
  accept(frame: Frame): void;
  lose(): void;
};

const GUARD_GONE: SpawnResult = { kind: "failed", code: "GUARD_GONE", message: "the guard process is gone" };

export function createGuardInbox(send: (type: number, channel: number, payload: Buffer) => void): GuardInbox {
  const children = new Map<number, RemoteChild>();
  const hello = createPending(false);
  const spawns = createPending<SpawnResult>(GUARD_GONE);
  const stops = createPending<StopReport | null>(null);
  const releases = createPending<void>(undefined);

  const startChild = (number: number, payload: Buffer): void => {
    const remote = createRemoteChild(decodePayload("started", payload), (type, bytes) => send(type, number, bytes));
    children.set(number, remote);
    spawns.settle(number, { kind: "started", child: remote.child });
  };
  const accept = (frame: Frame): void => {
    const { type, channel: number, payload } = frame;
    switch (type) {
      case FRAME.heard:
        return;
      case FRAME.hello:
        return hello.settle(number, decodePayload("hello", payload).protocol === PROTOCOL_VERSION);
      case FRAME.started:
        return startChild(number, payload);
      case FRAME.spawnFailed:
        return spawns.settle(number, { kind: "failed", ...decodePayload("spawnFailed", payload) });
      case FRAME.stopped:
        return stops.settle(number, decodePayload("stopped", payload));
      case FRAME.released:
        return releases.settle(number, undefined);
      default:
        if (children.get(number)?.accept(frame) === true) children.delete(number);
    }
  };
  const lose = (): void => {
    for (const child of children.values()) child.lose();
    children.clear();
    for (const pending of [hello, spawns, stops, releases]) pending.loseAll();
  };
  return { hello, spawns, stops, releases, accept, lose };
}
