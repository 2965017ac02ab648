/**
 * What a thread may do by itself, and what becomes of Codex's questions.
 *
 * Invariant: below `full` the sandbox is never wider than the level; what would leave it is asked.
 * Invariant: nothing is ever refused here; a silent end is `cancel` (row 16). Nothing is allowed beyond this thread: a rule that
 * Codex would keep for later threads is not offered.
 */

import { headOf } from "../../core/excerpt.ts";
import type { Permission } from "../../core/task.ts";
import type { DriverAnswer, DriverQuestion } from "../../ports/driver.ts";
import { type Fields, fieldsIn, listIn, textIn } from "../fields.ts";
import type { Reply } from "./codex-connection.ts";
import type { CodexItems } from "./codex-items.ts";

const LEVELS: Readonly<Record<Permission, { readonly approvalPolicy: string; readonly sandbox: string }>> = {
  plan: { approvalPolicy: "never", sandbox: "read-only" },
  ask: { approvalPolicy: "on-request", sandbox: "read-only" },
  accept_edits: { approvalPolicy: "on-request", sandbox: "workspace-write" },
  full: { approvalPolicy: "never", sandbox: "danger-full-access" },
};
/** Kinds of sandbox of a thread that a level allows. */
const SANDBOXES: Readonly<Record<Permission, readonly string[]>> = {
  plan: ["readOnly"],
  ask: ["readOnly"],
  accept_edits: ["readOnly", "workspaceWrite"],
  full: ["readOnly", "workspaceWrite", "dangerFullAccess", "externalSandbox"],
};

/** Parameters of a new or resumed thread. Questions come to us, not to a model that reviews them. */
export function threadLimits(level: Permission): Fields {
  return { ...LEVELS[level], approvalsReviewer: "user" };
}

/** True unless the opened thread is known to stay within the level. */
export function exceeds(level: Permission, { sandbox, approvalsReviewer }: Fields): boolean {
  if (level === "full") return false;
  const type = textIn(fieldsIn(sandbox)["type"]) ?? "";
  const reviewer = textIn(approvalsReviewer) ?? "user";
  return !SANDBOXES[level].includes(type) || reviewer !== "user";
}

export const ALLOW_ONCE = "allow_once";
const ALLOW_FOR_SESSION = "allow_for_session";
const REJECT = "reject";
const LABELS: Readonly<Record<string, string>> = {
  [ALLOW_ONCE]: "Allow once",
  [ALLOW_FOR_SESSION]: "Allow for the rest of this session",
  [REJECT]: "Reject; the agent goes on without it",
};
const PROMPT_CHARACTERS_MAX = 8_000;
const ACTION_CHARACTERS_MAX = 2_000;

export type Approval = {
  readonly question: DriverQuestion;
  /** `option`: null if nobody answers. */
  reply(option: string | null): Reply;
};

/** A request of Codex that asks for leave; null if it is none. */
export function approvalOf(method: string, params: Fields, items: CodexItems): Approval | null {
  switch (method) {
    case "item/commandExecution/requestApproval":
      return commandApproval(params);
    case "item/fileChange/requestApproval":
      return fileApproval(params, items);
    case "item/permissions/requestApproval":
      return accessApproval(params);
    case "mcpServer/elicitation/request":
      return toolApproval(params);
    default:
      return null;
  }
}

function commandApproval(params: Fields): Approval {
  const offered = listIn(params["availableDecisions"]);
  const forSession = offered.includes("acceptForSession");
  const command = textIn(params["command"]);
  const host = textIn(fieldsIn(params["networkApprovalContext"])["host"]);
  const action = {
    tool: "command",
    ...(command === null ? {} : { command }),
    ...textField("cwd", params["cwd"]),
    ...(host === null ? {} : { host }),
  };
  const what = [textIn(params["reason"]), command ?? host];
  return decision(questionOf(action, what, forSession));
}

/** The paths are those of the item; the request names the item alone. */
function fileApproval(params: Fields, items: CodexItems): Approval {
  const { paths, content } = items.changesOf(textIn(params["itemId"]) ?? "");
  const root = textIn(params["grantRoot"]);
  const action = {
    tool: "file change",
    ...(paths === "" ? {} : { paths }),
    ...(root === null ? {} : { grantRoot: root }),
  };
  return decision(questionOf(action, [textIn(params["reason"]), content], true));
}

function decision(question: DriverQuestion): Approval {
  const decisions: Readonly<Record<string, string>> = {
    [ALLOW_ONCE]: "accept",
    [ALLOW_FOR_SESSION]: "acceptForSession",
    [REJECT]: "decline",
  };
  return { question, reply: (option) => ({ decision: decisions[option ?? ""] ?? "cancel" }) };
}

/** More rights for the rest of the turn, or of the session. */
function accessApproval(params: Fields): Approval {
  const wanted = fieldsIn(params["permissions"]);
  const action = { tool: "permissions", permissions: JSON.stringify(wanted), ...textField("cwd", params["cwd"]) };
  const granted = (option: string | null): Fields => {
    if (option !== ALLOW_ONCE && option !== ALLOW_FOR_SESSION) return {};
    return Object.fromEntries(Object.entries(wanted).filter(([, value]) => value !== null));
  };
  return {
    question: questionOf(action, [textIn(params["reason"]), JSON.stringify(wanted)], true),
    reply: (option) => ({ permissions: granted(option), scope: option === ALLOW_FOR_SESSION ? "session" : "turn" }),
  };
}

/** Whether a tool of an MCP server may be called. Forms, pages to open, things to install are for a person there: null. */
function toolApproval(params: Fields): Approval | null {
  const properties = fieldsIn(fieldsIn(params["requestedSchema"])["properties"]);
  const { codex_approval_kind: kind, tool_params: given } = fieldsIn(params["_meta"]);
  if (kind !== "mcp_tool_call" || Object.keys(properties).length > 0) return null;
  const server = textIn(params["serverName"]) ?? "";
  const action = {
    tool: `MCP server ${server}`,
    ...(given === undefined ? {} : { arguments: JSON.stringify(given) }),
  };
  const answers: Readonly<Record<string, Reply>> = {
    [ALLOW_ONCE]: { action: "accept", content: {}, _meta: null },
    [REJECT]: { action: "decline", content: null, _meta: null },
  };
  return {
    question: questionOf(action, [textIn(params["message"])], false),
    reply: (option) => answers[option ?? ""] ?? { action: "cancel", content: null, _meta: null },
  };
}

function questionOf(
  action: Readonly<Record<string, string>>,
  what: readonly (string | null)[],
  forSession: boolean,
): DriverQuestion {
  const optionIds = [ALLOW_ONCE, ...(forSession ? [ALLOW_FOR_SESSION] : []), REJECT];
  const said = what.filter((text) => text !== null && text !== "").join("\n");
  return {
    ask: "permission",
    optionIds,
    labels: Object.fromEntries(optionIds.map((id) => [id, LABELS[id] ?? id])),
    action: Object.fromEntries(
      Object.entries(action).map(([name, text]) => [name, headOf(text, ACTION_CHARACTERS_MAX).toWellFormed()]),
    ),
    prompt: headOf(said === "" ? (action["tool"] ?? "") : said, PROMPT_CHARACTERS_MAX).toWellFormed(),
  };
}

function textField(name: string, value: unknown): Readonly<Record<string, string>> {
  const text = textIn(value);
  return text === null ? {} : { [name]: text };
}

/** Questions of Codex that are no requests for leave, one after another; null once nobody answers. */
export async function answersTo(
  params: Fields,
  ask: (question: DriverQuestion) => Promise<DriverAnswer | null>,
): Promise<Reply> {
  const answers: Record<string, Fields> = {};
  for (const asked of listIn(params["questions"]).map(fieldsIn)) {
    const options = listIn(asked["options"]).map((option) => textIn(fieldsIn(option)["label"]) ?? "");
    const labels = Object.fromEntries(options.map((label, at) => [`option_${at + 1}`, label]));
    const prompt = [asked["header"], asked["question"]].map((text) => textIn(text) ?? "").join("\n");
    const answer = await ask({
      ask: "question",
      optionIds: Object.keys(labels),
      labels,
      action: {},
      prompt: headOf(prompt, PROMPT_CHARACTERS_MAX).toWellFormed(),
    });
    if (answer === null) return { answers };
    const said = answer.kind === "text" ? answer.text : (labels[answer.optionId] ?? answer.optionId);
    answers[textIn(asked["id"]) ?? ""] = { answers: [said] };
  }
  return { answers };
}
