/**
 * `export`: everything that is kept of a task, a JSON object a line, to standard output or into a file.
 *
 * Invariant: an export without its last line is a failure, and leaves no file behind.
 * Invariant: a file is its owner's alone, and none that exists is replaced.
 */

import { type FileHandle, open, rm } from "node:fs/promises";
import path from "node:path";
import { z } from "zod";
import type { PersonClient, Reply } from "./api-client.ts";
import { type Command, refuse, resolveTask, withPerson } from "./command.ts";
import { EXIT } from "./exit-codes.ts";
import { type Failure, fail, note } from "./failure.ts";
import { taken } from "./io.ts";
import { printJson } from "./print.ts";
import { onInterrupt } from "./wait.ts";

export type ExportOptions = { readonly out?: string };

export async function exportTask(command: Command, named: string, options: ExportOptions): Promise<number> {
  const { io, options: globals } = command;
  using interruption = onInterrupt(command);
  const { signal } = interruption;
  return await withPerson(command, "export", async (api) => {
    const task = await resolveTask(api, named);
    if (task.kind === "failure") return fail(io, globals, task);
    if (task.kind === "refused") return refuse(command, task.answer);
    if (options.out === undefined) {
      const written = await copy(api, task.taskId, signal, async (chunk) => {
        io.stdout.write(chunk);
        await taken(io.stdout, signal);
        return !io.stdout.isClosed;
      });
      return written.kind === "written" ? EXIT.ok : notWritten(command, written);
    }
    return await exportToFile(command, api, { taskId: task.taskId, file: path.resolve(io.cwd, options.out), signal });
  });
}

type ToFile = { readonly taskId: string; readonly file: string; readonly signal: AbortSignal };

async function exportToFile(command: Command, api: PersonClient, { taskId, file, signal }: ToFile): Promise<number> {
  const { io, options } = command;
  const opened = await openNew(file);
  if (!("handle" in opened)) return fail(io, options, opened);
  const { handle } = opened;
  try {
    const written = await copy(api, taskId, signal, async (chunk) => {
      await handle.write(chunk);
      return true;
    });
    if (written.kind !== "written") {
      await rm(file, { force: true });
      return notWritten(command, written);
    }
    await handle.sync();
    const { lines, bytes } = written;
    if (options.json === true) printJson(io.stdout, { file, lines, bytes });
    else io.stdout.write(`${file}\n`);
    note(io, options, `${lines} lines, ${bytes} bytes. It holds what the child and its callers wrote.`);
    return EXIT.ok;
  } catch (error) {
    await rm(file, { force: true });
    return fail(io, options, unwritable(file, error));
  } finally {
    await handle.close();
  }
}

type Copied =
  | { readonly kind: "written"; readonly lines: number; readonly bytes: number }
  | { readonly kind: "incomplete"; readonly cause: unknown }
  | { readonly kind: "interrupted" }
  | Reply;

/** Copies an export to `take`, which says whether it wants more. */
async function copy(
  api: PersonClient,
  taskId: string,
  signal: AbortSignal,
  take: (chunk: string) => Promise<boolean>,
): Promise<Copied> {
  const opened = await api.stream(`/api/tasks/${taskId}/export`, signal);
  if (signal.aborted) return { kind: "interrupted" };
  if (opened.kind !== "stream") return opened;
  const decoder = new TextDecoder();
  const counted = createCounter();
  const chunks = opened.chunks[Symbol.asyncIterator]();
  for (;;) {
    let chunk: IteratorResult<Uint8Array>;
    try {
      chunk = await chunks.next();
    } catch (error) {
      return signal.aborted ? { kind: "interrupted" } : { kind: "incomplete", cause: error };
    }
    if (chunk.done === true) break;
    const text = decoder.decode(chunk.value, { stream: true });
    counted.add(text, chunk.value.length);
    if (!(await take(text))) return { kind: "written", ...counted.sums() };
    if (signal.aborted) return { kind: "interrupted" };
  }
  return counted.isComplete() ? { kind: "written", ...counted.sums() } : { kind: "incomplete", cause: null };
}

type Counter = {
  add(text: string, bytes: number): void;
  sums(): { readonly lines: number; readonly bytes: number };
  isComplete(): boolean;
};

/** Only the last line is looked at, and it is short. */
const LAST_LINE_CHARACTERS_MAX = 4_096;
const endSchema = z.looseObject({ kind: z.literal("end") });

function createCounter(): Counter {
  let lines = 0;
  let bytes = 0;
  /** The end of what came: at least the last whole line, if that is short. */
  let tail = "";
  return {
    add(text, length) {
      lines += text.split("\n").length - 1;
      bytes += length;
      tail = `${tail}${text}`.slice(-LAST_LINE_CHARACTERS_MAX);
    },
    sums: () => ({ lines, bytes }),
    isComplete() {
      if (!tail.endsWith("\n")) return false;
      const last = tail.slice(0, -1);
      try {
        return endSchema.safeParse(JSON.parse(last.slice(last.lastIndexOf("\n") + 1))).success;
      } catch {
        return false;
      }
    },
  };
}

function notWritten(command: Command, copied: Exclude<Copied, { readonly kind: "written" }>): number {
  const { io, options } = command;
  switch (copied.kind) {
    case "failure":
      return fail(io, options, copied);
    case "answer":
      return refuse(command, copied.answer);
    case "interrupted":
      return fail(io, options, { ...INCOMPLETE, code: "interrupted", exitCode: EXIT.interrupted, why: null });
    case "incomplete":
      return fail(io, options, { ...INCOMPLETE, cause: copied.cause });
  }
}

const INCOMPLETE: Failure = {
  kind: "failure",
  code: "incomplete",
  exitCode: EXIT.unreachable,
  what: "The export is not complete.",
  why: "The daemon stopped before its last line.",
  fix: "Do not use what came; export it again.",
};

async function openNew(file: string): Promise<{ readonly handle: FileHandle } | Failure> {
  try {
    return { handle: await open(file, "wx", 0o600) };
  } catch (error) {
    return unwritable(file, error);
  }
}

function unwritable(file: string, error: unknown): Failure {
  const code = error instanceof Error && "code" in error ? String(error.code) : "error";
  const exists = code === "EEXIST";
  return {
    kind: "failure",
    code: exists ? "file_exists" : "file_unwritable",
    exitCode: exists ? EXIT.conflict : EXIT.usage,
    what: exists ? `${file} exists; nothing was written.` : `${file} cannot be written (${code}).`,
    why: null,
    fix: exists ? "Name another file." : "Name a file in a directory that you can write, on a disk with room.",
    cause: error,
  };
}
