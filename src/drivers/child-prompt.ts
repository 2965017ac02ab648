/**
 * The sentences around a task for a child that had an attempt or a conversation before.
 *
 * Invariant: a child that goes on in its session is never given its task again: it would do finished steps twice (P6).
 */

import { excerpt } from "../core/excerpt.ts";
import type { AttemptOrder } from "../ports/driver.ts";

const EARLIER_CHARACTERS_MAX = 20_000;

export const LOOK_FIRST = `An earlier attempt at the task below was interrupted from outside, and its record is gone. Parts of it may be done \
already: look before you do anything, and do not repeat what is finished.`;

export const GO_ON = `Your last turn in this conversation was interrupted from outside before it ended. The last tool call may have run in part: \
look at its effects before you do anything again. Do not repeat steps that are finished. Go on where you were, finish the task, \
and end with your complete final answer.`;

/** For a child without its earlier conversation. */
export function withHistory({ history, prompt }: Pick<AttemptOrder, "history" | "prompt">): string {
  const turns = history.map(
    ({ message, result }, at) =>
      `## Message ${at + 1}\n\n${excerpt(message, EARLIER_CHARACTERS_MAX)}\n\n## Answer ${at + 1}\n\n${
        result === null ? "(no answer was recorded)" : excerpt(result, EARLIER_CHARACTERS_MAX)
      }`,
  );
  return `This continues earlier work of which you have no memory. What was said then, oldest first:\n\n${turns.join("\n\n")}\n\n## Now\n\n${prompt}`;
}

export type TakenUp = {
  /** The agent took up its session, so that it knows what was said. */
  readonly resumed: boolean;
  /** It had a session, of which it kept nothing. */
  readonly startedAnew: boolean;
};

/** What an agent is told that knows, once resumed, all that was said. */
export function promptOf(order: AttemptOrder, { resumed, startedAnew }: TakenUp): string {
  if (!resumed && order.history.length > 0) return withHistory(order);
  if (!resumed) return startedAnew ? `${LOOK_FIRST}\n\n${order.prompt}` : order.prompt;
  return order.cause === "first" ? order.prompt : GO_ON;
}
