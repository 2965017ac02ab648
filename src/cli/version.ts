/**
 * Which version this is.
 */

import { readFileSync } from "node:fs";
import path from "node:path";
import { z } from "zod";
import { CONTRACT_VERSION } from "../config/contract-version.ts";
import type { Command } from "./command.ts";
import { EXIT } from "./exit-codes.ts";
import { printJson } from "./print.ts";

/** The version in our package.json, which lies two folders above this file in the sources and in the build alike. */
export function readVersion(): string {
  const file = path.join(import.meta.dirname, "..", "..", "package.json");
  return z.object({ version: z.string() }).parse(JSON.parse(readFileSync(file, "utf8"))).version;
}

export function version(command: Command): number {
  const { io, options } = command;
  if (options.json === true)
    printJson(io.stdout, { version: command.version, contractVersion: CONTRACT_VERSION, node: process.versions.node });
  else io.stdout.write(`delegate-mcp ${command.version}\n`);
  return EXIT.ok;
}
