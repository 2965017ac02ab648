/**
 * The program behind the configured command. The npm package puts a Node script on PATH that starts the real binary; on some
 * versions of Node as a child, which runs on when the script is killed.
 *
 * Invariant: only the package's own launcher is looked through, and only to the one binary that stands beside it; any other
 * program is started as it is configured.
 */

import { access, constants, readdir, realpath } from "node:fs/promises";
import { basename, delimiter, dirname, join } from "node:path";
import type { AttemptOrder } from "../../ports/driver.ts";

const LAUNCHER = "codex.js";
const BINARY = "bin/codex";
const PLATFORM_PACKAGE = /^codex-/;

/** The command line of the app server. */
export async function commandOf({ command, env }: AttemptOrder): Promise<readonly [string, ...string[]]> {
  const [program, ...args] = command;
  const found = await find(program, env["PATH"] ?? "");
  const native = found === null ? null : await binaryBeside(found);
  return [native ?? program, ...args, "app-server"];
}

/** The real path of a program, links followed; null if it is not there. */
async function find(program: string, path: string): Promise<string | null> {
  const candidates = program.includes("/") ? [program] : path.split(delimiter).map((folder) => join(folder, program));
  for (const candidate of candidates) if (await isExecutable(candidate)) return realpath(candidate);
  return null;
}

async function binaryBeside(launcher: string): Promise<string | null> {
  if (basename(launcher) !== LAUNCHER) return null;
  const root = dirname(dirname(launcher));
  const scopes = [dirname(root), join(root, "node_modules", "@openai")];
  const packages = await Promise.all(scopes.map((scope) => childrenOf(scope, PLATFORM_PACKAGE)));
  const vendors = [root, ...packages.flat()].map((folder) => join(folder, "vendor"));
  const triples = await Promise.all(vendors.map((vendor) => childrenOf(vendor, /./)));
  const binaries = triples.flat().map((triple) => join(triple, BINARY));
  const there = await Promise.all(binaries.map(isExecutable));
  const [only, another] = binaries.filter((_, at) => there[at] === true);
  return another === undefined ? (only ?? null) : null;
}

async function childrenOf(folder: string, pattern: RegExp): Promise<readonly string[]> {
  const names = await readdir(folder).catch(() => []);
  return names.filter((name) => pattern.test(name)).map((name) => join(folder, name));
}

function isExecutable(file: string): Promise<boolean> {
  return access(file, constants.X_OK).then(
    () => true,
    () => false,
  );
}
