/**
 * The configuration in force: flags over `DELEGATE_MCP_*` over the file over defaults.
 *
 * Invariant: all problems are found at once, and with any there is no configuration: nothing is dropped, rounded or guessed.
 * Invariant: a setting is taken whole from one place; lists and records of two places are not mixed.
 * Absent on purpose: files of a workspace. An untrusted repository must not configure the daemon.
 */

import { existsSync } from "node:fs";
import path from "node:path";
import envPaths from "env-paths";
import { CONFIG_FILE, type ConfigSources, type Folders, type Given, readLayers, type Layer } from "./config-layers.ts";
import { type ConfigProblem, problemsOf, type SettingOrigin } from "./problem.ts";
import { type Config, configSchema, SETTINGS, type Setting } from "./schema.ts";
import { isLoopback, isWebhookSecret } from "./setting-kinds.ts";

export type LoadedConfig = {
  readonly config: Config;
  /** Where each setting came from, by key. */
  readonly origins: Origins;
  /** The real environment with the environment file below it; what `agents.<name>.env` selects from. */
  readonly environment: Readonly<Record<string, string>>;
  readonly configFile: string | null;
};

export type Origins = Readonly<Record<string, SettingOrigin>>;

export type LoadResult =
  | { readonly kind: "loaded"; readonly loaded: LoadedConfig }
  /** `dataDir`: the data directory, if that at least is beyond doubt; a client needs no more. */
  | { readonly kind: "invalid"; readonly problems: readonly ConfigProblem[]; readonly dataDir: string | null };

const DEFAULT: SettingOrigin = { kind: "default" };

export function platformFolders(): Folders {
  const { data, config } = envPaths("delegate-mcp", { suffix: "" });
  return { data, config };
}

export function loadConfig(sources: ConfigSources): LoadResult {
  const read = readLayers(sources);
  const chosen = SETTINGS.map((setting) => choose(setting, read.layers, sources));
  const origins = Object.fromEntries(chosen.map(({ setting, origin }) => [setting.key, origin]));
  const parsed = configSchema.safeParse(nest(chosen.map(({ setting, value }) => [setting.key, value])));
  const problems = [
    ...read.layers.flatMap((layer) => layer.problems),
    ...chosen.flatMap(({ setting, value, origin }) => valueProblems(setting, value, origin)),
    ...(parsed.success ? crossProblems(parsed.data, origins, read.environment) : []),
  ];
  if (parsed.success && problems.length === 0) {
    const { environment, configFile } = read;
    return { kind: "loaded", loaded: { config: parsed.data, origins, environment, configFile } };
  }
  return { kind: "invalid", problems, dataDir: read.complete ? dataDirAmong(chosen) : null };
}

type Chosen = Given & { readonly setting: Setting };

function choose(setting: Setting, layers: readonly Layer[], sources: ConfigSources): Chosen {
  for (const layer of layers) {
    const given = layer.values.get(setting.key);
    if (given !== undefined) return { setting, ...given };
  }
  return { setting, value: setting.fallback ?? foundAtStart(setting.key, sources), origin: DEFAULT };
}

function foundAtStart(key: string, sources: ConfigSources): unknown {
  if (key === "dataDir") return sources.folders.data;
  return key === "workspaces.roots" ? [gitTopOf(sources.cwd)] : undefined;
}

/** The configuration file: the one that was read, else where the usual one would be. */
export function configFileOf(read: string | null): string {
  return read ?? path.join(platformFolders().config, CONFIG_FILE);
}

/** The nearest folder at or above `start` that holds `.git`, else `start`. */
export function gitTopOf(start: string): string {
  for (let folder = start; ; folder = path.dirname(folder)) {
    if (existsSync(path.join(folder, ".git"))) return folder;
    if (folder === path.dirname(folder)) return start;
  }
}

function dataDirAmong(chosen: readonly Chosen[]): string | null {
  const found = chosen.find(({ setting }) => setting.key === "dataDir");
  const parsed = configSchema.shape.dataDir.safeParse(found?.value);
  return parsed.success ? parsed.data : null;
}

function valueProblems(setting: Setting, value: unknown, origin: SettingOrigin): readonly ConfigProblem[] {
  const parsed = setting.schema.safeParse(value);
  return parsed.success ? [] : problemsOf(setting.key, setting.schema, parsed.error, origin);
}

/** Rules that join two settings; each problem is laid to the one that is usually to be changed. */
function crossProblems(
  config: Config,
  origins: Origins,
  environment: LoadedConfig["environment"],
): readonly ConfigProblem[] {
  const problems: ConfigProblem[] = [];
  const refuse = (key: string, message: string): void => {
    problems.push({ key, origin: origins[key] ?? DEFAULT, message });
  };
  if (config.server.auth === "none" && !isLoopback(config.server.host)) {
    refuse(
      "server.auth",
      `expected token, because server.host ${config.server.host} can be reached from other machines`,
    );
  }
  if (config.stall.interruptAfterMs < config.stall.afterMs) {
    refuse("stall.interruptAfterMs", `expected at least stall.afterMs (${config.stall.afterMs})`);
  }
  if (config.retention.tombstonesDays < config.retention.resultsDays) {
    refuse(
      "retention.tombstonesDays",
      `expected at least retention.resultsDays (${config.retention.resultsDays}): a key must outlive its task`,
    );
  }
  const defaults = Object.entries(config.agents).filter(([, agent]) => agent.default === true);
  if (defaults.length > 1) {
    refuse(
      "agents",
      `expected at most one agent with "default": true, not ${defaults.map(([name]) => name).join(", ")}`,
    );
  }
  return [...problems, ...notifyProblems(config.notify, origins["notify"] ?? DEFAULT, environment)];
}

/** Receivers that could never be told rightly: a webhook without its secret, and one that is listed twice. */
function notifyProblems(
  targets: Config["notify"],
  origin: SettingOrigin,
  environment: LoadedConfig["environment"],
): readonly ConfigProblem[] {
  const problems: ConfigProblem[] = [];
  const seen = new Map<string, number>();
  for (const [index, target] of targets.entries()) {
    const receiver = "command" in target ? JSON.stringify(target.command) : new URL(target.webhook).href;
    const twin = seen.get(receiver);
    if (twin === undefined) seen.set(receiver, index);
    else problems.push({ key: `notify.${index}`, origin, message: `the same receiver as notify.${twin}; keep one` });
    if ("command" in target) continue;
    const message = secretProblem(target.secretEnv, environment[target.secretEnv] ?? "");
    if (message !== null) problems.push({ key: `notify.${index}.secretEnv`, origin, message });
  }
  return problems;
}

function secretProblem(name: string, secret: string): string | null {
  if (secret === "") return `the variable ${name} is not set; put the secret that signs the messages there`;
  if (isWebhookSecret(secret)) return null;
  return `the variable ${name} holds no usable secret; expected whsec_ and base64 of at least 16 bytes, or at least 16 characters`;
}

function nest(entries: readonly (readonly [string, unknown])[]): Record<string, unknown> {
  const groups: Record<string, Record<string, unknown>> = {};
  const top: Record<string, unknown> = {};
  for (const [key, value] of entries) {
    const [group = "", name] = key.split(".");
    if (name === undefined) top[group] = value;
    else groups[group] = { ...groups[group], [name]: value };
  }
  return { ...top, ...groups };
}
