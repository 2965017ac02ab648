/**
 * Frames between daemon and guard.
 */

import { describe, expect, it } from "vitest";
import { createFrameReader, FRAME, FRAME_BYTES_MAX, frameHeader } from "../../src/guard/guard-protocol.ts";

type Seen = { readonly type: number; readonly channel: number; readonly text: string };

function read(chunks: readonly Buffer[]): { readonly seen: readonly Seen[]; readonly sound: boolean } {
  const seen: Seen[] = [];
  const reader = createFrameReader(
    ({ type, channel, payload }) => void seen.push({ type, channel, text: payload.toString() }),
  );
  return { seen, sound: chunks.every((chunk) => reader(chunk)) };
}

describe("frames", () => {
  const payloads = ["", "a", "é\n\0{}", "x".repeat(70_000), ""];
  const bytes = Buffer.concat(
    payloads.flatMap((text, at) => [frameHeader(FRAME.stdout, at, Buffer.byteLength(text)), Buffer.from(text)]),
  );
  const expected = payloads.map((text, channel) => ({ type: FRAME.stdout, channel, text }));

  it.each([1, 2, 7, 8, 9, 10, 64, 4_096, 69_999, 1_000_000])("come out whole from chunks of %i bytes", (size) => {
    const chunks: Buffer[] = [];
    for (let at = 0; at < bytes.length; at += size) chunks.push(bytes.subarray(at, at + size));
    expect(read(chunks)).toEqual({ seen: expected, sound: true });
  });

  it("are refused when longer than the limit, or shorter than their own header (P15)", () => {
    const tooLong = Buffer.alloc(9);
    tooLong.writeUInt32BE(FRAME_BYTES_MAX, 0);
    expect(read([tooLong])).toEqual({ seen: [], sound: false });
    const tooShort = Buffer.alloc(9);
    tooShort.writeUInt32BE(4, 0);
    expect(read([tooShort])).toEqual({ seen: [], sound: false });
  });
});
