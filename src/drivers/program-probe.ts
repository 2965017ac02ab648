/**
 * Whether the agents' programs are there: looked up in the background and remembered for a while.
 *
 * Invariant: asking costs nothing and never waits; what is told may be half a minute old.
 * Absent on purpose: starting a program to ask it. A program that is there may still fail; its task says so then.
 */

import { access, constants, stat } from "node:fs/promises";
import { delimiter, join } from "node:path";
import type { AgentProbe } from "../ports/agent-probe.ts";
import type { Clock } from "../ports/clock.ts";
import type { AgentHealth } from "../ports/engine.ts";
import type { AgentSettings } from "../ports/settings.ts";

const FRESH_MS = 30_000;

type Known = { health: AgentHealth; lookedAtMs: number; looking: boolean };

export function createProgramProbe(agents: ReadonlyMap<string, AgentSettings>, clock: Clock): AgentProbe {
  const known = new Map<string, Known>();

  function refresh(agent: AgentSettings, entry: Known): void {
    entry.looking = true;
    entry.lookedAtMs = clock.monotonicMs();
    healthOf(agent)
      .then((health) => {
        entry.health = health;
      })
      .catch(() => {
        entry.health = "unknown";
      })
      .finally(() => {
        entry.looking = false;
      });
  }

  const probe: AgentProbe = {
    health(name) {
      const agent = agents.get(name);
      if (agent === undefined) return "missing";
      // Played, or asked, by the daemon itself.
      if (agent.driver === "fake" || agent.driver === "model") return "ready";
      const entry = known.get(name) ?? { health: "unknown", lookedAtMs: Number.NEGATIVE_INFINITY, looking: false };
      known.set(name, entry);
      if (!entry.looking && clock.monotonicMs() - entry.lookedAtMs > FRESH_MS) refresh(agent, entry);
      return entry.health;
    },
  };
  for (const name of agents.keys()) probe.health(name);
  return probe;
}

async function healthOf({ command, env }: AgentSettings): Promise<AgentHealth> {
  const [program] = command;
  if (program.includes("/")) return (await isExecutable(program)) ? "ready" : "missing";
  for (const folder of (env["PATH"] ?? "").split(delimiter)) {
    if (folder !== "" && (await isExecutable(join(folder, program)))) return "ready";
  }
  return "missing";
}

async function isExecutable(path: string): Promise<boolean> {
  try {
    await access(path, constants.X_OK);
    return (await stat(path)).isFile();
  } catch {
    return false;
  }
}
