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
import { isPrintedAsText, type Part, partsOf, printParts, type View } from "./thread-page.ts";
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
      : finish(command, await reading.toTheEnd(), reading.last(), options);
  });
}

/** The last page, or why there is none. */
type Read = Reply | { readonly kind: "interrupted" };

type Reading = {
  /** Prints what has not been printed yet. */
  toTheEnd(): Promise<Read>;
  /** The last part that was printed; null if there was none. */
  last(): Part | null;
};

type Asked = LogsOptions & { readonly taskId: string; readonly view: View };

function createReading(command: Command, asked: Asked, signal: AbortSignal): Reading {
  const { taskId, view, find } = asked;
  let cursor: string | null = null;
  /** Places that have been printed of the page at `cursor`, and of the page before it. */
  let printed: ReadonlySet<string> = new Set();
  let before: ReadonlySet<string> = new Set();
  let last: Part | null = null;
  /** A daemon that was never there is not waited for. */
  let wasReached = false;

  const ask = (): Promise<Reply> => {
    const deadlineMs = wasReached ? Number.POSITIVE_INFINITY : 0;
    const query = { view, ...(find === undefined ? {} : { find }), ...(cursor === null ? {} : { cursor }) };
    const path = `/api/threads/${encodeURIComponent(taskId)}`;
    return callPatiently(command, (api) => api.get(path, query, signal), { signal, deadlineMs });
  };

  return {
    last: () => last,
    async toTheEnd() {
      for (;;) {
        const reply = await ask();
        if (signal.aborted) return { kind: "interrupted" };
        if (reply.kind === "failure" || reply.answer.error !== undefined) return reply;
        wasReached = true;
        const parts = partsOf(reply.answer);
        const places = placesOf(parts);
        const fresh = [...places]
          .filter(([place]) => !printed.has(place) && !before.has(place))
          .map(([, part]) => part);
        printParts(command, fresh, asked);
        last = fresh.at(-1) ?? last;
        printed = new Set([...printed, ...places.keys()]);
        await taken(command.io.stdout, signal);
        const { nextCursor } = reply.answer;
        if (nextCursor === undefined || command.io.stdout.isClosed) return reply;
        cursor = nextCursor;
        before = withoutLast(printed, parts);
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
      const place = placeOf(part);
      const time = (times.get(place) ?? 0) + 1;
      times.set(place, time);
      return [`${place}${time}`, part] as const;
    }),
  );
}

/** Events and what a child said are numbered each for themselves; the time tells them apart. */
function placeOf(part: Part): string {
  return `${part.who ?? ""}:${part.at ?? ""}:${part.time ?? ""}:`;
}

/** What has been printed, but for the last part of a page: the next page may go on in the middle of it. */
function withoutLast(printed: ReadonlySet<string>, parts: readonly Part[]): ReadonlySet<string> {
  const last = parts.at(-1);
  if (last === undefined) return printed;
  return new Set([...printed].filter((place) => !place.startsWith(placeOf(last))));
}

async function follow(command: Command, taskId: string, reading: Reading, signal: AbortSignal): Promise<number> {
  await using wakeUps = createWakeUps(command, taskId);
  let isTold = false;
  for (let wasSettled = false; ; ) {
    const read = await reading.toTheEnd();
    if (read.kind !== "answer" || read.answer.error !== undefined || wasSettled || command.io.stdout.isClosed)
      return finish(command, read, reading.last(), {});
    const { answer } = read;
    if (needsAnswer(answer) && !isTold)
      note(command.io, command.options, `It asks something: delegate-mcp show ${taskId}`);
    isTold = needsAnswer(answer);
    // What was written between the page and the end is read once more.
    wasSettled = isSettled(answer);
    if (!wasSettled) await wakeUps.next(LOOK_MS, signal);
  }
}

function finish(command: Command, read: Read, last: Part | null, asked: LogsOptions): number {
  const { io, options } = command;
  if (read.kind === "interrupted") return fail(io, options, INTERRUPTED);
  if (read.kind === "failure") return fail(io, options, read);
  const { answer } = read;
  if (answer.error !== undefined) return refuse(command, answer);
  if (last === null) note(io, options, answer.say);
  else if (isPrintedAsText(command, asked) && !last.text.endsWith("\n")) io.stdout.write("\n");
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
