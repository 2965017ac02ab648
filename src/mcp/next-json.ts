/**
 * The next step as JSON: a call with complete arguments, or what to change in the last one (P1).
 */

import { packAfter } from "../core/after.ts";
import { assertNever } from "../core/assert.ts";
import type { TaskView } from "../core/describe.ts";
import type { TaskId } from "../core/ids.ts";
import type { NextStep, Seen } from "../core/next-step.ts";
import { type AnswerJson, compact } from "./json-fields.ts";

export type NextContext = {
  /** The tool that was called: `repeat_same_call`, `choose_key` and `fix` speak of it. */
  readonly tool: string;
  /** True if the tool starts or sends something. */
  readonly starts: boolean;
  readonly nonce: (length: number) => string;
  /** `until` of the wait that is answered, where the next one has to name it too. */
  readonly until?: "all";
  /** Waits in a row without news, for the next `after`. */
  readonly quietSlices?: number;
};

/** The step that follows what an answer tells of one task. */
export function nextOfTask(view: TaskView, step: NextStep, context: NextContext): AnswerJson {
  const { handle, outcome, settlements } = view;
  // Once it is put right, the same task goes on.
  if (step.kind === "fix" && step.tool === undefined && step.change === undefined && outcome !== null)
    return { kind: "fix", ...continueCall(handle.taskId, settlements) };
  const next = nextJson(step, [], context);
  // Where there is nothing to choose from, the answer is a text.
  return step.kind === "answer" && view.question?.optionIds.length === 0 ? { ...next, add: ["text"] } : next;
}

function continueCall(taskId: TaskId, afterSettlement: number): AnswerJson {
  const clientRequestId = `continue-${taskId.slice(-8)}-${afterSettlement}`;
  const message = "Continue where you stopped.";
  return { tool: "task_continue", arguments: { taskId, message, clientRequestId, afterSettlement } };
}

/** `left`: tasks whose news did not fit into this answer; `after` does not pass them. */
export function nextJson(step: NextStep, left: readonly Seen[], context: NextContext): AnswerJson {
  switch (step.kind) {
    case "wait": {
      const untold = new Set(left.map(({ taskId }) => taskId));
      const after = packAfter(
        step.seen.filter(({ taskId }) => !untold.has(taskId)),
        context.nonce(5),
        context.quietSlices,
      );
      const taskIds = step.seen.map(({ taskId }) => taskId);
      const until = taskIds.length > 1 ? (context.until ?? null) : null;
      return { kind: "wait", tool: "task_wait", arguments: compact({ taskIds, until, after }) };
    }
    case "use_result":
    case "ask_user":
    case "do_it_yourself":
      return { kind: step.kind };
    case "answer": {
      const { taskId, questionId, give } = step;
      return { kind: "answer", tool: "task_answer", arguments: { taskId, questionId }, add: [give] };
    }
    case "continue":
      return { kind: "continue", ...continueCall(step.taskId, step.afterSettlement) };
    case "repeat_same_call":
      return { kind: "repeat_same_call", tool: context.tool };
    case "choose_key":
      return {
        kind: "choose_key",
        tool: context.starts ? context.tool : "delegate_task",
        change: { clientRequestId: step.clientRequestId, ...step.change },
      };
    case "fix":
      return compact({
        kind: "fix",
        tool: step.tool ?? (step.change === undefined ? null : context.tool),
        arguments: step.arguments ?? null,
        change: step.change ?? null,
      });
    default:
      return assertNever(step);
  }
}
