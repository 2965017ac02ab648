/**
 * When the work of an attempt is at its end.
 *
 * Claude Code ends a turn with a `result` line, but goes on by itself when something that it left in the background ends: then
 * there is another turn with another result. The last one counts.
 *
 * Invariant: the work is at its end when the last result stands, no turn is under way and nothing goes on in the background;
 * or when what goes on has gone on for `BACKGROUND_MS_MAX` since, as a server that was started for good does.
 */

import type { Clock, Timer } from "../../ports/clock.ts";
import { type Fields, listIn, numberIn } from "../fields.ts";

export type ClaudeEnd = {
  /** A turn is under way. */
  turnBegan(): void;
  /** A `result` line. */
  turnEnded(result: Fields): void;
  /** A line that lists what goes on in the background. */
  backgroundChanged(line: Fields): void;
  /** Resolves when the work is at its end. Anew after each time: a turn may begin that nobody asked for. */
  settled(): Promise<void>;
  busy(): boolean;
  /** The last result; null if there was none. */
  result(): Fields | null;
  /** True if something goes on in the background. */
  inBackground(): boolean;
};

const BACKGROUND_MS_MAX = 600_000;
/** How soon after the end of something in the background the turn about it begins. */
const NOTICE_MS_MAX = 5_000;

export function createClaudeEnd(clock: Clock): ClaudeEnd {
  let busy = false;
  let open = 0;
  let result: Fields | null = null;
  let isSettled = false;
  let settled = Promise.withResolvers<void>();
  let timer: Timer | null = null;

  const stopTimer = (): void => {
    timer?.[Symbol.dispose]();
    timer = null;
  };
  const settle = (): void => {
    stopTimer();
    isSettled = true;
    settled.resolve();
  };
  const settleAfter = (ms: number): void => {
    stopTimer();
    timer = clock.after(ms, settle);
  };
  return {
    turnBegan() {
      busy = true;
      stopTimer();
      if (!isSettled) return;
      isSettled = false;
      settled = Promise.withResolvers<void>();
    },
    turnEnded(line) {
      busy = false;
      result = line;
      const queued = numberIn(line["queued_turn_count"]) ?? 0;
      if (line["is_error"] === true) settle();
      else if (open > 0) settleAfter(BACKGROUND_MS_MAX);
      else if (queued > 0) settleAfter(NOTICE_MS_MAX);
      else settle();
    },
    backgroundChanged(line) {
      const before = open;
      open = listIn(line["tasks"]).length;
      if (result === null || busy || isSettled) return;
      if (open === 0 && before > 0) settleAfter(NOTICE_MS_MAX);
    },
    settled: () => settled.promise,
    busy: () => busy,
    result: () => result,
    inBackground: () => open > 0,
  };
}
