/**
 * Whether the guard still answers: every frame of it is a sign of life, each heartbeat and each request asks for one.
 *
 * Invariant: nothing is concluded in the turn in which the daemon itself may just have woken up: beats are counted and
 * requests are looked at twice, so answers that lie unread in the pipe are heard first.
 */

import type { Clock } from "../ports/clock.ts";

export type Hearing = {
  /** A frame came. */
  heard(): void;
  beatSent(): void;
  /** Any frame has to come within this time. */
  expectFrame(withinMs: number): void;
  /** This answer has to come within this time; it is passed on. */
  expectAnswer<Answer>(answer: Promise<Answer>, withinMs: number): Promise<Answer>;
};

export type HearingOptions = { readonly clock: Clock; readonly leaseMs: number };

const SECOND_LOOK_MS = 50;
const BEATS_UNHEARD_MIN = 3;

/** `onSilent` may be called more than once. */
export function createHearing({ clock, leaseMs }: HearingOptions, onSilent: () => void): Hearing {
  const unansweredMaxMs = (leaseMs * 2) / 3;
  let frames = 0;
  let beatsUnheard = 0;
  let unheardSinceMs = 0;

  const lookTwice = (delayMs: number, isQuiet: () => boolean): void => {
    const second = (): void => void (isQuiet() && onSilent());
    clock.after(delayMs, () => void (isQuiet() && clock.after(SECOND_LOOK_MS, second)));
  };
  return {
    heard() {
      frames++;
      beatsUnheard = 0;
    },
    beatSent() {
      const nowMs = clock.monotonicMs();
      if (beatsUnheard === 0) unheardSinceMs = nowMs;
      beatsUnheard++;
      if (beatsUnheard >= BEATS_UNHEARD_MIN && nowMs - unheardSinceMs >= unansweredMaxMs) onSilent();
    },
    expectFrame(withinMs) {
      const before = frames;
      lookTwice(withinMs, () => frames === before);
    },
    async expectAnswer(answer, withinMs) {
      let waiting = true;
      lookTwice(withinMs, () => waiting);
      try {
        return await answer;
      } finally {
        waiting = false;
      }
    },
  };
}
