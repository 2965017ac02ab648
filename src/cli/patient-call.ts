/**
 * A call that outlives a restart of the daemon: it is made again, to whoever answers at the address then.
 *
 * Invariant: only for calls that may be repeated freely, such as reads and waits.
 */

import { setTimeout as delay } from "node:timers/promises";
import type { ApiClient, Reply } from "./api-client.ts";
import { type Command, openClient } from "./command.ts";
import { note } from "./failure.ts";

/** How long a daemon that has gone is looked for before the call gives up. */
const LOST_MAX_MS = 30_000;

export type Patience = { readonly signal: AbortSignal; readonly deadlineMs: number };

/** Asks the daemon, or its successor when it has gone meanwhile. Gives up after `LOST_MAX_MS`, or at the deadline. */
export async function callPatiently(
  command: Command,
  call: (api: ApiClient) => Promise<Reply>,
  { signal, deadlineMs }: Patience,
): Promise<Reply> {
  let giveUpMs: number | null = null;
  for (let pauseMs = 250; ; pauseMs = Math.min(2_000, pauseMs * 2)) {
    const reply = await callOnce(command, call);
    if (signal.aborted || !isLoss(reply)) return reply;
    const isFirst = giveUpMs === null;
    giveUpMs ??= Math.min(deadlineMs, Date.now() + LOST_MAX_MS);
    if (Date.now() >= giveUpMs) return reply;
    if (isFirst) note(command.io, command.options, "The daemon does not answer; the wait goes on when it is back.");
    await delay(pauseMs, undefined, { signal }).catch(() => undefined);
  }
}

async function callOnce(command: Command, call: (api: ApiClient) => Promise<Reply>): Promise<Reply> {
  const opened = await openClient(command);
  if (opened.kind === "failure") return opened;
  await using api = opened.api;
  return await call(api);
}

function isLoss(reply: Reply): boolean {
  if (reply.kind === "failure") return reply.code === "unreachable" || reply.code === "stopping";
  return reply.answer.error?.code === "stopping";
}
