/**
 * What an agent is told: the task, or, where its own conversation already holds it, only that it should go on.
 *
 * Invariant: a child that goes on in its session is never given its task again: it would do finished steps twice (P6). But for an
 * agent that forgets unfinished turns, which may not have it any more.
 */

import type { AttemptOrder } from "../../ports/driver.ts";
import { GO_ON, LOOK_FIRST, withHistory } from "../child-prompt.ts";
import { forgetsUnfinishedTurns } from "./acp-quirks.ts";

export type PromptContext = {
  /** The agent took up its session, so that it knows what was said. */
  readonly resumed: boolean;
  /** It had a session, of which it kept nothing. */
  readonly startedAnew: boolean;
  readonly agentName: string | null;
};

export function promptFor(order: AttemptOrder, { resumed, startedAnew, agentName }: PromptContext): string {
  if (!resumed && order.history.length > 0) return withHistory(order);
  if (!resumed) return startedAnew ? `${LOOK_FIRST}\n\n${order.prompt}` : order.prompt;
  if (order.cause === "first") return order.prompt;
  return forgetsUnfinishedTurns(agentName) ? `${GO_ON}\n\nThe task was:\n\n${order.prompt}` : GO_ON;
}
