/**
 * What a command may touch of the process that runs it.
 *
 * Invariant: standard output carries data only; everything said to a person goes to standard error.
 */

import { text } from "node:stream/consumers";
import { setTimeout as delay } from "node:timers/promises";

export type Output = {
  write(text: string): unknown;
  readonly isTTY: boolean;
  /** Characters a line holds on a terminal. */
  readonly columns: number;
  /** Bytes written that the reader has not taken yet. */
  readonly writableLength: number;
  /** True once the reader has gone: what is written then is lost. */
  readonly isClosed: boolean;
};

export type Signal = "SIGINT" | "SIGTERM" | "SIGHUP";

export type Io = {
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly cwd: string;
  readonly stdout: Output;
  readonly stderr: Output;
  /** All of standard input, as text. */
  readStdin(): Promise<string>;
  /** Calls back on each of these signals, instead of their default, until disposed. */
  onSignals(signals: readonly Signal[], handle: (signal: Signal) => void): Disposable;
  /** Ends the process at once. */
  exitNow(code: number): never;
  /** Starts this very command again in place of this process, with another environment. */
  restart(env: Readonly<Record<string, string>>): never;
};

export function processIo(): Io {
  return {
    env: process.env,
    cwd: process.cwd(),
    stdout: outputOf(process.stdout),
    stderr: outputOf(process.stderr),
    readStdin: () => text(process.stdin),
    onSignals(signals, handle) {
      for (const signal of signals) process.on(signal, handle);
      return {
        [Symbol.dispose]: () => {
          for (const signal of signals) process.off(signal, handle);
        },
      };
    },
    exitNow: (code) => process.exit(code),
    restart(env) {
      if (process.execve === undefined) throw new Error("this platform cannot replace a process");
      return process.execve(process.execPath, [process.execPath, ...process.execArgv, ...process.argv.slice(1)], env);
    },
  };
}

function outputOf(stream: NodeJS.WriteStream): Output {
  return {
    write: (text) => stream.write(text),
    isTTY: stream.isTTY ?? false,
    get columns() {
      return stream.columns ?? 80;
    },
    get writableLength() {
      return stream.writableLength;
    },
    get isClosed() {
      return stream.destroyed;
    },
  };
}

const BACKLOG_BYTES_MAX = 1024 * 1024;
const LOOK_MS = 10;

/** Waits until the reader has taken most of what was written, has gone, or `signal` aborts. */
export async function taken(output: Output, signal: AbortSignal): Promise<void> {
  while (output.writableLength > BACKLOG_BYTES_MAX && !output.isClosed && !signal.aborted)
    await delay(LOOK_MS, undefined, { signal }).catch(() => undefined);
}
