/**
 * A transcript in memory.
 *
 * Invariant: a value, never changed in place, so that a draft can be dropped.
 */

import type { NewTranscriptEntry, TranscriptEntry } from "../ports/store.ts";
import { cutOf, EMPTY_TOTALS, type TranscriptTotals, withEntry, withoutCut } from "./transcript-cap.ts";

export type Transcript = { readonly totals: TranscriptTotals; readonly entries: readonly TranscriptEntry[] };

export function extended(
  before: Transcript | null,
  added: readonly NewTranscriptEntry[],
  bytesMax: number,
): Transcript {
  let totals = before?.totals ?? EMPTY_TOTALS;
  const entries = [...(before?.entries ?? [])];
  for (const { role, atMs, text } of added) {
    totals = withEntry(totals, Buffer.byteLength(text), bytesMax);
    // A text is stored as UTF-8, which has no half characters.
    entries.push({ number: totals.lastNumber, role, atMs, text: text.toWellFormed(), dropped: null });
  }
  return shortened({ totals, entries }, bytesMax);
}

function shortened({ totals, entries }: Transcript, bytesMax: number): Transcript {
  const head = entries.filter(({ number }) => number <= totals.headNumber);
  const rest = entries.slice(head.length);
  const sized = rest.map(({ number, text, dropped }) => ({
    number,
    bytes: Buffer.byteLength(text),
    dropped: dropped ?? { entries: 0, bytes: 0 },
  }));
  const cut = cutOf(totals, sized, bytesMax);
  if (cut === null) return { totals, entries };
  const kept = rest
    .filter(({ number }) => number > cut.through)
    .map((entry, index) => (index === 0 ? { ...entry, dropped: cut.dropped } : entry));
  return { totals: withoutCut(totals, cut), entries: [...head, ...kept] };
}

/** The first entry above `after`, and those after it as long as their bytes are within the page. */
export function pageOf(
  transcript: Transcript | undefined,
  after: number,
  page: { readonly limit: number; readonly bytesMax: number },
): readonly TranscriptEntry[] {
  const found: TranscriptEntry[] = [];
  let bytes = 0;
  for (const entry of transcript?.entries ?? []) {
    if (entry.number <= after) continue;
    bytes += Buffer.byteLength(entry.text);
    if (found.length === page.limit || (found.length > 0 && bytes > page.bytesMax)) break;
    found.push(entry);
  }
  return found;
}
