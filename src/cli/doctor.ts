/**
 * `doctor`: looks at everything that has to be right, and says for each what is wrong and what to do.
 *
 * Invariant: it changes nothing, waits for nothing longer than a few seconds, and shows no token.
 * Invariant: exit code 0 means that nothing failed; else it is that of the first check that did.
 */

import { loadConfig, type LoadResult, platformFolders } from "../config/load-config.ts";
import path from "node:path";
import type { Command } from "./command.ts";
import type { Check } from "./doctor-check.ts";
import { checkDaemon } from "./doctor-daemon.ts";
import { checkAgents, checkConfiguration, checkDataDir, checkGit, checkLimits, checkNode } from "./doctor-machine.ts";
import { EXIT } from "./exit-codes.ts";
import { fail } from "./failure.ts";
import { refuseChild } from "./find-daemon.ts";
import { colorsFor, line, printJson } from "./print.ts";

export async function doctor(command: Command): Promise<number> {
  const { io, options } = command;
  const refused = refuseChild(io, "`doctor`");
  if (refused !== null) return fail(io, options, refused);
  const checks = await examine(command);
  const failed = checks.find(({ state }) => state === "fail");
  if (options.json === true) printJson(io.stdout, { ok: failed === undefined, checks: checks.map(jsonOf) });
  else printChecks(command, checks);
  return failed?.exitCode ?? EXIT.ok;
}

async function examine(command: Command): Promise<readonly Check[]> {
  const loaded = load(command);
  const config = loaded.kind === "loaded" ? loaded.loaded.config : null;
  const dataDir = config?.dataDir ?? (loaded.kind === "invalid" ? loaded.dataDir : null);
  const [daemon, git] = await Promise.all([checkDaemon(command, dataDir), checkGit(command.io.env)]);
  const [reached, ...rest] = daemon.checks;
  return [
    checkNode(process.versions.node),
    checkConfiguration(loaded),
    ...(dataDir === null ? [] : checkDataDir(dataDir)),
    ...(reached === undefined ? [] : [reached]),
    ...rest,
    ...(loaded.kind === "invalid"
      ? []
      : checkAgents(loaded.loaded.config.agents, command.io.env["PATH"] ?? "", loaded.loaded.configFile)),
    git,
    ...checkLimits(daemon.limits ?? config?.limits ?? null),
  ];
}

function load({ io, options }: Command): LoadResult {
  const { dataDir, config } = options;
  return loadConfig({
    flags: dataDir === undefined ? {} : { dataDir: { name: "--data-dir", value: path.resolve(io.cwd, dataDir) } },
    environment: io.env,
    envFile: null,
    configFile: config ?? null,
    cwd: io.cwd,
    folders: platformFolders(),
  });
}

function printChecks(command: Command, checks: readonly Check[]): void {
  const { stdout, env } = command.io;
  const colors = colorsFor(stdout, env, command.options.color === false);
  const paint = { ok: colors.green, warn: colors.yellow, fail: colors.red } as const;
  const width = Math.max(...checks.map(({ name }) => name.length));
  for (const { name, state, found, details, fix } of checks) {
    stdout.write(`${paint[state](state.padEnd(4))}  ${name.padEnd(width)}  ${line(found)}\n`);
    const indent = " ".repeat(6 + width + 2);
    for (const detail of details ?? []) stdout.write(`${indent}${line(detail)}\n`);
    if (fix !== null) stdout.write(`${indent}${colors.dim("do:")} ${line(fix)}\n`);
  }
}

function jsonOf({ name, state, found, details, fix }: Check): object {
  return { name, state, found, ...(details === undefined ? {} : { details }), ...(fix === null ? {} : { fix }) };
}
