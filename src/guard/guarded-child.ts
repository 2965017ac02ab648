/**
 * One child inside the guard: its process and the relay of its three streams.
 *
 * Invariant: a child's output is read only as fast as the daemon takes it, or thrown away when the daemon said that nobody
 * reads it; it is never collected here.
 * Invariant: no stream error of a child (EPIPE, ECONNRESET) escapes; its end is told by `ended` alone.
 * Invariant: nothing is sent about a child before `open`, so `started` comes first.
 */

import { type ChildProcessByStdio, spawn } from "node:child_process";
import { stat } from "node:fs/promises";
import type { Readable, Writable } from "node:stream";
import type { Mark } from "../core/ids.ts";
import type { FrameChannel } from "./frame-channel.ts";
import { encodePayload, type Payloads } from "./guard-codec.ts";
import { FRAME, numberPayload, WINDOW_BYTES } from "./guard-protocol.ts";
import { markedEnvironment } from "./marker.ts";

export type GuardedChild = {
  readonly mark: Mark;
  readonly pid: number;
  /** Begins to tell the daemon about the child. */
  open(): void;
  /** Empty closes standard input. */
  writeStdin(bytes: Buffer): void;
  closeStdin(): void;
  readonly stdout: Relay;
  readonly stderr: Relay;
  /** From now on its end is reported as the guard's doing. */
  blameGuard(): void;
};

export type Relay = { readonly start: () => void; credit(bytes: number): void; unread(): void };

export type ChildPlace = {
  readonly number: number;
  readonly channel: FrameChannel;
  readonly onExit: () => void;
  /** The process has ended and all its streams are closed. */
  readonly onClosed: () => void;
};

export type StartedOrNot = { readonly child: GuardedChild } | { readonly failure: Promise<Payloads["spawnFailed"]> };

/** The process is running, or will never run, when this returns. */
export function startGuardedChild(spec: Payloads["spawn"], place: ChildPlace): StartedOrNot {
  try {
    const started = spawnPiped(spec);
    const { pid } = started;
    if (pid !== undefined) return { child: guardChild(started, { mark: spec.mark, pid }, place) };
    const failed = new Promise<unknown>((resolve) => started.once("error", resolve));
    return { failure: failed.then((error) => explainFailure(spec, error)) };
  } catch (error) {
    return { failure: explainFailure(spec, error) };
  }
}

type Piped = ChildProcessByStdio<Writable, Readable, Readable>;

function spawnPiped(spec: Payloads["spawn"]): Piped {
  const [program, ...args] = spec.command;
  const env = markedEnvironment(spec.env, spec.mark);
  return spawn(program, args, { cwd: spec.cwd, env, detached: true, stdio: ["pipe", "pipe", "pipe"] });
}

function guardChild(
  child: Piped,
  name: { readonly mark: Mark; readonly pid: number },
  place: ChildPlace,
): GuardedChild {
  const { channel, number } = place;
  let blamed = false;
  const ended = new Promise<Payloads["ended"]>((resolve) => {
    child.once("exit", (code, signal) => {
      resolve(blamed ? { kind: "stopped_by_guard" } : { kind: "exited", code, signal });
      place.onExit();
    });
  });
  child.once("close", place.onClosed);
  child.on("error", () => undefined);
  child.stdin.on("error", () => undefined);
  const closeStdin = (): void => void child.stdin.end();
  const stdout = relay(child.stdout, (bytes) => channel.send(FRAME.stdout, number, bytes));
  const stderr = relay(child.stderr, (bytes) => channel.send(FRAME.stderr, number, bytes));
  return {
    ...name,
    open() {
      stdout.start();
      stderr.start();
      void ended.then((end) => channel.send(FRAME.ended, number, encodePayload("ended", end)));
    },
    writeStdin(bytes) {
      if (bytes.length === 0) return closeStdin();
      const credit = numberPayload(bytes.length);
      child.stdin.write(bytes, () => channel.send(FRAME.stdinTaken, number, credit));
    },
    closeStdin,
    stdout,
    stderr,
    blameGuard() {
      blamed = true;
    },
  };
}

/** Sends each chunk on; stops reading while more than the window is under way. An empty chunk says that the stream ended. */
function relay(stream: Readable, send: (bytes: Buffer) => void): Relay {
  let window = WINDOW_BYTES;
  let unread = false;
  stream.on("error", () => undefined);
  const end = (): void => send(Buffer.alloc(0));
  const take = (bytes: Buffer): void => {
    if (unread) return;
    window -= bytes.length;
    send(bytes);
    if (window <= 0) stream.pause();
  };
  return {
    start() {
      stream.on("data", take);
      if (stream.closed) end();
      else stream.once("close", end);
    },
    credit(bytes) {
      window += bytes;
      if (window > 0) stream.resume();
    },
    unread() {
      unread = true;
      stream.resume();
    },
  };
}

/** A missing working directory shows as ENOENT of the program; callers can act only if they are told which of the two it is. */
async function explainFailure(spec: Payloads["spawn"], error: unknown): Promise<Payloads["spawnFailed"]> {
  const code = error instanceof Error && "code" in error ? String(error.code) : "EUNKNOWN";
  const there = await stat(spec.cwd).then(
    (entry) => entry.isDirectory(),
    () => false,
  );
  if (!there) return { code: "WORKSPACE", message: `the working directory ${spec.cwd} is not there` };
  return { code, message: `${spec.command[0]}: ${error instanceof Error ? error.message : code}` };
}
