/**
 * Lines of a byte stream.
 *
 * Invariant: only LF ends a line: U+2028, U+2029, NEL and CR are characters like others (JSON may hold them unescaped).
 * Invariant: a character that was split over chunks arrives whole (S3).
 * Invariant: memory is bounded by `lineBytesMax` whatever comes; a longer line is given with a marked gap, and says so.
 */

import { createBoundedText } from "./bounded-text.ts";

export type Line = {
  /** Without its LF. */
  readonly text: string;
  /** True if a gap was cut into it: it is not what was written. */
  readonly cut: boolean;
};

const LINE_BYTES_MAX = 6 * 1024 * 1024;
const LF = 10;

/** The last line counts also without an LF, unless it is empty. */
export async function* readLines(
  source: AsyncIterable<Uint8Array>,
  lineBytesMax = LINE_BYTES_MAX,
): AsyncGenerator<Line, void> {
  const line = createBoundedText({ bytesMax: lineBytesMax });
  const take = (): Line => {
    const taken = { text: line.text(), cut: line.totalBytes() > lineBytesMax };
    line.clear();
    return taken;
  };
  for await (const chunk of source) {
    let from = 0;
    for (let end = chunk.indexOf(LF); end >= 0; end = chunk.indexOf(LF, from)) {
      line.push(chunk.subarray(from, end));
      yield take();
      from = end + 1;
    }
    line.push(chunk.subarray(from));
  }
  if (line.totalBytes() > 0) yield take();
}
