/**
 * The real agent harnesses from npm: pinned, installed once per machine into a cache folder, on demand.
 *
 * `HARNESS_CACHE` names the folder; by default it is under the system's temporary folder.
 */

import { execFile } from "node:child_process";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { promisify } from "node:util";

export const HARNESS_NAMES = ["claude", "codex", "opencode", "gemini", "pi"] as const;
export type HarnessName = (typeof HARNESS_NAMES)[number];

const PACKAGES: Readonly<Record<HarnessName, string>> = {
  claude: "@anthropic-ai/claude-code@2.1.332",
  codex: "@openai/codex@0.171.0",
  opencode: "opencode-ai@1.18.33",
  gemini: "@google/gemini-cli@0.61.0",
  pi: "@earendil-works/pi-coding-agent@1.6.0",
};

const INSTALL_MAX_MS = 420_000;
const OUTPUT_BYTES_MAX = 1 << 24;
const PLATFORM = `${process.platform}-${process.arch}`;
const installing = new Map<HarnessName, Promise<string>>();

/** Time limit for a test's set-up that may have to install. */
export const INSTALL_TEST_MS: number = INSTALL_MAX_MS + 30_000;

/** Installs a harness if it is not there yet; the path of its program. */
export function installHarness(name: HarnessName): Promise<string> {
  const running = installing.get(name) ?? install(name);
  installing.set(name, running);
  return running;
}

async function install(name: HarnessName): Promise<string> {
  const spec = PACKAGES[name];
  const cache = process.env["HARNESS_CACHE"] ?? path.join(os.tmpdir(), "harness-cache");
  const root = path.join(cache, spec.replace(/[^A-Za-z0-9.]+/g, "_"));
  const ready = fs.existsSync(path.join(root, ".ready")) ? programIn(name, root) : undefined;
  if (ready !== undefined) return ready;
  // Installed beside and moved into place, so that a torn install is never taken for a finished one.
  const work = `${root}.${process.pid}`;
  fs.rmSync(work, { recursive: true, force: true });
  fs.mkdirSync(work, { recursive: true });
  fs.writeFileSync(path.join(work, "package.json"), '{"name":"harness","private":true}');
  const args = ["install", "--no-audit", "--no-fund", "--no-save", "--loglevel=error", "--engine-strict=false", spec];
  await promisify(execFile)("npm", args, { cwd: work, timeout: INSTALL_MAX_MS, maxBuffer: OUTPUT_BYTES_MAX });
  if (programIn(name, work) === undefined) throw new Error(`${spec}: no program found after the install`);
  fs.writeFileSync(path.join(work, ".ready"), spec);
  fs.rmSync(root, { recursive: true, force: true });
  fs.renameSync(work, root);
  const program = programIn(name, root);
  if (program === undefined) throw new Error(`${spec}: the install was moved away`);
  return program;
}

function programIn(name: HarnessName, root: string): string | undefined {
  const modules = path.join(root, "node_modules");
  switch (name) {
    case "claude":
      return firstThatExists(
        path.join(modules, `@anthropic-ai/claude-code-${PLATFORM}/claude`),
        path.join(modules, `@anthropic-ai/claude-code-${PLATFORM}-musl/claude`),
      );
    case "codex":
      return codexIn(path.join(modules, `@openai/codex-${PLATFORM}/vendor`));
    case "opencode":
      return firstThatExists(
        path.join(modules, `opencode-${PLATFORM}/bin/opencode`),
        path.join(modules, `opencode-${PLATFORM}-baseline/bin/opencode`),
      );
    case "gemini":
      return firstThatExists(
        path.join(modules, "@google/gemini-cli/bundle/gemini.js"),
        path.join(modules, "@google/gemini-cli/dist/index.js"),
      );
    case "pi":
      return firstThatExists(path.join(modules, "@earendil-works/pi-coding-agent/dist/cli.js"));
  }
}

function codexIn(vendor: string): string | undefined {
  const triple = fs.existsSync(vendor) ? fs.readdirSync(vendor)[0] : undefined;
  if (triple === undefined) return undefined;
  return firstThatExists(path.join(vendor, triple, "bin/codex"), path.join(vendor, triple, "codex/codex"));
}

function firstThatExists(...candidates: readonly string[]): string | undefined {
  return candidates.find((candidate) => fs.existsSync(candidate));
}
