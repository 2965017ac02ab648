/**
 * What the daemon answers, as far as the command line reads it (contract §6).
 *
 * Invariant: unknown fields pass through untouched, so that `--json` shows what a newer daemon says.
 */

import { z } from "zod";

const optionalText = z.string().optional();

const itemShape = {
  say: optionalText,
  status: optionalText,
  phase: optionalText,
  taskId: optionalText,
  childThreadId: optionalText,
  nodeId: optionalText,
  created: optionalText,
  replayedAgeMs: z.number().optional(),
  waitEnded: optionalText,
  settlement: z.number().optional(),
  title: optionalText,
  agent: optionalText,
  createdAt: z.union([z.string(), z.number()]).optional(),
  continuable: z.boolean().optional(),
  question: z
    .looseObject({
      questionId: optionalText,
      kind: optionalText,
      optionIds: z.array(z.string()).optional(),
      action: z.record(z.string(), z.string()).optional(),
      /** What was answered, where somebody has. */
      answer: optionalText,
    })
    .optional(),
  problem: z
    .looseObject({
      class: optionalText,
      httpStatus: z.number().optional(),
      nextTryAt: z.union([z.string(), z.number()]).optional(),
      retriesUntil: z.union([z.string(), z.number()]).optional(),
    })
    .optional(),
  outcome: z.looseObject({ class: optionalText, evidence: optionalText }).optional(),
  stop: z.looseObject({ proof: optionalText, survivors: z.array(z.unknown()).optional() }).optional(),
  workspace: z
    .looseObject({ cwd: optionalText, access: optionalText, isolation: optionalText, branch: optionalText })
    .optional(),
  error: z.looseObject({ code: z.string(), retryable: z.boolean().optional() }).optional(),
  /** The task that a key already names. */
  related: z.looseObject({ taskId: optionalText }).optional(),
  meta: z
    .looseObject({
      clientRequestId: optionalText,
      by: z.looseObject({ kind: optionalText, name: optionalText }).optional(),
    })
    .optional(),
  fromChild: z
    .looseObject({
      note: optionalText,
      result: z
        .looseObject({ text: optionalText, truncated: z.boolean().optional(), totalBytes: z.number().optional() })
        .optional(),
      question: z.looseObject({ prompt: optionalText, labels: z.record(z.string(), z.string()).optional() }).optional(),
      problemText: optionalText,
    })
    .optional(),
};

/** One task in an answer about several. */
export const itemSchema = z.looseObject(itemShape);

export const answerSchema = z.looseObject({
  ...itemShape,
  say: z.string(),
  next: z
    .looseObject({
      kind: z.string(),
      tool: optionalText,
      arguments: z.record(z.string(), z.unknown()).optional(),
      change: z.union([z.string(), z.record(z.string(), z.unknown())]).optional(),
    })
    .optional(),
  tasks: z.array(itemSchema).optional(),
  nextCursor: optionalText,
});

export type Item = z.output<typeof itemSchema>;
export type Answer = z.output<typeof answerSchema>;

/** A refusal of HTTP itself: before a task could be named. */
const problemSchema = z.looseObject({
  error: z.union([z.string(), z.looseObject({ code: z.string(), message: optionalText })]),
  message: optionalText,
  next: z.union([z.string(), z.looseObject({ change: optionalText })]).optional(),
});

export type HttpProblem = { readonly code: string; readonly message: string; readonly change: string | null };

export function readProblem(body: unknown): HttpProblem | null {
  const parsed = problemSchema.safeParse(body);
  if (!parsed.success) return null;
  const { error, message, next } = parsed.data;
  const code = typeof error === "string" ? error : error.code;
  const said = message ?? (typeof error === "string" ? error : (error.message ?? error.code));
  return { code, message: said, change: typeof next === "string" ? next : (next?.change ?? null) };
}

const TERMINAL: readonly (string | undefined)[] = ["completed", "failed", "cancelled"];

export function isSettled(item: Item): boolean {
  return TERMINAL.includes(item.status);
}

export function needsAnswer(item: Item): boolean {
  return item.status === "input_required";
}

/** Milliseconds since the epoch of a moment as the daemon writes it; null if it is none. */
export function momentOf(value: string | number | undefined): number | null {
  if (typeof value === "number") return value;
  const parsed = Date.parse(value ?? "");
  return Number.isNaN(parsed) ? null : parsed;
}
