/**
 * The one thing to do next, as data (P1). `mcp/wording.ts` turns it into a sentence, `mcp/reply.ts` into JSON.
 *
 * Invariant: every answer has exactly one; where it names a tool the arguments are complete but for `add`.
 */

import type { QuestionId, TaskId } from "./ids.ts";

export type NextStep =
  /** Wait for these tasks; `seen` is what the caller has been told of each, packed into `after`. */
  | { readonly kind: "wait"; readonly seen: readonly Seen[] }
  | { readonly kind: "use_result" }
  /** `give`: what the answer is made of: one of the options, or words where there are none. */
  | {
      readonly kind: "answer";
      readonly taskId: TaskId;
      readonly questionId: QuestionId;
      readonly give: "optionId" | "text";
    }
  | { readonly kind: "continue"; readonly taskId: TaskId; readonly afterSettlement: number }
  | { readonly kind: "repeat_same_call" }
  /** Send the same call with this key. `change`: further fields to alter in it. */
  | {
      readonly kind: "choose_key";
      readonly clientRequestId: string;
      readonly change?: Readonly<Record<string, string>>;
    }
  /** Something in the caller's call or set-up has to be put right; a tool that finds the right value may be named. */
  | {
      readonly kind: "fix";
      readonly change?: Readonly<Record<string, string>>;
      readonly tool?: "task_list" | "task_status" | "list_agents";
      readonly arguments?: Readonly<Record<string, string | boolean>>;
    }
  | { readonly kind: "ask_user" }
  | { readonly kind: "do_it_yourself" };

/** How far a caller has been told about a task: its news counter and the steps of its run. */
export type Seen = { readonly taskId: TaskId; readonly news: number; readonly steps: number };
