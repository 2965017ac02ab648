/**
 * The talk with Pi in its mode `rpc`: JSON lines over its pipes, commands with ids one way, answers and events the other.
 *
 * Invariant: events are handed on one by one, in order, and the next line is read only when the last one was taken: a slow
 * store slows Pi down.
 * Invariant: nothing that Pi writes throws or stops the reading of what follows: lines that are no records are left out and
 * noted once; a line past the limit is a sign of life, and answers a command as cut.
 * Invariant: every call ends: with its answer, or as lost when Pi is gone, or late.
 */

import type { Child } from "../../ports/children.ts";
import type { Clock } from "../../ports/clock.ts";
import { type Fields, fieldsIn, isFields, textIn } from "../fields.ts";
import { type Loss, lossOf } from "../agent-loss.ts";
import { type Line, readLines } from "../line-reader.ts";
import { chunksUntilAborted } from "../read-output.ts";
import { untilQuiet } from "../until-quiet.ts";

export type PiConnection = {
  call(command: Fields, withinMs?: number): Promise<PiAnswer>;
  /** A record that has no answer. */
  send(record: Fields): Promise<void>;
  /** Why nothing more will come. Rejects only for the listener. */
  readonly loss: Promise<Loss>;
  /** Reads no more; resolves when nothing is handed on any longer. */
  close(): Promise<void>;
};

export type PiAnswer =
  | { readonly kind: "done"; readonly data: Fields }
  | { readonly kind: "refused"; readonly error: string }
  /** It was answered, at more length than can be read. */
  | { readonly kind: "cut" }
  | { readonly kind: "late" }
  | { readonly kind: "lost" };

export type PiListener = {
  onEvent(event: Fields): Promise<void>;
  /** A sign of life that cannot be read. */
  onLife(): Promise<void>;
  /** The first line that is no record. */
  onGarbage(line: string): Promise<void>;
};

const CUT_ANSWER = /^\{"id":"([^"]{1,40})","type":"response"/;

export function openPiConnection(child: Child, clock: Clock, listener: PiListener): PiConnection {
  const reading = new AbortController();
  const open = new Map<string, (answer: PiAnswer) => void>();
  let calls = 0;
  let gone = false;
  let lastByteMs = clock.monotonicMs();

  const answer = (id: string, given: PiAnswer): void => {
    open.get(id)?.(given);
    open.delete(id);
  };
  async function* watched(): AsyncGenerator<Uint8Array, void> {
    for await (const chunk of chunksUntilAborted(child.stdout, reading.signal)) {
      lastByteMs = clock.monotonicMs();
      yield chunk;
    }
  }
  async function pump(): Promise<void> {
    let garbage = false;
    for await (const line of readLines(watched())) {
      const record = recordIn(line);
      if (record !== null && record["type"] === "response") answer(textIn(record["id"]) ?? "", answerIn(record));
      else if (record !== null) await listener.onEvent(record);
      else if (line.cut) {
        answer(CUT_ANSWER.exec(line.text)?.[1] ?? "", { kind: "cut" });
        await listener.onLife();
      } else if (line.text.trim() !== "") {
        if (!garbage) await listener.onGarbage(line.text);
        garbage = true;
      }
    }
  }
  const pumped = pump();
  const ended = child.ended.then(() => untilQuiet(clock, () => lastByteMs));
  const loss = Promise.race([pumped, ended])
    .then(() => lossOf(child, clock))
    .finally(() => {
      gone = true;
      for (const id of open.keys()) answer(id, { kind: "lost" });
    });
  loss.catch(() => undefined);

  const write = (record: Fields): Promise<void> => child.write(`${JSON.stringify(record)}\n`).catch(() => undefined);
  return {
    async call(command, withinMs) {
      if (gone) return { kind: "lost" };
      calls += 1;
      const id = `c${calls}`;
      const { promise, resolve } = Promise.withResolvers<PiAnswer>();
      open.set(id, resolve);
      await write({ id, ...command });
      if (withinMs === undefined) return promise;
      using _timer = clock.after(withinMs, () => answer(id, { kind: "late" }));
      return await promise;
    },
    send: write,
    loss,
    async close() {
      reading.abort();
      await pumped.catch(() => undefined);
    },
  };
}

function recordIn({ text, cut }: Line): Fields | null {
  if (cut) return null;
  try {
    const record: unknown = JSON.parse(text);
    return isFields(record) && typeof record["type"] === "string" ? record : null;
  } catch {
    return null;
  }
}

function answerIn({ success, data, error }: Fields): PiAnswer {
  if (success === true) return { kind: "done", data: fieldsIn(data) };
  return { kind: "refused", error: textIn(error) ?? "no reason given" };
}
