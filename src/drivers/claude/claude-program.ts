/**
 * How Claude Code is started for an attempt: its arguments, its environment, the file that names its MCP server.
 *
 * Invariant: nothing secret and no text of the task stands in the arguments; the child's token is in a file that is the
 * owner's alone. A value that a caller may choose is never an argument of its own, so that it cannot be an option.
 * Invariant: it has no tool that would go on after its end (timers) or leave the directory that it was given (worktrees).
 * Invariant: the program's MCP servers are ours or none: what is configured for a person would let the child act as them.
 */

import { createHash } from "node:crypto";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { FaultEvidence } from "../../core/failure.ts";
import type { Permission } from "../../core/task.ts";
import type { AttemptOrder } from "../../ports/driver.ts";

export type Session = {
  readonly id: string;
  /** Claude Code knows it, and with it what was said. */
  readonly resumed: boolean;
};

export type ClaudeProgram = {
  readonly kind: "program";
  readonly argumentsFor: (session: Session) => readonly string[];
  readonly env: Readonly<Record<string, string>>;
};

/** Its own retries are few: healing is the engine's. Nothing but the model is asked, unless the operator wants that. */
const QUIET_ENV: Readonly<Record<string, string>> = {
  CLAUDE_CODE_MAX_RETRIES: "2",
  CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: "1",
  DISABLE_AUTOUPDATER: "1",
};
const MODES: Readonly<Record<Permission, string>> = {
  plan: "plan",
  ask: "default",
  accept_edits: "acceptEdits",
  full: "bypassPermissions",
};
const UNFIT_TOOLS = ["CronCreate", "ScheduleWakeup", "EnterWorktree"];
const FIXED_ARGUMENTS = [
  "-p",
  "--input-format=stream-json",
  "--output-format=stream-json",
  "--verbose",
  // Pieces of a long answer are signs of life; nothing else would come while it is written.
  "--include-partial-messages",
  "--permission-prompt-tool=stdio",
  "--strict-mcp-config",
  `--disallowedTools=${UNFIT_TOOLS.join(",")}`,
];
const SERVER = "delegate";
/** How the tools of our server are called. */
export const OWN_TOOLS = `mcp__${SERVER}__`;
/** Options that a caller may set, and the argument that each is. */
const OPTIONS: Readonly<Record<string, string>> = { effort: "--effort", maxTurns: "--max-turns" };

export async function prepareProgram(
  order: AttemptOrder,
): Promise<ClaudeProgram | { readonly kind: "fault"; readonly fault: FaultEvidence }> {
  const { spec, delegation, scratchDir } = order;
  const unknown = Object.keys(spec.options).find((name) => !Object.hasOwn(OPTIONS, name));
  if (unknown !== undefined) return optionFault(unknown);
  const servers: string[] = [];
  if (delegation !== null) {
    const file = join(scratchDir, "mcp.json");
    const failure = await written(file, delegation);
    if (failure !== null) return { kind: "fault", fault: failure };
    servers.push(`--mcp-config=${file}`, `--allowedTools=mcp__${SERVER}`);
  }
  const chosen = [
    `--permission-mode=${MODES[spec.permissions]}`,
    ...(spec.model === null ? [] : [`--model=${spec.model}`]),
    ...Object.entries(spec.options).map(([name, value]) => `${OPTIONS[name]}=${value}`),
  ];
  return {
    kind: "program",
    argumentsFor: ({ id, resumed }) => [
      ...FIXED_ARGUMENTS,
      ...servers,
      ...chosen,
      resumed ? `--resume=${id}` : `--session-id=${id}`,
    ],
    env: { ...QUIET_ENV, ...order.env },
  };
}

/** The id of the session that an attempt makes: a UUID that the mark gives. */
export function sessionIdOf(mark: string): string {
  const hex = createHash("sha256").update(mark).digest("hex");
  const variant = ((Number.parseInt(hex.slice(16, 17), 16) % 4) + 8).toString(16);
  return [
    hex.slice(0, 8),
    hex.slice(8, 12),
    `5${hex.slice(13, 16)}`,
    variant + hex.slice(17, 20),
    hex.slice(20, 32),
  ].join("-");
}

function optionFault(name: string): { readonly kind: "fault"; readonly fault: FaultEvidence } {
  const text = `the agent has no option "${name}"; it has ${Object.keys(OPTIONS).join(", ")}`;
  return { kind: "fault", fault: { providerKind: "option_not_found", text } };
}

/** Null if the file is there now. */
async function written(
  file: string,
  { url, token }: NonNullable<AttemptOrder["delegation"]>,
): Promise<FaultEvidence | null> {
  const server = { type: "http", url, headers: { Authorization: `Bearer ${token}` } };
  try {
    await writeFile(file, JSON.stringify({ mcpServers: { [SERVER]: server } }), { mode: 0o600 });
    return null;
  } catch (error) {
    const spawnCode = error instanceof Error && "code" in error ? String(error.code) : "EUNKNOWN";
    return { spawnCode, text: error instanceof Error ? error.message : spawnCode };
  }
}
