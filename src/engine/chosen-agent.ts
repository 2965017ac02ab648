/**
 * Which agent works, with which model and options: checked the same way for a new task and for a continued one.
 *
 * Invariant: what an agent cannot do is refused by name, never silently done otherwise.
 */

import type { NextStep } from "../core/next-step.ts";
import type { Rejection } from "../core/rejection.ts";
import { type Access, type AgentChoice, PERMISSIONS, type Permission, type Spec, type Task } from "../core/task.ts";
import type { AgentSettings, EngineSettings } from "../ports/settings.ts";
import { invalid, rejection, unknownAgent } from "./rejections.ts";

export type Wish = {
  readonly agent: string | null;
  readonly model: string | null;
  readonly options: Readonly<Record<string, string>>;
};

/**
 * What a continuation changes of who works; `choice` null if nothing. What the operator allows now counts, not what was allowed
 * when the task began.
 */
export function chosenAgent(
  wish: Wish,
  task: Task,
  settings: EngineSettings,
): { readonly kind: "chosen"; readonly choice: AgentChoice | null } | Rejection {
  const hasOptions = Object.keys(wish.options).length > 0;
  // What is queued before this message is done first, with whom it names.
  const queued = task.messages.findLast(({ choice }) => choice !== null)?.choice;
  const spec: Spec = { ...task.spec, ...queued };
  const name = wish.agent ?? spec.agent;
  const agent = settings.agents.get(name);
  if (agent === undefined) return unknownAgent(name, settings);
  const asItWas: NextStep = { kind: "fix", change: { agent: spec.agent } };
  const refused =
    notOffered(name, agent, wish) ??
    beyondMax(spec.permissions, settings.permissionsMax, { kind: "ask_user" }) ??
    beyondLevel(name, agent, spec.permissions) ??
    cannotWrite(name, agent, spec.access, asItWas);
  if (refused !== null) return refused;
  if (wish.agent === null && wish.model === null && !hasOptions) return { kind: "chosen", choice: null };
  const same = name === spec.agent;
  const kept = same ? { model: spec.model, options: spec.options } : { model: agent.model, options: {} };
  const choice: AgentChoice = {
    agent: name,
    driver: agent.driver,
    model: wish.model ?? kept.model,
    options: hasOptions ? wish.options : kept.options,
    onLoss: agent.onLoss,
    requireEvidence: agent.requireEvidence,
  };
  return { kind: "chosen", choice };
}

/** A `command` program is the operator's own: it takes neither model nor options from a caller. A bare model has no options. */
export function notOffered(name: string, { driver }: AgentSettings, { model, options }: Wish): Rejection | null {
  if (driver !== "command" && driver !== "model") return null;
  if (model !== null && driver === "command")
    return invalid([{ field: "model", expected: `nothing: agent ${name} takes no model` }]);
  if (Object.keys(options).length === 0) return null;
  return invalid([{ field: "options", expected: `nothing: agent ${name} has no options` }]);
}

export function beyondMax(asked: Permission, max: Permission, next: NextStep): Rejection | null {
  if (PERMISSIONS.indexOf(asked) <= PERMISSIONS.indexOf(max)) return null;
  return rejection("permission_limit", next, { asked, allowed: max, setting: "permissions.max" });
}

/** An agent that cannot be held to a level is given no task at it, unless the operator trusts it. */
export function beyondLevel(name: string, agent: AgentSettings, asked: Permission): Rejection | null {
  if (agent.trusted || agent.levels.includes(asked)) return null;
  const [held] = agent.levels;
  const next: NextStep = { kind: "ask_user" };
  const setting = `agents.${name}.trusted`;
  return rejection("permission_limit", next, { asked, allowed: held ?? "none", setting, agent: name });
}

/** An agent without tools is given no task that writes: it could only pretend. `next`: the way out. */
export function cannotWrite(name: string, agent: AgentSettings, access: Access, next: NextStep): Rejection | null {
  if (agent.writes || access === "read") return null;
  const setting = `the driver of agent ${name}, which has no tools`;
  return rejection("permission_limit", next, { what: "access", asked: access, allowed: "read", setting });
}
