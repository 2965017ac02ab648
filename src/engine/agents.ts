/**
 * `list_agents`: what can be a child here, how it is, and the limits in force.
 *
 * Absent on purpose: asking the agents themselves. What is told is known without starting anything.
 */

import type { Caller } from "../core/caller.ts";
import type { Task } from "../core/task.ts";
import { PERMISSIONS } from "../core/task.ts";
import type { AgentProbe } from "../ports/agent-probe.ts";
import type { AgentHealth, AgentLine, AgentLimits, Answer } from "../ports/engine.ts";
import type { AgentSettings, EngineSettings } from "../ports/settings.ts";
import type { Courier } from "./courier.ts";

export type Agents = {
  list(caller: Caller): Promise<Answer>;
  /** The agent of calls that name none: the operator's, else the first whose program is there (or may be), else the first; null: none. */
  default(): string | null;
};

export function createAgents(world: {
  readonly settings: EngineSettings;
  readonly probe: AgentProbe;
  readonly courier: Courier;
  /** Unfinished tasks that heal a passing fault. */
  readonly healing: () => Iterable<Task>;
  readonly running: () => number;
  readonly queued: () => number;
}): Agents {
  const { settings, probe, courier } = world;
  const { agents, limits } = settings;

  function defaultAgent(): string | null {
    if (settings.defaultAgent !== null) return settings.defaultAgent;
    // What has no tools can do little of what is asked without a word about who.
    const able = [...agents].filter(([, { writes }]) => writes).map(([name]) => name);
    const names = able.length > 0 ? able : [...agents.keys()];
    const first = (health: AgentHealth): string | undefined => names.find((name) => probe.health(name) === health);
    return first("ready") ?? first("unknown") ?? names[0] ?? null;
  }

  function lineOf(name: string, agent: AgentSettings, healing: number): AgentLine {
    const upTo = PERMISSIONS.slice(0, PERMISSIONS.indexOf(settings.permissionsMax) + 1);
    return {
      name,
      driver: agent.driver,
      isDefault: name === defaultAgent(),
      model: agent.model,
      permissions: upTo.filter((level) => agent.trusted || agent.levels.includes(level)),
      trusted: agent.trusted,
      health: probe.health(name),
      healing,
    };
  }

  function limitsNow(): AgentLimits {
    const { concurrentChildren, queueMax, depthMax, tasksPerTreeMax } = limits;
    const { permissionsMax, approvalsBy } = settings;
    const now = { running: world.running(), queued: world.queued() };
    return { concurrentChildren, ...now, queueMax, depthMax, tasksPerTreeMax, permissionsMax, approvalsBy };
  }

  return {
    default: defaultAgent,
    async list(caller) {
      const healing = new Map<string, number>();
      for (const { spec } of world.healing()) healing.set(spec.agent, (healing.get(spec.agent) ?? 0) + 1);
      const lines = [...agents].map(([name, agent]) => lineOf(name, agent, healing.get(name) ?? 0));
      const pending = await courier.pendingFor(caller, new Set());
      return { kind: "agents", agents: lines, limits: limitsNow(), next: { kind: "use_result" }, pending };
    },
  };
}
