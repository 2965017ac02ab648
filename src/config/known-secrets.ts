/**
 * Values that must never appear in clear: the log masks them wherever they turn up (X4).
 *
 * Absent on purpose: the tokens of other callers, which nobody here knows in clear.
 */

import type { LoadedConfig } from "./load-config.ts";
import { readTokenFile } from "./tokens.ts";

/**
 * The first token, a token in the environment, the values of the variables that agents are given, and the secrets that sign
 * webhooks.
 */
export function knownSecrets({ config, environment }: LoadedConfig): readonly string[] {
  const own = readTokenFile(config.dataDir);
  const given = Object.values(config.agents).flatMap((agent) => agent.env ?? []);
  const signing = config.notify.flatMap((target) => ("secretEnv" in target ? [target.secretEnv] : []));
  const names = ["DELEGATE_MCP_TOKEN", ...given, ...signing];
  const values = names.map((name) => environment[name] ?? "");
  return [...(own.kind === "read" && own.token !== null ? [own.token] : []), ...values].filter((value) => value !== "");
}
