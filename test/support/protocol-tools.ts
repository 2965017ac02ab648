/**
 * The protocol's own tools as programs: the official conformance suite and the Inspector's command line.
 *
 * Both are pinned here and installed into the cache folder of `npm-cache`, on demand. They are heavy, and only tests of
 * `test/conformance` need them.
 *
 * Invariant: a run has its own home, gets none of our settings, and is ended at its time limit, by pid.
 */

import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdirSync } from "node:fs";
import path from "node:path";
import { text } from "node:stream/consumers";
import { stripVTControlCharacters } from "node:util";
import { INSTALL_MAX_MS, installPackage } from "./npm-cache.ts";

export type ProtocolTool = "conformance" | "inspector";

type Pinned = {
  readonly spec: string;
  /** Below `node_modules`. */
  readonly program: string;
  readonly env: Readonly<Record<string, string>>;
};

const TOOLS: Readonly<Record<ProtocolTool, Pinned>> = {
  conformance: {
    // The tag `latest` (0.1.16) does not know revision 2026-07-28.
    spec: "@modelcontextprotocol/conformance@0.2.0-alpha.12",
    program: "@modelcontextprotocol/conformance/dist/index.js",
    env: {},
  },
  inspector: {
    spec: "@modelcontextprotocol/inspector@2.12.0",
    program: "@modelcontextprotocol/inspector/clients/launcher/build/index.js",
    // Else it looks for a keychain, and says at length that there is none.
    env: { MCP_INSPECTOR_SECRET_STORE: "memory" },
  },
};

export type ProtocolToolRun = { readonly code: number | null; readonly stdout: string; readonly stderr: string };

/** Time limit for a test's set-up that may have to install one of them. */
export const PROTOCOL_TOOL_INSTALL_MS: number = INSTALL_MAX_MS + 30_000;
const RUN_MAX_MS = 45_000;

export function installProtocolTool(name: ProtocolTool): Promise<string> {
  const { spec, program } = TOOLS[name];
  return installPackage(spec, (root) => {
    const file = path.join(root, "node_modules", program);
    return existsSync(file) ? file : undefined;
  });
}

/** Runs it to its end in a folder of the test's; its output without colours. */
export async function runProtocolTool(
  name: ProtocolTool,
  args: readonly string[],
  folder: string,
): Promise<ProtocolToolRun> {
  const program = await installProtocolTool(name);
  const home = path.join(folder, "home");
  mkdirSync(home, { recursive: true });
  const child = spawn(process.execPath, [program, ...args], {
    cwd: folder,
    env: { ...TOOLS[name].env, HOME: home, TMPDIR: folder, PATH: process.env["PATH"], NO_COLOR: "1" },
    stdio: ["ignore", "pipe", "pipe"],
    timeout: RUN_MAX_MS,
    killSignal: "SIGKILL",
  });
  const [stdout, stderr, [code]] = await Promise.all([text(child.stdout), text(child.stderr), once(child, "exit")]);
  return {
    code: typeof code === "number" ? code : null,
    stdout: stripVTControlCharacters(stdout),
    stderr: stripVTControlCharacters(stderr),
  };
}
