/**
 * The entries of `agents`, `clients` and `notify`.
 *
 * Invariant: they name variables that hold secrets, never the secrets.
 */

import { z } from "zod";
import { durationMs, environmentName, webhookUrl, words } from "./setting-kinds.ts";

/** Drivers of this version; the others are known by name so that the refusal can say so. */
const DRIVERS = ["command", "acp", "fake", "claude"] as const;
export const LATER_DRIVERS: readonly string[] = ["codex", "pi", "gemini", "opencode", "cursor-agent", "model"];

export const agentSchema = z
  .strictObject({
    driver: z
      .enum(DRIVERS)
      .describe(
        "How the program is driven. `command`: any program, task on standard input, answer on standard output. `acp`: an agent that speaks the Agent Client Protocol, version 1, over standard input and output; needs `trusted` for every permission level but `full`. `claude`: Claude Code (`claude -p`), in sessions of its own.",
      ),
    command: words()
      .optional()
      .describe(
        'Program and arguments of a `command`, `acp` or `claude` agent; started without a shell. `claude` is `["claude"]` unless given, without the arguments for its mode.',
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
        "What a lost child means. `command`: `fail` (default) or `rerun`, for programs that may be run twice. `acp`, `claude`: `resume` (default) goes on in the agent's own session.",
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
    api: z.string().optional().describe("Only with the `model` driver, which this version does not offer."),
    baseUrl: z.url().optional().describe("Only with the `model` driver."),
    apiKeyEnv: environmentName().optional().describe("Only with the `model` driver."),
  })
  .superRefine((agent, context) => {
    const refuse = (key: string, error: string): void => {
      context.addIssue({ code: "custom", path: [key], message: error });
    };
    if ((agent.driver === "command" || agent.driver === "acp") && agent.command === undefined)
      refuse("command", `driver \`${agent.driver}\` needs it`);
    if (agent.driver === "acp" && agent.promptBy === "file")
      refuse("promptBy", "an agent of the driver `acp` gets its task by the protocol; leave it out");
    if (agent.driver === "claude" && agent.promptBy === "file")
      refuse("promptBy", "an agent of the driver `claude` gets its task by its standard input; leave it out");
    if (agent.driver === "command" && agent.onLoss === "resume")
      refuse("onLoss", "driver `command` has no session to resume; `fail` or `rerun`");
    for (const key of ["api", "baseUrl", "apiKeyEnv"] as const) {
      if (agent[key] !== undefined) refuse(key, "belongs to the driver `model`, which this version does not offer");
    }
  })
  .meta({ expected: 'an object such as {"driver": "command", "command": ["my-agent"]}' });

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
