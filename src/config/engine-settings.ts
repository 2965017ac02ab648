/**
 * From the configuration to what the engine is told.
 */

import path from "node:path";

import { type OnLoss, PERMISSIONS, type Permission } from "../core/task.ts";
import type { AgentSettings, EngineSettings, ModelEndpoint } from "../ports/settings.ts";
import { childEnvironment } from "./child-environment.ts";
import type { LoadedConfig } from "./load-config.ts";
import type { AgentConfig } from "./schema.ts";

/** What a driver itself can hold an agent to. An ACP agent that nobody has profiled may do more than it asks for. */
const LEVELS: Readonly<Record<AgentConfig["driver"], readonly Permission[]>> = {
  command: PERMISSIONS,
  acp: ["full"],
  codex: PERMISSIONS,
  fake: PERMISSIONS,
  claude: PERMISSIONS,
  model: PERMISSIONS,
  pi: [],
};

/** What a lost child means unless the operator says otherwise. A model is asked anew: it has no session and did nothing. */
const ON_LOSS: Readonly<Record<AgentConfig["driver"], OnLoss>> = {
  command: "fail",
  acp: "resume",
  codex: "resume",
  fake: "resume",
  model: "rerun",
  pi: "resume",
  claude: "resume",
};

/** Running time of a task that names no limit of its own. */
const MAX_ACTIVE_MS = 24 * 60 * 60_000;
const DAY_MS = 24 * 60 * 60_000;

export function engineSettings({ config, environment }: LoadedConfig, daemonId: string): EngineSettings {
  const agents = Object.entries(config.agents).map(
    ([name, agent]) => [name, agentSettings(agent, environment)] as const,
  );
  const named = Object.entries(config.agents).find(([, agent]) => agent.default === true);
  return {
    daemonId,
    limits: config.limits,
    retry: config.retry,
    stallAfterMs: config.stall.afterMs,
    questionDeadlineMs: config.questions.deadlineMs,
    maxActiveMs: MAX_ACTIVE_MS,
    permissionsMax: config.permissions.max,
    approvalsBy: config.permissions.approvalsBy,
    retention: {
      resultsMs: config.retention.resultsDays * DAY_MS,
      transcriptsMs: config.retention.transcriptsDays * DAY_MS,
      tombstonesMs: config.retention.tombstonesDays * DAY_MS,
    },
    guardLeaseMs: config.guard.leaseMs,
    agents: new Map(agents),
    defaultAgent: named?.[0] ?? null,
    scratchRoot: path.join(config.dataDir, "scratch"),
  };
}

function agentSettings(agent: AgentConfig, environment: Readonly<Record<string, string>>): AgentSettings {
  return {
    driver: agent.driver,
    command: agent.command ?? [agent.driver],
    promptBy: agent.promptBy ?? "stdin",
    onLoss: agent.onLoss ?? ON_LOSS[agent.driver],
    model: agent.model ?? null,
    trusted: agent.trusted ?? agent.driver === "command",
    requireEvidence: agent.requireEvidence ?? "assumed",
    levels: LEVELS[agent.driver],
    writes: agent.driver !== "model",
    env: childEnvironment(environment, agent.env ?? []),
  };
}

/** Where agents that are bare models are asked, by name. The only place where their keys are. */
export function modelEndpoints({ config, environment }: LoadedConfig): ReadonlyMap<string, ModelEndpoint> {
  return new Map(
    Object.entries(config.agents).flatMap(([name, { driver, api, baseUrl, apiKeyEnv }]) => {
      if (driver !== "model" || api === undefined || baseUrl === undefined) return [];
      const apiKey = apiKeyEnv === undefined ? null : (environment[apiKeyEnv] ?? null);
      return [[name, { api, baseUrl, apiKey }] as const];
    }),
  );
}
