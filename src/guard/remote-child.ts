/**
 * A child as the daemon sees it: streams and end, told by the guard.
 *
 * Invariant: `ended` resolves, whatever happens to the child, the guard or the connection; nothing here rejects.
 * Invariant: a reader gets everything that had arrived before its stream ended.
 */

import type { ProcessIdentity } from "../core/task.ts";
import type { Child, ChildEnd } from "../ports/children.ts";
import { type ByteQueue, createByteQueue } from "./byte-queue.ts";
import { decodePayload } from "./guard-codec.ts";
import {
  CREDIT_BYTES_MIN,
  DATA_BYTES_MAX,
  FRAME,
  type Frame,
  numberIn,
  numberPayload,
  WINDOW_BYTES,
} from "./guard-protocol.ts";

export type RemoteChild = {
  readonly child: Child;
  /** Takes in a frame of this child; true when it was the last one. */
  accept(frame: Frame): boolean;
  /** Nothing more will be heard of it. */
  lose(): void;
};

export type SendFrame = (type: number, payload: Buffer) => void;

const EMPTY = Buffer.alloc(0);

export function createRemoteChild(process: ProcessIdentity, send: SendFrame): RemoteChild {
  const stdout = createOutput(send, FRAME.stdoutTaken, FRAME.stdoutUnread);
  const stderr = createOutput(send, FRAME.stderrTaken, FRAME.stderrUnread);
  const stdin = createInput(send);
  const end = Promise.withResolvers<ChildEnd>();
  const open = new Set<number>([FRAME.stdout, FRAME.stderr, FRAME.ended]);

  const takeOutput = (queue: ByteQueue, { type, payload }: Frame): void => {
    if (payload.length > 0) return queue.push(payload);
    queue.end();
    open.delete(type);
  };
  return {
    child: {
      process,
      stdout,
      stderr,
      write: (text) => stdin.write(Buffer.from(text, "utf8")),
      closeStdin: () => stdin.close(),
      ended: end.promise,
    },
    accept(frame) {
      if (frame.type === FRAME.stdout) takeOutput(stdout, frame);
      if (frame.type === FRAME.stderr) takeOutput(stderr, frame);
      if (frame.type === FRAME.stdinTaken) stdin.taken(numberIn(frame.payload));
      if (frame.type === FRAME.ended) {
        stdin.stop();
        end.resolve(decodePayload("ended", frame.payload));
        open.delete(frame.type);
      }
      return open.size === 0;
    },
    lose() {
      stdin.stop();
      stdout.end();
      stderr.end();
      end.resolve({ kind: "guard_gone" });
    },
  };
}

function createOutput(send: SendFrame, takenType: number, unreadType: number): ByteQueue {
  let taken = 0;
  return createByteQueue({
    onTaken(bytes) {
      taken += bytes;
      if (taken < CREDIT_BYTES_MIN) return;
      send(takenType, numberPayload(taken));
      taken = 0;
    },
    onUnread: () => send(unreadType, EMPTY),
  });
}

type Input = {
  /** Resolves when the guard has most of it; at once when nobody reads any more. */
  write(bytes: Buffer): Promise<void>;
  close(): void;
  taken(bytes: number): void;
  stop(): void;
};

function createInput(send: SendFrame): Input {
  let underWay = 0;
  let stopped = false;
  let closed = false;
  let turn: Promise<void> = Promise.resolve();
  let roomMade: (() => void) | null = null;

  const hasRoom = (): boolean => stopped || underWay < WINDOW_BYTES;
  const room = async (): Promise<void> => {
    while (!hasRoom()) {
      await new Promise<void>((resolve) => {
        roomMade = resolve;
      });
    }
  };
  const wake = (): void => {
    roomMade?.();
    roomMade = null;
  };
  const writeNow = async (bytes: Buffer): Promise<void> => {
    for (let at = 0; at < bytes.length; at += DATA_BYTES_MAX) {
      const part = bytes.subarray(at, at + DATA_BYTES_MAX);
      underWay += part.length;
      send(FRAME.stdin, part);
      await room();
    }
  };
  return {
    write(bytes) {
      if (closed) return turn;
      turn = turn.then(() => writeNow(bytes));
      return turn;
    },
    close() {
      if (closed) return;
      closed = true;
      turn = turn.then(() => send(FRAME.stdin, EMPTY));
    },
    taken(bytes) {
      underWay -= bytes;
      wake();
    },
    stop() {
      stopped = true;
      wake();
    },
  };
}
