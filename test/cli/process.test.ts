/**
 * Commands as processes of their own: exit codes, pipes, and a reader that goes away.
 */

import { existsSync } from "node:fs";
import path from "node:path";
import { describe, expect, it } from "vitest";
import { scratch } from "../tooling/scratch.ts";
import { command } from "./command-process.ts";

describe("commands as processes", () => {
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
