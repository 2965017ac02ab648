/**
 * Packs the package, unpacks the tarball beside its declared dependencies alone, and runs the program from there.
 *
 * Invariant: what is published holds the built program and nothing of the sources, tests or caches, and imports nothing
 * that `dependencies` does not declare.
 * Absent on purpose: the registry. The dependencies are links to the ones installed here; `npm install` of the tarball
 * is tested by `test/e2e/docker-stages.test.ts`. Needs `dist`: run `npm run build` first.
 */

import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { z } from "zod";

const STEP_MS = 60_000;
const MUST_HOLD = ["bin/delegate-mcp.js", "dist/cli/run.js", "README.md", "LICENSE", ".env.example", "package.json"];
const MUST_NOT_HOLD = /^(src|test|scripts|\.cache|node_modules)\/|\.tsbuildinfo$|^\.env$/;
const Package = z.object({ version: z.string(), dependencies: z.record(z.string(), z.string()) });
const Packed = z.tuple([z.object({ filename: z.string(), files: z.array(z.object({ path: z.string() })) })]);

const { version, dependencies } = Package.parse(JSON.parse(readFileSync("package.json", "utf8")));
const dir = mkdtempSync(path.join(tmpdir(), "delegate-mcp-pack-"));
try {
  const said = run(process.execPath, [install(pack()), "version"], dir).trim();
  if (!said.split(/\s+/).includes(version)) throw new Error(`delegate-mcp version said ${JSON.stringify(said)}`);
  console.log(`packed, unpacked, ran: ${said}`);
} finally {
  rmSync(dir, { recursive: true, force: true });
}

/** The path of the tarball, after a look at what it holds. */
function pack(): string {
  const args = ["pack", "--json", "--ignore-scripts", "--pack-destination", dir];
  const [{ filename, files }] = Packed.parse(JSON.parse(run("npm", args, ".")));
  const held = files.map((file) => file.path);
  const missing = MUST_HOLD.filter((name) => !held.includes(name));
  const stray = held.filter((name) => MUST_NOT_HOLD.test(name));
  if (missing.length > 0) throw new Error(`the package lacks ${missing.join(", ")}`);
  if (stray.length > 0) throw new Error(`the package holds ${stray.join(", ")}`);
  return path.join(dir, filename);
}

/** The path of the program in its own `node_modules`. */
function install(tarball: string): string {
  const modules = path.join(dir, "node_modules");
  const home = path.join(modules, "delegate-mcp");
  mkdirSync(home, { recursive: true });
  run("tar", ["-xzf", tarball, "--strip-components=1", "-C", home], dir);
  for (const name of Object.keys(dependencies)) {
    mkdirSync(path.dirname(path.join(modules, name)), { recursive: true });
    symlinkSync(path.resolve("node_modules", name), path.join(modules, name));
  }
  return path.join(home, "bin", "delegate-mcp.js");
}

/** Standard output; throws when the program fails or takes longer than a minute. */
function run(command: string, args: readonly string[], cwd: string): string {
  return execFileSync(command, args, { cwd, encoding: "utf8", timeout: STEP_MS, stdio: ["ignore", "pipe", "inherit"] });
}
