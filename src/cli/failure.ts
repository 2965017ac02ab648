/**
 * What a command could not do: three lines for a person, one object for a program, one exit code for both.
 *
 * Absent on purpose: stack traces, unless `--debug` asks for them.
 */

import type { Io } from "./io.ts";
import { type Colors, colorsFor, line, printJson } from "./print.ts";

export type Failure = {
  readonly kind: "failure";
  /** A name for programs: `unreachable`, `unknown_task`. */
  readonly code: string;
  readonly exitCode: number;
  /** What happened. */
  readonly what: string;
  readonly why: string | null;
  /** What to do. */
  readonly fix: string | null;
  /** Further lines, where one reason is not enough: each mistake of a configuration. */
  readonly details?: readonly string[];
  /** The error behind it, for `--debug`. */
  readonly cause?: unknown;
};

/** Options that every command has. */
export type GlobalOptions = {
  readonly json?: boolean;
  readonly url?: string;
  readonly dataDir?: string;
  readonly config?: string;
  readonly debug?: boolean;
  /** False for `--no-color`. */
  readonly color?: boolean;
};

/** Says it, and returns the exit code. */
export function fail(io: Io, options: GlobalOptions, failure: Failure): number {
  const { code, exitCode, what, why, fix } = failure;
  if (options.json === true)
    printJson(io.stdout, { error: { code, exitCode, message: what, why, fix, details: failure.details } });
  const colors = colorsFor(io.stderr, io.env, options.color === false);
  for (const text of failureLines(failure, colors)) io.stderr.write(`${text}\n`);
  if (options.debug === true && failure.cause instanceof Error) io.stderr.write(`${failure.cause.stack}\n`);
  return exitCode;
}

function failureLines(failure: Failure, colors: Colors): readonly string[] {
  const { what, why, fix, details = [] } = failure;
  return [
    `${colors.red("error:")} ${line(what)}`,
    ...details.map((detail) => `  ${line(detail)}`),
    ...(why === null ? [] : [`${colors.dim("why:")}   ${line(why)}`]),
    ...(fix === null ? [] : [`${colors.dim("do:")}    ${line(fix)}`]),
  ];
}

/** Progress and notes for a person: nothing in JSON mode. */
export function note(io: Io, options: GlobalOptions, text: string): void {
  if (options.json !== true) io.stderr.write(`${line(text)}\n`);
}
