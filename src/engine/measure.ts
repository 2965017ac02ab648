/**
 * What the meter learns from commits and answers.
 */

import type { Task } from "../core/task.ts";
import type { Answer } from "../ports/engine.ts";
import type { Meter } from "../ports/meter.ts";

/** Runs after every commit. */
export function measureChange(meter: Meter, before: Task | null, after: Task): void {
  if (before === null) meter.accepted();
  const { lastSettlement, state } = after;
  if (lastSettlement !== null && after.settlements > (before?.settlements ?? 0)) {
    meter.settled(lastSettlement.verdict.status, lastSettlement.verdict.class);
  }
  if (before === null || before.state.kind === state.kind) {
    const stalled = state.kind === "running" && state.attempt.stalledSinceMs !== null;
    const wasStalled = before?.state.kind === "running" && before.state.attempt.stalledSinceMs !== null;
    if (stalled && !wasStalled) meter.stoodStill();
    return;
  }
  if (state.kind === "awaiting_answer") meter.asked(state.question.kind);
  if (state.kind !== "queued") return;
  if (state.reason === "recovering") meter.recovered();
  else if (state.problem !== null) meter.healed(state.problem.class);
}

/** Runs with every answer of a tool that starts or sends something, or refuses. */
export function measureAnswer(meter: Meter, tool: string, answer: Answer): void {
  if (answer.kind === "task" && answer.created === "replayed") meter.replayed(tool);
  if (answer.kind === "task" && answer.created === "joined") meter.joined();
  if (answer.kind !== "refusal") return;
  if (answer.rejection.code === "idempotency_conflict") meter.conflicted(tool);
  meter.refused(answer.rejection.code);
}
