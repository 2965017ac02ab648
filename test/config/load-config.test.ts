/**
 * The precedence of settings, and every kind of mistake with the words that an operator gets for it.
 */

import { mkdirSync, writeFileSync } from "node:fs";
import path from "node:path";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { ConfigSources } from "../../src/config/config-layers.ts";
import { engineSettings, modelEndpoints } from "../../src/config/engine-settings.ts";
import { explainConfig } from "../../src/config/explain-config.ts";
import { knownSecrets } from "../../src/config/known-secrets.ts";
import { gitTopOf, type LoadedConfig, loadConfig } from "../../src/config/load-config.ts";
import { describeProblem } from "../../src/config/problem.ts";
import { SETTINGS } from "../../src/config/schema.ts";
import { type Scratch, scratch } from "../tooling/scratch.ts";

type Given = Partial<Omit<ConfigSources, "folders" | "cwd">> & { readonly file?: unknown };

function sourcesIn(folder: Scratch, given: Given): ConfigSources {
  const { file, ...rest } = given;
  if (file !== undefined)
    folder.write({ "config/config.json": typeof file === "string" ? file : JSON.stringify(file) });
  return {
    flags: {},
    environment: {},
    envFile: null,
    configFile: null,
    ...rest,
    cwd: folder.dir,
    folders: { data: path.join(folder.dir, "data"), config: path.join(folder.dir, "config") },
  };
}

function problemsOf(given: Given): readonly string[] {
  using folder = scratch();
  const result = loadConfig(sourcesIn(folder, given));
  expect(result.kind).toBe("invalid");
  if (result.kind !== "invalid") return [];
  return result.problems.map((problem) => describeProblem(problem).replaceAll(folder.dir, "DIR"));
}

function loaded(folder: Scratch, given: Given): LoadedConfig {
  const result = loadConfig(sourcesIn(folder, given));
  if (result.kind === "invalid") expect.unreachable(result.problems.map(describeProblem).join("\n"));
  return result.loaded;
}

const MINE = { driver: "command", command: ["my-agent"] };
const MODEL = {
  driver: "model",
  api: "anthropic",
  baseUrl: "https://api.example.org",
  apiKeyEnv: "MODEL_KEY",
  model: "large",
};
const SIGNING = "whsec_MDEyMzQ1Njc4OWFiY2RlZg==";
const webhook = (secretEnv: string) => ({ webhook: `https://example.org/${secretEnv}`, secretEnv });

describe("precedence", () => {
  it("takes flags over variables over the file over defaults, and knows where each came from", () => {
    using folder = scratch();
    const file = { server: { host: "localhost", port: 1, keepAliveMs: 1000 }, limits: { depthMax: 3 } };
    const environment = { DELEGATE_MCP_SERVER_PORT: "2", DELEGATE_MCP_SERVER_KEEP_ALIVE_MS: "2000" };
    const flags = { "server.port": { name: "--port", value: "3" } };
    const { config, origins } = loaded(folder, { file, environment, flags });
    expect(config.server).toMatchObject({ host: "localhost", port: 3, keepAliveMs: 2000, bodyMaxBytes: 4194304 });
    expect(config.limits.depthMax).toBe(3);
    const configFile = path.join(folder.dir, "config/config.json");
    expect(origins["server.port"]).toEqual({ kind: "flag", name: "--port" });
    expect(origins["server.keepAliveMs"]).toEqual({
      kind: "environment",
      name: "DELEGATE_MCP_SERVER_KEEP_ALIVE_MS",
      file: null,
    });
    expect(origins["server.host"]).toEqual({ kind: "file", path: configFile });
    expect(origins["server.bodyMaxBytes"]).toEqual({ kind: "default" });
  });

  it("explains every setting once with its value and origin", () => {
    using folder = scratch();
    const { config, origins } = loaded(folder, {
      environment: { DELEGATE_MCP_PORT: "0" },
      file: { agents: { mine: MINE } },
    });
    const rows = explainConfig(config, origins);
    expect(rows.map((row) => row.key)).toEqual(SETTINGS.map((setting) => setting.key));
    expect(rows.filter((row) => row.value === undefined)).toEqual([]);
    expect(rows.find((row) => row.key === "server.port")).toMatchObject({ value: 0, originText: "DELEGATE_MCP_PORT" });
    expect(rows.find((row) => row.key === "agents")).toMatchObject({ value: { mine: MINE } });
    expect(rows.find((row) => row.key === "retry.patienceMs")).toMatchObject({
      value: 14_400_000,
      originText: "default",
    });
  });

  it("takes lists and records whole from one place, as JSON in the environment", () => {
    using folder = scratch();
    const environment = {
      DELEGATE_MCP_AGENTS: JSON.stringify({ other: MINE }),
      DELEGATE_MCP_WORKSPACES_ROOTS: '["/srv/a","/srv/b"]',
      DELEGATE_MCP_CLIENTS: '{"cursor":{"waitSliceMs":45000}}',
    };
    const { config } = loaded(folder, { environment, file: { agents: { mine: MINE } } });
    expect(Object.keys(config.agents)).toEqual(["other"]);
    expect(config.workspaces.roots).toEqual(["/srv/a", "/srv/b"]);
    expect(config.clients).toEqual({ cursor: { waitSliceMs: 45000 } });
  });

  it("reads an environment file only where it is named, below the real environment", () => {
    using folder = scratch({
      ".env": "DELEGATE_MCP_PORT=1\n",
      "named.env": "DELEGATE_MCP_PORT=2\nDELEGATE_MCP_LIMITS_DEPTH_MAX=2\nMY_KEY='k'\n",
    });
    expect(loaded(folder, {}).config.server.port).toBe(4517);
    const both = loaded(folder, { envFile: "named.env", environment: { DELEGATE_MCP_PORT: "9" } });
    expect([both.config.server.port, both.config.limits.depthMax]).toEqual([9, 2]);
    expect(both.environment).toEqual({ DELEGATE_MCP_PORT: "9", DELEGATE_MCP_LIMITS_DEPTH_MAX: "2", MY_KEY: "k" });
    expect(both.origins["limits.depthMax"]).toMatchObject({ file: path.join(folder.dir, "named.env") });
  });

  it("counts an empty variable as not set", () => {
    using folder = scratch();
    expect(
      loaded(folder, { environment: { DELEGATE_MCP_PORT: "", DELEGATE_MCP_NONSENSE: "" } }).config.server.port,
    ).toBe(4517);
  });

  it("reads the file that --config or DELEGATE_MCP_CONFIG names instead of the usual one", () => {
    using folder = scratch({ "a.json": '{"server":{"port":1}}', "b.json": '{"server":{"port":2}}' });
    const file = { server: { port: 3 } };
    const portOf = (given: Given): number => loaded(folder, { file, ...given }).config.server.port;
    const environment = { DELEGATE_MCP_CONFIG: "b.json" };
    expect([portOf({}), portOf({ environment }), portOf({ environment, configFile: "a.json" })]).toEqual([3, 2, 1]);
  });

  it("finds the data directory and the roots of the place where it was started", () => {
    using folder = scratch({ "repo/.git/HEAD": "x", "repo/a/b/c": "x", "plain/file": "x" });
    expect(loaded(folder, {}).config.dataDir).toBe(path.join(folder.dir, "data"));
    expect(gitTopOf(path.join(folder.dir, "repo/a/b"))).toBe(path.join(folder.dir, "repo"));
    expect(gitTopOf(path.join(folder.dir, "plain"))).toBe(path.join(folder.dir, "plain"));
  });

  it("accepts the bounds themselves: 0 where it has a meaning", () => {
    using folder = scratch();
    const file = {
      server: { port: 0 },
      limits: { depthMax: 0, queueMax: 0 },
      guard: { holdMs: 0 },
      retry: { lossesMax: 0 },
    };
    expect(loaded(folder, { file }).config).toMatchObject(file);
  });

  it("takes receivers whose secrets are there, and keeps the secrets out of the configuration and of every log (X4)", () => {
    using folder = scratch();
    const notify = [webhook("S"), { command: ["tell", "me"] }, { webhook: "http://127.0.0.1:9/", secretEnv: "T" }];
    const result = loaded(folder, { file: { notify }, environment: { S: SIGNING, T: "sixteen letters." } });
    expect(result.config.notify).toEqual(notify);
    expect(JSON.stringify(result.config)).not.toContain(SIGNING);
    expect(knownSecrets(result)).toEqual([SIGNING, "sixteen letters."]);
  });

  it("keeps a model's key where it is asked, and nowhere else; it is masked (X2, X4)", () => {
    using folder = scratch();
    const local = { driver: "model", api: "openai", baseUrl: "http://127.0.0.1:9/v1", model: "m" };
    const environment = { MODEL_KEY: "plainkey" };
    const result = loaded(folder, { file: { agents: { far: MODEL, near: local } }, environment });
    expect([...modelEndpoints(result)]).toEqual([
      ["far", { api: "anthropic", baseUrl: "https://api.example.org", apiKey: "plainkey" }],
      ["near", { api: "openai", baseUrl: "http://127.0.0.1:9/v1", apiKey: null }],
    ]);
    expect(knownSecrets(result)).toEqual(["plainkey"]);
    expect(JSON.stringify([result.config, [...engineSettings(result, "dm_x").agents]])).not.toContain("plainkey");
  });

  it("hands the engine who may approve, and how long things are kept", () => {
    using folder = scratch();
    const file = {
      permissions: { approvalsBy: "person" },
      retention: { resultsDays: 2, transcriptsDays: 1, tombstonesDays: 3 },
      agents: { mine: MINE, fake: { driver: "fake" } },
    };
    const settings = engineSettings(loaded(folder, { file }), "dm_x");
    const dayMs = 86_400_000;
    expect(settings.approvalsBy).toBe("person");
    expect(settings.retention).toEqual({ resultsMs: 2 * dayMs, transcriptsMs: dayMs, tombstonesMs: 3 * dayMs });
    for (const agent of settings.agents.values()) expect(agent.levels).toEqual(["plan", "ask", "accept_edits", "full"]);
    expect(settings.agents.size).toBe(2);
  });

  it("lets an editor's schema pointer stand in the file", () => {
    using folder = scratch();
    expect(loaded(folder, { file: { $schema: "x" } }).config.server.port).toBe(4517);
  });
});

const MISTAKES: readonly (readonly [what: string, given: Given, problem: string | readonly string[]])[] = [
  [
    "a flag that is no number",
    { flags: { "server.port": { name: "--port", value: "http" } } },
    "server.port (--port): expected a whole number from 0 to 65535",
  ],
  [
    "a number with a unit",
    { environment: { DELEGATE_MCP_GUARD_LEASE_MS: "30s" } },
    "guard.leaseMs (DELEGATE_MCP_GUARD_LEASE_MS): expected a whole number from 1000 to 600000",
  ],
  [
    "a number out of bounds",
    { file: { server: { port: 70000 } } },
    "server.port (DIR/config/config.json): expected a whole number from 0 to 65535",
  ],
  [
    "a fraction",
    { file: { limits: { waitsMax: 1.5 } } },
    "limits.waitsMax (DIR/config/config.json): expected a whole number from 1 to 100000",
  ],
  [
    "null",
    { file: { server: { host: null } } },
    "server.host (DIR/config/config.json): expected a host name or address",
  ],
  [
    "a word that is not offered",
    { environment: { DELEGATE_MCP_LOG_LEVEL: "trace" } },
    "log.level (DELEGATE_MCP_LOG_LEVEL): expected one of debug, info, warn, error, silent",
  ],
  [
    "a relative path",
    { environment: { DELEGATE_MCP_DATA_DIR: "./data" } },
    "dataDir (DELEGATE_MCP_DATA_DIR): expected an absolute path",
  ],
  [
    "a relative root",
    { file: { workspaces: { roots: ["/a", "b"] } } },
    "workspaces.roots.1 (DIR/config/config.json): expected an absolute path",
  ],
  [
    "no root at all",
    { file: { workspaces: { roots: [] } } },
    'workspaces.roots (DIR/config/config.json): expected a list of absolute paths such as ["/home/me/projects"]',
  ],
  [
    "text where a list belongs",
    { environment: { DELEGATE_MCP_WORKSPACES_ROOTS: "/srv" } },
    'workspaces.roots (DELEGATE_MCP_WORKSPACES_ROOTS): expected a list of absolute paths such as ["/home/me/projects"]',
  ],
  [
    "a host with a scheme",
    { file: { server: { allowedHosts: ["http://a"] } } },
    'server.allowedHosts.0 (DIR/config/config.json): expected a host as in the Host header, such as "tasks.example.org:8080"',
  ],
  [
    "an origin with a path",
    { file: { server: { allowedOrigins: ["https://a.example/x"] } } },
    'server.allowedOrigins.0 (DIR/config/config.json): expected an origin such as "https://tasks.example.org"',
  ],
  [
    "a misspelt key",
    { file: { server: { prot: 1 } } },
    "server.prot (DIR/config/config.json): unknown; did you mean server.port?",
  ],
  [
    "a key of another group",
    { file: { patienceMs: 1 } },
    "patienceMs (DIR/config/config.json): unknown; did you mean retry.patienceMs?",
  ],
  [
    "a misspelt group",
    { file: { limit: { depthMax: 1 } } },
    "limit (DIR/config/config.json): unknown; did you mean limits?",
  ],
  ["a key that resembles none", { file: { colour: 1 } }, "colour (DIR/config/config.json): unknown; remove it"],
  ["a group that is no object", { file: { server: 4517 } }, "server (DIR/config/config.json): expected an object"],
  [
    "a misspelt variable",
    { environment: { DELEGATE_MCP_SERVER_PROT: "1" } },
    "DELEGATE_MCP_SERVER_PROT (DELEGATE_MCP_SERVER_PROT): unknown; did you mean DELEGATE_MCP_SERVER_PORT?",
  ],
  [
    "a variable for one agent",
    { environment: { DELEGATE_MCP_AGENTS_MINE_COMMAND: "x" } },
    "DELEGATE_MCP_AGENTS_MINE_COMMAND (DELEGATE_MCP_AGENTS_MINE_COMMAND): unknown; write all of it as JSON into DELEGATE_MCP_AGENTS",
  ],
  [
    "both forms of a variable",
    { environment: { DELEGATE_MCP_SERVER_PORT: "1", DELEGATE_MCP_PORT: "2" } },
    "server.port (DELEGATE_MCP_PORT): DELEGATE_MCP_SERVER_PORT says otherwise; keep one of the two",
  ],
  [
    "a database variable",
    { environment: { DELEGATE_MCP_DATABASE_URL: "postgres://u:p@h/d" } },
    "DELEGATE_MCP_DATABASE_URL (DELEGATE_MCP_DATABASE_URL): databases are not offered in this version; leave it out, and tasks are kept in the data directory",
  ],
  [
    "a database flag",
    { flags: { databaseUrl: { name: "--database-url", value: "postgres://" } } },
    "databaseUrl (--database-url): databases are not offered in this version; leave it out, and tasks are kept in the data directory",
  ],
  [
    "a database in the file",
    { file: { databaseUrl: "x" } },
    "databaseUrl (DIR/config/config.json): databases are not offered in this version; leave it out, and tasks are kept in the data directory",
  ],
  ["a file that is not there", { configFile: "absent.json" }, "DIR/absent.json (--config): no such file"],
  ["a folder for a file", { configFile: "." }, "DIR (--config): expected a file"],
  [
    "a file that is not JSON",
    { file: '{\n "server": {,}\n}' },
    "DIR/config/config.json (DIR/config/config.json): expected JSON, but it breaks off at line 2 column 13",
  ],
  [
    "a file with a list",
    { file: "[]" },
    'DIR/config/config.json (DIR/config/config.json): expected one JSON object, such as {"server": {"port": 4517}}',
  ],
  ["an environment file that is not there", { envFile: "absent.env" }, "DIR/absent.env (--env-file): no such file"],
  [
    "a driver of a later version",
    { file: { agents: { gemini: { driver: "gemini" } } } },
    "agents.gemini.driver (DIR/config/config.json): expected one of command, acp, claude, codex, pi, model, fake; gemini, opencode, cursor-agent are not available in this version",
  ],
  [
    "a Claude Code agent whose task would come in a file",
    { file: { agents: { a: { driver: "claude", promptBy: "file" } } } },
    "agents.a.promptBy (DIR/config/config.json): an agent of the driver `claude` gets its task by the protocol; leave it out",
  ],
  [
    "a command agent without a command",
    { file: { agents: { a: { driver: "command" } } } },
    "agents.a.command (DIR/config/config.json): driver `command` needs it",
  ],
  [
    "an ACP agent without a command",
    { file: { agents: { a: { driver: "acp" } } } },
    "agents.a.command (DIR/config/config.json): driver `acp` needs it",
  ],
  [
    "an ACP agent with its task in a file",
    { file: { agents: { a: { driver: "acp", command: ["opencode", "acp"], promptBy: "file" } } } },
    "agents.a.promptBy (DIR/config/config.json): an agent of the driver `acp` gets its task by the protocol; leave it out",
  ],
  [
    "a command as one text",
    { file: { agents: { a: { driver: "command", command: "my-agent --quiet" } } } },
    'agents.a.command (DIR/config/config.json): expected a list of words, such as ["my-agent", "--quiet"] (no shell is involved)',
  ],
  [
    "a command that resumes",
    { file: { agents: { a: { ...MINE, onLoss: "resume" } } } },
    "agents.a.onLoss (DIR/config/config.json): driver `command` has no session to resume; `fail` or `rerun`",
  ],
  [
    "fields of the model driver",
    { file: { agents: { a: { ...MINE, apiKeyEnv: "K" } } } },
    "agents.a.apiKeyEnv (DIR/config/config.json): belongs to the driver `model`; leave it out",
  ],
  [
    "a model without its address",
    { file: { agents: { a: { driver: "model", api: "openai", model: "m" } } } },
    "agents.a.baseUrl (DIR/config/config.json): driver `model` needs it",
  ],
  [
    "a model without a name",
    { file: { agents: { a: { driver: "model", api: "openai", baseUrl: "http://127.0.0.1:9/v1" } } } },
    "agents.a.model (DIR/config/config.json): driver `model` needs it",
  ],
  [
    "a model of an unknown dialect",
    { file: { agents: { a: { ...MODEL, api: "grpc" } } } },
    "agents.a.api (DIR/config/config.json): expected one of anthropic, openai",
  ],
  [
    "a model elsewhere without a key",
    { file: { agents: { a: { ...MODEL, apiKeyEnv: undefined } } } },
    "agents.a.apiKeyEnv (DIR/config/config.json): driver `model` needs it unless `baseUrl` is a loopback address",
  ],
  [
    "a model whose key is not there (X2)",
    { file: { agents: { a: MODEL } } },
    "agents.a.apiKeyEnv (DIR/config/config.json): the variable MODEL_KEY is not set; put the API key there",
  ],
  [
    "a model whose key cannot be one, without telling it (X2)",
    { file: { agents: { a: MODEL } }, environment: { MODEL_KEY: "two words" } },
    "agents.a.apiKeyEnv (DIR/config/config.json): the variable MODEL_KEY holds no usable API key; expected visible ASCII without spaces",
  ],
  [
    "a model by plain http elsewhere (X2)",
    { file: { agents: { a: { ...MODEL, baseUrl: "http://api.example.org" } } }, environment: { MODEL_KEY: "k" } },
    "agents.a.baseUrl (DIR/config/config.json): expected an https URL, or http to a loopback address",
  ],
  [
    "a model with a password in its address (X2)",
    {
      file: { agents: { a: { ...MODEL, baseUrl: "https://me:secret@api.example.org" } } },
      environment: { MODEL_KEY: "k" },
    },
    "agents.a.baseUrl (DIR/config/config.json): expected a URL without user, password, query or fragment; the key is in the variable that apiKeyEnv names",
  ],
  [
    "a model with a command",
    { file: { agents: { a: { ...MODEL, command: ["x"] } } }, environment: { MODEL_KEY: "k" } },
    "agents.a.command (DIR/config/config.json): an agent of the driver `model` has no process; leave it out",
  ],
  [
    "a model that resumes",
    { file: { agents: { a: { ...MODEL, onLoss: "resume" } } }, environment: { MODEL_KEY: "k" } },
    "agents.a.onLoss (DIR/config/config.json): driver `model` has no session to resume; `fail` or `rerun`",
  ],
  [
    "a Pi with its task in a file",
    { file: { agents: { a: { driver: "pi", promptBy: "file" } } } },
    "agents.a.promptBy (DIR/config/config.json): an agent of the driver `pi` gets its task by the protocol; leave it out",
  ],
  [
    "a misspelt field of an agent",
    { file: { agents: { a: { ...MINE, promtBy: "file" } } } },
    "agents.a.promtBy (DIR/config/config.json): unknown; did you mean promptBy?",
  ],
  [
    "a value where a variable's name belongs (X2)",
    { file: { agents: { a: { ...MINE, env: ["KEY=secret"] } } } },
    "agents.a.env.0 (DIR/config/config.json): expected the name of an environment variable",
  ],
  [
    "our own token for a child (X2)",
    { file: { agents: { a: { ...MINE, env: ["DELEGATE_MCP_TOKEN"] } } } },
    "agents.a.env.0 (DIR/config/config.json): variables of delegate-mcp itself are never handed on",
  ],
  [
    "an agent's name that cannot be one",
    { file: { agents: { "../a": MINE } } },
    "agents.../a (DIR/config/config.json): expected a name of letters, digits, dots, dashes and underscores, at most 64",
  ],
  [
    "two default agents",
    { file: { agents: { a: { ...MINE, default: true }, b: { ...MINE, default: true } } } },
    'agents (DIR/config/config.json): expected at most one agent with "default": true, not a, b',
  ],
  [
    "a slice longer than any wait",
    { file: { clients: { x: { waitSliceMs: 300_000 } } } },
    "clients.x.waitSliceMs (DIR/config/config.json): expected a whole number from 1000 to 240000",
  ],
  [
    "a notification of neither kind",
    { file: { notify: [{ url: "https://example.org" }] } },
    'notify.0 (DIR/config/config.json): expected {"webhook": "https://…", "secretEnv": "NAME"} or {"command": ["program", "argument"]}',
  ],
  [
    "a webhook in clear to another machine",
    { file: { notify: [{ webhook: "http://example.org", secretEnv: "S" }] } },
    "notify.0.webhook (DIR/config/config.json): expected an https URL, or http to a loopback address",
  ],
  [
    "a webhook with a password in its URL (X4)",
    { file: { notify: [{ webhook: "https://user:s3cret@example.org/", secretEnv: "S" }] } },
    "notify.0.webhook (DIR/config/config.json): expected a URL without a user or password; messages are signed with the secret that secretEnv names",
  ],
  [
    "webhooks whose secrets are missing, empty or easy to guess (X4)",
    {
      file: { notify: ["UNSET", "EMPTY", "SHORT", "CUT"].map((name) => webhook(name)) },
      environment: { EMPTY: "", SHORT: "fifteen letters", CUT: "whsec_bm90IGxvbmcgZW5vdWdo" },
    },
    [
      "notify.0.secretEnv (DIR/config/config.json): the variable UNSET is not set; put the secret that signs the messages there",
      "notify.1.secretEnv (DIR/config/config.json): the variable EMPTY is not set; put the secret that signs the messages there",
      "notify.2.secretEnv (DIR/config/config.json): the variable SHORT holds no usable secret; expected whsec_ and base64 of at least 16 bytes, or at least 16 characters",
      "notify.3.secretEnv (DIR/config/config.json): the variable CUT holds no usable secret; expected whsec_ and base64 of at least 16 bytes, or at least 16 characters",
    ],
  ],
  [
    "a webhook secret that says base64 and is none (X4)",
    { file: { notify: [webhook("S")] }, environment: { S: "whsec_this is-no_base64 of any kind" } },
    "notify.0.secretEnv (DIR/config/config.json): the variable S holds no usable secret; expected whsec_ and base64 of at least 16 bytes, or at least 16 characters",
  ],
  [
    "one receiver twice",
    {
      file: {
        notify: [
          { command: ["tell", "me"] },
          { webhook: "https://example.org", secretEnv: "S" },
          { command: ["tell", "me"] },
          { webhook: "https://example.org/", secretEnv: "S" },
        ],
      },
      environment: { S: SIGNING },
    },
    [
      "notify.2 (DIR/config/config.json): the same receiver as notify.0; keep one",
      "notify.3 (DIR/config/config.json): the same receiver as notify.1; keep one",
    ],
  ],
  [
    "no authentication beyond loopback",
    { flags: { "server.auth": { name: "--no-auth", value: "none" } }, environment: { DELEGATE_MCP_HOST: "0.0.0.0" } },
    "server.auth (--no-auth): expected token, because server.host 0.0.0.0 can be reached from other machines",
  ],
  [
    "an interruption before the stall",
    { file: { stall: { afterMs: 5000, interruptAfterMs: 4000 } } },
    "stall.interruptAfterMs (DIR/config/config.json): expected at least stall.afterMs (5000)",
  ],
  [
    "keys that live shorter than tasks (P3)",
    { file: { retention: { resultsDays: 90 } } },
    "retention.tombstonesDays (default): expected at least retention.resultsDays (90): a key must outlive its task",
  ],
  [
    "several at once, from several places",
    {
      flags: { "server.port": { name: "--port", value: "-1" } },
      environment: { DELEGATE_MCP_LOG_LEVEL: "loud" },
      file: { servr: {}, limits: { depthMax: 99 } },
    },
    [
      "servr (DIR/config/config.json): unknown; did you mean server?",
      "log.level (DELEGATE_MCP_LOG_LEVEL): expected one of debug, info, warn, error, silent",
      "server.port (--port): expected a whole number from 0 to 65535",
      "limits.depthMax (DIR/config/config.json): expected a whole number from 0 to 16",
    ],
  ],
];

describe("mistakes", () => {
  it.each(MISTAKES)("names key, place and what is expected: %s", (_what, given, problem) => {
    expect(problemsOf(given)).toEqual([problem].flat());
  });

  it("does not repeat values, which may be secrets in the wrong place (X3)", () => {
    const secret = "sk-very-secret-0123456789";
    const file = {
      server: { port: secret },
      agents: { a: { ...MINE, env: [`KEY=${secret}`] } },
      notify: [{ webhook: secret }],
    };
    expect(
      problemsOf({ file, environment: { DELEGATE_MCP_DATABASE_URL: secret, DELEGATE_MCP_LOG_LEVEL: secret } }).join(),
    ).not.toContain(secret);
    expect(problemsOf({ file: `{"a": ${secret}` }).join()).not.toContain(secret);
  });

  it("tells a client the data directory if that is beyond doubt, and only then", () => {
    using folder = scratch();
    const dataDirOf = (given: Given): string | null | undefined => {
      const result = loadConfig(sourcesIn(folder, given));
      return result.kind === "invalid" ? result.dataDir : undefined;
    };
    const wrong = { DELEGATE_MCP_PORT: "x" };
    expect(dataDirOf({ environment: { ...wrong, DELEGATE_MCP_DATA_DIR: "/srv/d" } })).toBe("/srv/d");
    expect(dataDirOf({ environment: wrong, file: { dataDir: "/srv/f" } })).toBe("/srv/f");
    expect(dataDirOf({ environment: { DELEGATE_MCP_DATA_DIR: "d" } })).toBeNull();
    expect(dataDirOf({ file: "{" })).toBeNull();
  });

  it("never throws and never half-loads, whatever stands in the file", () => {
    using folder = scratch();
    mkdirSync(path.join(folder.dir, "config"));
    const names = fc.constantFrom(
      "server",
      "limits",
      "agents",
      "clients",
      "notify",
      "port",
      "retry",
      "dataDir",
      "workspaces",
      "roots",
      "x",
    );
    const content = fc.dictionary(
      names,
      fc.oneof(fc.jsonValue({ maxDepth: 3 }), fc.dictionary(names, fc.jsonValue({ maxDepth: 2 }))),
    );
    fc.assert(
      fc.property(content, (file) => {
        writeFileSync(path.join(folder.dir, "config/config.json"), JSON.stringify(file));
        const result = loadConfig(sourcesIn(folder, {}));
        if (result.kind === "invalid") expect(result.problems.length).toBeGreaterThan(0);
        else expect(result.loaded.config.limits.depthMax).toBeGreaterThanOrEqual(0);
      }),
      { numRuns: 300 },
    );
  });
});
