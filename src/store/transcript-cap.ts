/**
 * How much of a transcript is kept: its beginning and its end.
 *
 * The head is what came first within half of the bound; it is never dropped, and it ends with the first entry that does not
 * fit into it. When all of it is more than the bound, the oldest entries after the head go, one by one.
 *
 * Invariant: the newest entry is always kept, so a transcript may be over its bound by one entry.
 * Invariant: there is one gap at most, right after the head; the entry after it says what is gone.
 */

/** What has to be known of a transcript to append to it, however long it is. */
export type TranscriptTotals = {
  /** Number of the newest entry; 0 before the first. */
  readonly lastNumber: number;
  /** UTF-8 bytes of the text that is there. */
  readonly bytes: number;
  /** Last entry of the head, and the bytes up to it. */
  readonly headNumber: number;
  readonly headBytes: number;
};

export const EMPTY_TOTALS: TranscriptTotals = { lastNumber: 0, bytes: 0, headNumber: 0, headBytes: 0 };

export type DroppedEntries = { readonly entries: number; readonly bytes: number };

/** An entry with what was dropped before it. */
type SizedEntry = { readonly number: number; readonly bytes: number; readonly dropped: DroppedEntries };

/** The first entries after a head that go: those up to number `through`. `dropped`: what the entry after them says. */
export type Cut = { readonly through: number; readonly bytes: number; readonly dropped: DroppedEntries };

/** The totals with one more entry. */
export function withEntry(totals: TranscriptTotals, bytes: number, bytesMax: number): TranscriptTotals {
  const lastNumber = totals.lastNumber + 1;
  const all = totals.bytes + bytes;
  const isHeadOpen = totals.headNumber === totals.lastNumber;
  if (isHeadOpen && all <= bytesMax / 2) return { lastNumber, bytes: all, headNumber: lastNumber, headBytes: all };
  return { ...totals, lastNumber, bytes: all };
}

export function withoutCut(totals: TranscriptTotals, cut: Cut): TranscriptTotals {
  return { ...totals, bytes: totals.bytes - cut.bytes };
}

/**
 * What has to go of the entries after the head, which are given from the oldest on (all, or the first of them); null if
 * nothing has to or can. Where not all are given, it may take another cut.
 */
export function cutOf(totals: TranscriptTotals, afterHead: readonly SizedEntry[], bytesMax: number): Cut | null {
  // A head that was made under a higher bound stays; the end of the transcript has its half nevertheless.
  const excess = totals.bytes - Math.max(bytesMax, totals.headBytes + bytesMax / 2);
  let cut: Cut | null = null;
  for (const { number, bytes, dropped } of afterHead) {
    const gone: number = cut?.bytes ?? 0;
    if (gone >= excess || number === totals.lastNumber) break;
    const before: DroppedEntries = cut?.dropped ?? { entries: 0, bytes: 0 };
    cut = {
      through: number,
      bytes: gone + bytes,
      dropped: { entries: before.entries + dropped.entries + 1, bytes: before.bytes + dropped.bytes + bytes },
    };
  }
  return cut;
}
