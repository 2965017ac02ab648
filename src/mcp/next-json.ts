/**
 * The next step as JSON: a call with complete arguments, or what to change in the last one (P1).
 */

import { packAfter } from "../core/after.ts";
import { assertNever } from "../core/assert.ts";
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
};

/** `left`: tasks whose news did not fit into this answer; `after` does not pass them. */
export function nextJson(step: NextStep, left: readonly Seen[], context: NextContext): AnswerJson {
  switch (step.kind) {
    case "wait": {
      const untold = new Set(left.map(({ taskId }) => taskId));
      const after = packAfter(
        step.seen.filter(({ taskId }) => !untold.has(taskId)),
        context.nonce(5),
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
      const { taskId, questionId } = step;
      return { kind: "answer", tool: "task_answer", arguments: { taskId, questionId }, add: ["optionId"] };
    }
    case "continue": {
      const { taskId, afterSettlement } = step;
      const clientRequestId = `continue-${taskId.slice(-8)}-${afterSettlement}`;
      const message = "Continue where you stopped.";
      return {
        kind: "continue",
        tool: "task_continue",
        arguments: { taskId, message, clientRequestId, afterSettlement },
      };
    }
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
