/**
 * Pages of a thread's view that is one text: the result, the changes. And the places of any text that `find` asks for.
 *
 * Invariant: the text is sanitised as a whole; a cursor is a character of that, and pages laid side by side are that.
 */

import { headOf } from "../core/excerpt.ts";
import { sanitise } from "../core/sanitise.ts";
import type { ThreadPage, ThreadPart } from "../ports/engine.ts";
import { createPageBuilder, type PageBuilder } from "./page-builder.ts";
import { textCursor } from "./thread-cursor.ts";

export type TextAsked = {
  readonly find: string | null;
  /** Character to begin at. */
  readonly from: number;
  readonly limit: number;
};

/** What a place that was found shows before and behind it. */
const CONTEXT_CHARACTERS = 150;

export function textPage(name: "result" | "changes", raw: string, asked: TextAsked): ThreadPage {
  const builder = createPageBuilder(asked.limit);
  const text = sanitise(raw);
  const next =
    asked.find === null ? pieceOf(text, asked.from, builder) : addPlaces(text, asked.find, asked.from, null, builder);
  const nothing = asked.find === null || asked.from > 0 ? "past_end" : "not_found";
  return {
    name,
    parts: builder.parts,
    nextCursor: next === null ? null : textCursor(name, next),
    totalBytes: Buffer.byteLength(raw),
    empty: builder.parts.length > 0 ? null : nothing,
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
  const needle = needleOf(find);
  if (needle === null) return null;
  needle.lastIndex = from;
  for (let found = needle.exec(text); found !== null; found = needle.exec(text)) {
    const at = found.index;
    const { length } = found[0];
    if (builder.isFull()) return at;
    const start = Math.max(0, at - CONTEXT_CHARACTERS);
    const end = Math.min(text.length, at + length + CONTEXT_CHARACTERS);
    const shown = `${start > 0 ? "…" : ""}${whole(text, start, end)}${end < text.length ? "…" : ""}`;
    builder.add({ who: "child", atMs: null, at, ...of, text: shown }, 0);
    // What follows within the shown piece has been seen, unless it is cut off by its end.
    needle.lastIndex = pairAfter(text, Math.max(at + length, end - length + 1));
  }
  return null;
}

const SYNTAX = /[\\^$.*+?()[\]{}|/]/g;

/** In any case of letters; null if nothing of it could ever be shown. */
function needleOf(find: string): RegExp | null {
  const words = sanitise(find);
  return words === "" ? null : new RegExp(words.replace(SYNTAX, "\\$&"), "giu");
}

/** The place itself, or the next one where that is the middle of a pair: a search would begin before it. */
function pairAfter(text: string, at: number): number {
  const unit = text.charCodeAt(at);
  return unit >= 0xdc00 && unit <= 0xdfff ? at + 1 : at;
}

/** A slice that splits no pair at either end. */
function whole(text: string, start: number, end: number): string {
  return headOf(text.slice(start), end - start).replace(/^[\udc00-\udfff]/, "");
}
