/**
 * What docs/tools.md says of arguments and refusals beyond schemas and codes.
 */

import type { Code } from "../src/core/rejection.ts";

type Refusals = readonly (readonly [Code, string])[];

/** Added to the meaning that the schema gives. */
export const ARGUMENT_NOTES: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  delegate_task: {
    task: "At most 512 KiB.",
    title: "Default: the first line of the task, cut.",
    agent: "Without a configured default: the first agent of the configuration.",
    model: "Refused for agents of the driver `command`, whose operator wrote the command.",
    options: "At most 32, 64 KiB together. Refused for agents of the driver `command`.",
    cwd: "Default: the header `X-Delegate-Cwd`, else the only root; with several roots it has to be named.",
    access: "Default: `read` for the roles research, review and design, else `write`. One writer a directory.",
    isolation: "Children work in `cwd` itself; this version refuses `worktree`.",
    permissions:
      "Default: `plan` for readers, `accept_edits` for writers, never above the operator's `permissions.max`. A `command` agent is not held to it.",
    waitMs: 'Only with `mode: "wait"`.',
    resultSchema: "This version refuses it.",
    onDuplicate: "Accepted; without effect in this version.",
    background: "Default `reap`: they are ended. `keep`: they are named in `stop.kept`.",
    labels: "For people and lists; each at most 100 characters.",
  },
  task_continue: {
    message: "At most 512 KiB.",
    options:
      "Options that the agent advertises. At most 32, 64 KiB together. Refused for agents of the driver `command`.",
    mode: "As for delegate_task.",
    waitMs: 'Only with `mode: "wait"`.',
  },
  task_list: {
    conversation: "`this`: only those that this conversation started.",
    status: "Only tasks in this status.",
  },
  task_cancel: { reason: "For the record." },
  task_answer: { text: "At most 64 KiB." },
};

const STORAGE: Refusals = [
  ["storage_unavailable", "the data cannot be read or written at present"],
  ["internal", "a defect of the server; the same call may be sent again"],
];
const SCOPE_READ: Refusals = [["not_allowed", "the token has none of the scopes read, delegate, admin"]];
const SCOPE_DELEGATE: Refusals = [["not_allowed", "the token lacks the scope delegate"]];
const UNKNOWN: Refusals = [
  ["unknown_task", "no task of this caller has that id; its newest tasks are listed"],
  ["unknown_thread", "the same for an id that begins with th_"],
];

/** By tool, in the order in which they are looked at. */
export const REFUSALS: Readonly<Record<string, Refusals>> = {
  delegate_task: [
    ["not_allowed", "the token lacks the scope delegate; or a child asks whose own run is over"],
    ["missing_client_request_id", "no key, or not 8 to 256 characters; a ready one is proposed"],
    ["idempotency_conflict", "the key names other work; the first task stands under `related`"],
    ["expired_receipt", "the key names a task whose data is past its retention"],
    ["invalid_arguments", "arguments do not fit; what is expected of each is said"],
    ["unknown_agent", "no such agent, or none is configured"],
    ["permission_limit", "`permissions` is above `permissions.max`, or the agent cannot be held to it"],
    ["workspace_not_allowed", "`cwd` is outside the roots, or has to be named among several"],
    ["workspace_failed", '`cwd` does not exist or is no directory; or `isolation: "worktree"`'],
    ["depth_limit", "a child at the last level asks, or `limits.depthMax` is 0"],
    ["tree_limit", "the tree has `limits.tasksPerTreeMax` tasks"],
    ["rate_limit", "more than `limits.delegationsPerMinute` of this caller"],
    ["capacity_full", "the queue is full (`limits.queueMax`)"],
    ["workspace_busy", 'another task writes there; `onBusy: "queue"` waits for it'],
    ["stopping", "the daemon is being stopped"],
    ...STORAGE,
  ],
  task_wait: [
    ...SCOPE_READ,
    ["invalid_arguments", "arguments do not fit"],
    ["unknown_task", "none of the ids is a task of this caller; among others an unknown id is an item of its own"],
    ["unknown_thread", "the same where the first id begins with th_"],
    ["capacity_full", "`limits.waitsMax` calls are held; the same wait follows"],
    ...STORAGE,
  ],
  task_status: [
    ...SCOPE_READ,
    ["invalid_arguments", "neither `taskId` nor `clientRequestId`"],
    ["unknown_task", "no task of this caller has that id, or nothing was accepted under that key"],
    ["unknown_thread", "the same for an id that begins with th_"],
    ["expired_receipt", "the key names a task whose data is past its retention"],
    ...STORAGE,
  ],
  task_list: [
    ...SCOPE_READ,
    ["invalid_arguments", "arguments do not fit"],
    ["unknown_task", "`parentTaskId` names no task of this caller"],
    ...STORAGE,
  ],
  task_continue: [
    ...SCOPE_DELEGATE,
    ["missing_client_request_id", "no key, or not 8 to 256 characters"],
    ["idempotency_conflict", "the key named another message to this task"],
    ["expired_receipt", "the task is past its retention"],
    ["invalid_arguments", "arguments do not fit"],
    ...UNKNOWN,
    ["unknown_agent", "no such agent"],
    ["permission_limit", "the newly named agent cannot be held to the task's level"],
    ["workspace_busy", "the task had ended, and another one writes in its directory by now"],
    ["capacity_full", "20 messages wait for this task already"],
    ["stopping", "the daemon is being stopped"],
    ...STORAGE,
  ],
  task_answer: [
    [
      "not_allowed",
      "a child asks; or a permission is a person's to give (`permissions.approvalsBy`); or the scope is missing",
    ],
    [
      "invalid_arguments",
      "both or none of `optionId` and `text`, an option that was not offered, or a text for a permission",
    ],
    ...UNKNOWN,
    ["not_pending", "the question is not open: it was answered otherwise (then by whom), or the run is over"],
    ...STORAGE,
  ],
  task_cancel: [...SCOPE_DELEGATE, ["invalid_arguments", "arguments do not fit"], ...UNKNOWN, ...STORAGE],
  task_ack: [...SCOPE_READ, ["invalid_arguments", "arguments do not fit"], ...UNKNOWN, ...STORAGE],
  thread_read: [
    ...SCOPE_READ,
    ["invalid_arguments", "neither id, or a cursor of another view"],
    ...UNKNOWN,
    ...STORAGE,
  ],
  list_agents: [...SCOPE_READ, ["invalid_arguments", "any argument"], ...STORAGE],
};

/** Codes of the contract that nothing in this version answers. */
export const KEPT_FOR_LATER: readonly Code[] = ["duplicate_work", "agent_unavailable"];
