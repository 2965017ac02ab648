/**
 * The configuration as the command line gives it: the flags of `serve`, and `config show`.
 */

import path from "node:path";
import { explainConfig } from "../config/explain-config.ts";
import { type LoadedConfig, type LoadResult, loadConfig, platformFolders } from "../config/load-config.ts";
import { describeProblem } from "../config/problem.ts";
import type { Command } from "./command.ts";
import { EXIT } from "./exit-codes.ts";
import { type Failure, fail } from "./failure.ts";
import { colorsFor, printJson, printRows } from "./print.ts";

export type SettingsOptions = {
  readonly host?: string;
  readonly port?: string;
  readonly databaseUrl?: string;
  /** False for `--no-auth`. */
  readonly auth?: boolean;
  readonly envFile?: string;
  readonly logLevel?: string;
};

/** Loads the configuration, or says all that is wrong with it. */
export function loadSettings(command: Command, given: SettingsOptions): LoadedConfig | Failure {
  const { io, options } = command;
  const result = loadConfig({
    flags: flagsOf(command, given),
    environment: io.env,
    envFile: given.envFile ?? null,
    configFile: options.config ?? null,
    cwd: io.cwd,
    folders: platformFolders(),
  });
  return result.kind === "loaded" ? result.loaded : failureOf(result);
}

export function configShow(command: Command, given: SettingsOptions & { readonly origin?: boolean }): number {
  const { io, options } = command;
  const loaded = loadSettings(command, given);
  if ("kind" in loaded) return fail(io, options, loaded);
  const rows = explainConfig(loaded.config, loaded.origins);
  if (options.json === true) {
    const settings = rows.map(({ key, value, origin }) =>
      given.origin === true ? { key, value, origin } : { key, value },
    );
    printJson(io.stdout, { configFile: loaded.configFile, settings });
    return EXIT.ok;
  }
  const columns = [
    { title: "SETTING" },
    { title: "VALUE", wide: true } as const,
    ...(given.origin === true ? [{ title: "FROM", wide: true } as const] : []),
  ];
  const cells = rows.map(({ key, value, originText }) => {
    const shown = typeof value === "string" ? value : JSON.stringify(value);
    return given.origin === true ? [key, shown, originText] : [key, shown];
  });
  printRows(io.stdout, colorsFor(io.stdout, io.env, options.color === false), columns, cells);
  return EXIT.ok;
}

function flagsOf(
  command: Command,
  given: SettingsOptions,
): Record<string, { readonly name: string; readonly value: unknown }> {
  const { dataDir } = command.options;
  const written: readonly (readonly [string, string, unknown])[] = [
    ["server.host", "--host", given.host],
    ["server.port", "--port", given.port],
    ["server.auth", "--no-auth", given.auth === false ? "none" : undefined],
    ["log.level", "--log-level", given.logLevel],
    ["databaseUrl", "--database-url", given.databaseUrl],
    ["dataDir", "--data-dir", dataDir === undefined ? undefined : path.resolve(command.io.cwd, dataDir)],
  ];
  return Object.fromEntries(
    written.flatMap(([key, name, value]) => (value === undefined ? [] : [[key, { name, value }]])),
  );
}

function failureOf(result: LoadResult & { readonly kind: "invalid" }): Failure {
  const { problems } = result;
  return {
    kind: "failure",
    code: "configuration",
    exitCode: EXIT.usage,
    what:
      problems.length === 1 ? "The configuration has a mistake." : `The configuration has ${problems.length} mistakes.`,
    details: problems.map(describeProblem),
    why: null,
    fix: "Correct it and start again. What is in force: delegate-mcp config show --origin",
  };
}
