/**
 * Pages of a thread's view that is one text: the result, the changes.
 *
 * Invariant: a cursor is the number of the character to go on from; pages laid side by side are the text.
 */

import { headOf } from "../core/excerpt.ts";
import type { ThreadPage, ThreadPart } from "../ports/engine.ts";
import { createPageBuilder, type PageBuilder } from "./page-builder.ts";

export type TextAsked = {
  readonly find: string | null;
  /** Character to begin at. */
  readonly from: number;
  readonly limit: number;
};

/** What a place that was found shows before and behind it. */
const CONTEXT_CHARACTERS = 150;

export function textPage(name: ThreadPage["name"], text: string, asked: TextAsked): ThreadPage {
  const builder = createPageBuilder(asked.limit);
  const next =
    asked.find === null ? pieceOf(text, asked.from, builder) : addPlaces(text, asked.find, asked.from, null, builder);
  return {
    name,
    parts: builder.parts,
    nextCursor: next === null ? null : String(next),
    totalBytes: Buffer.byteLength(text),
    empty: builder.parts.length > 0 ? null : "not_found",
  };
}

function pieceOf(text: string, from: number, builder: PageBuilder): number | null {
  if (from >= text.length) return null;
  return builder.add({ who: "child", atMs: null, at: from, text }, from);
}

/**
 * Adds the places of `text` that contain `find`, from character `from` on; the character to go on from, or null if there is
 * no further one. `of`: the entry that the text belongs to; null: the text is the view itself and places are told by character.
 */
export function addPlaces(
  text: string,
  find: string,
  from: number,
  of: Pick<ThreadPart, "who" | "atMs" | "at"> | null,
  builder: PageBuilder,
): number | null {
  const lower = text.toLowerCase();
  // A few letters change their length with their case; then only their exact form is found.
  const haystack = lower.length === text.length ? lower : text;
  const needle = lower.length === text.length ? find.toLowerCase() : find;
  for (let at = haystack.indexOf(needle, from); at >= 0; ) {
    if (builder.isFull()) return at;
    const start = Math.max(0, at - CONTEXT_CHARACTERS);
    const end = Math.min(text.length, at + find.length + CONTEXT_CHARACTERS);
    const shown = `${start > 0 ? "…" : ""}${whole(text, start, end)}${end < text.length ? "…" : ""}`;
    builder.add({ who: "child", atMs: null, at, ...of, text: shown }, 0);
    at = haystack.indexOf(needle, end);
  }
  return null;
}

/** A slice that splits no pair at either end. */
function whole(text: string, start: number, end: number): string {
  return headOf(text.slice(start), end - start).replace(/^[\udc00-\udfff]/, "");
}
