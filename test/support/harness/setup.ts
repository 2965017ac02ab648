/**
 * What a harness needs to run alone: its own home, a fake model, no telemetry, no updates; and, as an MCP client, the
 * server under test.
 */

import fs from "node:fs";
import path from "node:path";

/** Name of the server under test in every harness's configuration. */
export const SERVER_NAME = "delegate";

export type McpTarget = {
  readonly url: string;
  readonly token?: string;
  readonly headers?: Readonly<Record<string, string>>;
  /** The harness's own limit for one tool call, where it has such a setting. */
  readonly limitMs?: number;
};

export type SetUpInput = {
  /** The harness's program. */
  readonly program: string;
  /** A Node that can run it, if it is a script. */
  readonly node: string;
  /** Scratch folder of this instance. */
  readonly dir: string;
  readonly home: string;
  /** URL of the model server. */
  readonly models: string;
  /** Present if it is to be an MCP client. */
  readonly mcp: McpTarget | null;
  /** Headers for the MCP server, the token included. */
  readonly headers: Readonly<Record<string, string>>;
  /** True: its own settings ask before a shell command runs. */
  readonly ask: boolean;
};

export type HarnessSetUp = {
  readonly base: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  /** Arguments of a headless run with a prompt. */
  clientArgs(prompt: string): readonly string[];
  /** The final answer, from the JSON lines of such a run. */
  finalText(lines: readonly unknown[]): string;
  /** Arguments that make it a child, and the driver that fits. */
  readonly childArgs: readonly string[];
  readonly driver: "claude" | "codex" | "pi" | "acp";
};

/** Writes a configuration file; objects as JSON. */
export function writeConfig(file: string, content: string | object): void {
  fs.mkdirSync(path.dirname(file), { recursive: true });
  fs.writeFileSync(file, typeof content === "string" ? content : JSON.stringify(content, null, 1));
}
