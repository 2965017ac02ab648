/**
 * What the scripted model does, step by step, and which faults it has.
 *
 * A prompt carries a marker; the server looks the plan up and derives the step to play from the conversation itself, so a
 * resumed conversation goes on where it stood:
 *   [[plan:ID]]          a plan registered with the server
 *   [[plan64:BASE64URL]] the whole plan inside the prompt
 * The last marker in user text selects the plan; progress is counted from the first user message that carries it (some
 * harnesses join a failed prompt and the next one).
 */

import { z } from "zod";

const pacing = {
  /** Thinks first. */
  delayMs: z.number().optional(),
  /** Spreads the text over that time. */
  streamMs: z.number().optional(),
  /** Repeats the step until the tool result matches: `settled`, `completed`, `handle`, or a regular expression. */
  until: z.string().optional(),
  /** How often it repeats at most; 40 by default. */
  max: z.number().optional(),
  /** Pause before a repetition; 1 s by default. */
  gapMs: z.number().optional(),
};

const stepSchema = z.union([
  /** Final answer; may hold `{{taskId}}` (from the first tool result that shows one) and `{{last}}` (last tool result). */
  z.object({ text: z.string(), ...pacing }),
  /** The harness's own shell tool; `escalate` asks to leave the sandbox where the harness has one. */
  z.object({ shell: z.string(), escalate: z.boolean().optional(), ...pacing }),
  /** A tool of the MCP server under test; `$taskId` is filled in; `follow` takes the arguments of the shown next step. */
  z.object({
    mcp: z.string(),
    args: z.record(z.string(), z.unknown()).optional(),
    follow: z.boolean().optional(),
    ...pacing,
  }),
  /** Any tool by its raw name. */
  z.object({
    tool: z.string(),
    namespace: z.string().optional(),
    input: z.record(z.string(), z.unknown()).optional(),
    ...pacing,
  }),
]);

const faultSchema = z.object({
  kind: z.enum([
    "cf403",
    "403",
    "401",
    "402",
    "404",
    "429",
    "500",
    "503",
    "529",
    "reset",
    "reset-mid",
    "hang",
    "hang-mid",
    "error-mid",
  ]),
  /** Only at this step; everywhere by default. */
  step: z.number().optional(),
  /** Hits that many matching requests, then all is fine; 1 by default. */
  first: z.number().optional(),
  /** Never ends by itself. */
  always: z.boolean().optional(),
  /** Seconds in `Retry-After` of a 429. */
  retryAfter: z.number().optional(),
  /** How long a hang lasts. */
  seconds: z.number().optional(),
});

const planSchema = z.object({
  id: z.string(),
  steps: z.array(stepSchema),
  faults: z.array(faultSchema).optional(),
  /** Played also for a model that is offered no tools; otherwise such a request is a harness's side question. */
  toolless: z.boolean().optional(),
  /** Name of the MCP server in the harness's configuration; `delegate` by default. */
  server: z.string().optional(),
});

export type Step = z.infer<typeof stepSchema>;
export type ModelFault = z.infer<typeof faultSchema>;
export type Plan = z.infer<typeof planSchema>;

/** Starts a text that a fault broke off. */
export const PARTIAL = "PARTIAL-ANSWER ";

const MARKER = /\[\[plan(64)?:([A-Za-z0-9_.-]+)\]\]/g;

export function markerOf(plan: Plan): string {
  return `[[plan:${plan.id}]]`;
}

export function inlineMarkerOf(plan: Plan): string {
  return `[[plan64:${Buffer.from(JSON.stringify(plan)).toString("base64url")}]]`;
}

/** The last plan that a text names, with the marker as written; null if it names none that is known. */
export function planIn(text: string, known: ReadonlyMap<string, Plan>): { plan: Plan; marker: string } | null {
  const match = [...text.matchAll(MARKER)].at(-1);
  if (match === undefined) return null;
  const [marker, inline, value = ""] = match;
  const plan = inline === undefined ? known.get(value) : inlinePlan(value);
  return plan === undefined ? null : { plan, marker };
}

function inlinePlan(encoded: string): Plan | undefined {
  try {
    return planSchema.parse(JSON.parse(Buffer.from(encoded, "base64url").toString()));
  } catch {
    return undefined;
  }
}
