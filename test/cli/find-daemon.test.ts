/**
 * Finding the daemon and talking to it: addresses, tokens, and everything that can answer instead of one.
 */

import { chmodSync, rmSync, writeFileSync } from "node:fs";
import path from "node:path";
import { describe, expect, it } from "vitest";
import { writeDaemonFile } from "../../src/config/daemon-files.ts";
import { createCliWorld, task, TOKEN } from "./cli-world.ts";

const listed = { json: { say: "1 task", tasks: [task()] } };

describe("address and token", () => {
  it("finds the daemon of the data directory by itself, and shows the token of its file", async () => {
    await using world = await createCliWorld();
    world.answer(() => listed);
    expect((await world.run(["list"])).code).toBe(0);
    expect(world.asked[0]?.token).toBe(TOKEN);
  });

  it("takes data directory and token from the environment", async () => {
    await using world = await createCliWorld();
    world.answer(() => listed);
    const env = { DELEGATE_MCP_DATA_DIR: world.dataDir, DELEGATE_MCP_TOKEN: "another-token" };
    expect((await world.run(["list"], { bare: true, env })).code).toBe(0);
    expect(world.asked[0]?.token).toBe("another-token");
  });

  it.each(["", "/", "/mcp", "/mcp/"])(
    "accepts an address with %j at its end, and never sends the file's token there",
    async (end) => {
      await using world = await createCliWorld();
      world.answer(() => listed);
      expect((await world.run(["list", "--url", `${world.url}${end}`])).code).toBe(0);
      const env = { DELEGATE_MCP_URL: `${world.url}${end}`, DELEGATE_MCP_TOKEN: "another-token" };
      expect((await world.run(["list"], { env })).code).toBe(0);
      expect(world.asked.map(({ url, token }) => [url, token])).toEqual([
        ["/api/tasks", null],
        ["/api/tasks", "another-token"],
      ]);
    },
  );

  it("works with the data directory although another setting is wrong", async () => {
    await using world = await createCliWorld();
    world.answer(() => listed);
    expect((await world.run(["list"], { env: { DELEGATE_MCP_PORT: "x", DELEGATE_MCP_NONSENSE: "1" } })).code).toBe(0);
  });

  it.each([
    ["no URL", "localhost:4517"],
    ["no web address", "file:///etc/passwd"],
    ["a token in the URL", "http://127.0.0.1:1/mcp?token=x"],
    ["a password in the URL", "http://a:b@127.0.0.1:1"],
  ])("refuses %s with 2, and repeats none of it", async (_what, url) => {
    await using world = await createCliWorld();
    const { code, stderr } = await world.run(["list", "--url", url]);
    expect(code).toBe(2);
    expect(stderr).not.toContain(url);
    expect(stderr.split("\n")).toHaveLength(4);
  });
});

describe("no daemon", () => {
  it("5, saying where none was found and how to start one", async () => {
    await using world = await createCliWorld();
    rmSync(path.join(world.dataDir, "daemon.json"));
    const { code, stdout, stderr } = await world.run(["list"]);
    expect([code, stdout]).toEqual([5, ""]);
    expect(stderr).toBe(
      `error: No daemon is running here.
why:   No daemon has left its address in ${world.dataDir}.
do:    Start one: delegate-mcp serve. For one elsewhere: --url URL and DELEGATE_MCP_TOKEN.
`,
    );
  });

  it("5 for the address of a dead process, to which no token is sent", async () => {
    await using world = await createCliWorld();
    const { url } = world;
    writeDaemonFile(world.dataDir, { pid: 4_194_300, url, mcpUrl: `${url}/mcp`, version: "1", startedAt: "x" });
    const { code, stderr } = await world.run(["list"]);
    expect([code, world.asked]).toEqual([5, []]);
    expect(stderr).toContain("is gone. Its tasks are kept.");
  });

  it.each([
    ["nothing listens", "http://127.0.0.1:1", "Nothing listens there."],
    ["the name is unknown", "http://no-such-host.invalid", "That host name is not known."],
  ])("5 when %s", async (_what, url, why) => {
    await using world = await createCliWorld();
    const { code, stderr } = await world.run(["list", "--url", url]);
    expect(code).toBe(5);
    expect(stderr).toContain(`why:   ${why}`);
  });

  it("5 when the connection breaks, and when something else answers", async () => {
    await using world = await createCliWorld();
    world.answer(() => "cut");
    const cut = await world.run(["list"]);
    expect([cut.code, cut.stderr]).toEqual([5, expect.stringContaining("The connection broke before the answer.")]);
    for (const status of [200, 302, 404, 502]) {
      world.answer(() => ({ status, html: "<h1>hello</h1>" }));
      const { code, stderr } = await world.run(["list"]);
      expect([status, code]).toEqual([status, 5]);
      expect(stderr).toContain(`is not delegate-mcp.`);
    }
  });

  it("tells the same to a program in one object", async () => {
    await using world = await createCliWorld();
    rmSync(path.join(world.dataDir, "daemon.json"));
    const { code, stdout } = await world.run(["list", "--json"]);
    expect(code).toBe(5);
    expect(JSON.parse(stdout)).toEqual({
      error: {
        code: "unreachable",
        exitCode: 5,
        message: "No daemon is running here.",
        why: expect.any(String),
        fix: expect.any(String),
      },
    });
  });

  it("shows where an error comes from with --debug only", async () => {
    await using world = await createCliWorld();
    const args = ["list", "--url", "http://127.0.0.1:1"];
    expect((await world.run(args)).stderr).not.toContain("    at ");
    expect((await world.run([...args, "--debug"])).stderr).toContain("    at ");
  });
});

describe("refusals of HTTP", () => {
  it.each([
    [401, "token_unknown", 4],
    [403, "not_allowed", 4],
    [400, "bad_request", 2],
    [413, "body_too_large", 2],
    [404, "not_found", 3],
    [409, "conflict", 7],
    [429, "rate_limit", 75],
    [500, "internal", 5],
    [503, "stopping", 5],
  ])("HTTP %i becomes exit code of %s, with the daemon's own words", async (status, code, exitCode) => {
    await using world = await createCliWorld();
    const next = { kind: "fix", change: "Do this." };
    world.answer(() => ({ status, json: { error: { code, message: "That went wrong" }, next, requestId: "r1" } }));
    const ran = await world.run(["list"]);
    expect(ran.code).toBe(exitCode);
    expect(ran.stderr).toBe("error: That went wrong.\ndo:    Do this.\n");
  });

  it("says that it found no token when it had none to show", async () => {
    await using world = await createCliWorld();
    rmSync(path.join(world.dataDir, "token"));
    world.answer(() => ({
      status: 401,
      json: { error: { code: "token_missing", message: "No token was sent" }, next: {} },
    }));
    expect((await world.run(["list"])).stderr).toContain("neither DELEGATE_MCP_TOKEN nor a token file");
  });
});

describe("secrets", () => {
  it("uses no token file that others can read (X3)", async () => {
    await using world = await createCliWorld();
    world.answer(() => listed);
    chmodSync(path.join(world.dataDir, "token"), 0o644);
    const { code, stderr } = await world.run(["list"]);
    expect([code, world.asked]).toEqual([4, []]);
    expect(stderr).toContain("can be read by others (mode 0644)");
    expect(stderr).not.toContain(TOKEN);
  });

  it("refuses an address file that is not ours", async () => {
    await using world = await createCliWorld();
    writeFileSync(path.join(world.dataDir, "daemon.json"), '{"url":"http://127.0.0.1:1"}');
    expect((await world.run(["list"])).code).toBe(4);
  });
});

describe("a delegated child", () => {
  const env = { DELEGATE_CHILD_MARK: "dm_1.dt_1.a1" };

  it.each([
    ["list"],
    ["delegate", "x"],
    ["wait", "a"],
    ["show", "a"],
    ["cancel", "a"],
    ["continue", "a", "x"],
    ["logs", "a"],
    ["agents"],
    ["answer", "a", "q_1", "yes"],
    ["export", "a"],
    ["prune", "--yes"],
    ["host"],
    ["host", "forget", "x"],
    ["doctor"],
    ["token", "add", "me"],
    ["token", "list"],
    ["token", "revoke", "a"],
  ])("cannot act as the person whose machine it runs on: %s (P18)", async (...args) => {
    await using world = await createCliWorld();
    world.answer(() => listed);
    const { code, stdout } = await world.run(args, { env });
    expect([code, stdout, world.asked]).toEqual([4, "", []]);
  });

  it("is not let in by the person's own variables, nor by an address on the command line (P18)", async () => {
    await using world = await createCliWorld();
    world.answer(() => listed);
    const person = { DELEGATE_MCP_URL: world.url, DELEGATE_MCP_TOKEN: TOKEN };
    expect((await world.run(["list"], { env: { ...env, ...person } })).code).toBe(4);
    expect((await world.run(["list", "--url", world.url], { env: { ...env, ...person } })).code).toBe(4);
    expect(world.asked).toEqual([]);
  });

  it("may ask for help and version", async () => {
    await using world = await createCliWorld();
    expect((await world.run(["version"], { env })).code).toBe(0);
    expect((await world.run(["--help"], { env })).code).toBe(0);
  });
});
