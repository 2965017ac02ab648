/**
 * The command line against the daemon itself, as a process with a real program as its agent: what a child was told and said,
 * exports, upkeep, and a child that uses the command line for a child of its own.
 */

import { readFileSync, writeFileSync } from "node:fs";
import path from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ROOT, type Scratch, scratch } from "../tooling/scratch.ts";
import { command, type Process } from "./command-process.ts";
import { type CliWorld, createCliWorld, until } from "./cli-world.ts";

const RUN = path.join(ROOT, "src/cli/run.ts");

/** Delegates with the command line if its task says so, and prints how each call ended. */
const AGENT = `
import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
const task = readFileSync(0, "utf8");
console.log("told: " + task);
const run = (...args) => {
  const done = spawnSync(process.execPath, ["--no-warnings", ${JSON.stringify(RUN)}, ...args], { encoding: "utf8" });
  console.log([args[0], done.status, done.stdout.trim()].join("|"));
};
if (task.includes("two levels")) {
  run("delegate", "a leaf", "--wait", "--access", "read", "--key", "leaf-7f3k9q");
  run("list");
  run("token", "list");
  run("export", process.env.DELEGATE_CHILD_TASK_ID);
}
if (task.includes("a leaf")) run("delegate", "deeper", "--access", "read");
`;

let folder: Scratch;
let daemon: Process;
let world: CliWorld;

beforeAll(async () => {
  folder = scratch({ "agent.mjs": AGENT, "work/.keep": "" });
  const agents = { mine: { driver: "command", command: [process.execPath, path.join(folder.dir, "agent.mjs")] } };
  const config = {
    agents,
    limits: { depthMax: 2 },
    workspaces: { roots: [path.join(folder.dir, "work")] },
    server: { port: 0 },
  };
  writeFileSync(path.join(folder.dir, "config.json"), JSON.stringify(config));
  daemon = command(folder, ["serve", "--json", "--log-level", "error", ...where()]);
  world = await createCliWorld();
  for (let round = 0; !daemon.stdout().includes("\n") && round < 4; round++)
    await until(() => daemon.stdout().includes("\n"), "the ready line").catch(() => undefined);
});

afterAll(async () => {
  await world[Symbol.asyncDispose]();
  daemon.child.kill("SIGTERM");
  await daemon.ended();
  folder[Symbol.dispose]();
});

const inFolder = (name: string): string => path.join(folder.dir, name);
const where = () => ["--data-dir", inFolder("data"), "--config", inFolder("config.json")];
const ran = (...args: readonly string[]) => world.run([...args, ...where()], { bare: true });

async function delegated(text: string): Promise<string> {
  const { code, stdout, stderr } = await ran("delegate", text, "--access", "read", "--cwd", inFolder("work"));
  expect([code, stderr]).toEqual([0, expect.stringContaining("ACCEPTED")]);
  return stdout.trim();
}

describe("the command line and its daemon", () => {
  it("follows a child to its end, and reads result, events and export of it afterwards", async () => {
    const id = await delegated("Say it.");
    const followed = await ran("logs", id, "-f");
    expect([followed.code, followed.stderr]).toEqual([0, ""]);
    const rows = followed.stdout
      .trimEnd()
      .split("\n")
      .map((row) => row.split("\t").slice(2));
    expect(rows).toEqual([
      ["person", "Say it."],
      ["child", "told: Say it."],
      ["event", "TaskSettled 1: completed"],
    ]);
    expect((await ran("logs", id.slice(0, -2), "--view", "result")).stdout).toBe("told: Say it.\n");
    expect((await ran("logs", id, "--view", "events", "--find", "TaskSettled")).stdout.split("\n")).toHaveLength(2);
    expect(await ran("export", id, "--out", inFolder("task.ndjson"))).toMatchObject({ code: 0 });
    const lines = readFileSync(inFolder("task.ndjson"), "utf8").trimEnd().split("\n");
    expect(lines.map((line) => JSON.parse(line).kind)).toEqual(
      expect.arrayContaining(["head", "task", "event", "end"]),
    );
  });

  it("is examined, and shows agents, host and what retention would remove", async () => {
    const examined = await ran("doctor");
    expect([examined.code, examined.stdout]).toEqual([0, expect.stringContaining("depthMax 2")]);
    expect((await ran("agents")).stdout).toMatch(/^mine\tcommand\tready\tdefault\t/);
    expect((await ran("host")).stdout).toMatch(/^dm_\w+\t0\t0\t0\n$/);
    expect(await ran("prune", "--dry-run")).toMatchObject({ code: 0, stdout: "tasks\t0\ntranscripts\t0\n" });
    expect((await ran("answer", "dt_9", "q_1", "yes")).code).toBe(3);
  });

  it("lets a child delegate with its own credential, one level, and keeps the person's from it (P18)", {
    timeout: 60_000,
  }, async () => {
    const id = await delegated("Do it on two levels.");
    expect((await ran("wait", id)).code).toBe(0);
    const { stdout } = await ran("logs", id, "--view", "result");
    const calls = stdout.split("\n").filter((line) => /^(delegate|list|token|export)\|/.test(line));
    const leaf = expect.stringMatching(/^list\|0\|dt_\w+\tcompleted\t/);
    // The leaf is at the limit: it has no credential, and its own call in the second line is refused.
    expect(calls).toEqual(["delegate|0|told: a leaf", "delegate|4|", leaf, "token|4|", "export|4|"]);
    const tree = JSON.parse((await ran("list", "--json")).stdout);
    expect(tree.tasks).toHaveLength(3);
  });
});
