/**
 * `completion`: the scripts, in the shells that are here.
 */

import { execFileSync } from "node:child_process";
import { mkdirSync, writeFileSync } from "node:fs";
import path from "node:path";
import { describe, expect, it } from "vitest";
import { createCliWorld } from "./cli-world.ts";

async function scriptFor(shell: string): Promise<string> {
  await using world = await createCliWorld();
  const { code, stdout, stderr } = await world.run(["completion", shell]);
  expect([code, stderr]).toEqual([0, ""]);
  return stdout;
}

/** What bash would offer after these words, of which the last is being typed. */
function offered(script: string, words: readonly string[], cwd = "/"): readonly string[] {
  const asked = `${script}
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _delegate_mcp; printf '%s\\n' "\${COMPREPLY[@]}"`;
  const output = execFileSync("bash", ["--norc", "--noprofile", "-uc", asked, "bash", "delegate-mcp", ...words], {
    cwd,
  });
  return output.toString().split("\n").filter(Boolean);
}

describe("completion in bash", () => {
  it("offers commands, their subcommands and the words of an argument", async () => {
    const script = await scriptFor("bash");
    expect(offered(script, [""])).toEqual(expect.arrayContaining(["delegate", "ls", "doctor", "token", "host"]));
    expect(offered(script, ["to"])).toEqual(["token"]);
    expect(offered(script, ["token", ""])).toEqual(["add", "list", "revoke"]);
    expect(offered(script, ["completion", ""])).toEqual(["bash", "zsh", "fish"]);
    expect(offered(script, ["show", ""])).toEqual([]);
  });

  it("offers the options of the command, an alias's too, and those that every command has", async () => {
    const script = await scriptFor("bash");
    expect(offered(script, ["ls", "--o"])).toEqual(["--open"]);
    expect(offered(script, ["token", "add", "me", "--s"])).toEqual(["--scope"]);
    expect(offered(script, ["--data-dir", "token", "li"])).toEqual(["list"]);
    expect(offered(script, ["show", "--"])).toEqual(
      expect.arrayContaining(["--json", "--url", "--data-dir", "--no-color", "--help"]),
    );
    expect(offered(script, ["show", "--"])).not.toContain("--open");
    expect(offered(script, ["serve", "--d"])).toEqual(["--data-dir", "--debug"]);
  });

  it("offers the choices of an option, also behind an equals sign, and files where one is meant", async () => {
    const script = await scriptFor("bash");
    await using world = await createCliWorld();
    mkdirSync(path.join(world.dir, "a folder"));
    writeFileSync(path.join(world.dir, "a file"), "");
    expect(offered(script, ["list", "--status", "c"])).toEqual(["completed", "cancelled"]);
    expect(offered(script, ["list", "--status", "=", "f"])).toEqual(["failed"]);
    expect(offered(script, ["logs", "dt_1", "--view", ""])).toEqual(["messages", "events", "result", "changes"]);
    expect(offered(script, ["export", "dt_1", "--out", "a"], world.dir).toSorted()).toEqual(["a file", "a folder"]);
    expect(offered(script, ["delegate", "x", "--cwd", "a"], world.dir)).toEqual(["a folder"]);
    expect(offered(script, ["delegate", "x", "--title", ""])).toEqual([]);
    expect(offered(script, ["list", "--status", "failed", "--un"])).toEqual(["--unread"]);
  });

  it("is text that a shell takes in whole, and one object with --json", async () => {
    const script = await scriptFor("bash");
    execFileSync("bash", ["-n"], { input: script });
    await using world = await createCliWorld();
    const { stdout } = await world.run(["completion", "bash", "--json"]);
    expect(JSON.parse(stdout)).toEqual({ shell: "bash", script });
  });
});

describe.each(["zsh", "fish"])("completion in %s", (shell) => {
  it("names every command, and is free of mistakes where that shell is there to say so", async () => {
    const script = await scriptFor(shell);
    for (const word of ["delegate", "logs", "token", "revoke", "completion"]) expect(script).toContain(word);
    if (isThere(shell)) execFileSync(shell, ["-n"], { input: script });
  });
});

function isThere(shell: string): boolean {
  try {
    execFileSync(shell, ["--version"], { stdio: "ignore" });
    return true;
  } catch {
    return false;
  }
}
