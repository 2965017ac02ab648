/**
 * The language between daemon and guard: frames over one local stream in both directions (descriptor 3 of the guard).
 *
 *     length   4 bytes, big endian: bytes after this field
 *     type     1 byte, below
 *     channel  4 bytes, big endian: number of a child (given by the daemon), or of a stop request
 *     payload  the rest: raw bytes for data, a 4-byte number for credit, JSON for everything else (`guard-codec.ts`)
 *
 * Flow: each of a child's three streams may have at most `WINDOW_BYTES` (and one chunk) under way. The receiver returns
 * credit for what was taken; without credit the guard does not read the child, so a child blocks instead of filling memory,
 * and one child that is not read delays no other.
 *
 * Order on a channel, guard to daemon: `started` or `spawn_failed` first; then `stdout` and `stderr` data, each closed by an
 * empty frame, and `ended`, which may come before the last data. Nothing follows when all three have come.
 *
 * Invariant: a frame longer than `FRAME_BYTES_MAX`, or of another version, ends the connection; each side then acts as if
 * the other were gone.
 */

/** Raised with every change of frames or payloads; `hello` carries it. */
export const PROTOCOL_VERSION = 1;
export const FRAME_BYTES_MAX = 16 * 1024 * 1024;
export const DATA_BYTES_MAX = 64 * 1024;
export const WINDOW_BYTES = 256 * 1024;
/** Credit is returned in portions of at least this, not for every byte. */
export const CREDIT_BYTES_MIN = 64 * 1024;
const HEADER_BYTES = 9;

export const FRAME = {
  // Daemon to guard.
  /** Sign of life; answered by `heard`. */
  beat: 1,
  spawn: 2,
  /** Data for standard input; empty closes it. */
  stdin: 3,
  /** Credit for standard output, error. */
  stdoutTaken: 4,
  stderrTaken: 5,
  /** Nobody reads this stream any more: read it and throw it away, so that the child does not block. */
  stdoutUnread: 6,
  stderrUnread: 7,
  stop: 8,
  release: 9,
  // Guard to daemon.
  hello: 65,
  heard: 66,
  started: 67,
  spawnFailed: 68,
  stdout: 69,
  stderr: 70,
  /** Credit for standard input. */
  stdinTaken: 71,
  ended: 72,
  stopped: 73,
  released: 74,
} as const;

export type Frame = { readonly type: number; readonly channel: number; readonly payload: Buffer };

/** Header of a frame whose payload is sent right after it. */
export function frameHeader(type: number, channel: number, payloadBytes: number): Buffer {
  const header = Buffer.allocUnsafe(HEADER_BYTES);
  header.writeUInt32BE(HEADER_BYTES - 4 + payloadBytes, 0);
  header.writeUInt8(type, 4);
  header.writeUInt32BE(channel, 5);
  return header;
}

export function numberPayload(value: number): Buffer {
  const payload = Buffer.allocUnsafe(4);
  payload.writeUInt32BE(value);
  return payload;
}

export function numberIn(payload: Buffer): number {
  return payload.length === 4 ? payload.readUInt32BE() : 0;
}

/**
 * Cuts a stream into frames. The returned function takes the next bytes, in any division, and is false once a frame is
 * malformed; nothing may be fed to it then. Payloads may share memory with what was fed.
 */
export function createFrameReader(onFrame: (frame: Frame) => void): (bytes: Buffer) => boolean {
  let parts: Buffer[] = [];
  let held = 0;
  let needed = HEADER_BYTES;
  return (bytes) => {
    parts.push(bytes);
    held += bytes.length;
    if (held < needed) return true;
    let rest = parts.length === 1 ? bytes : Buffer.concat(parts, held);
    for (needed = HEADER_BYTES; rest.length >= needed; ) {
      const frameBytes = 4 + rest.readUInt32BE(0);
      if (frameBytes < HEADER_BYTES || frameBytes > FRAME_BYTES_MAX) return false;
      needed = frameBytes;
      if (rest.length < frameBytes) break;
      const payload = rest.subarray(HEADER_BYTES, frameBytes);
      onFrame({ type: rest.readUInt8(4), channel: rest.readUInt32BE(5), payload });
      rest = rest.subarray(frameBytes);
      needed = HEADER_BYTES;
    }
    parts = rest.length > 0 ? [rest] : [];
    held = rest.length;
    return true;
  };
}
