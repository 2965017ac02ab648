/**
 * What is known about each MCP client: how long it bears a held call, how it comes back after a broken stream, and which
 * protocol era it is offered.
 *
 * The numbers are measured limits with the margin already taken off (contract §7), so nothing multiplies them again.
 *
 * Invariant: an unknown client gets the shortest slice that still saves calls, never the longest.
 * Absent on purpose: what was learned about a client at run time; that is handed to `budget` beside the profile.
 */

import type { ClientInfo } from "./tool.ts";

/** Revision family of the protocol: `legacy` opens with `initialize`, `modern` is 2026-07-28 and later. */
export type Era = "legacy" | "modern";

export type ClientProfile = {
  /** Era that `server/discover` offers. */
  readonly era: Era;
  /** Longest slice in ms while the answer travels as an event stream. */
  readonly sliceMs: number;
  /** Longest slice in ms if moreover the client sent a progress token: some clients restart their timer with progress. */
  readonly sliceWithProgressMs: number;
  /** How soon it is told to come back after a broken stream. All its tries together should outlast a restart. */
  readonly retryMs: number;
};

/** Clients built on the SDK try twice, so they bridge a restart of just under twice this time. */
const RETRY_MS = 3_000;
/** For a client that tries once and then takes the server for gone. */
const ONLY_RETRY_MS = 6_000;
const UNKNOWN_MS = 25_000;
/** Clients whose limit for one tool call is 60 s and cannot be moved by the server. */
const MINUTE_CLIENT_MS = 45_000;
const LONG_MS = 240_000;

const UNKNOWN: ClientProfile = fixed(UNKNOWN_MS);

const PROFILES: ReadonlyMap<string, ClientProfile> = new Map([
  // Resumes a broken wait on the legacy leg; the modern era has nothing to resume with.
  ["claude-code", { ...fixed(100_000), era: "legacy", retryMs: ONLY_RETRY_MS }],
  ["cursor", fixed(MINUTE_CLIENT_MS)],
  ["zed", fixed(MINUTE_CLIENT_MS)],
  ["cline", fixed(MINUTE_CLIENT_MS)],
  ["claude-ai", fixed(MINUTE_CLIENT_MS)],
  ["windsurf", fixed(MINUTE_CLIENT_MS)],
  ["pi", extended()],
  ["opencode", extended()],
  ["gemini-cli-mcp-client", extended()],
  ["copilot", fixed(UNKNOWN_MS)],
  ["visual studio code", fixed(LONG_MS)],
]);

/** Names by which clients are known, in small letters; whoever counts by client needs no others. */
export const KNOWN_CLIENTS: readonly string[] = [...PROFILES.keys(), "codex-mcp-client"];

/** Looks a client up by the name and version it gave at `initialize` or in its request envelope. */
export function clientProfileOf(client: ClientInfo | null): ClientProfile {
  if (client === null) return UNKNOWN;
  const name = client.name.toLowerCase();
  if (name === "codex-mcp-client") return fixed(isAtLeast(client.version, 0, 171) ? 110_000 : 50_000);
  if (name.startsWith("pi-mcp-")) return fixed(MINUTE_CLIENT_MS);
  return PROFILES.get(name) ?? UNKNOWN;
}

function fixed(sliceMs: number): ClientProfile {
  return { era: "modern", sliceMs, sliceWithProgressMs: sliceMs, retryMs: RETRY_MS };
}

/** Clients whose 60 s timer is restarted by progress, or that have ten minutes but only while bytes flow. */
function extended(): ClientProfile {
  return { ...fixed(MINUTE_CLIENT_MS), sliceWithProgressMs: LONG_MS };
}

function isAtLeast(version: string, major: number, minor: number): boolean {
  const parts = /^v?(\d+)\.(\d+)/.exec(version);
  if (parts === null) return false;
  const theirMajor = Number(parts[1]);
  return theirMajor > major || (theirMajor === major && Number(parts[2]) >= minor);
}
