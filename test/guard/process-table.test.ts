/**
 * Reading the system's processes, and telling marks from what only looks like one.
 */

import { spawn } from "node:child_process";
import { describe, expect, it } from "vitest";
import { createLinuxProcessTable, parseStat } from "../../src/guard/linux-process-table.ts";
import { daemonIdOf, guardOwnerText, markedEnvironment, parseGuardOwner, variableIn } from "../../src/guard/marker.ts";
import { type ProcessRow, sharePasses } from "../../src/guard/process-table.ts";
import { parsePsLine } from "../../src/guard/ps-process-table.ts";
import { eventually, freshMark, startTimeOf } from "../support/processes.ts";
import { createStepClock } from "../support/step-clock.ts";

function statLine(name: string, state: string, threads: number): string {
  const middle = "0 -1 4194304 1 2 3 4 5 6 7 8 20 0";
  return `42 (${name}) ${state} 7 40 39 ${middle} ${threads} 0 123456 1000 2000 18446744073709551615`;
}

describe("a line of /proc/PID/stat", () => {
  it.each(["sleep", "tmux: server", "a) R 1 (b", ") Z 1"])("is read whatever the program is called: %s", (name) => {
    expect(parseStat(statLine(name, "S", 1))).toEqual({
      pid: 42,
      ppid: 7,
      pgid: 40,
      sid: 39,
      startTime: "123456",
      zombie: false,
      mark: null,
      guardOf: null,
    });
  });

  it("is that of a dead process for a zombie, but not for an ended leader whose threads run on (P12)", () => {
    expect(parseStat(statLine("x", "Z", 1))?.zombie).toBe(true);
    expect(parseStat(statLine("x", "Z", 3))?.zombie).toBe(false);
    expect(parseStat(statLine("x", "X", 0))?.zombie).toBe(true);
  });

  it("is nothing if it is cut", () => {
    expect(parseStat("")).toBeNull();
    expect(parseStat("42 (sleep) S 7 40")).toBeNull();
  });
});

describe("a line of ps", () => {
  it("is read with its start time, which has spaces", () => {
    expect(parsePsLine("  501     1   501 Ss   Tue Dec  1 07:44:13 2026    ")).toMatchObject({
      pid: 501,
      ppid: 1,
      pgid: 501,
      startTime: "Tue Dec 1 07:44:13 2026",
      zombie: false,
    });
    expect(parsePsLine("  502   501   501 Z+   Tue Dec  1 07:44:13 2026")?.zombie).toBe(true);
    expect(parsePsLine("")).toBeNull();
  });
});

describe("a mark", () => {
  it("is found only as a whole variable, the first of its name", () => {
    const block = Buffer.from("XDELEGATE=0\0DELEGATE=1\0DELEGATE=2\0DELEGATED=3\0LAST=é");
    expect(variableIn(block, "DELEGATE")).toBe("1");
    expect(variableIn(block, "LAST")).toBe("é");
    expect(variableIn(block, "ELEGATE")).toBeNull();
    expect(variableIn(Buffer.alloc(0), "A")).toBeNull();
  });

  it("names its daemon, whatever that is called", () => {
    expect(daemonIdOf(freshMark("d1"))).toBe("d1");
    expect(daemonIdOf(freshMark("host.example.7"))).toBe("host.example.7");
  });

  it("cannot be replaced by the order's environment (P18)", () => {
    const mark = freshMark();
    expect(markedEnvironment({ A: "1", DELEGATE_CHILD_MARK: "other" }, mark)).toEqual({
      A: "1",
      DELEGATE_CHILD_MARK: mark,
    });
  });

  it("of a guard tells whose it is", () => {
    expect(parseGuardOwner(guardOwnerText({ daemonId: "a:b", daemonPid: 12 }))).toEqual({
      daemonId: "a:b",
      daemonPid: 12,
    });
    expect(parseGuardOwner("nonsense")).toBeNull();
    expect(parseGuardOwner(null)).toBeNull();
  });
});

describe.runIf(process.platform === "linux")("the process table", () => {
  it("shows a process with its identity, its mark and its command, and shows it no more when it is gone (P12)", async () => {
    const table = createLinuxProcessTable();
    const mark = freshMark();
    const sleeper = spawn("/bin/sleep", ["600"], { env: markedEnvironment({}, mark), stdio: "ignore", detached: true });
    const pid = sleeper.pid ?? expect.fail("no pid");
    try {
      const identity = { pid, startTime: startTimeOf(pid), bootId: table.bootId };
      expect(await table.identify(pid)).toEqual(identity);
      const marked = (await table.pass()).filter((row) => row.mark === mark);
      expect(marked).toMatchObject([{ pid, ppid: process.pid, pgid: pid, sid: pid, startTime: identity.startTime }]);
      expect(await table.commandOf(pid)).toBe("/bin/sleep 600");
    } finally {
      table.signal(-pid, "SIGKILL");
    }
    await eventually("it is gone", async () => (await table.pass()).every((row) => row.mark !== mark));
    await eventually("it is collected", async () => (await table.identify(pid)) === null);
  });

  it("reads an environment of a megabyte", async () => {
    const mark = freshMark();
    const filler = Object.fromEntries(Array.from({ length: 16 }, (_, at) => [`FILLER_${at}`, "x".repeat(64_000)]));
    const sleeper = spawn("/bin/sleep", ["600"], { env: { ...filler, DELEGATE_CHILD_MARK: mark }, stdio: "ignore" });
    try {
      const rows = await createLinuxProcessTable().pass();
      expect(rows.filter((row) => row.mark === mark).map((row) => row.pid)).toEqual([sleeper.pid]);
    } finally {
      sleeper.kill("SIGKILL");
    }
  });
});

describe("shared passes", () => {
  it("answer all who asked before one began, and never by one that began before they asked (P5)", async () => {
    const clock = createStepClock();
    let passes = 0;
    const began: number[] = [];
    const table = {
      ...createLinuxProcessTable(),
      pass(): Promise<readonly ProcessRow[]> {
        passes++;
        began.push(clock.monotonicMs());
        return Promise.resolve([]);
      },
    };
    const shared = sharePasses(table, clock.after, 15);
    await Promise.all([shared.pass(), shared.pass(), shared.pass()]);
    expect(passes).toBe(1);
    const later = Promise.all([shared.pass(), shared.pass()]);
    await clock.advanceAndSettle(20);
    await later;
    expect(passes).toBe(2);
    expect(began).toEqual([0, 15]);
  });
});
