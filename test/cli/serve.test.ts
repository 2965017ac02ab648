/**
 * `serve`: what it says when it runs, how it refuses, and how it ends.
 */

import { describe, expect, it } from "vitest";
import { writeDaemonFile } from "../../src/config/daemon-files.ts";
import type { Ready, StartDaemon, StartDaemonInput, StopMode } from "../../src/cli/daemon.ts";
import { createCliWorld, type CliWorld, type RunOptions, until } from "./cli-world.ts";

type FakeDaemon = { readonly start: StartDaemon; readonly started: StartDaemonInput[]; readonly stops: StopMode[] };

/** A composition root that starts nothing. `stopping`: how long its stop takes. */
function fakeDaemon(stopping: Promise<void> = Promise.resolve()): FakeDaemon {
  const started: StartDaemonInput[] = [];
  const stops: StopMode[] = [];
  const start: StartDaemon = async (input) => {
    started.push(input);
    const stop = async (mode: StopMode): Promise<void> => {
      stops.push(mode);
      await stopping;
    };
    return { kind: "started", ready: readyIn(input.loaded.config.dataDir), stop };
  };
  return { start, started, stops };
}

function readyIn(dataDir: string): Ready {
  const url = "http://127.0.0.1:4517";
  return {
    mcpUrl: `${url}/mcp`,
    dashboardUrl: `${url}/`,
    dataDir,
    tokenFile: `${dataDir}/token`,
    pid: 42,
    version: "1.2.3",
    contractVersion: 1,
  };
}

function refusing(refused: { readonly reason: string; readonly message: string; readonly url?: string }): StartDaemon {
  return async () => ({ kind: "refused", url: null, ...refused });
}

async function served(world: CliWorld, daemon: FakeDaemon, args: readonly string[] = [], options: RunOptions = {}) {
  const running = world.start(["serve", ...args], { startDaemon: daemon.start, ...options });
  await until(() => running.stderr().includes("stop") || running.stdout().includes("ready"), "serve is ready");
  return running;
}

describe("ready", () => {
  it("says where everything is in at most 12 lines on standard error, and nothing on standard output", async () => {
    await using world = await createCliWorld();
    const daemon = fakeDaemon();
    const env = {
      DELEGATE_MCP_AGENTS: '{"mine":{"driver":"command","command":["my-agent"]}}',
      DELEGATE_MCP_WORKSPACES_ROOTS: '["/srv"]',
    };
    const running = await served(world, daemon, [], { env });
    running.signal("SIGTERM");
    const { code, stdout, stderr } = await running.ended;
    const banner = stderr.slice(0, stderr.indexOf("Stopping."));
    expect([code, stdout]).toEqual([0, ""]);
    expect(banner.trimEnd().split("\n").length).toBeLessThanOrEqual(12);
    expect(banner).toBe(
      `delegate-mcp 1.2.3
  MCP     http://127.0.0.1:4517/mcp
  token   ${world.dataDir}/token
  data    ${world.dataDir}
  agents  mine (command)
  roots   /srv
  limits  4 children at a time, 1 level
  stop    Ctrl-C; children are stopped too, the next start sees to their tasks
  try     delegate-mcp delegate "Say hello" --wait
`,
    );
  });

  it("says loudly that no token is asked for, and what to do without an agent", async () => {
    await using world = await createCliWorld();
    const running = await served(world, fakeDaemon(), ["--no-auth"]);
    running.signal("SIGTERM");
    const { stderr } = await running.ended;
    expect(stderr).toContain("token   none asked for: whoever reaches this port on this machine can start agents");
    expect(stderr).toContain("  agents  none yet\n");
    expect(stderr).toMatch(/^ {2}do {6}add one under "agents" in .*config\.json, and start again$/m);
    expect(stderr).not.toContain("Say hello");
  });

  it("writes one ready line first on standard output with --json, and no banner", async () => {
    await using world = await createCliWorld();
    const running = await served(world, fakeDaemon(), ["--json"]);
    running.signal("SIGTERM");
    const { stdout, stderr } = await running.ended;
    expect(JSON.parse(stdout)).toEqual({ event: "ready", ...readyIn(world.dataDir) });
    expect(Object.keys(JSON.parse(stdout))).toEqual([
      "event",
      "mcpUrl",
      "dashboardUrl",
      "dataDir",
      "tokenFile",
      "pid",
      "version",
      "contractVersion",
    ]);
    expect(stderr).toBe("");
  });

  it("hands over the settings of flags, environment and environment file", async () => {
    await using world = await createCliWorld();
    const { writeFileSync } = await import("node:fs");
    writeFileSync(`${world.dir}/agents.env`, "MY_AGENT_KEY=k\nDELEGATE_MCP_LIMITS_DEPTH_MAX=2\n");
    const daemon = fakeDaemon();
    const running = await served(world, daemon, [
      "--port",
      "0",
      "--host",
      "localhost",
      "--log-level",
      "debug",
      "--env-file",
      "agents.env",
    ]);
    running.signal("SIGTERM");
    await running.ended;
    const [input = expect.unreachable("not started")] = daemon.started;
    expect(input.loaded.config).toMatchObject({
      dataDir: world.dataDir,
      server: { port: 0, host: "localhost" },
      log: { level: "debug" },
      limits: { depthMax: 2 },
    });
    expect(input.loaded.environment["MY_AGENT_KEY"]).toBe("k");
    expect(input.version).toBe("1.2.3");
  });
});

describe("refusals", () => {
  it("tells every mistake of the configuration with 2 and starts nothing", async () => {
    await using world = await createCliWorld();
    const daemon = fakeDaemon();
    const { code, stderr } = await world.run(["serve", "--port", "http", "--host", "0.0.0.0", "--no-auth"], {
      startDaemon: daemon.start,
    });
    expect([code, daemon.started]).toEqual([2, []]);
    expect(stderr).toContain("server.port (--port)");
  });

  it.each([
    ["port_busy", "port 4517 is busy", 75],
    ["locked", "the directory is held by process 7", 75],
    ["file_open", "the token file can be read by others", 4],
    ["directory_open", "the directory can be read by others", 4],
    ["network_mount", "the directory lies on a network", 2],
  ])("ends with the exit code of %s, in one line (D7, X3)", async (reason, message, code) => {
    await using world = await createCliWorld();
    const ran = await world.run(["serve"], { startDaemon: refusing({ reason, message }) });
    expect([ran.code, ran.stdout]).toEqual([code, ""]);
    expect(ran.stderr).toMatch(new RegExp(`^error: ${message}[^\\n]*\\n$`));
  });

  it("says where our own daemon on the same directory runs, with 0 (D7)", async () => {
    await using world = await createCliWorld();
    const { url } = world;
    writeDaemonFile(world.dataDir, { pid: 42, url, mcpUrl: `${url}/mcp`, version: "1.0.0", startedAt: "x" });
    const startDaemon = refusing({ reason: "already_running", message: "held by process 42", url: `${url}/mcp` });
    expect(await world.run(["serve"], { startDaemon })).toEqual({
      code: 0,
      stdout: "",
      stderr: `Already running: ${url}/mcp (process 42).\n`,
    });
    const { code, stdout } = await world.run(["serve", "--json"], { startDaemon });
    expect([code, JSON.parse(stdout)]).toEqual([
      0,
      {
        event: "already_running",
        ...readyIn(world.dataDir),
        mcpUrl: `${url}/mcp`,
        dashboardUrl: `${url}/`,
        version: "1.0.0",
      },
    ]);
  });

  it("starts itself again without a child's marks before it loads anything (P12)", async () => {
    await using world = await createCliWorld();
    const daemon = fakeDaemon();
    const env = { DELEGATE_CHILD_MARK: "dm_1.dt_1.a1" };
    const { stderr } = await world.run(["serve"], { env, startDaemon: daemon.start });
    expect(stderr).toContain("restarted");
    expect(daemon.started).toEqual([]);
  });
});

describe("stop", () => {
  it.each([
    ["SIGTERM", "hand_over"],
    ["SIGHUP", "hand_over"],
    ["SIGINT", "stop"],
  ] as const)("%s: children are treated as by %s, and the process ends with 0", async (signal, mode) => {
    await using world = await createCliWorld();
    const daemon = fakeDaemon();
    const running = await served(world, daemon);
    running.signal(signal);
    expect((await running.ended).code).toBe(0);
    expect([daemon.stops, running.exits]).toEqual([[mode], []]);
  });

  it("ends at once on a second signal", async () => {
    await using world = await createCliWorld();
    const { promise, resolve } = Promise.withResolvers<void>();
    const running = await served(world, fakeDaemon(promise));
    running.signal("SIGTERM");
    running.signal("SIGINT");
    expect(running.exits).toEqual([130]);
    resolve();
    await running.ended;
  });

  it("takes the echo of a Ctrl-C that npx passes on as the same one, and a later one as the second", async () => {
    await using world = await createCliWorld();
    const { promise, resolve } = Promise.withResolvers<void>();
    const running = await served(world, fakeDaemon(promise));
    running.signal("SIGINT");
    running.signal("SIGINT");
    expect(running.exits).toEqual([]);
    const sinceMs = performance.now();
    await until(() => performance.now() - sinceMs > 350, "a person could have pressed it again");
    running.signal("SIGINT");
    expect(running.exits).toEqual([130]);
    resolve();
    await running.ended;
  });

  it("ends in bounded time although the stop hangs (P15)", async () => {
    await using world = await createCliWorld();
    const running = await served(world, fakeDaemon(new Promise(() => undefined)), [], { stopMaxMs: 50 });
    running.signal("SIGTERM");
    const { code, stderr } = await running.ended;
    expect(code).toBe(0);
    expect(stderr).toContain("Stopped without waiting any longer; nothing that was accepted is lost.");
  });
});
