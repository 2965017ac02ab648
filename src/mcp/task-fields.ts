/**
 * The fields of one task in an answer, in the order of contract §6, from `status` to `continuable`.
 *
 * Absent on purpose: `say`, `next` and everything a child wrote.
 */

import type { Caller } from "../core/caller.ts";
import type { TaskView } from "../core/describe.ts";
import { sanitiseLine } from "../core/sanitise.ts";
import type { Settlement, Survivor } from "../core/task.ts";
import type { TaskAnswer, TaskItem } from "../ports/engine.ts";
import { type AnswerJson, compact, iso } from "./json-fields.ts";

type CallFields = Pick<TaskAnswer, "created" | "replayedAgeMs" | "waitEnded" | "stepsTold">;

export function taskFields({ view, queue }: TaskItem, caller: Caller, extra: CallFields): Record<string, unknown> {
  const { outcome, spec, question, problem, activity } = view;
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
      optionIds: question.optionIds,
      action: Object.fromEntries(
        Object.entries(question.action).map(([name, value]) => [sanitiseLine(name, 60), sanitiseLine(value, 200)]),
      ),
      deadlineAt: iso(question.deadlineAtMs),
    },
    problem: problem && {
      class: problem.class,
      httpStatus: problem.httpStatus,
      since: iso(problem.sinceMs),
      nextTryAt: iso(problem.nextTryAtMs),
      retriesUntil: iso(problem.retriesUntilMs),
    },
    outcome: outcome && outcomeJson(outcome),
    stop: stopJson(view, outcome),
    workspace: {
      cwd: spec.cwd,
      access: spec.access,
      isolation: "shared",
      youMayEdit: spec.access === "read" || view.phase === "settled",
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
    title: spec.title,
    agent: spec.agent,
    createdAt: iso(view.createdAtMs),
    thisConversation: isHere(view, caller),
    usage: outcome?.verdict.usage ?? null,
    continuable: view.phase === "settled" ? view.continuable : null,
  };
}

function outcomeJson({ verdict }: Settlement): AnswerJson {
  return compact({
    class: verdict.class,
    evidence: verdict.evidence,
    httpStatus: verdict.httpStatus,
    stopReason: verdict.stopReason === null ? null : sanitiseLine(verdict.stopReason, 60),
    retryAt: verdict.retryAtMs === null ? null : iso(verdict.retryAtMs),
    sideEffects: verdict.sideEffects,
    contextKept: verdict.contextKept,
    partial: verdict.partial ? true : null,
    by: verdict.by,
  });
}

function stopJson(view: TaskView, outcome: Settlement | null): AnswerJson | null {
  if (outcome === null) return view.survivors.length === 0 ? null : { survivors: view.survivors.map(survivorJson) };
  const { proof, survivors, kept, by } = outcome.stop;
  return compact({
    proof,
    survivors: survivors.length === 0 ? null : survivors.map(survivorJson),
    kept: kept.length === 0 ? null : kept.map(survivorJson),
    by,
  });
}

function survivorJson({ pid, command }: Survivor): AnswerJson {
  return { pid, command: sanitiseLine(command, 200) };
}

export function isHere(view: TaskView, caller: Caller): boolean | null {
  return caller.conversation === null || view.conversation === null ? null : view.conversation === caller.conversation;
}
