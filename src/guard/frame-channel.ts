/**
 * One end of the connection between daemon and guard.
 *
 * Invariant: a broken connection is an event, told once; sending after it does nothing. No error of the stream escapes, so
 * neither side can die of EPIPE.
 * Invariant: what is unsent stays bounded by the windows of the protocol, so nothing here waits for the stream to drain.
 */

import type { Duplex } from "node:stream";
import { createFrameReader, type Frame, frameHeader } from "./guard-protocol.ts";

export type FrameChannel = {
  send(type: number, channel: number, payload: Buffer): void;
  /** Sends what is under way, then ends the connection. */
  end(): void;
  destroy(): void;
};

/** `onFrame` may throw: the connection is then broken off. `onClosed` comes last, once. */
export function createFrameChannel(
  stream: Duplex,
  onFrame: (frame: Frame) => void,
  onClosed: () => void,
): FrameChannel {
  const read = createFrameReader(onFrame);
  const accept = (bytes: Buffer): void => {
    try {
      if (!read(bytes)) stream.destroy();
    } catch {
      stream.destroy();
    }
  };
  stream.on("data", accept);
  stream.on("error", () => stream.destroy());
  stream.on("end", () => stream.destroy());
  stream.once("close", () => {
    stream.off("data", accept);
    onClosed();
  });
  return {
    send(type, channel, payload) {
      if (stream.destroyed || stream.writableEnded) return;
      stream.cork();
      stream.write(frameHeader(type, channel, payload.length));
      if (payload.length > 0) stream.write(payload);
      stream.uncork();
    },
    end: () => void stream.end(),
    destroy: () => void stream.destroy(),
  };
}
