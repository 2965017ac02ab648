/**
 * Child processes: started with a mark, stopped with a proof.
 *
 * Invariant: nothing is spawned that does not carry its mark in `DELEGATE_CHILD_MARK`, recorded by the caller beforehand.
 * Invariant: a `proven` report means that no process with the mark and none of the process tree recorded before the kill
 * is left (contract §8).
 */

import type { StopReport } from "../core/command.ts";
import type { Mark } from "../core/ids.ts";
import type { ProcessIdentity } from "../core/task.ts";

export type Children = AsyncDisposable & {
  /** Starts a program. A failed start is a value: nothing runs then. */
  spawn(spec: SpawnSpec): Promise<SpawnResult>;
  /**
   * Runs the stop ladder on everything that carries the mark (and on `process` and its tree, if known), then looks for
   * what is left. Works without a handle, after a restart, and when nothing was ever started. Repeating it is harmless.
   * Resolves within about 10 s; survivors are named, not waited for.
   */
  stop(target: StopTarget): Promise<StopReport>;
  /** The daemon's sign of life; the guard stops the children when none came for two thirds of the lease. */
  heartbeat(): void;
  /**
   * Ends the guard in order: children are stopped now (`stop`) or left to it for a returning daemon (`hand_over`, which
   * until children can be held means the same, done by the guard). Resolves when the guard has what it needs.
   */
  release(mode: "stop" | "hand_over"): Promise<void>;
};

export type StopTarget = {
  readonly mark: Mark;
  readonly process: ProcessIdentity | null;
  /** `keep`: processes that the child left behind after a good end are listed in `kept`, not stopped. */
  readonly background: "reap" | "keep";
};

export type SpawnSpec = {
  readonly mark: Mark;
  /** Program and arguments; never passed through a shell. */
  readonly command: readonly [string, ...string[]];
  readonly cwd: string;
  /** The whole environment of the child but for the mark, which `spawn` adds. */
  readonly env: Readonly<Record<string, string>>;
  /** What is written to standard input, which is then closed; null leaves it open for `write`. */
  readonly stdin: string | null;
};

export type SpawnResult =
  | { readonly kind: "started"; readonly child: Child }
  /** `code`: the system's error code (`ENOENT`, `EACCES`, `EAGAIN`), or `GUARD_GONE`. */
  | { readonly kind: "failed"; readonly code: string; readonly message: string };

export type Child = {
  readonly process: ProcessIdentity;
  /** Bytes of standard output and error, in order each; ends when the pipe ends. Consumed once. */
  readonly stdout: AsyncIterable<Uint8Array>;
  readonly stderr: AsyncIterable<Uint8Array>;
  write(text: string): Promise<void>;
  closeStdin(): void;
  /** How the process ended; `guard_gone` if nobody can tell because the guard died. Never rejects. */
  readonly ended: Promise<ChildEnd>;
};

export type ChildEnd =
  | { readonly kind: "exited"; readonly code: number | null; readonly signal: string | null }
  /** The guard stopped it, because it had no sign of life from the daemon. */
  | { readonly kind: "stopped_by_guard" }
  | { readonly kind: "guard_gone" };
