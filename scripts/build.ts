/**
 * Compiles `src` into `dist` with plain tsc, and does nothing when `dist` is what the present inputs compile to.
 *
 * Invariant: `dist` is replaced whole and only by a compilation without errors, so it never holds the output of a
 * deleted source, and a program that runs from it never sees half a build.
 * Absent on purpose: comparing times. A checkout or a restored cache changes times without changing contents.
 */

import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync, globSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import path from "node:path";

const SETTINGS = ["tsconfig.json", "tsconfig.build.json", "package-lock.json", import.meta.filename];
const STAMP = ".cache/build.json";
const SWAPS_MAX = 5;

const stampOf = (inputs: string): string => JSON.stringify({ inputs, outputs: digest(["dist/**/*"]) });

const inputs = digest(["src/**/*", ...SETTINGS]);
if (existsSync("dist") && existsSync(STAMP) && readFileSync(STAMP, "utf8") === stampOf(inputs)) {
  console.log("dist is up to date");
} else {
  process.exitCode = compile(`.cache/build-${process.pid}`);
}

/** The exit status: 0, or tsc's. */
function compile(outDir: string): number {
  const tsc = path.join(import.meta.dirname, "..", "node_modules", "typescript", "bin", "tsc");
  const args = [tsc, "-p", "tsconfig.build.json", "--outDir", outDir];
  const { status, error } = spawnSync(process.execPath, args, { stdio: ["ignore", "inherit", "inherit"] });
  if (error) throw error;
  try {
    if (status !== 0) return status ?? 1;
    replaceDist(outDir);
    writeFileSync(STAMP, stampOf(inputs));
    return 0;
  } finally {
    rmSync(outDir, { recursive: true, force: true });
  }
}

/** Two builds may run at once (tests beside a demo); either result is right, so a lost race is simply run again. */
function replaceDist(outDir: string): void {
  const discarded = `${outDir}-old`;
  mkdirSync(".cache", { recursive: true });
  for (let swap = 1; ; swap++) {
    try {
      if (existsSync("dist")) renameSync("dist", discarded);
      renameSync(outDir, "dist");
      return;
    } catch (error) {
      if (swap === SWAPS_MAX) throw error;
    } finally {
      rmSync(discarded, { recursive: true, force: true });
    }
  }
}

/** One digest over names and contents of the files that match. */
function digest(patterns: string[]): string {
  const hash = createHash("sha256");
  const files = globSync(patterns, { withFileTypes: true }).filter((entry) => entry.isFile());
  for (const file of files.map((entry) => path.join(entry.parentPath, entry.name)).toSorted()) {
    hash.update(path.relative(".", file)).update("\0").update(readFileSync(file)).update("\0");
  }
  return hash.digest("hex");
}
