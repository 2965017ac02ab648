/**
 * Reading what children write: lines, bounded texts, and the registry of drivers.
 */

import { describe, expect, it } from "vitest";
import { createBoundedText, gapText } from "../../src/drivers/bounded-text.ts";
import { type Line, readLines } from "../../src/drivers/line-reader.ts";
import { readOutput } from "../../src/drivers/read-output.ts";

const TEXT = '日本語\u2028\u2029\u0085 \u{1f469}\u200d\u{1f680}\r\n\n{"é": 1}\nlast';
const LINES = ["日本語\u2028\u2029\u0085 \u{1f469}\u200d\u{1f680}\r", "", '{"é": 1}', "last"];

async function* inChunks(text: string | Buffer, size: number): AsyncGenerator<Uint8Array, void> {
  const bytes = Buffer.from(text);
  for (let at = 0; at < bytes.length; at += size) yield bytes.subarray(at, at + size);
}

async function linesOf(source: AsyncIterable<Uint8Array>, lineBytesMax?: number): Promise<readonly Line[]> {
  const lines: Line[] = [];
  for await (const line of readLines(source, lineBytesMax)) lines.push(line);
  return lines;
}

describe("lines", () => {
  it.each([1, 2, 3, 5, 7, 1_000])(
    "end at LF alone and keep characters that were split over chunks of %i bytes (S3)",
    async (size) => {
      const lines = await linesOf(inChunks(TEXT, size));
      expect(lines).toEqual(LINES.map((text) => ({ text, cut: false })));
    },
  );

  it("of 5 MB come whole", async () => {
    const long = "é".repeat(2_500_000);
    const lines = await linesOf(inChunks(`a\n${long}\nb\n`, 65_536));
    expect(lines.map(({ text, cut }) => [text.length, cut])).toEqual([
      [1, false],
      [2_500_000, false],
      [1, false],
    ]);
    expect(lines[1]?.text === long).toBe(true);
  });

  it("that are too long are cut with a marked gap, and the next one is whole (P15)", async () => {
    const lines = await linesOf(inChunks(`begin${"x".repeat(1_000_000)}end\nnext\n`, 10_000), 1_000);
    expect(lines).toEqual([
      { text: `begin${"x".repeat(495)}${gapText(999_008)}${"x".repeat(497)}end`, cut: true },
      { text: "next", cut: false },
    ]);
  });

  it("that never end fill no memory (P15)", async () => {
    async function* endless(): AsyncGenerator<Uint8Array, void> {
      const chunk = Buffer.alloc(65_536, "x");
      for (let sent = 0; sent < 512 * 1024 * 1024; sent += chunk.length) yield chunk;
    }
    const before = process.memoryUsage().arrayBuffers;
    let most = 0;
    const watched = (async function* (): AsyncGenerator<Uint8Array, void> {
      for await (const chunk of endless()) {
        most = Math.max(most, process.memoryUsage().arrayBuffers - before);
        yield chunk;
      }
    })();
    const [line, ...more] = await linesOf(watched, 1024 * 1024);
    expect(more).toEqual([]);
    expect(line?.cut).toBe(true);
    expect(most).toBeLessThan(64 * 1024 * 1024);
  });
});

describe("a bounded text", () => {
  it.each([1, 3, 10, 64])("is whole while it fits, in chunks of %i bytes", async (size) => {
    const text = createBoundedText({ bytesMax: Buffer.byteLength(TEXT) });
    for await (const chunk of inChunks(TEXT, size)) text.push(chunk);
    expect(text.text()).toBe(TEXT);
    expect(text.totalBytes()).toBe(Buffer.byteLength(TEXT));
  });

  it.each([1, 7, 99, 100, 101, 5_000])("keeps head and tail beyond that, in chunks of %i bytes (P15)", async (size) => {
    const source = Array.from({ length: 1_000 }, (_, at) => String(at).padStart(4, "0")).join(" ");
    const text = createBoundedText({ bytesMax: 100, headBytes: 40 });
    for await (const chunk of inChunks(source, size)) text.push(chunk);
    expect(text.text()).toBe(`${source.slice(0, 40)}${gapText(source.length - 100)}${source.slice(-60)}`);
  });

  it("never cuts a character in two (S3)", async () => {
    for (let bytesMax = 8; bytesMax < 40; bytesMax++) {
      const text = createBoundedText({ bytesMax });
      for await (const chunk of inChunks("aé日\u{1f680}".repeat(50), 7)) text.push(chunk);
      expect(text.text()).not.toContain("\ufffd");
    }
  });

  it("can be only a tail", async () => {
    const text = createBoundedText({ bytesMax: 5, headBytes: 0 });
    for await (const chunk of inChunks("0123456789", 3)) text.push(chunk);
    expect(text.text()).toBe(`${gapText(5)}56789`);
  });
});

describe("reading a stream", () => {
  it("ends at an abort while nothing comes, and tells the stream that nobody reads on", async () => {
    const controller = new AbortController();
    let told = false;
    const silent: AsyncIterable<Uint8Array> = {
      [Symbol.asyncIterator]: () => ({
        next: () => new Promise(() => undefined),
        async return() {
          told = true;
          return { done: true, value: undefined };
        },
      }),
    };
    const reading = readOutput(silent, controller.signal, async () => undefined);
    controller.abort();
    await reading;
    expect(told).toBe(true);
  });
});
