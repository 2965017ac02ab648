/**
 * The fields of one task in an answer, in the order of contract §6, from `status` to `continuable`.
 *
 * Invariant: what never changes is left out of a wait's answer to a caller who was told of the task and has to go on waiting.
 *
 * Absent on purpose: `say`, `next` and everything a child wrote.
 */

import type { Caller } from "../core/caller.ts";
import type { TaskView } from "../core/describe.ts";
import { LIMITS } from "../core/limits.ts";
import { sanitiseLine, sanitiseShort } from "../core/sanitise.ts";
import type { Settlement, Survivor } from "../core/task.ts";
import type { TaskAnswer, TaskItem } from "../ports/engine.ts";
import { shownAction, shownOptions, SURVIVORS_MAX } from "./child-text.ts";
import { type AnswerJson, compact, iso } from "./json-fields.ts";

type CallFields = Pick<TaskAnswer, "created" | "replayedAgeMs" | "waitEnded" | "stepsTold" | "toldBefore">;

/** True for an answer that repeats what its caller knows but for how the work is going. */
export function isBrief(view: TaskView, { waitEnded, toldBefore }: CallFields): boolean {
  return waitEnded !== null && toldBefore && view.status === "working";
}

export function taskFields({ view, queue }: TaskItem, caller: Caller, extra: CallFields): Record<string, unknown> {
  const { outcome, spec, question, activity } = view;
  const known = isBrief(view, extra);
  return {
    status: view.status,
    phase: view.phase,
    ...view.handle,
    created: extra.created,
    replayedAgeMs: extra.replayedAgeMs,
    waitEnded: extra.waitEnded,
    settlement: view.settlements === 0 ? null : view.settlements,
    question: question && {
      questionId: question.questionId,
      kind: question.kind,
      optionIds: shownOptions(question.optionIds),
      action: shownAction(question.action),
      deadlineAt: iso(question.deadlineAtMs),
    },
    problem: problemJson(view),
    outcome: outcome && outcomeJson(outcome),
    stop: stopJson(view, outcome),
    workspace: known
      ? null
      : {
          cwd: shownPath(spec.cwd, CWD_CHARACTERS_MAX),
          access: spec.access,
          isolation: "shared",
          // Processes that a person gave up may still be writing.
          youMayEdit: spec.access === "read" || (view.phase === "settled" && outcome?.stop.proof !== "abandoned"),
        },
    queue,
    activity: activity && {
      stepsSinceLastLook: Math.max(0, view.steps - extra.stepsTold),
      lastProgressAt: iso(activity.lastProgressAtMs),
      toolRunningSince: activity.toolRunningSinceMs === null ? null : iso(activity.toolRunningSinceMs),
    },
    earlierRun: view.earlierRun && {
      runOrdinal: view.earlierRun.runOrdinal,
      settlement: view.earlierRun.number,
      status: view.earlierRun.verdict.status,
      class: view.earlierRun.verdict.class,
    },
    title: known ? null : shownTitle(spec.title),
    agent: known ? null : spec.agent,
    createdAt: known ? null : iso(view.createdAtMs),
    thisConversation: known ? null : isHere(view, caller),
    usage: outcome?.verdict.usage ?? null,
    continuable: view.phase === "settled" ? view.continuable : null,
  };
}

/** A fault that is being healed, or processes that hold the end up (contract §8). */
function problemJson({ problem, survivors }: TaskView): AnswerJson | null {
  if (problem === null) return survivors.length === 0 ? null : { class: "survivors" };
  return {
    class: survivors.length === 0 ? problem.class : "survivors",
    httpStatus: problem.httpStatus,
    since: iso(problem.sinceMs),
    nextTryAt: iso(problem.nextTryAtMs),
    retriesUntil: iso(problem.retriesUntilMs),
  };
}

/** The caller's own text; one line of it. */
export function shownTitle(title: string): string {
  return sanitiseLine(title, LIMITS.titleCharactersMax);
}

/** A path as it is, or its ends if it is very long. */
export function shownPath(path: string, charactersMax: number): string {
  const line = sanitiseLine(path, path.length + 1);
  if (line.length <= charactersMax) return line;
  const half = Math.floor(charactersMax / 2) - 1;
  return `${line.slice(0, half)}…${line.slice(-half)}`.toWellFormed();
}

const CWD_CHARACTERS_MAX = 500;

/** Why agents and providers say that they stopped. Any other word would be a child's text (P17). */
const STOP_REASONS: ReadonlySet<string> = new Set(
  [
    "end_turn stop stop_sequence tool_use tool_calls pause_turn max_turns max_turn_requests max_tokens max_output_tokens",
    "length refusal content_filter safety recitation cancelled canceled aborted interrupted error none",
    "error_during_execution error_max_turns error_max_budget_usd model_context_window_exceeded",
  ].flatMap((line) => line.split(" ")),
);

function stopReasonOf(reason: string | null): string | null {
  return reason !== null && STOP_REASONS.has(reason) ? reason : null;
}

function outcomeJson({ verdict }: Settlement): AnswerJson {
  return compact({
    class: verdict.class,
    evidence: verdict.evidence,
    httpStatus: verdict.httpStatus,
    stopReason: stopReasonOf(verdict.stopReason),
    retryAt: verdict.retryAtMs === null ? null : iso(verdict.retryAtMs),
    sideEffects: verdict.sideEffects,
    contextKept: verdict.contextKept,
    partial: verdict.partial ? true : null,
    by: verdict.by,
  });
}

function stopJson(view: TaskView, outcome: Settlement | null): AnswerJson | null {
  if (outcome === null) return view.survivors.length === 0 ? null : { survivors: processes(view.survivors) };
  const { proof, survivors, kept, by } = outcome.stop;
  return compact({ proof, survivors: processes(survivors), kept: processes(kept), by });
}

/** Null if there are none; the last entry says how many are not shown. */
function processes(all: readonly Survivor[]): readonly AnswerJson[] | null {
  if (all.length === 0) return null;
  const shown = all.slice(0, SURVIVORS_MAX).map(({ pid, command }) => ({ pid, command: sanitiseShort(command, 200) }));
  return all.length <= SURVIVORS_MAX ? shown : [...shown, { more: all.length - SURVIVORS_MAX }];
}

export function isHere(view: TaskView, caller: Caller): boolean | null {
  return caller.conversation === null || view.conversation === null ? null : view.conversation === caller.conversation;
}
