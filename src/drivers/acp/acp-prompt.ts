/**
 * What an agent is told: the task, or, where its own conversation already holds it, only that it should go on.
 *
 * Invariant: a child that goes on in its session is never given its task again: it would do finished steps twice (P6). But for an
 * agent that forgets unfinished turns, which may not have it any more.
 */

import type { AttemptOrder } from "../../ports/driver.ts";
import { GO_ON, promptOf, type TakenUp } from "../child-prompt.ts";
import { forgetsUnfinishedTurns } from "./acp-quirks.ts";

export type PromptContext = TakenUp & { readonly agentName: string | null };

export function promptFor(order: AttemptOrder, { agentName, ...takenUp }: PromptContext): string {
  const forgot = takenUp.resumed && order.cause !== "first" && forgetsUnfinishedTurns(agentName);
  return forgot ? `${GO_ON}\n\nThe task was:\n\n${order.prompt}` : promptOf(order, takenUp);
}
