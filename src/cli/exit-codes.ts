/**
 * The exit codes of the command line, and which answer means which.
 *
 * Invariant: a code never changes its meaning: scripts and CI depend on it.
 */

import type { Code } from "../core/rejection.ts";

export const EXIT = {
  ok: 0,
  taskFailed: 1,
  usage: 2,
  notFound: 3,
  auth: 4,
  unreachable: 5,
  waitOver: 6,
  conflict: 7,
  inputRequired: 8,
  busy: 75,
  interrupted: 130,
} as const;

export const EXIT_CODES_HELP = `Exit codes: 0 done · 1 task failed or cancelled · 2 usage · 3 not found · 4 not allowed · 5 daemon unreachable
6 the wait is over, the task goes on · 7 conflict · 8 the task asks something · 75 busy · 130 interrupted`;

const OF_REFUSAL: Readonly<Record<Code, number>> = {
  missing_client_request_id: EXIT.usage,
  invalid_arguments: EXIT.usage,
  idempotency_conflict: EXIT.conflict,
  expired_receipt: EXIT.conflict,
  duplicate_work: EXIT.conflict,
  workspace_busy: EXIT.conflict,
  workspace_not_allowed: EXIT.auth,
  workspace_failed: EXIT.taskFailed,
  unknown_task: EXIT.notFound,
  unknown_thread: EXIT.notFound,
  unknown_agent: EXIT.notFound,
  agent_unavailable: EXIT.busy,
  permission_limit: EXIT.auth,
  not_allowed: EXIT.auth,
  not_pending: EXIT.conflict,
  depth_limit: EXIT.auth,
  tree_limit: EXIT.busy,
  capacity_full: EXIT.busy,
  rate_limit: EXIT.busy,
  storage_unavailable: EXIT.unreachable,
  stopping: EXIT.unreachable,
  internal: EXIT.unreachable,
};

/** Exit code of a refusal; one that this version does not know counts as not done. */
export function exitCodeOfRefusal(code: string): number {
  return Object.entries(OF_REFUSAL).find(([known]) => known === code)?.[1] ?? EXIT.taskFailed;
}

/** Exit code of a task that a wait has ended with. */
export function exitCodeOfStatus(status: string | undefined): number {
  switch (status) {
    case "completed":
      return EXIT.ok;
    case "failed":
    case "cancelled":
      return EXIT.taskFailed;
    case "input_required":
      return EXIT.inputRequired;
    default:
      return EXIT.waitOver;
  }
}
