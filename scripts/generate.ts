/**
 * Writes the generated files of `generated.ts`, or with `--check` names those that differ and exits with 1.
 */

import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import path from "node:path";
import { GENERATED, type GeneratedFile } from "./generated.ts";

/** Paths of the files that were not as made; without `checkOnly` they are written. Paths are relative to `root`. */
export async function syncGenerated(
  files: readonly GeneratedFile[],
  root: string,
  checkOnly: boolean,
): Promise<readonly string[]> {
  const stale: string[] = [];
  for (const file of files) {
    const target = path.join(root, file.path);
    const text = await file.make();
    if (existsSync(target) && readFileSync(target, "utf8") === text) continue;
    stale.push(file.path);
    if (checkOnly) continue;
    mkdirSync(path.dirname(target), { recursive: true });
    writeFileSync(target, text);
  }
  return stale;
}

if (import.meta.main) {
  const checkOnly = process.argv.includes("--check");
  const stale = await syncGenerated(GENERATED, path.join(import.meta.dirname, ".."), checkOnly);
  for (const name of stale)
    console.log(checkOnly ? `${name}: not what \`npm run generate\` makes` : `${name}: written`);
  console.log(`${GENERATED.length} generated files, ${stale.length} ${checkOnly ? "stale" : "written"}`);
  if (checkOnly && stale.length > 0) process.exitCode = 1;
}
