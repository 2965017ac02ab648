/**
 * What a child shows to be let in: names its attempt, and nothing else.
 */

import type { AttemptId } from "../core/ids.ts";

export type ChildCredentials = {
  tokenOf(attemptId: AttemptId): string;
  /** The attempt that a token of ours names; null for every other text. Whether it is alive is the engine's to say. */
  attemptOf(token: string): AttemptId | null;
};
