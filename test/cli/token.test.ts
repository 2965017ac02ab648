/**
 * The `token` verbs and `config show`, which need no daemon.
 */

import { existsSync, readFileSync } from "node:fs";
import path from "node:path";
import { describe, expect, it } from "vitest";
import { openTokens } from "../../src/config/tokens.ts";
import { createCliWorld } from "./cli-world.ts";

describe("token", () => {
  it("adds a token that a running daemon admits at once, shown once and alone on standard output (X3)", async () => {
    await using world = await createCliWorld();
    const daemon = await openTokens(world.dataDir);
    if (daemon.kind === "refused") expect.unreachable(daemon.message);
    const { code, stdout, stderr } = await world.run(["token", "add", "codex"]);
    expect(code).toBe(0);
    expect(stdout).toMatch(/^dmcp_[A-Za-z0-9_-]{43}\n$/);
    expect(stderr).not.toContain(stdout.trim());
    expect(daemon.tokens.authenticate(stdout.trim())).toMatchObject({
      kind: "known",
      name: "codex",
      scopes: ["read", "delegate"],
    });
    expect(readFileSync(path.join(world.dataDir, "tokens.json"), "utf8")).not.toContain(stdout.trim());
  });

  it("prints exactly name and token with --json", async () => {
    await using world = await createCliWorld();
    const { stdout, stderr } = await world.run(["token", "add", "codex", "--scope", "admin, read", "--json"]);
    expect(JSON.parse(stdout)).toEqual({ name: "codex", token: expect.stringMatching(/^dmcp_/) });
    expect(stderr).toBe("");
    expect((await world.run(["token", "list"])).stdout).toMatch(/^tk_[0-9a-f]{10}\tcodex\tread,admin\t\d{4}-/);
  });

  it("lists a table for a person and rows for a program, never a token or its hash", async () => {
    await using world = await createCliWorld();
    await world.run(["token", "add", "codex"]);
    const { stdout } = await world.run(["token", "list"], { terminal: true, env: { NO_COLOR: "1" } });
    expect(stdout).toMatch(/^ID {13}NAME {3}SCOPES {9}CREATED\ntk_\w{10} {2}codex {2}read,delegate {2}\d{4}-\S+\n$/);
    expect(JSON.parse((await world.run(["token", "list", "--json"])).stdout)).toEqual({
      tokens: [{ id: expect.any(String), name: "codex", scopes: ["read", "delegate"], createdAt: expect.any(String) }],
    });
  });

  it("revokes by name or id, and exits with 3 when there is none", async () => {
    await using world = await createCliWorld();
    await world.run(["token", "add", "codex"]);
    await world.run(["token", "add", "codex"]);
    const [first = ""] = (await world.run(["token", "list"])).stdout.split("\t");
    expect((await world.run(["token", "revoke", first])).stdout).toBe(`${first}\tcodex\n`);
    expect((await world.run(["token", "revoke", "codex", "--json"])).stdout).toMatch(/^\{"revoked":\[\{"id":"tk_/);
    const { code, stderr } = await world.run(["token", "revoke", "codex"]);
    expect(code).toBe(3);
    expect(stderr).toContain("See them: delegate-mcp token list");
  });

  it.each([
    ["a name with a blank", ["add", "a b"]],
    ["an unknown scope", ["add", "a", "--scope", "read,root"]],
    ["an empty scope", ["add", "a", "--scope", ""]],
  ])("refuses %s with 2 and makes nothing", async (_what, args) => {
    await using world = await createCliWorld();
    expect((await world.run(["token", ...args])).code).toBe(2);
    expect(existsSync(path.join(world.dataDir, "tokens.json"))).toBe(false);
  });
});

describe("config show", () => {
  const env = (world: { readonly dir: string }) => ({
    DELEGATE_MCP_CONFIG: path.join(world.dir, "c.json"),
    DELEGATE_MCP_LIMITS_DEPTH_MAX: "2",
  });

  it("shows every setting in force and where it comes from", async () => {
    await using world = await createCliWorld();
    const { writeFileSync } = await import("node:fs");
    writeFileSync(path.join(world.dir, "c.json"), '{"retry":{"lossesMax":9}}');
    const { code, stdout } = await world.run(["config", "show", "--origin", "--port", "1"], { env: env(world) });
    const rows = stdout
      .trimEnd()
      .split("\n")
      .map((line) => line.split("\t"));
    expect(code).toBe(0);
    expect(rows.every((row) => row.length === 3)).toBe(true);
    expect(rows).toContainEqual(["server.port", "1", "--port"]);
    expect(rows).toContainEqual(["limits.depthMax", "2", "DELEGATE_MCP_LIMITS_DEPTH_MAX"]);
    expect(rows).toContainEqual(["retry.lossesMax", "9", path.join(world.dir, "c.json")]);
    expect(rows).toContainEqual(["dataDir", world.dataDir, "--data-dir"]);
    expect(rows).toContainEqual(["guard.leaseMs", "30000", "default"]);
  });

  it("cuts nothing on a terminal", async () => {
    await using world = await createCliWorld();
    const run = { terminal: true, env: { NO_COLOR: "1" } } as const;
    const { stdout } = await world.run(["config", "show", "--origin"], run);
    expect(stdout.split("\n").find((row) => row.startsWith("dataDir "))).toContain(` ${world.dataDir} (--data-dir)`);
    expect(stdout).not.toContain("…");
  });

  it("gives a program the same in one object", async () => {
    await using world = await createCliWorld();
    const { stdout } = await world.run(["config", "show", "--origin", "--no-auth", "--json"]);
    const { settings } = JSON.parse(stdout);
    expect(settings).toContainEqual({ key: "server.auth", value: "none", origin: { kind: "flag", name: "--no-auth" } });
  });

  it("tells all mistakes at once with 2", async () => {
    await using world = await createCliWorld();
    const { code, stderr } = await world.run(["config", "show", "--port", "x", "--database-url", "y"], {
      env: { DELEGATE_MCP_PROT: "1" },
    });
    expect(code).toBe(2);
    expect(stderr).toBe(
      `error: The configuration has 3 mistakes.
  databaseUrl (--database-url): databases are not offered in this version; leave it out, and tasks are kept in the data directory
  DELEGATE_MCP_PROT (DELEGATE_MCP_PROT): unknown; did you mean DELEGATE_MCP_PORT?
  server.port (--port): expected a whole number from 0 to 65535
do:    Correct it and try again. Every setting and what it takes: docs/configuration.md of the package.
`,
    );
  });
});
