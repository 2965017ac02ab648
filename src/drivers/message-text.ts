/**
 * The text of one message, put together from pieces that may be cut anywhere.
 *
 * Invariant: a character that was split over two pieces arrives whole (S3); memory is bounded (P15).
 */

import { createBoundedText } from "./bounded-text.ts";

export type MessageText = {
  push(piece: string): void;
  /** Null unless something is to be seen. Begins anew. */
  take(): string | null;
};

const SPLIT_CHARACTER = /[\ud800-\udbff]$/;

export function createMessageText(bytesMax: number): MessageText {
  const text = createBoundedText({ bytesMax });
  let carried = "";
  return {
    push(piece) {
      const whole = carried + piece;
      carried = SPLIT_CHARACTER.test(whole) ? whole.slice(-1) : "";
      text.push(Buffer.from(carried === "" ? whole : whole.slice(0, -1)));
    },
    take() {
      if (carried !== "") text.push(Buffer.from(carried));
      const taken = text.text();
      carried = "";
      text.clear();
      return taken.trim() === "" ? null : taken;
    },
  };
}
