/**
 * Every setting of an operator: its name, shape, default and meaning, once. The environment's names, the documentation,
 * the example file and the messages about mistakes all derive from here.
 *
 * Invariant: units are last in names, and every number has a lower and an upper bound.
 * Invariant: a setting without a default in the schema has one that is found out at start (`FOUND_AT_START`).
 * Absent on purpose: settings of the storage on Postgres, which this version does not offer, and secrets: the file and the
 * environment name variables that hold them.
 */

import { isIPv4 } from "node:net";
import { z } from "zod";

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;
const DAY_MS = 24 * HOUR_MS;
const MIB = 1024 * 1024;

/** Drivers of this version; the others are known by name so that the refusal can say so. */
export const DRIVERS = ["command", "fake"] as const;
export const LATER_DRIVERS: readonly string[] = [
  "claude",
  "codex",
  "pi",
  "acp",
  "gemini",
  "opencode",
  "cursor-agent",
  "model",
];

/** Settings whose default depends on the machine, in words. */
export const FOUND_AT_START: Readonly<Record<string, string>> = {
  dataDir: "the platform's folder for user data",
  "workspaces.roots": "the git top level of the folder in which `serve` was started, else that folder",
};

const whole = (min: number, max: number) => z.int().min(min).max(max);
const durationMs = (min: number, max: number) => whole(min, max);
const absolutePath = () =>
  z
    .string()
    .regex(/^(\/|[A-Za-z]:[\\/])/)
    .max(4096)
    .meta({ expected: "an absolute path" });
const environmentName = () =>
  z
    .string()
    .regex(/^[A-Za-z_][A-Za-z0-9_]{0,199}$/)
    .refine((name) => !/^DELEGATE_(MCP|CHILD)_/i.test(name), {
      error: "variables of delegate-mcp itself are never handed on",
    })
    .meta({ expected: "the name of an environment variable" });
const words = () =>
  z
    .tuple([z.string().min(1).max(8192)], z.string().max(8192))
    .refine((list) => list.length <= 256, { error: "expected at most 256 words" })
    .meta({ expected: 'a list of words, such as ["my-agent", "--quiet"] (no shell is involved)' });
const named = <Entry extends z.ZodType>(entry: Entry, what: string) =>
  z
    .record(z.string().regex(/^[A-Za-z0-9][A-Za-z0-9._ -]{0,63}$/), entry)
    .refine((entries) => Object.keys(entries).length <= 64, { error: "at most 64 entries" })
    .meta({ expected: what });

const agentSchema = z
  .strictObject({
    driver: z
      .enum(DRIVERS)
      .describe(
        "How the program is driven. `command`: any program, task on standard input, answer on standard output.",
      ),
    command: words().optional().describe("Program and arguments of a `command` agent; started without a shell."),
    promptBy: z
      .enum(["stdin", "file"])
      .optional()
      .describe(
        "`stdin` (default): the task comes on standard input; `file`: in the file named by `DELEGATE_CHILD_TASK_FILE`.",
      ),
    onLoss: z
      .enum(["resume", "rerun", "fail"])
      .optional()
      .describe("What a lost child means. `command`: `fail` (default) or `rerun`, for programs that may be run twice."),
    env: z
      .array(environmentName())
      .max(100)
      .optional()
      .describe("Names of environment variables that the child gets besides a small fixed set. Names, never values."),
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
    if (agent.driver === "command" && agent.command === undefined) refuse("command", "driver `command` needs it");
    if (agent.driver === "command" && agent.onLoss === "resume")
      refuse("onLoss", "driver `command` has no session to resume; `fail` or `rerun`");
    for (const key of ["api", "baseUrl", "apiKeyEnv"] as const) {
      if (agent[key] !== undefined) refuse(key, "belongs to the driver `model`, which this version does not offer");
    }
  })
  .meta({ expected: 'an object such as {"driver": "command", "command": ["my-agent"]}' });

const clientSchema = z
  .strictObject({
    waitSliceMs: durationMs(1_000, 240_000).optional().describe("How long one wait of this client is held."),
    era: z.enum(["legacy", "modern"]).optional().describe("Which protocol era this client is offered."),
  })
  .meta({ expected: 'an object such as {"waitSliceMs": 45000}' });

const notifySchema = z
  .union([
    z.strictObject({
      webhook: z.url().refine(isHttpsOrLoopback, { error: "expected an https URL, or http to a loopback address" }),
      secretEnv: environmentName(),
    }),
    z.strictObject({ command: words() }),
  ])
  .meta({ expected: '{"webhook": "https://…", "secretEnv": "NAME"} or {"command": ["program", "argument"]}' });

export const configSchema = z.strictObject({
  dataDir: absolutePath().describe(
    "Folder for everything that is kept: tasks, tokens, keys. Local disks only; created with mode 0700.",
  ),
  log: z.strictObject({
    level: z
      .enum(["debug", "info", "warn", "error", "silent"])
      .default("info")
      .describe("Least important lines that are written to standard error. Task texts never are."),
  }),
  server: z.strictObject({
    host: z
      .string()
      .min(1)
      .max(253)
      .meta({ expected: "a host name or address" })
      .default("127.0.0.1")
      .describe("Address to listen on. Anything but loopback needs `server.auth` = `token`."),
    port: whole(0, 65_535)
      .default(4517)
      .describe("Port to listen on. 0 takes a free one. A busy port is never replaced by another."),
    auth: z
      .enum(["token", "none"])
      .default("token")
      .describe(
        "`token`: every request needs a bearer token. `none` (`--no-auth`): whoever reaches the port is the caller `local`; loopback only.",
      ),
    allowedHosts: z
      .array(
        z
          .string()
          .regex(/^[^\s/@]{1,253}$/)
          .meta({ expected: 'a host as in the Host header, such as "tasks.example.org:8080"' }),
      )
      .max(100)
      .meta({ expected: 'a list such as ["tasks.example.org:8080"]' })
      .default([])
      .describe("Further values of the Host header that are served. Loopback names pass with any port."),
    allowedOrigins: z
      .array(
        z
          .string()
          .refine(isOrigin, { error: 'expected an origin such as "https://tasks.example.org"' })
          .meta({ expected: 'an origin such as "https://tasks.example.org"' }),
      )
      .max(100)
      .meta({ expected: 'a list such as ["https://tasks.example.org"]' })
      .default([])
      .describe("Further values of the Origin header that are served. `null` never is; a request without one passes."),
    keepAliveMs: durationMs(500, 10 * MINUTE_MS)
      .default(10_000)
      .describe("Longest silence on an open event stream, and how long an idle connection is kept."),
    bodyMaxBytes: whole(64 * 1024, 64 * MIB)
      .default(4 * MIB)
      .describe("Largest request body."),
  }),
  workspaces: z.strictObject({
    roots: z
      .array(absolutePath())
      .min(1)
      .max(100)
      .meta({ expected: 'a list of absolute paths such as ["/home/me/projects"]' })
      .describe("Folders below which children may work."),
    map: z
      .array(
        z
          .strictObject({ from: absolutePath(), to: absolutePath() })
          .meta({ expected: '{"from": "/home/me", "to": "/workspaces"}' }),
      )
      .max(100)
      .meta({ expected: 'a list such as [{"from": "/home/me", "to": "/workspaces"}]' })
      .default([])
      .describe("Translates the callers' paths, for a daemon in a container. The first match counts."),
  }),
  limits: z.strictObject({
    concurrentChildren: whole(1, 1_000)
      .default(4)
      .describe(
        "Children with a running turn. One that heals, is paused, awaits an answer or only waits for its own children holds no slot.",
      ),
    queueMax: whole(0, 100_000)
      .default(1_000)
      .describe(
        "Open tasks beyond `limits.concurrentChildren`; the next one is refused (`capacity_full`). 0: nothing queues.",
      ),
    depthMax: whole(0, 16)
      .default(1)
      .describe("Levels of children below a root caller. 1: a child may not delegate. 0: delegation is off."),
    tasksPerTreeMax: whole(1, 10_000).default(50).describe("Tasks below one root task."),
    waitsMax: whole(1, 100_000).default(10_000).describe("Waits that are held at a time."),
    delegationsPerMinute: whole(1, 100_000).default(60).describe("Accepted delegations of one caller within a minute."),
  }),
  retry: z.strictObject({
    patienceMs: durationMs(0, 30 * DAY_MS)
      .default(4 * HOUR_MS)
      .describe("How long a passing fault of a provider is healed before the task fails. 0: the first fault ends it."),
    backoffMaxMs: durationMs(1, HOUR_MS).default(MINUTE_MS).describe("Longest pause between two tries."),
    unknownAttemptsMax: whole(0, 100).default(2).describe("Further tries after a fault of unknown kind. 0: none."),
    lossesMax: whole(0, 1_000)
      .default(5)
      .describe("How often one run may lose its child and go on. 0: the first loss ends it."),
    pauseMaxMs: durationMs(0, 30 * DAY_MS)
      .default(6 * HOUR_MS)
      .describe("Longest pause for a usage limit whose end is known. 0: none."),
  }),
  stall: z.strictObject({
    afterMs: durationMs(100, DAY_MS)
      .default(5 * MINUTE_MS)
      .describe("Silence after which a running child is called stalled. A running tool is no silence."),
    interruptAfterMs: durationMs(100, DAY_MS)
      .default(10 * MINUTE_MS)
      .describe("Silence after which its turn is interrupted and healed. Never done to a `command` child."),
  }),
  questions: z.strictObject({
    deadlineMs: durationMs(1_000, 30 * DAY_MS)
      .default(DAY_MS)
      .describe(
        "How long a child's question waits for an answer. Expiry is not a refusal: the task fails and can be continued.",
      ),
  }),
  guard: z.strictObject({
    leaseMs: durationMs(1_000, 10 * MINUTE_MS)
      .default(30_000)
      .describe("A daemon without a sign of life for two thirds of this counts as gone."),
    holdMs: durationMs(0, HOUR_MS)
      .default(MINUTE_MS)
      .describe("How long children run on for a returning daemon. 0: they are stopped at once."),
    spoolMaxBytes: whole(64 * 1024, 1024 * MIB)
      .default(16 * MIB)
      .describe("Output of one child that is kept for a returning daemon."),
  }),
  permissions: z.strictObject({
    max: z
      .enum(["plan", "ask", "accept_edits", "full"])
      .default("accept_edits")
      .describe("Highest permission level that a caller may ask for."),
    approvalsBy: z
      .enum(["caller", "person"])
      .default("caller")
      .describe("Who may answer a child's permission request. `person`: by the command line or the page only."),
  }),
  agents: named(agentSchema, 'an object such as {"mine": {"driver": "command", "command": ["my-agent"]}}')
    .default({})
    .describe("The agents that can be children, by name. This version finds none by itself."),
  clients: named(clientSchema, 'an object such as {"cursor": {"waitSliceMs": 45000}}')
    .default({})
    .describe("Settings for single clients, by the name that they give when they connect."),
  notify: z
    .array(notifySchema)
    .max(16)
    .meta({ expected: "a list of webhooks and commands" })
    .default([])
    .describe("Who else is told when a task has ended. Ids and states only, never text of a child or caller."),
  retention: z.strictObject({
    resultsDays: whole(1, 3_650).default(30).describe("How long results are kept after a task has ended."),
    transcriptsDays: whole(1, 3_650).default(30).describe("How long conversations are kept."),
    worktreesDays: whole(1, 3_650).default(7).describe("How long the worktrees of ended tasks are kept."),
    tombstonesDays: whole(1, 3_650)
      .default(60)
      .describe("How long a used key is remembered after its task has ended. Not below `retention.resultsDays`."),
  }),
});

export type Config = z.output<typeof configSchema>;
export type AgentConfig = z.output<typeof agentSchema>;
export type ClientConfig = z.output<typeof clientSchema>;
export type NotifyConfig = z.output<typeof notifySchema>;

/** One entry of the table: a value that has one origin. */
export type Setting = {
  /** `server.port`, `agents`. */
  readonly key: string;
  /** Environment names, the derived one first, a short form second. */
  readonly env: readonly [string, ...string[]];
  readonly schema: z.ZodType;
  readonly docs: string;
  /** Undefined for those of `FOUND_AT_START`. */
  readonly fallback: unknown;
  /** How the environment writes it. */
  readonly form: "number" | "boolean" | "text" | "json";
};

const SHORT_FORMS: Readonly<Record<string, string>> = {
  "server.host": "DELEGATE_MCP_HOST",
  "server.port": "DELEGATE_MCP_PORT",
};

/** All settings in the order of the schema. */
export const SETTINGS: readonly Setting[] = settingsBelow(configSchema, "");

function settingsBelow(group: z.ZodObject, prefix: string): readonly Setting[] {
  return Object.entries(group.shape).flatMap(([name, schema]) => {
    const key = `${prefix}${name}`;
    if (schema instanceof z.ZodObject) return settingsBelow(schema, `${key}.`);
    return schema instanceof z.ZodType ? [settingOf(key, schema)] : [];
  });
}

function settingOf(key: string, schema: z.ZodType): Setting {
  const short = SHORT_FORMS[key];
  return {
    key,
    env: short === undefined ? [environmentNameOf(key)] : [environmentNameOf(key), short],
    schema,
    docs: schema.description ?? "",
    fallback: schema instanceof z.ZodDefault ? schema.def.defaultValue : undefined,
    form: formOf(withoutWrappers(schema)),
  };
}

/** `limits.concurrentChildren` -> `DELEGATE_MCP_LIMITS_CONCURRENT_CHILDREN`. */
export function environmentNameOf(key: string): string {
  const words = key.replaceAll(".", "_").replace(/([a-z0-9])([A-Z])/g, "$1_$2");
  return `DELEGATE_MCP_${words.toUpperCase()}`;
}

function formOf(schema: z.ZodType): Setting["form"] {
  if (schema instanceof z.ZodNumber) return "number";
  if (schema instanceof z.ZodBoolean) return "boolean";
  return schema instanceof z.ZodString || schema instanceof z.ZodEnum ? "text" : "json";
}

/** The schema below `optional` and `default`. */
export function withoutWrappers(schema: z.ZodType): z.ZodType {
  if (!(schema instanceof z.ZodDefault || schema instanceof z.ZodOptional)) return schema;
  const inner = schema.unwrap();
  return inner instanceof z.ZodType ? withoutWrappers(inner) : schema;
}

/** True for names and addresses that only this machine reaches. */
export function isLoopback(host: string): boolean {
  return host === "localhost" || host === "::1" || host === "[::1]" || (isIPv4(host) && host.startsWith("127."));
}

function isHttpsOrLoopback(text: string): boolean {
  if (!URL.canParse(text)) return false;
  const url = new URL(text);
  return url.protocol === "https:" || (url.protocol === "http:" && isLoopback(url.hostname));
}

function isOrigin(text: string): boolean {
  return URL.canParse(text) && new URL(text).origin === text;
}

/** Fields of the entries of `agents` and `clients`, for the documentation. */
export const ENTRY_FIELDS: Readonly<Record<"agents" | "clients", z.ZodObject>> = {
  agents: agentSchema,
  clients: clientSchema,
};
