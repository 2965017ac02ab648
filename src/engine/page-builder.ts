/**
 * Fills one page of `thread_read` with parts of a child's thread.
 *
 * Invariant: a page's size is counted as it will travel, in characters of JSON of sanitised text, so that no client's limit
 * ever cuts it; a part that does not fit as a whole is cut, and the next page goes on right there.
 */

import { headOf } from "../core/excerpt.ts";
import { sanitise } from "../core/sanitise.ts";
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
      const rest = part.text.slice(from);
      const taken = fitting(rest, left - PART_CHARACTERS);
      const text = sanitise(taken);
      parts.push({ ...part, text });
      left -= PART_CHARACTERS + sizeOf(text);
      if (taken.length === rest.length) return null;
      // What could not be added whole ends the page, also where a few characters would still fit.
      left = 0;
      return from + taken.length;
    },
  };
}

/** The longest beginning of `text` that takes at most `room` characters of JSON; never empty. */
function fitting(text: string, room: number): string {
  let taken = headOf(text, room);
  for (let size = sizeOf(sanitise(taken)); size > room && taken.length > 1; size = sizeOf(sanitise(taken))) {
    taken = headOf(text, Math.max(1, Math.min(taken.length - 1, Math.floor((taken.length * room) / size))));
  }
  return taken === "" ? headOf(text, 2) : taken;
}

function sizeOf(text: string): number {
  return JSON.stringify(text).length - 2;
}
