/**
 * What the engine is told of an agent, by its driver.
 */

import path from "node:path";
import { describe, expect, it } from "vitest";
import { engineSettings } from "../../src/config/engine-settings.ts";
import { loadConfig } from "../../src/config/load-config.ts";
import type { AgentSettings } from "../../src/ports/settings.ts";
import { scratch } from "../tooling/scratch.ts";

function agentOf(agent: object): AgentSettings {
  using folder = scratch();
  folder.write({ "config/config.json": JSON.stringify({ agents: { a: agent } }) });
  const result = loadConfig({
    flags: {},
    environment: {},
    envFile: null,
    configFile: null,
    cwd: folder.dir,
    folders: { data: path.join(folder.dir, "data"), config: path.join(folder.dir, "config") },
  });
  if (result.kind === "invalid") expect.unreachable("the configuration is refused");
  return engineSettings(result.loaded, "d").agents.get("a") ?? expect.unreachable("no such agent");
}

describe("an agent of the driver", () => {
  it.each([
    ["acp", { levels: ["full"], onLoss: "resume", trusted: false }],
    ["claude", { levels: ["plan", "ask", "accept_edits", "full"], onLoss: "resume", trusted: false }],
    ["codex", { levels: ["plan", "ask", "accept_edits", "full"], onLoss: "resume", trusted: false }],
    ["command", { levels: ["plan", "ask", "accept_edits", "full"], onLoss: "fail", trusted: true }],
    ["fake", { levels: ["plan", "ask", "accept_edits", "full"], onLoss: "resume", trusted: false }],
    ["pi", { levels: [], onLoss: "resume", trusted: false, writes: true }],
  ])("%s is held to its levels, and lost as its driver says (P18)", (driver, expected) => {
    expect(agentOf({ driver, command: ["x"] })).toMatchObject({ driver, command: ["x"], ...expected });
  });

  it("pi is started as `pi` unless it is said how", () => {
    expect(agentOf({ driver: "pi" }).command).toEqual(["pi"]);
  });

  it("model only reads, is held to every level, and is asked anew when it was lost (P18)", () => {
    const at = { api: "openai", baseUrl: "http://127.0.0.1:9/v1", model: "m" };
    const expected = {
      levels: ["plan", "ask", "accept_edits", "full"],
      onLoss: "rerun",
      trusted: false,
      writes: false,
    };
    expect(agentOf({ driver: "model", ...at })).toMatchObject(expected);
  });

  it("claude is found by its name unless a command is given", () => {
    expect(agentOf({ driver: "claude" }).command).toEqual(["claude"]);
  });
});
