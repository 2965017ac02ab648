/** The real agent harnesses from npm: pinned, installed once per machine into the cache folder of `npm-cache`, on demand. */

import fs from "node:fs";
import path from "node:path";
import { INSTALL_MAX_MS, installPackage } from "../npm-cache.ts";

export const HARNESS_NAMES = ["claude", "codex", "opencode", "gemini", "pi"] as const;
export type HarnessName = (typeof HARNESS_NAMES)[number];

const PACKAGES: Readonly<Record<HarnessName, string>> = {
  claude: "@anthropic-ai/claude-code@2.1.332",
  codex: "@openai/codex@0.171.0",
  opencode: "opencode-ai@1.18.33",
  gemini: "@google/gemini-cli@0.61.0",
  pi: "@earendil-works/pi-coding-agent@1.6.0",
};

const PLATFORM = `${process.platform}-${process.arch}`;
const installing = new Map<HarnessName, Promise<string>>();

/** Time limit for a test's set-up that may have to install. */
export const INSTALL_TEST_MS: number = INSTALL_MAX_MS + 30_000;

/** Installs a harness if it is not there yet; the path of its program. */
export function installHarness(name: HarnessName): Promise<string> {
  const running = installing.get(name) ?? installPackage(PACKAGES[name], (root) => programIn(name, root));
  installing.set(name, running);
  return running;
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
