/**
 * A text of any length in bounded memory: its beginning and its end, with a marked gap between them.
 *
 * Invariant: at most `bytesMax` bytes are kept, in one buffer that grows as needed; nothing holds on to the chunks.
 * Invariant: a cut never splits a character; the bytes of the split ones count as left out.
 */

export type BoundedText = {
  push(bytes: Uint8Array): void;
  /** The whole, or head, gap and tail. Bytes that are no UTF-8 become replacement marks. */
  text(): string;
  /** Bytes that came, kept or not. */
  totalBytes(): number;
  clear(): void;
};

export type BoundedTextLimits = {
  readonly bytesMax: number;
  /** How much of it is kept from the beginning; half of it unless given, 0 for a tail. */
  readonly headBytes?: number;
};

const FIRST_BYTES = 4_096;

export function createBoundedText({ bytesMax, headBytes = Math.floor(bytesMax / 2) }: BoundedTextLimits): BoundedText {
  const tailBytes = bytesMax - headBytes;
  // Head, then tail as a ring; while everything fits, simply the text.
  let kept = Buffer.allocUnsafe(Math.min(FIRST_BYTES, bytesMax));
  let total = 0;

  const grow = (neededBytes: number): void => {
    if (neededBytes <= kept.length || kept.length === bytesMax) return;
    const larger = Buffer.allocUnsafe(Math.min(bytesMax, Math.max(neededBytes, kept.length * 2)));
    kept.copy(larger, 0, 0, Math.min(total, kept.length));
    kept = larger;
  };
  const placeOf = (index: number): number =>
    index < headBytes ? index : headBytes + ((index - headBytes) % tailBytes);
  const put = (bytes: Uint8Array): void => {
    for (let at = 0; at < bytes.length; ) {
      const place = total < bytesMax ? total : placeOf(total);
      const count = Math.min(bytes.length - at, kept.length - place);
      kept.set(bytes.subarray(at, at + count), place);
      at += count;
      total += count;
    }
  };
  return {
    push(bytes) {
      grow(total + bytes.length);
      const skip = total >= bytesMax && bytes.length > tailBytes ? bytes.length - tailBytes : 0;
      total += skip;
      put(bytes.subarray(skip));
    },
    text() {
      if (total <= bytesMax) return kept.toString("utf8", 0, total);
      const start = placeOf(total);
      const head = endAtCharacter(kept.subarray(0, headBytes));
      const tail = startAtCharacter(Buffer.concat([kept.subarray(start), kept.subarray(headBytes, start)]));
      return `${head.toString("utf8")}${gapText(total - head.length - tail.length)}${tail.toString("utf8")}`;
    },
    totalBytes: () => total,
    clear() {
      total = 0;
    },
  };
}

/** How a gap is marked, everywhere. */
export function gapText(bytesLeftOut: number): string {
  return `\n… ${bytesLeftOut} bytes left out …\n`;
}

/** Without the beginning of a character that is cut off. */
function endAtCharacter(bytes: Buffer): Buffer {
  let start = bytes.length;
  for (let back = 1; back <= Math.min(4, bytes.length) && start === bytes.length; back++) {
    if (!isContinuation(bytes[bytes.length - back])) start = bytes.length - back;
  }
  const lead = bytes[start];
  return lead === undefined || bytes.length - start >= characterBytes(lead) ? bytes : bytes.subarray(0, start);
}

/** Without the rest of a character that was cut off. */
function startAtCharacter(bytes: Buffer): Buffer {
  let start = 0;
  while (start < 3 && isContinuation(bytes[start])) start++;
  return bytes.subarray(start);
}

function isContinuation(byte: number | undefined): boolean {
  return byte !== undefined && (byte & 0xc0) === 0x80;
}

function characterBytes(lead: number): number {
  if (lead >= 0xf0) return 4;
  if (lead >= 0xe0) return 3;
  return lead >= 0xc0 ? 2 : 1;
}
