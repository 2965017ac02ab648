/**
 * Programs from npm that tests need and the project does not: pinned, installed once per machine into a cache folder, on
 * demand.
 *
 * `HARNESS_CACHE` names the folder; by default it is under the system's temporary folder.
 */

import { execFile } from "node:child_process";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { promisify } from "node:util";

/** An install is given up after this time. */
export const INSTALL_MAX_MS = 420_000;
const OUTPUT_BYTES_MAX = 1 << 24;

/** Installs a package if it is not there yet; the path of its program, which `programIn` finds below the folder. */
export async function installPackage(spec: string, programIn: (root: string) => string | undefined): Promise<string> {
  const cache = process.env["HARNESS_CACHE"] ?? path.join(os.tmpdir(), "harness-cache");
  const root = path.join(cache, spec.replace(/[^A-Za-z0-9.]+/g, "_"));
  const ready = fs.existsSync(path.join(root, ".ready")) ? programIn(root) : undefined;
  if (ready !== undefined) return ready;
  // Installed beside and moved into place, so that a torn install is never taken for a finished one.
  const work = `${root}.${process.pid}`;
  fs.rmSync(work, { recursive: true, force: true });
  fs.mkdirSync(work, { recursive: true });
  fs.writeFileSync(path.join(work, "package.json"), '{"name":"harness","private":true}');
  const args = ["install", "--no-audit", "--no-fund", "--no-save", "--loglevel=error", "--engine-strict=false", spec];
  await promisify(execFile)("npm", args, { cwd: work, timeout: INSTALL_MAX_MS, maxBuffer: OUTPUT_BYTES_MAX });
  if (programIn(work) === undefined) throw new Error(`${spec}: no program found after the install`);
  fs.writeFileSync(path.join(work, ".ready"), spec);
  fs.rmSync(root, { recursive: true, force: true });
  fs.renameSync(work, root);
  const program = programIn(root);
  if (program === undefined) throw new Error(`${spec}: the install was moved away`);
  return program;
}
