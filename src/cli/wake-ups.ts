/**
 * When to look at a task again: after a change that the daemon tells of, or after a while.
 *
 * Invariant: a wake-up is a hint. Whether anything is new is found out by looking, so a broken stream of events only makes
 * the looks less timely.
 */

import { setTimeout as delay } from "node:timers/promises";
import { z } from "zod";
import { createApiClient } from "./api-client.ts";
import type { Command } from "./command.ts";
import { findDaemon } from "./find-daemon.ts";

export type WakeUps = AsyncDisposable & {
  /** Resolves after a change of the task since the last call, after `maxMs`, or when `signal` aborts. */
  next(maxMs: number, signal: AbortSignal): Promise<void>;
};

const BETWEEN_TRIES_MS = 5_000;
/** More than this without the end of an event is no stream of ours. */
const EVENT_CHARACTERS_MAX = 64 * 1024;

/** Follows the events of the daemon; a delegated child has none, so it only looks now and then. */
export function createWakeUps(command: Command, taskId: string): WakeUps {
  const over = new AbortController();
  let woken = false;
  let wake: (() => void) | null = null;
  const onChange = (): void => {
    woken = true;
    wake?.();
  };
  const following = follow(command, taskId, onChange, over.signal);
  return {
    async next(maxMs, signal) {
      if (!woken) {
        const first = new AbortController();
        wake = () => first.abort();
        await delay(maxMs, undefined, { signal: AbortSignal.any([first.signal, signal]) }).catch(() => undefined);
        wake = null;
      }
      woken = false;
    },
    async [Symbol.asyncDispose]() {
      over.abort();
      await following;
    },
  };
}

async function follow(command: Command, taskId: string, onChange: () => void, signal: AbortSignal): Promise<void> {
  while (!signal.aborted) {
    await followOnce(command, taskId, onChange, signal);
    await delay(BETWEEN_TRIES_MS, undefined, { signal }).catch(() => undefined);
  }
}

async function followOnce(command: Command, taskId: string, onChange: () => void, signal: AbortSignal): Promise<void> {
  const address = findDaemon(command.io, command.options);
  if (address.kind === "failure") return;
  await using api = await createApiClient(address, command.version);
  const opened = await api.stream("/api/events", signal);
  if (opened.kind !== "stream") return;
  // What changed before the stream was open is found by a look.
  onChange();
  try {
    for await (const event of eventsOf(opened.chunks)) if (isAbout(event, taskId)) onChange();
  } catch {
    // A broken stream is followed anew.
  }
}

/** The events of a stream, each without its empty line. */
async function* eventsOf(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<string> {
  const decoder = new TextDecoder();
  let rest = "";
  for await (const chunk of chunks) {
    const events = `${rest}${decoder.decode(chunk, { stream: true })}`.split("\n\n");
    rest = events.pop() ?? "";
    if (rest.length > EVENT_CHARACTERS_MAX) return;
    yield* events;
  }
}

const changeSchema = z.looseObject({ taskId: z.string() });

function isAbout(event: string, taskId: string): boolean {
  const data = /^data: (.*)$/m.exec(event)?.[1];
  if (data === undefined || !event.startsWith("event: change\n")) return false;
  try {
    return changeSchema.parse(JSON.parse(data)).taskId === taskId;
  } catch {
    return false;
  }
}
