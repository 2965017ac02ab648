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
import { colorsFor, printJson, printPairs, printRows } from "./print.ts";

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
  const colors = colorsFor(io.stdout, io.env, options.color === false);
  const cells = rows.map(({ key, value, originText }) => {
    const shown = typeof value === "string" ? value : JSON.stringify(value);
    return { key, shown, from: given.origin === true ? originText : null };
  });
  // A person needs paths whole, so nothing is cut; a program gets columns.
  if (io.stdout.isTTY)
    printPairs(
      io.stdout,
      colors,
      cells.map(({ key, shown, from }) => [key, from === null ? shown : `${shown} (${from})`]),
    );
  else
    printRows(
      io.stdout,
      colors,
      [],
      cells.map(({ key, shown, from }) => (from === null ? [key, shown] : [key, shown, from])),
    );
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
    fix: "Correct it and try again. Every setting and what it takes: docs/configuration.md of the package.",
  };
}
