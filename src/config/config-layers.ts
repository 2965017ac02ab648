/**
 * What each source says about the settings, in order of precedence, before anything is merged or checked.
 *
 * Invariant: a name that no setting has is a problem of the place that holds it, in every source.
 * Invariant: an environment file is read only where `--env-file` names it, and never overrides the real environment.
 */

import { existsSync, readFileSync, statSync } from "node:fs";
import path from "node:path";
import { parseEnv } from "node:util";
import { type ConfigProblem, closest, type SettingOrigin, unknownKey } from "./problem.ts";
import { SETTINGS, type Setting } from "./schema.ts";

export type ConfigSources = {
  /** Values given by flags, by setting; `name` as the user wrote it (`--port`). */
  readonly flags: Readonly<Record<string, { readonly name: string; readonly value: unknown }>>;
  readonly environment: Readonly<Record<string, string | undefined>>;
  /** `--env-file`. */
  readonly envFile: string | null;
  /** `--config`; null: `DELEGATE_MCP_CONFIG`, else `config.json` in the configuration folder if there is one. */
  readonly configFile: string | null;
  /** Folder in which the command was started. */
  readonly cwd: string;
  readonly folders: Folders;
};

/** The platform's folders of this product. */
export type Folders = { readonly data: string; readonly config: string };

export type Layer = { readonly values: ReadonlyMap<string, Given>; readonly problems: readonly ConfigProblem[] };
export type Given = { readonly value: unknown; readonly origin: SettingOrigin };

export type ReadLayers = {
  /** Highest precedence first. */
  readonly layers: readonly Layer[];
  readonly environment: Readonly<Record<string, string>>;
  readonly configFile: string | null;
  /** False if a file that was named could not be read or is not JSON, so that something it says may be missing. */
  readonly complete: boolean;
};

/** In the configuration folder. */
export const CONFIG_FILE = "config.json";
const FILE_BYTES_MAX = 1024 * 1024;
/** Variables of ours that are no settings: where the command line finds a daemon, and the file itself. */
const OTHER_VARIABLES = ["DELEGATE_MCP_URL", "DELEGATE_MCP_TOKEN", "DELEGATE_MCP_CONFIG"];
const NO_DATABASE = "databases are not offered in this version; leave it out, and tasks are kept in the data directory";

export function readLayers(sources: ConfigSources): ReadLayers {
  const envFile = readEnvironmentFile(sources);
  const environment = { ...envFile.variables, ...defined(sources.environment) };
  const file = readConfigFile(sources, environment);
  return {
    layers: [fromFlags(sources), fromEnvironment(sources, envFile), file.layer],
    environment,
    configFile: file.path,
    complete: file.complete && envFile.problems.length === 0,
  };
}

function fromFlags(sources: ConfigSources): Layer {
  const values = new Map<string, Given>();
  const problems: ConfigProblem[] = [];
  for (const [key, { name, value }] of Object.entries(sources.flags)) {
    const origin: SettingOrigin = { kind: "flag", name };
    const setting = SETTINGS.find((candidate) => candidate.key === key);
    if (setting !== undefined)
      values.set(key, { value: typeof value === "string" ? read(setting, value) : value, origin });
    else problems.push({ key, origin, message: key.startsWith("database") ? NO_DATABASE : unknownKey(key, []) });
  }
  return { values, problems };
}

function fromEnvironment(sources: ConfigSources, envFile: EnvironmentFile): Layer {
  const values = new Map<string, Given>();
  const problems: ConfigProblem[] = [...envFile.problems];
  const real = readVariables(defined(sources.environment), null);
  const filed = readVariables(envFile.variables, envFile.path);
  for (const layer of [real, filed]) {
    problems.push(...layer.problems);
    for (const [key, given] of layer.values) if (!values.has(key)) values.set(key, given);
  }
  return { values, problems };
}

function readVariables(variables: Readonly<Record<string, string>>, file: string | null): Layer {
  const values = new Map<string, Given>();
  const problems: ConfigProblem[] = [];
  const settingOfName = new Map(SETTINGS.flatMap((setting) => setting.env.map((name) => [name, setting] as const)));
  for (const [name, text] of Object.entries(variables)) {
    // An empty variable counts as not set: a compose file passes on those that its user did not set.
    if (!name.startsWith("DELEGATE_MCP_") || text === "" || OTHER_VARIABLES.includes(name)) continue;
    const origin: SettingOrigin = { kind: "environment", name, file };
    const setting = settingOfName.get(name);
    if (setting === undefined) {
      problems.push({
        key: name,
        origin,
        message: unknownVariable(name, [...settingOfName.keys(), ...OTHER_VARIABLES]),
      });
      continue;
    }
    const value = read(setting, text);
    const twin = values.get(setting.key);
    if (twin !== undefined && twin.value !== value) {
      const other = setting.env.find((candidate) => candidate !== name);
      problems.push({ key: setting.key, origin, message: `${other} says otherwise; keep one of the two` });
    }
    values.set(setting.key, { value, origin });
  }
  return { values, problems };
}

function unknownVariable(name: string, known: readonly string[]): string {
  if (name.startsWith("DELEGATE_MCP_DATABASE")) return NO_DATABASE;
  const record = /^DELEGATE_MCP_(AGENTS|CLIENTS|NOTIFY)_/.exec(name)?.[1];
  return record === undefined
    ? unknownKey(name, known)
    : `unknown; write all of it as JSON into DELEGATE_MCP_${record}`;
}

/** A text from a flag or a variable as the setting's own kind; what does not fit stays text, for the schema to refuse. */
function read(setting: Setting, text: string): unknown {
  switch (setting.form) {
    case "number":
      return /^-?\d{1,15}$/.test(text) ? Number(text) : text;
    case "boolean":
      return text === "true" || text === "false" ? text === "true" : text;
    case "json":
      return parseJson(text).value ?? text;
    case "text":
      return text;
  }
}

type EnvironmentFile = {
  readonly path: string | null;
  readonly variables: Readonly<Record<string, string>>;
  readonly problems: readonly ConfigProblem[];
};

function readEnvironmentFile(sources: ConfigSources): EnvironmentFile {
  if (sources.envFile === null) return { path: null, variables: {}, problems: [] };
  const file = path.resolve(sources.cwd, sources.envFile);
  const content = readText(file);
  if (content.kind === "text") return { path: file, variables: defined(parseEnv(content.text)), problems: [] };
  const origin: SettingOrigin = { kind: "flag", name: "--env-file" };
  return { path: file, variables: {}, problems: [{ key: file, origin, message: content.message }] };
}

type ConfigFile = { readonly path: string | null; readonly layer: Layer; readonly complete: boolean };

function readConfigFile(sources: ConfigSources, environment: Readonly<Record<string, string>>): ConfigFile {
  const found = findConfigFile(sources, environment);
  if (found === null) return { path: null, layer: { values: new Map(), problems: [] }, complete: true };
  const failed = (message: string): ConfigFile => {
    const layer: Layer = { values: new Map(), problems: [{ key: found.path, origin: found.origin, message }] };
    return { path: found.path, layer, complete: false };
  };
  const content = readText(found.path);
  if (content.kind === "unreadable") return failed(content.message);
  const parsed = parseJson(content.text);
  if (parsed.error !== null) return failed(`expected JSON${parsed.error}`);
  if (!isRecord(parsed.value)) return failed('expected one JSON object, such as {"server": {"port": 4517}}');
  return { path: found.path, layer: fromFile(parsed.value, { kind: "file", path: found.path }), complete: true };
}

function findConfigFile(
  sources: ConfigSources,
  environment: Readonly<Record<string, string>>,
): { readonly path: string; readonly origin: SettingOrigin } | null {
  const at = (file: string, origin: SettingOrigin) => ({ path: path.resolve(sources.cwd, file), origin });
  if (sources.configFile !== null) return at(sources.configFile, { kind: "flag", name: "--config" });
  const named = environment["DELEGATE_MCP_CONFIG"] ?? "";
  if (named !== "") return at(named, { kind: "environment", name: "DELEGATE_MCP_CONFIG", file: null });
  const usual = path.join(sources.folders.config, CONFIG_FILE);
  return existsSync(usual) ? at(usual, { kind: "file", path: usual }) : null;
}

function fromFile(content: Readonly<Record<string, unknown>>, origin: SettingOrigin): Layer {
  const values = new Map<string, Given>();
  const problems: ConfigProblem[] = [];
  const groups = new Set(SETTINGS.flatMap(({ key }) => (key.includes(".") ? [key.slice(0, key.indexOf("."))] : [])));
  const take = (key: string, value: unknown): void => {
    if (SETTINGS.some((setting) => setting.key === key)) values.set(key, { value, origin });
    else problems.push({ key, origin, message: unknownInFile(key, groups) });
  };
  for (const [name, value] of Object.entries(content)) {
    // An editor's pointer to a schema is no setting.
    if (name === "$schema") continue;
    if (!groups.has(name)) take(name, value);
    else if (!isRecord(value)) problems.push({ key: name, origin, message: "expected an object" });
    else for (const [inner, innerValue] of Object.entries(value)) take(`${name}.${inner}`, innerValue);
  }
  return { values, problems };
}

function unknownInFile(key: string, groups: ReadonlySet<string>): string {
  if (key.startsWith("database")) return NO_DATABASE;
  const keys = SETTINGS.map((setting) => setting.key);
  const lastPart = key.slice(key.lastIndexOf(".") + 1);
  const near = closest(key, [...keys, ...groups]) ?? keys.find((known) => known.endsWith(`.${lastPart}`));
  return near === undefined ? unknownKey(key, []) : `unknown; did you mean ${near}?`;
}

type ReadText =
  | { readonly kind: "text"; readonly text: string }
  | { readonly kind: "unreadable"; readonly message: string };

function readText(file: string): ReadText {
  try {
    const stats = statSync(file);
    if (!stats.isFile()) return { kind: "unreadable", message: "expected a file" };
    if (stats.size > FILE_BYTES_MAX) return { kind: "unreadable", message: `expected at most ${FILE_BYTES_MAX} bytes` };
    return { kind: "text", text: readFileSync(file, "utf8") };
  } catch (error) {
    const code = error instanceof Error && "code" in error ? String(error.code) : "error";
    return { kind: "unreadable", message: code === "ENOENT" ? "no such file" : `cannot be read (${code})` };
  }
}

/** `error` says where the text stops being JSON, without repeating any of it. */
function parseJson(text: string): { readonly value: unknown; readonly error: string | null } {
  try {
    return { value: JSON.parse(text), error: null };
  } catch (error) {
    const place = /line \d+ column \d+/.exec(error instanceof Error ? error.message : "")?.[0];
    return { value: undefined, error: place === undefined ? "" : `, but it breaks off at ${place}` };
  }
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function defined(variables: Readonly<Record<string, string | undefined>>): Record<string, string> {
  const kept: Record<string, string> = {};
  for (const [name, value] of Object.entries(variables)) {
    if (value !== undefined) kept[name] = value;
  }
  return kept;
}
