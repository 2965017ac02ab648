/**
 * Refusals that several verbs make, as values.
 */

import type { NextStep } from "../core/next-step.ts";
import type { Code, Rejection } from "../core/rejection.ts";
import type { FieldProblem } from "../ports/engine.ts";
import type { EngineSettings } from "../ports/settings.ts";

export function rejection(code: Code, next: NextStep, detail: Rejection["detail"]): Rejection {
  return { kind: "rejection", code, next, detail };
}

export function invalid(problems: readonly FieldProblem[]): Rejection {
  const change = Object.fromEntries(problems.map(({ field, expected }) => [field, expected]));
  return rejection("invalid_arguments", { kind: "fix", change }, { fields: problems.map(({ field }) => field) });
}

/** `asked`: null if the caller named none and there is no default. */
export function unknownAgent(asked: string | null, settings: EngineSettings): Rejection {
  const known = [...settings.agents.keys()];
  const change: Record<string, string> = known[0] === undefined ? {} : { agent: settings.defaultAgent ?? known[0] };
  const next: NextStep = known.length === 0 ? { kind: "ask_user" } : { kind: "fix", change };
  return rejection("unknown_agent", next, asked === null ? { known } : { asked, known });
}
