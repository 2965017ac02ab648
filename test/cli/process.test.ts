/**
 * The command as a process of its own: the real daemon, real signals, real pipes.
 */

import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, readFileSync, readdirSync, statSync } from "node:fs";
import path from "node:path";
import { describe, expect, it } from "vitest";
import { ROOT, type Scratch, scratch } from "../tooling/scratch.ts";
import { until } from "./cli-world.ts";

const RUN = path.join(ROOT, "src/cli/run.ts");

type Process = Disposable & {
  readonly child: ChildProcess;
  stdout(): string;
  stderr(): string;
  ended(): Promise<number | null>;
};

/** Starts the command in a home of its own. Disposing kills what still runs. */
function command(folder: Scratch, args: readonly string[], env: Readonly<Record<string, string>> = {}): Process {
  const own = { PATH: process.env["PATH"] ?? "", HOME: folder.dir, ...env };
  const child = spawn(process.execPath, ["--no-warnings", RUN, ...args], {
    cwd: folder.dir,
    env: own,
    stdio: ["ignore", "pipe", "pipe"],
  });
  const output = { stdout: "", stderr: "" };
  child.stdout.on("data", (chunk: Buffer) => (output.stdout += chunk.toString()));
  child.stderr.on("data", (chunk: Buffer) => (output.stderr += chunk.toString()));
  const exit = once(child, "close");
  return {
    child,
    stdout: () => output.stdout,
    stderr: () => output.stderr,
    ended: async () => {
      await exit;
      return child.exitCode;
    },
    [Symbol.dispose]: () => void child.kill("SIGKILL"),
  };
}

async function daemonIn(folder: Scratch, env: Readonly<Record<string, string>> = {}) {
  const daemon = command(folder, ["serve", "--port", "0", "--json", "--data-dir", "data"], env);
  for (let round = 0; !daemon.stdout().includes("\n") && round < 4; round++) {
    await until(() => daemon.stdout().includes("\n") || daemon.child.exitCode !== null, "the ready line").catch(
      () => undefined,
    );
  }
  const ready: Record<string, unknown> = JSON.parse(daemon.stdout().split("\n")[0] ?? "");
  return { daemon, ready };
}

describe("serve as a process", () => {
  it("serves, is found by the command line, refuses a second one by name, and ends with 0 (D7, X3)", {
    timeout: 60_000,
  }, async () => {
    using folder = scratch();
    const { daemon, ready } = await daemonIn(folder);
    using _daemon = daemon;
    expect(ready).toMatchObject({
      event: "ready",
      pid: daemon.child.pid,
      contractVersion: 1,
      dataDir: path.join(folder.dir, "data"),
    });
    const live = await fetch(new URL("/livez", String(ready["mcpUrl"])));
    expect(live.status).toBe(200);

    using list = command(folder, ["list", "--data-dir", "data", "--json"]);
    expect(await list.ended()).toBe(0);
    expect(JSON.parse(list.stdout())).toMatchObject({ tasks: [] });

    using again = command(folder, ["serve", "--json", "--data-dir", "data"]);
    expect(await again.ended()).toBe(0);
    expect(JSON.parse(again.stdout())).toMatchObject({
      event: "already_running",
      mcpUrl: ready["mcpUrl"],
      pid: daemon.child.pid,
    });

    using busy = command(folder, [
      "serve",
      "--data-dir",
      "other",
      "--port",
      new URL(String(ready["mcpUrl"])).port,
      "--log-level",
      "error",
    ]);
    expect(await busy.ended()).toBe(75);
    expect(busy.stderr().trimEnd().split("\n")).toHaveLength(1);

    const dataDir = path.join(folder.dir, "data");
    expect((statSync(dataDir).mode & 0o777).toString(8)).toBe("700");
    for (const name of readdirSync(dataDir))
      expect([name, statSync(path.join(dataDir, name)).mode & 0o077]).toEqual([name, 0]);

    daemon.child.kill("SIGTERM");
    expect(await daemon.ended()).toBe(0);
    expect(existsSync(path.join(dataDir, "daemon.json"))).toBe(false);
  });

  it.runIf(process.platform === "linux")(
    "runs without the marks of the child that started it, as the same process (P12)",
    { timeout: 60_000 },
    async () => {
      using folder = scratch();
      const { daemon, ready } = await daemonIn(folder, {
        DELEGATE_CHILD_MARK: "dm_1.dt_1.a1",
        DELEGATE_CHILD_TOKEN: "x",
      });
      using _daemon = daemon;
      expect(ready["pid"]).toBe(daemon.child.pid);
      expect(readFileSync(`/proc/${daemon.child.pid}/environ`, "utf8")).not.toContain("DELEGATE_CHILD_");
      daemon.child.kill("SIGINT");
      expect(await daemon.ended()).toBe(0);
    },
  );
});

describe("other commands as processes", () => {
  it("end with their exit code and keep standard output for data", { timeout: 30_000 }, async () => {
    using folder = scratch();
    using version = command(folder, ["version"]);
    using lost = command(folder, ["list", "--data-dir", "none"]);
    using misuse = command(folder, ["frobnicate"]);
    expect([await version.ended(), version.stderr()]).toEqual([0, ""]);
    expect(version.stdout()).toMatch(/^delegate-mcp \d/);
    expect([await lost.ended(), lost.stdout()]).toEqual([5, ""]);
    expect([await misuse.ended(), misuse.stdout()]).toEqual([2, ""]);
    expect(existsSync(path.join(folder.dir, "none"))).toBe(false);
  });

  it("survive a reader that has gone", { timeout: 30_000 }, async () => {
    using folder = scratch();
    using show = command(folder, ["config", "show"]);
    show.child.stdout?.destroy();
    expect(await show.ended()).toBe(0);
    expect(show.stderr()).toBe("");
  });
});
