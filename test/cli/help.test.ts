/**
 * The command line explains itself, and every misuse ends with 2 and a pointer.
 */

import { describe, expect, it } from "vitest";
import { readVersion } from "../../src/cli/version.ts";
import { createCliWorld } from "./cli-world.ts";

const VERBS = [
  "serve",
  "delegate",
  "wait",
  "list",
  "show",
  "logs",
  "continue",
  "answer",
  "cancel",
  "agents",
  "export",
  "prune",
  "host list",
  "host forget",
  "token add",
  "token list",
  "token revoke",
  "config show",
  "doctor",
  "completion",
  "demo",
  "version",
];

describe("help", () => {
  it("names every command with what it does, and the exit codes", async () => {
    await using world = await createCliWorld();
    const { code, stdout } = await world.run(["--help"]);
    expect(code).toBe(0);
    for (const verb of VERBS) expect(stdout).toMatch(new RegExp(`^ {2}${verb.split(" ")[0]}\\b.* {2,}\\S`, "m"));
    for (const exit of [
      "0 done",
      "1 task failed",
      "2 usage",
      "3 not found",
      "4 not allowed",
      "5 daemon unreachable",
      "6 the wait is over, the task goes on",
      "7 conflict",
      "8 the task asks something",
      "75 busy",
      "130 interrupted",
    ]) {
      expect(stdout).toContain(exit);
    }
  });

  it.each(VERBS)("explains every option of %s within 100 columns", async (verb) => {
    await using world = await createCliWorld();
    const { code, stdout } = await world.run([...verb.split(" "), "--help"]);
    expect(code).toBe(0);
    const options = stdout.split("\n").filter((line) => /^ {2}-/.test(line));
    expect(options.length).toBeGreaterThanOrEqual(8);
    for (const option of options) expect(option).toMatch(/^ {2}-\S.*( {2,}\S.*)?$/);
    for (const line of stdout.split("\n")) expect(line.length).toBeLessThanOrEqual(100);
    expect(stdout).not.toMatch(/database|TODO|undefined/);
  });

  it("says that a wait bounds the wait and not the child (U1)", async () => {
    await using world = await createCliWorld();
    expect((await world.run(["wait", "--help"])).stdout).toContain("never stops it");
  });

  it("prints the version of the package", async () => {
    await using world = await createCliWorld();
    expect(readVersion()).toMatch(/^\d+\.\d+\.\d+/);
    for (const args of [["version"], ["--version"], ["-V"]])
      expect((await world.run(args)).stdout).toBe("delegate-mcp 1.2.3\n");
    expect(JSON.parse((await world.run(["version", "--json"])).stdout)).toEqual({
      version: "1.2.3",
      contractVersion: 1,
      node: process.versions.node,
    });
  });
});

describe("misuse", () => {
  it.each([
    ["no command", [], "No command was given."],
    ["an unknown command", ["lst"], "unknown command 'lst' (Did you mean one of list, ls?)"],
    ["an unknown option", ["list", "--opne"], "unknown option '--opne' (Did you mean --open?)"],
    ["a missing argument", ["show"], "missing required argument 'id'"],
    [
      "one argument too many",
      ["show", "a", "b"],
      "too many arguments for 'show'. Expected 1 argument but got 2: a, b.",
    ],
    ["a missing value", ["delegate", "x", "--key"], "option '--key <key>' argument missing"],
    [
      "a value that is not offered",
      ["list", "--status", "done"],
      "option '--status <status>' argument 'done' is invalid. Allowed choices are working, input_required, completed, failed, cancelled.",
    ],
    [
      "a wrong number",
      ["list", "--limit", "ten"],
      "option '--limit <n>' argument 'ten' is invalid. Expected a whole number.",
    ],
    [
      "a wrong time",
      ["wait", "a", "--timeout", "-1"],
      "option '--timeout <seconds>' argument '-1' is invalid. Expected seconds.",
    ],
  ])("ends with 2 for %s, and names the help to read", async (_what, args, message) => {
    const whose = message.startsWith("unknown command") ? [] : args.slice(0, 1);
    await using world = await createCliWorld();
    const { code, stderr } = await world.run(args);
    expect(code).toBe(2);
    expect(stderr).toContain(`error: ${message}\ndo:    See: ${["delegate-mcp", ...whose].join(" ")} --help\n`);
    const { stdout } = await world.run([...args, "--json"]);
    expect(JSON.parse(stdout)).toMatchObject({ error: { code: "usage", exitCode: 2 } });
  });
});
