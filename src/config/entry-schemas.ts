/**
 * The entries of `agents`, `clients` and `notify`.
 *
 * Invariant: they name variables that hold secrets, never the secrets.
 */

import { z } from "zod";
import { durationMs, environmentName, isLoopbackUrl, providerUrl, webhookUrl, words } from "./setting-kinds.ts";

/** Drivers of this version; the others are known by name so that the refusal can say so. */
const DRIVERS = ["command", "acp", "claude", "codex", "pi", "model", "fake"] as const;
export const LATER_DRIVERS: readonly string[] = ["gemini", "opencode", "cursor-agent"];

export const agentSchema = z
  .strictObject({
    driver: z
      .enum(DRIVERS)
      .describe(
        "How the program is driven. `command`: any program, task on standard input, answer on standard output. `acp`: an agent that speaks the Agent Client Protocol, version 1, over standard input and output; needs `trusted` for every permission level but `full`. `claude`: Claude Code (`claude -p`), in sessions of its own. `codex`: Codex CLI through `codex app-server`, in the sandbox of the permission level. `pi`: Pi (`pi --mode rpc`); has no permission levels of its own, so needs `trusted`. `model`: a model asked directly over HTTP, without tools, for tasks with `access` `read`.",
      ),
    command: words()
      .optional()
      .describe(
        'Program and arguments of a `command`, `acp`, `claude`, `codex` or `pi` agent; started without a shell. `claude` is `["claude"]`, `codex` is `["codex"]` and `pi` is `["pi"]` unless given, without the arguments for its mode.',
      ),
    promptBy: z
      .enum(["stdin", "file"])
      .optional()
      .describe(
        "`stdin` (default): the task comes on standard input; `file`: in the file named by `DELEGATE_CHILD_TASK_FILE`.",
      ),
    onLoss: z
      .enum(["resume", "rerun", "fail"])
      .optional()
      .describe(
        "What a lost child means. `command`: `fail` (default) or `rerun`, for programs that may be run twice. `acp`, `claude`, `codex`, `pi`: `resume` (default) goes on in the agent's own session.",
      ),
    env: z
      .array(environmentName())
      .max(100)
      .optional()
      .describe(
        [
          "Names of environment variables that the child gets besides a small fixed set. Names, never values.",
          "A value is masked in the log and in what children write if its name says that it is secret (a word such as key,",
          "token, secret, password, pass, credential, auth, cookie, session, private, dsn) or it looks so (a URL with a",
          "password, a random text of 20 characters or more); other values, such as paths and model names, are not.",
        ].join(" "),
      ),
    model: z.string().min(1).max(200).optional().describe("Model used unless the caller names one."),
    default: z.boolean().optional().describe("The agent of calls that name none; at most one."),
    trusted: z
      .boolean()
      .optional()
      .describe(
        "Accepts tasks at every permission level although the agent cannot be held to it. A `command` agent always is.",
      ),
    requireEvidence: z
      .enum(["assumed", "explicit"])
      .optional()
      .describe("`explicit`: an ending that the agent cannot tell from a failure is refused (`failed`, `no_result`)."),
    api: z
      .enum(["anthropic", "openai"])
      .optional()
      .describe(
        "Only with the `model` driver, which needs it: `anthropic` (Messages) or `openai` (chat completions and what is compatible), both streamed.",
      ),
    baseUrl: providerUrl()
      .optional()
      .describe(
        "Only with the `model` driver, which needs it: where its API is, such as `https://api.anthropic.com` or `https://api.openai.com/v1`. https, or http to a loopback address; redirects are not followed.",
      ),
    apiKeyEnv: environmentName()
      .optional()
      .describe(
        "Only with the `model` driver: the name of the variable that holds the API key, read when the daemon starts. Needed unless `baseUrl` is a loopback address.",
      ),
  })
  .superRefine((agent, context) => {
    for (const [key, error] of agent.driver === "model" ? modelProblems(agent) : programProblems(agent))
      context.addIssue({ code: "custom", path: [key], message: error });
  })
  .meta({ expected: 'an object such as {"driver": "command", "command": ["my-agent"]}' });

type Given = {
  readonly driver: (typeof DRIVERS)[number];
  readonly onLoss?: string | undefined;
  readonly promptBy?: string | undefined;
  readonly baseUrl?: string | undefined;
} & { readonly [Key in "command" | "env" | "api" | "apiKeyEnv" | "model"]?: unknown };

type FieldProblem = readonly [key: string, error: string];

/** Of an agent that is a program. */
/** Their task goes the way of their protocol. */
const BY_PROTOCOL: ReadonlySet<Given["driver"]> = new Set(["acp", "claude", "codex", "pi"]);

function programProblems(agent: Given): readonly FieldProblem[] {
  const { driver } = agent;
  const problems: FieldProblem[] = MODEL_FIELDS.filter((key) => agent[key] !== undefined).map((key) => [
    key,
    "belongs to the driver `model`; leave it out",
  ]);
  if ((driver === "command" || driver === "acp") && agent.command === undefined)
    problems.push(["command", `driver \`${driver}\` needs it`]);
  if (BY_PROTOCOL.has(driver) && agent.promptBy === "file")
    problems.push(["promptBy", `an agent of the driver \`${driver}\` gets its task by the protocol; leave it out`]);
  if (driver === "command" && agent.onLoss === "resume")
    problems.push(["onLoss", "driver `command` has no session to resume; `fail` or `rerun`"]);
  return problems;
}

const MODEL_FIELDS = ["api", "baseUrl", "apiKeyEnv"] as const;
const MODEL_NEEDS = ["api", "baseUrl", "model"] as const;
const PROGRAM_FIELDS = ["command", "promptBy", "env"] as const;

/** Of an agent that is a bare model. */
function modelProblems(agent: Given): readonly FieldProblem[] {
  const { baseUrl } = agent;
  const problems: FieldProblem[] = [
    ...MODEL_NEEDS.filter((key) => agent[key] === undefined).map((key) => [key, "driver `model` needs it"] as const),
    ...PROGRAM_FIELDS.filter((key) => agent[key] !== undefined).map(
      (key) => [key, "an agent of the driver `model` has no process; leave it out"] as const,
    ),
  ];
  if (agent.onLoss === "resume")
    problems.push(["onLoss", "driver `model` has no session to resume; `fail` or `rerun`"]);
  if (agent.apiKeyEnv === undefined && baseUrl !== undefined && !isLoopbackUrl(baseUrl))
    problems.push(["apiKeyEnv", "driver `model` needs it unless `baseUrl` is a loopback address"]);
  return problems;
}

export const clientSchema = z
  .strictObject({
    waitSliceMs: durationMs(1_000, 240_000).optional().describe("How long one wait of this client is held."),
    era: z.enum(["legacy", "modern"]).optional().describe("Which protocol era this client is offered."),
  })
  .meta({ expected: 'an object such as {"waitSliceMs": 45000}' });

export const notifySchema = z
  .union([
    z.strictObject({
      webhook: webhookUrl(),
      secretEnv: environmentName(),
    }),
    z.strictObject({ command: words() }),
  ])
  .meta({ expected: '{"webhook": "https://…", "secretEnv": "NAME"} or {"command": ["program", "argument"]}' });

/** Fields of the entries of `agents` and `clients`, for the documentation. */
export const ENTRY_FIELDS: Readonly<Record<"agents" | "clients", z.ZodObject>> = {
  agents: agentSchema,
  clients: clientSchema,
};
