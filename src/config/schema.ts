/**
 * Every setting of an operator: its name, shape, default and meaning, once. The environment's names, the documentation,
 * the example file and the messages about mistakes all derive from here.
 *
 * Invariant: units are last in names, and every number has a lower and an upper bound.
 * Invariant: a setting without a default in the schema has one that is found out at start (`FOUND_AT_START`).
 * Absent on purpose: settings of the storage on Postgres, which this version does not offer, and secrets: the file and the
 * environment name variables that hold them.
 */

import { z } from "zod";
import { agentSchema, clientSchema, notifySchema } from "./entry-schemas.ts";
import { absolutePath, durationMs, named, origin, whole } from "./setting-kinds.ts";

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;
const DAY_MS = 24 * HOUR_MS;
const MIB = 1024 * 1024;

/** Settings whose default depends on the machine, in words. */
export const FOUND_AT_START: Readonly<Record<string, string>> = {
  dataDir: "the platform's folder for user data",
  "workspaces.roots": "the git top level of the folder in which `serve` was started, else that folder",
};

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
      .array(origin())
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
function environmentNameOf(key: string): string {
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
