/**
 * What an operator has set, as the engine needs it.
 */

import type { OnLoss, Permission } from "../core/task.ts";

export type EngineSettings = {
  /** Stable id of this data directory; first half of every mark. */
  readonly daemonId: string;
  readonly limits: {
    readonly concurrentChildren: number;
    readonly queueMax: number;
    readonly depthMax: number;
    readonly tasksPerTreeMax: number;
    readonly waitsMax: number;
    readonly delegationsPerMinute: number;
  };
  readonly retry: {
    readonly patienceMs: number;
    readonly backoffMaxMs: number;
    readonly unknownAttemptsMax: number;
    readonly lossesMax: number;
    readonly pauseMaxMs: number;
  };
  readonly stallAfterMs: number;
  readonly questionDeadlineMs: number;
  readonly maxActiveMs: number;
  readonly permissionsMax: Permission;
  /** Who may answer a child's permission request. */
  readonly approvalsBy: "caller" | "person";
  readonly retention: { readonly resultsMs: number; readonly transcriptsMs: number; readonly tombstonesMs: number };
  readonly guardLeaseMs: number;
  readonly agents: ReadonlyMap<string, AgentSettings>;
  /** The operator's choice; null: the first whose program is there. */
  readonly defaultAgent: string | null;
  /** Folder below which every attempt gets a scratch folder of its own. */
  readonly scratchRoot: string;
};

export type AgentSettings = {
  readonly driver: string;
  readonly command: readonly [string, ...string[]];
  readonly promptBy: "stdin" | "file";
  readonly onLoss: OnLoss;
  readonly model: string | null;
  readonly trusted: boolean;
  readonly requireEvidence: "assumed" | "explicit";
  /** Levels that the agent can be held to by its driver; all others need `trusted`. */
  readonly levels: readonly Permission[];
  /** False: it has no tools, so that it can change nothing; tasks that write are refused. */
  readonly writes: boolean;
  /** The whole environment of a child of this agent, before marks. */
  readonly env: Readonly<Record<string, string>>;
};

/** Where an agent that is a bare model is asked. */
export type ModelEndpoint = {
  readonly api: "anthropic" | "openai";
  /** https, or http to a loopback address. */
  readonly baseUrl: string;
  /** A secret; null for a server that wants none. */
  readonly apiKey: string | null;
};
