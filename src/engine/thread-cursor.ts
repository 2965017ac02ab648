/**
 * Cursors of `thread_read`: where a view's next page begins.
 *
 * Invariant: a cursor names its view, so that one of another view is refused instead of being taken for a place in this one.
 */

import type { ThreadViewName } from "../ports/engine.ts";

/** How far events and entries of the transcript have been shown, and the character of the next part to go on from. */
export type LogCursor = { readonly event: number; readonly entry: number; readonly from: number };

const LOG_START: LogCursor = { event: 0, entry: 0, from: 0 };

type LogView = "messages" | "events";
type TextView = "result" | "changes";

const LETTERS: Readonly<Record<ThreadViewName, string>> = { messages: "m", events: "e", result: "r", changes: "c" };
const LOG_FORM = /^([me])([0-9]{1,12})\.([0-9]{1,12})\.([0-9]{1,12})$/;
const TEXT_FORM = /^([rc])([0-9]{1,12})$/;

/** The start if there is no cursor yet; null: it is none of this view's. */
export function readLogCursor(view: LogView, text: string | null): LogCursor | null {
  if (text === null) return LOG_START;
  const [, letter, event, entry, from] = LOG_FORM.exec(text) ?? [];
  if (letter !== LETTERS[view] || from === undefined) return null;
  return { event: Number(event), entry: Number(entry), from: Number(from) };
}

export function logCursor(view: LogView, { event, entry, from }: LogCursor): string {
  return `${LETTERS[view]}${event}.${entry}.${from}`;
}

/** Character to go on from; null: it is no cursor of this view. */
export function readTextCursor(view: TextView, text: string | null): number | null {
  if (text === null) return 0;
  const [, letter, from] = TEXT_FORM.exec(text) ?? [];
  return letter !== LETTERS[view] || from === undefined ? null : Number(from);
}

export function textCursor(view: TextView, from: number): string {
  return `${LETTERS[view]}${from}`;
}
