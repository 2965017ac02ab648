/**
 * The demo as a newcomer runs it: the built program, no key, no network, and a verdict that can be relied upon.
 */

import { readdirSync } from "node:fs";
import { tmpdir } from "node:os";
import { describe, expect, it } from "vitest";

import { runCommand } from "../support/daemon-process.ts";

const SECONDS_MAX = 15;

describe("the demo", () => {
  it("shows one task that survives a cut wire, a repeated call and a killed daemon, within 15 s, and tidies up (P2, P3, P5, H2, R1)", async () => {
    const before = folders();
    const startedMs = performance.now();
    const { code, stdout, stderr } = await runCommand(["demo"], {});
    const seconds = (performance.now() - startedMs) / 1_000;
    expect(stdout, stderr).not.toContain("FAILED");
    expect(code).toBe(0);
    const claims = stdout.split("\n").filter((line) => line.trimStart().startsWith("ok "));
    expect(claims.length).toBeGreaterThanOrEqual(7);
    expect(stdout).toContain("never two alive at once");
    expect(seconds).toBeLessThan(SECONDS_MAX);
    expect(folders()).toEqual(before);
  });
});

function folders(): readonly string[] {
  return readdirSync(tmpdir())
    .filter((name) => name.startsWith("delegate-demo-"))
    .toSorted();
}
