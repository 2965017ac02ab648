/**
 * `logs`: what a child was told, said and did, page by page to the end, and on as it happens.
 *
 * Invariant: nothing is printed twice and nothing left out: the cursor says where the reading stands, and the parts of the last
 * page that were printed are known by their places.
 */

import type { Reply } from "./api-client.ts";
import { isSettled, needsAnswer } from "./answer.ts";
import { type Command, refuse, resolveTask, withDaemon } from "./command.ts";
import { EXIT } from "./exit-codes.ts";
import { type Failure, fail, note } from "./failure.ts";
import { taken } from "./io.ts";
import { callPatiently } from "./patient-call.ts";
import { type Part, partsOf, printParts, type View } from "./thread-page.ts";
import { onInterrupt } from "./wait.ts";
import { createWakeUps } from "./wake-ups.ts";

export type LogsOptions = { readonly follow?: boolean; readonly view?: View; readonly find?: string };

/** Longest time between two looks while following: not all that a child says is a change of its task. */
const LOOK_MS = 2_000;

export async function logs(command: Command, named: string, options: LogsOptions): Promise<number> {
  const { view = "messages" } = options;
  if (options.follow === true && view !== "messages" && view !== "events")
    return fail(command.io, command.options, usage("--follow goes with the views messages and events."));
  using interruption = onInterrupt(command);
  const { signal } = interruption;
  return await withDaemon(command, async (api) => {
    const task = await resolveTask(api, named);
    if (task.kind === "failure") return fail(command.io, command.options, task);
    if (task.kind === "refused") return refuse(command, task.answer);
    const reading = createReading(command, { ...options, view, taskId: task.taskId }, signal);
    return options.follow === true
      ? await follow(command, task.taskId, reading, signal)
      : finish(command, await reading.toTheEnd(), !reading.hasPrinted());
  });
}

/** The last page, or why there is none. */
type Read = Reply | { readonly kind: "interrupted" };

type Reading = {
  /** Prints what has not been printed yet. */
  toTheEnd(): Promise<Read>;
  hasPrinted(): boolean;
};

type Asked = LogsOptions & { readonly taskId: string; readonly view: View };

function createReading(command: Command, asked: Asked, signal: AbortSignal): Reading {
  const { taskId, view, find } = asked;
  let cursor: string | null = null;
  /** Places on the page at `cursor` that have been printed. */
  let printed: ReadonlySet<string> = new Set();
  let some = false;

  const ask = (): Promise<Reply> => {
    const query = { view, ...(find === undefined ? {} : { find }), ...(cursor === null ? {} : { cursor }) };
    const path = `/api/threads/${encodeURIComponent(taskId)}`;
    return callPatiently(command, (api) => api.get(path, query, signal), { signal, deadlineMs: Infinity });
  };

  return {
    hasPrinted: () => some,
    async toTheEnd() {
      for (;;) {
        const reply = await ask();
        if (signal.aborted) return { kind: "interrupted" };
        if (reply.kind === "failure" || reply.answer.error !== undefined) return reply;
        const places = placesOf(partsOf(reply.answer));
        const fresh = [...places].filter(([place]) => !printed.has(place)).map(([, part]) => part);
        printParts(command, fresh, view, find !== undefined);
        some ||= fresh.length > 0;
        await taken(command.io.stdout, signal);
        const { nextCursor } = reply.answer;
        if (nextCursor === undefined || command.io.stdout.isClosed) {
          printed = new Set(places.keys());
          return reply;
        }
        cursor = nextCursor;
        printed = new Set();
      }
    },
  };
}

/** Parts by their places on a page; the same place may come more than once where `find` finds more than one in it. */
function placesOf(parts: readonly Part[]): ReadonlyMap<string, Part> {
  const times = new Map<string, number>();
  return new Map(
    parts.map((part) => {
      const place = `${part.who ?? ""}:${part.at ?? ""}`;
      const time = (times.get(place) ?? 0) + 1;
      times.set(place, time);
      return [`${place}:${time}`, part] as const;
    }),
  );
}

async function follow(command: Command, taskId: string, reading: Reading, signal: AbortSignal): Promise<number> {
  await using wakeUps = createWakeUps(command, taskId);
  let isTold = false;
  for (let wasSettled = false; ; ) {
    const read = await reading.toTheEnd();
    if (read.kind !== "answer" || read.answer.error !== undefined || wasSettled || command.io.stdout.isClosed)
      return finish(command, read, !reading.hasPrinted());
    const { answer } = read;
    if (needsAnswer(answer) && !isTold)
      note(command.io, command.options, `It asks something: delegate-mcp show ${taskId}`);
    isTold = needsAnswer(answer);
    // What was written between the page and the end is read once more.
    wasSettled = isSettled(answer);
    if (!wasSettled) await wakeUps.next(LOOK_MS, signal);
  }
}

function finish(command: Command, read: Read, isEmpty: boolean): number {
  const { io, options } = command;
  if (read.kind === "interrupted") return fail(io, options, INTERRUPTED);
  if (read.kind === "failure") return fail(io, options, read);
  const { answer } = read;
  if (answer.error !== undefined) return refuse(command, answer);
  if (isEmpty) note(io, options, answer.say);
  return EXIT.ok;
}

const INTERRUPTED: Failure = {
  kind: "failure",
  code: "interrupted",
  exitCode: EXIT.interrupted,
  what: "Interrupted. The task is not touched by that.",
  why: null,
  fix: null,
};

function usage(what: string): Failure {
  return {
    kind: "failure",
    code: "usage",
    exitCode: EXIT.usage,
    what,
    why: null,
    fix: "See: delegate-mcp logs --help",
  };
}
