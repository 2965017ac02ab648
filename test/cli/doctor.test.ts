/**
 * `doctor`: what it looks at, what it says is to be done, and that it changes nothing.
 */

import { chmodSync, mkdirSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import path from "node:path";
import { describe, expect, it } from "vitest";
import { checkNode } from "../../src/cli/doctor-machine.ts";
import { startPeopleServer } from "../support/people-server.ts";
import { type CliWorld, createCliWorld, type Script, type Scripted, TOKEN } from "./cli-world.ts";

type Finding = {
  readonly name: string;
  readonly state: string;
  readonly found: string;
  readonly fix?: string;
  readonly details?: readonly string[];
};

const initialized = (version: string): Scripted => ({
  json: { jsonrpc: "2.0", id: 1, result: { serverInfo: { name: "delegate-mcp", version } } },
});

/** A daemon in good order, but for what `other` says. */
function healthy(other: (url: string) => Scripted | null = () => null): Script {
  return ({ url }) => {
    const told = other(url);
    if (told !== null) return told;
    if (url === "/mcp") return initialized("1.2.3");
    if (url === "/api/agents") return { json: { say: "x", limits: { concurrentChildren: 4, running: 1 } } };
    return { json: { status: "live" } };
  };
}

/** An environment with one agent whose program is there. */
function environment(world: CliWorld, agents: object = { mine: { driver: "command", command: ["my-agent"] } }) {
  const bin = path.join(world.dir, "bin");
  mkdirSync(bin, { recursive: true });
  writeFileSync(path.join(bin, "my-agent"), "#!/bin/sh\n", { mode: 0o755 });
  return { PATH: `${bin}:${process.env["PATH"] ?? ""}`, DELEGATE_MCP_AGENTS: JSON.stringify(agents), NO_COLOR: "1" };
}

async function examined(world: CliWorld, env: Record<string, string>, args: readonly string[] = []) {
  const { code, stdout } = await world.run(["doctor", "--json", ...args], { env });
  const { ok, checks }: { ok: boolean; checks: readonly Finding[] } = JSON.parse(stdout);
  const finding = (name: string): Finding => checks.find((check) => check.name === name) ?? expect.unreachable(name);
  return { code, ok, checks, finding, failed: checks.filter(({ state }) => state === "fail").map(({ name }) => name) };
}

describe("doctor", () => {
  it("says a line for each thing that is right, and ends with 0", async () => {
    await using world = await createCliWorld();
    world.answer(healthy());
    const { code, stdout, stderr } = await world.run(["doctor"], { env: environment(world) });
    expect([code, stderr]).toEqual([0, ""]);
    const lines = stdout.trimEnd().split("\n");
    expect(lines.map((line) => line.slice(6, 20).trim())).toEqual([
      "node",
      "configuration",
      "data directory",
      "file system",
      "disk",
      "daemon",
      "version",
      "token",
      "ready",
      "agent mine",
      "git",
      "limits",
    ]);
    expect(lines.filter((line) => !/^(ok|warn) /.test(line))).toEqual([]);
    expect(stdout).toContain(`driver command: ${world.dir}/bin/my-agent`);
    expect(stdout).toContain("concurrentChildren 4, running 1");
    expect(stdout).not.toContain(TOKEN);
  });

  it("asks with the token, and changes nothing", async () => {
    await using world = await createCliWorld();
    world.answer(healthy());
    const before = readdirSync(world.dataDir);
    await examined(world, environment(world));
    expect(readdirSync(world.dataDir)).toEqual(before);
    expect(world.asked.map(({ method, url }) => `${method} ${url}`).toSorted()).toEqual([
      "GET /api/agents",
      "GET /livez",
      "GET /readyz",
      "POST /mcp",
    ]);
    expect(world.asked.every(({ token }) => token === TOKEN)).toBe(true);
  });

  it("passes against the real surface", async () => {
    await using world = await createCliWorld();
    await using server = await startPeopleServer();
    const env = { ...environment(world), DELEGATE_MCP_TOKEN: "token-of-alice" };
    const { code, finding } = await examined(world, env, ["--url", server.origin]);
    expect([code, finding("version").found, finding("token").found]).toEqual([0, "1.2.3", "accepted"]);
  });

  it("names all mistakes of the configuration, and looks at the rest all the same", async () => {
    await using world = await createCliWorld();
    world.answer(healthy());
    const { code, finding } = await examined(world, { DELEGATE_MCP_PORT: "x", DELEGATE_MCP_NONSENSE: "1" });
    expect([code, finding("configuration").state]).toEqual([2, "fail"]);
    expect(finding("configuration").details).toHaveLength(2);
    expect(finding("token").state).toBe("ok");
  });

  it("tells of a data directory that is open to others, and makes none that is absent (X3)", async () => {
    await using world = await createCliWorld();
    world.answer(healthy());
    chmodSync(world.dataDir, 0o755);
    const open = await examined(world, environment(world));
    expect([open.code, open.failed]).toEqual([4, ["data directory"]]);
    expect(open.finding("data directory").fix).toBe(`chmod 700 ${world.dataDir}`);
    rmSync(world.dataDir, { recursive: true });
    const absent = await examined(world, environment(world));
    expect([absent.code, absent.finding("data directory").state, absent.failed]).toEqual([5, "warn", ["daemon"]]);
    expect(readdirSync(world.dir)).not.toContain("data");
  });

  it("ends with 5 without a daemon, and says that the rest was not looked at", async () => {
    await using world = await createCliWorld();
    rmSync(path.join(world.dataDir, "daemon.json"));
    const { code, ok, finding } = await examined(world, environment(world));
    expect([code, ok, finding("daemon").fix]).toEqual([5, false, expect.stringContaining("delegate-mcp serve")]);
    for (const name of ["version", "token", "ready"]) expect(finding(name).found).toContain("not checked");
    expect(finding("limits").found).toContain("concurrentChildren 4");
  });

  it("waits no more than a few seconds for a daemon that does not answer", { timeout: 15_000 }, async () => {
    await using world = await createCliWorld();
    world.answer(() => "hold");
    const startedMs = performance.now();
    expect((await examined(world, environment(world))).code).toBe(5);
    expect(performance.now() - startedMs).toBeLessThan(6_000);
  });

  it("says in the daemon's own words what is wrong with the token, and ends with 4", async () => {
    await using world = await createCliWorld();
    const next = { kind: "ask_user", change: "Make a new one: delegate-mcp token add NAME" };
    const refused = {
      status: 401,
      json: { error: { code: "token_revoked", message: "This token was revoked" }, next },
    };
    world.answer(healthy((url) => (url === "/mcp" || url === "/api/agents" ? refused : null)));
    const { code, finding } = await examined(world, environment(world));
    expect([code, finding("token")]).toMatchObject([4, { found: "This token was revoked", fix: next.change }]);
  });

  it("tells another version and a daemon that takes no work apart", async () => {
    await using world = await createCliWorld();
    world.answer(healthy((url) => (url === "/mcp" ? initialized("0.9.0") : null)));
    const other = await examined(world, environment(world));
    expect([other.code, other.finding("version").state]).toEqual([0, "warn"]);
    expect(other.finding("version").found).toBe("the daemon is 0.9.0, this command is 1.2.3");
    world.answer(healthy((url) => (url === "/readyz" ? { status: 503, json: { status: "not_ready" } } : null)));
    const unready = await examined(world, environment(world));
    expect([unready.code, unready.failed]).toEqual([5, ["ready"]]);
  });

  it("names each agent whose program is missing with its driver, and ends with 3", async () => {
    await using world = await createCliWorld();
    world.answer(healthy());
    const agents = {
      mine: { driver: "command", command: ["my-agent"] },
      gone: { driver: "command", command: ["no-such-agent"] },
      moved: { driver: "command", command: ["/nowhere/agent"] },
      near: { driver: "command", command: ["./agent"] },
    };
    const { code, failed, finding } = await examined(world, environment(world, agents));
    expect([code, failed]).toEqual([3, ["agent gone", "agent moved"]]);
    expect(finding("agent gone")).toMatchObject({
      found: "driver command: no-such-agent is not found on this PATH",
      fix: "Install it, or write its path into agents.gone.command.",
    });
    expect(finding("agent near").state).toBe("warn");
  });

  it("warns without agents and without git", async () => {
    await using world = await createCliWorld();
    world.answer(healthy());
    const { code, finding } = await examined(world, { PATH: world.dir });
    expect([code, finding("agents").state, finding("git").state]).toEqual([0, "warn", "warn"]);
  });
});

describe("the version of Node", () => {
  it.each([
    ["20.20.2", "fail"],
    ["22.18.9", "fail"],
    ["22.19.0", "ok"],
    ["24.0.0", "ok"],
  ])("%s: %s", (version, state) => {
    expect(checkNode(version).state).toBe(state);
  });
});
