/**
 * Fills one page of `thread_read` with parts of a child's thread.
 *
 * Invariant: a page's size is counted as it will travel, in characters of JSON or of the text form, whichever is more, so that
 * no client's limit ever cuts it; a part that does not fit as a whole is cut, and the next page goes on right there.
 * Invariant: texts come sanitised as a whole, because a sequence that is cut in two is none for either half.
 */

import { headOf } from "../core/excerpt.ts";
import type { ThreadPart } from "../ports/engine.ts";

export type PageBuilder = {
  readonly parts: readonly ThreadPart[];
  /** Adds a part, from character `from` of its text on. What was taken: the character to go on from; null if all of it. */
  add(part: ThreadPart, from: number): number | null;
  isFull(): boolean;
};

/** What a part takes besides its text. */
const PART_CHARACTERS = 80;
/** Less room than this is not worth a part. */
const PIECE_CHARACTERS_MIN = 100;
const PARTS_MAX = 60;

export function createPageBuilder(charactersMax: number): PageBuilder {
  const parts: ThreadPart[] = [];
  let left = charactersMax;
  const isFull = (): boolean => parts.length >= PARTS_MAX || left < PART_CHARACTERS + PIECE_CHARACTERS_MIN;
  return {
    parts,
    isFull,
    add(part, from) {
      if (isFull()) return from;
      const { text, size } = fitting(part.text, from, left - PART_CHARACTERS);
      parts.push({ ...part, text });
      left -= PART_CHARACTERS + size;
      const next = from + text.length;
      if (next >= part.text.length) return null;
      // What could not be added whole ends the page, also where a few characters would still fit.
      left = 0;
      return next;
    },
  };
}

/** The longest piece of `text` from `from` on that takes at most `room` characters; never empty if there is any. */
function fitting(text: string, from: number, room: number): { readonly text: string; readonly size: number } {
  let size = 0;
  let end = from;
  while (end < text.length) {
    const more = sizeOf(text.charCodeAt(end));
    if (size + more > room) break;
    size += more;
    end += 1;
  }
  const piece = headOf(text.slice(from), end - from);
  return { text: piece === "" ? headOf(text.slice(from), 2) : piece, size };
}

const TAB = 9;
const LINE_FEED = 10;
const QUOTE = 34;
const BACKSLASH = 92;

/** A line end takes two characters of JSON; in the text form one, and two more where the next line has to be quoted. */
function sizeOf(unit: number): number {
  if (unit === LINE_FEED) return 3;
  return unit === QUOTE || unit === BACKSLASH || unit === TAB ? 2 : 1;
}
