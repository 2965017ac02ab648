/**
 * Packs the package, installs the tarball in an empty folder the way a user would, and runs the program from there.
 *
 * Invariant: what is published holds the built program and nothing of the sources, tests or caches.
 * Needs `dist` (run `npm run build` first) and, for packages that npm has not cached, the registry.
 */

import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { z } from "zod";

const STEP_MS = 120_000;
const MUST_HOLD = ["bin/delegate-mcp.js", "dist/cli/run.js", "README.md", "LICENSE", ".env.example", "package.json"];
const MUST_NOT_HOLD = /^(src|test|scripts|\.cache|node_modules)\/|\.tsbuildinfo$|^\.env$/;
const Package = z.object({ version: z.string() });
const Packed = z.tuple([z.object({ filename: z.string(), files: z.array(z.object({ path: z.string() })) })]);

const { version } = Package.parse(JSON.parse(readFileSync("package.json", "utf8")));
const dir = mkdtempSync(path.join(tmpdir(), "delegate-mcp-pack-"));
try {
  const program = install(pack());
  const said = run(program, ["version"], dir).trim();
  if (!said.split(/\s+/).includes(version)) throw new Error(`delegate-mcp version said ${JSON.stringify(said)}`);
  console.log(`packed, installed, ran: ${said}`);
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

/** The path of the installed program. */
function install(tarball: string): string {
  const home = path.join(dir, "user");
  mkdirSync(home);
  writeFileSync(path.join(home, "package.json"), '{ "private": true }\n');
  run("npm", ["install", "--prefer-offline", "--ignore-scripts", "--no-audit", "--no-fund", tarball], home);
  return path.join(home, "node_modules", ".bin", "delegate-mcp");
}

/** Standard output; throws when the program fails or takes longer than two minutes. Runs with the Node that runs this. */
function run(command: string, args: readonly string[], cwd: string): string {
  const env = { ...process.env, PATH: [path.dirname(process.execPath), process.env["PATH"]].join(path.delimiter) };
  return execFileSync(command, args, {
    cwd,
    env,
    encoding: "utf8",
    timeout: STEP_MS,
    stdio: ["ignore", "pipe", "inherit"],
  });
}
