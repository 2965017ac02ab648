/**
 * One request to the model, read: the conversation, the tools on offer, the plan that it belongs to and the step that is
 * due.
 */

import {
  type Dialect,
  type OfferedTool,
  readTools,
  readTurns,
  type Standing,
  standingOf,
  type Turn,
} from "./conversation.ts";
import { type Plan, planIn, type Step } from "./plan.ts";

export type Question = {
  readonly dialect: Dialect;
  readonly body: unknown;
  readonly turns: readonly Turn[];
  readonly tools: readonly OfferedTool[];
  /** True if tools were offered: the harness's main loop, not a title or a classifier. */
  readonly main: boolean;
  /** The plan, and the first turn that carries its marker. */
  readonly found: { readonly plan: Plan; readonly from: number } | null;
  readonly standing: Standing;
};

/** Gemini CLI asks a classifier before it asks the model. */
const GEMINI_SIDE_ANSWER = JSON.stringify({
  reasoning: "x",
  next_speaker: "user",
  model_choice: "flash",
  complexity_score: 10,
  complexity_reasoning: "x",
});

export function readQuestion(dialect: Dialect, body: unknown, plans: ReadonlyMap<string, Plan>): Question {
  const turns = readTurns(dialect, body);
  const tools = readTools(dialect, body);
  const found = planOf(turns, plans);
  const standing = found === null ? NOWHERE : standingOf(found.plan, turns, found.from);
  return { dialect, body, turns, tools, main: tools.length > 0 || found?.plan.toolless === true, found, standing };
}

/** The step that answers a question. */
export function dueStep({ main, found, standing, dialect }: Question): Step {
  if (!main) return { text: dialect === "gemini" ? GEMINI_SIDE_ANSWER : "Title" };
  if (found === null) return { text: "ok" };
  return found.plan.steps[standing.step] ?? { text: `nothing left to do (${found.plan.id})` };
}

const NOWHERE: Standing = { step: 0, loops: 0, results: [] };

/** The plan that the last marked user text names, and the first turn that carries the same marker. */
function planOf(turns: readonly Turn[], plans: ReadonlyMap<string, Plan>): { plan: Plan; from: number } | null {
  for (const turn of turns.toReversed()) {
    const found = turn.role === "user" ? planIn(turn.text, plans) : null;
    if (found === null) continue;
    const from = turns.findIndex((each) => each.role === "user" && each.text.includes(found.marker));
    return { plan: found.plan, from };
  }
  return null;
}
