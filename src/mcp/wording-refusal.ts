/**
 * The words of refusals and errors: why nothing was started or done, and what is true instead.
 *
 * Rules as in `wording`. Invariant: pure; golden tests hold the words.
 */

import { assertNever } from "../core/assert.ts";
import type { Code, Rejection } from "../core/rejection.ts";
import { sanitiseLine } from "../core/sanitise.ts";
import type { RefusalAnswer } from "../ports/engine.ts";
import { shownPath, shownTitle } from "./task-fields.ts";
import { ago, joined, listOf, named } from "./words.ts";

/** `starts`: the tool would have started or sent something. */
export function sayRefusal({ rejection, about, clientRequestId, recorded }: RefusalAnswer, starts: boolean): string {
  const key = clientRequestId === null ? null : sanitiseLine(clientRequestId, 80);
  const head = HEADS[rejection.code] ?? (starts ? `NOT STARTED (${rejection.code})` : `NOT DONE (${rejection.code})`);
  const goesOn = about === null || about.phase === "settled" ? "" : `${named(about)} goes on.`;
  return joined(`${head}: ${reasonOf(rejection, { key, recorded })}`, goesOn);
}

const HEADS: Partial<Record<Code, string>> = {
  unknown_task: "NO SUCH TASK among yours",
  unknown_thread: "NO SUCH TASK among yours",
};

function reasonOf(
  rejection: Rejection,
  { key, recorded }: { readonly key: string | null; readonly recorded: RefusalAnswer["recorded"] },
): string {
  const { detail } = rejection;
  const text = (name: string): string => String(detail[name] ?? "");
  switch (rejection.code) {
    case "missing_client_request_id":
      return "clientRequestId is missing or not 8 to 256 characters. Nothing was created.";
    case "invalid_arguments":
      return `these arguments do not fit: ${listOf(detail["fields"])}. Nothing was changed; the same call can be sent again once they do.`;
    case "idempotency_conflict":
      return conflict(rejection, key ?? "");
    case "expired_receipt":
      return `key ${key ?? ""} named a task (${text("taskId")}) whose data is past its retention. Nothing was started.`;
    case "duplicate_work":
      return "the same work is already under way.";
    case "workspace_busy":
      return busy(rejection);
    case "workspace_not_allowed":
    case "workspace_failed":
      return workspaceReason(text("reason"), detail["roots"]);
    case "unknown_task":
      return detail["asked"] === undefined
        ? `nothing was accepted under key ${key ?? ""}. delegate_task can be sent with it.`
        : `${sanitiseLine(text("asked"), 80)}. Ours start with dt_. Nothing was changed.`;
    case "unknown_thread":
      return `${sanitiseLine(text("asked"), 80)}. Nothing was changed.`;
    case "unknown_agent":
      return unknownAgent(text("asked"), detail["known"]);
    case "agent_unavailable":
      return `agent ${sanitiseLine(text("asked"), 80)} cannot be used at present.`;
    case "permission_limit":
      if (text("agent") !== "") return cannotBeHeld(text("agent"), text("asked"), text("setting"));
      return `asked for ${text("what") === "" ? "permissions" : text("what")} ${text("asked")}, allowed is ${text("allowed")} (setting ${text("setting")}).`;
    case "not_allowed":
      if (text("scope") !== "")
        return `your token lacks the scope ${text("scope")}; its owner can make one that has it.`;
      return notAllowed(text("may"), text("reason"));
    case "not_pending":
      return notPending(recorded);
    case "depth_limit":
      if (text("limit") === "0")
        return "delegation is switched off here (limits.depthMax is 0). Do this work yourself.";
      return "You are the delegated child. Do this work yourself, here; do not start other agents by other means.";
    case "tree_limit":
      return `this task and its children have reached the limit of ${text("limit")} tasks. Do this work yourself.`;
    case "capacity_full":
      return `the limit of ${text("limit")} is reached. Nothing is lost: send the same call again later.`;
    case "rate_limit":
      return `the limit of ${text("limit")} delegations a minute is reached. Nothing was created: send the same call again in a minute.`;
    case "storage_unavailable":
      return `the server cannot write its data at present${text("storageCode") === "" ? "" : ` (${text("storageCode")})`}. Running children go on; tell your user, and send the same call again later.`;
    case "stopping":
      return "the server is restarting. Nothing was created: send the same call again in a few seconds.";
    case "internal":
      return "an error of the server. Send the same call again; with the same clientRequestId it never starts a second child.";
    default:
      return assertNever(rejection.code);
  }
}

function notAllowed(may: string, reason: string): string {
  if (reason === "delegator_gone") return "your own run is over or is being stopped: nothing more is started from it.";
  if (may === "root caller") return "a delegated child never answers; whoever delegated the first task does.";
  return may === "" ? "your token does not allow this." : `only a ${may} may do this.`;
}

/** Who answered, by kind and name; what was chosen are the child's words, so they stand in the answer's question. */
function notPending(recorded: RefusalAnswer["recorded"]): string {
  if (recorded === null) return "there is nothing of that kind to answer or abandon any more.";
  const { by } = recorded;
  const who = by.kind === "person" ? `a person (${sanitiseLine(by.name, 60)})` : sanitiseLine(by.name, 60);
  return `it has been answered otherwise, by ${who}; see question.answer. Nothing was changed.`;
}

function cannotBeHeld(agent: string, asked: string, setting: string): string {
  return `agent ${sanitiseLine(agent, 80)} cannot be held to permissions ${asked} by this server. The operator may accept that (setting ${setting}: true), or choose another agent.`;
}

const WORKSPACE_REASONS: Readonly<Record<string, string>> = {
  outside_roots: "the directory is outside the allowed roots",
  missing: "the directory does not exist.",
  not_a_directory: "that path is not a directory.",
  choose_one: "there are several roots, so cwd has to name the directory",
  no_root: "no root directory is configured.",
  no_worktrees: "isolated worktrees are not offered by this version; the child would work in the directory itself.",
};

function workspaceReason(reason: string, roots: Rejection["detail"][string] | undefined): string {
  const said = WORKSPACE_REASONS[reason] ?? "the directory cannot be used.";
  return said.endsWith(".") ? said : `${said}: ${listOf(roots)}.`;
}

/** The caller's own holder by its title, another caller's only by since when. */
function busy({ detail, related }: Rejection): string {
  const where = shownPath(String(detail["cwd"] ?? ""), CWD_CHARACTERS_MAX);
  if (detail["mine"] === "above")
    return `a task above you writes in ${where}; to wait for it would be to wait for yourself. Delegate it for reading only, or do this work yourself, here.`;
  if (related?.mine === true) return `your task "${shownTitle(related.title)}" (${related.taskId}) writes in ${where}.`;
  return `another caller's task writes in ${where}.`;
}

function conflict({ detail, related, differing }: Rejection, key: string): string {
  const first =
    related?.mine === true
      ? `: "${shownTitle(related.title)}" in ${shownPath(String(detail["cwd"] ?? ""), CWD_CHARACTERS_MAX)}, accepted ${ago(related.ageMs)}`
      : "";
  return `key ${key} already names other work${first}. Differs in: ${listOf(differing)}. If you were repeating that call, nothing is lost: task_wait with its taskId.`;
}

function unknownAgent(asked: string, known: Rejection["detail"][string] | undefined): string {
  const names = listOf(known);
  if (names === "") return "no agent is configured. Ask the user to configure one (agents.<name>.command).";
  return asked === ""
    ? `no default agent is set; there are: ${names}.`
    : `there is no agent ${sanitiseLine(asked, 80)}; there are: ${names}.`;
}

const CWD_CHARACTERS_MAX = 300;
