/**
 * Whether an agent's program is there. A hint, looked up in the background; it never holds up an answer.
 */

import type { AgentHealth } from "./engine.ts";

export type AgentProbe = {
  /** What is known now; asking may start a new look. */
  health(agent: string): AgentHealth;
};
