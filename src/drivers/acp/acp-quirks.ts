/**
 * What is known of single agents, by the name that they give themselves. As little as possible: an agent that needs more has a
 * driver of its own.
 */

/** These keep a turn only once it ended well: a refused or killed first turn is in no session of theirs, the task with it. */
const FORGETFUL = /gemini/i;

export function forgetsUnfinishedTurns(agentName: string | null): boolean {
  return FORGETFUL.test(agentName ?? "");
}
