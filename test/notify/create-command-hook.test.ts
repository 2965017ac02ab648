/**
 * Command hooks as real programs: what they are given, what their ends mean, and that none outlives its time.
 */

import { afterEach, describe, expect, it } from "vitest";
import { createCommandHook } from "../../src/notify/create-command-hook.ts";
import type { NoticeMessage, NoticeOutcome } from "../../src/ports/notifier.ts";
import { thisProcess } from "../../src/system/this-process.ts";
import { contents, createTestFolder, eventually, isAlive, shell } from "../support/processes.ts";
import { createStepClock, type StepClock } from "../support/step-clock.ts";
import { NOTICE, wordyNotice } from "./receiver.ts";

const PATH = process.env["PATH"] ?? "";

function deliver(
  command: readonly [string, ...string[]],
  given: {
    readonly env?: Record<string, string>;
    readonly clock?: StepClock;
    readonly message?: NoticeMessage;
  } = {},
): Promise<NoticeOutcome> {
  const { env = { PATH }, clock = createStepClock(), message = NOTICE } = given;
  const { killGroup } = thisProcess;
  return createCommandHook({ command, env, clock, killGroup }).deliver(message);
}

/** Writes what it was given into the file named by its first argument. */
const RECORD = `
  const { readFileSync, writeFileSync } = require("node:fs");
  const stdin = readFileSync(0, "utf8");
  writeFileSync(process.argv[1], JSON.stringify({ stdin, env: process.env, args: process.argv.slice(2) }));`;

describe("a command hook", () => {
  it("gets the notice on standard input and its ids in the environment", async () => {
    using folder = createTestFolder();
    const file = folder.file("given");
    expect(await deliver([process.execPath, "-e", RECORD, file])).toEqual({ kind: "delivered" });
    const given = JSON.parse(contents(file));
    expect(JSON.parse(given.stdin)).toEqual(NOTICE.body);
    expect(given.env).toMatchObject({
      DELEGATE_NOTICE_ID: NOTICE.id,
      DELEGATE_NOTICE_TYPE: "task.settled",
      DELEGATE_NOTICE_TASK_ID: NOTICE.body.data.taskId,
      DELEGATE_NOTICE_STATUS: "completed",
      DELEGATE_NOTICE_SETTLEMENT: "1",
    });
  });

  describe("with a secret in the daemon's environment", () => {
    afterEach(() => {
      delete process.env["A_SECRET_OF_THE_DAEMON"];
    });

    it("sees only the environment that was handed in (X2)", async () => {
      process.env["A_SECRET_OF_THE_DAEMON"] = "s3cret";
      using folder = createTestFolder();
      const file = folder.file("given");
      await deliver([process.execPath, "-e", RECORD, file], { env: { PATH, LANG: "C" } });
      const names = Object.keys(JSON.parse(contents(file)).env).filter((name) => !name.startsWith("DELEGATE_NOTICE_"));
      expect(names.sort()).toEqual(["LANG", "PATH"]);
    });
  });

  it("gets its words as they are, without a shell (S4)", async () => {
    using folder = createTestFolder();
    const file = folder.file("given");
    const words = ["$HOME", "a; b && c", "`d`", 'e "f"', ""];
    await deliver([process.execPath, "-e", RECORD, file, ...words]);
    expect(JSON.parse(contents(file)).args).toEqual(words);
  });

  it("holds no word of a child or caller, even if it was handed some (P17)", async () => {
    using folder = createTestFolder();
    const file = folder.file("given");
    await deliver([process.execPath, "-e", RECORD, file], { message: wordyNotice("WORDS") });
    expect(JSON.parse(JSON.parse(contents(file)).stdin)).toEqual(NOTICE.body);
    expect(contents(file)).not.toContain("WORDS");
  });

  it("has a name that stays the same and differs by command", () => {
    const nameOf = (...command: [string, ...string[]]): string =>
      createCommandHook({ command, env: {}, clock: createStepClock(), killGroup: thisProcess.killGroup }).name;
    expect(nameOf("tell", "me")).toMatch(/^command-[0-9a-f]{8}$/);
    expect(nameOf("tell", "me")).toBe(nameOf("tell", "me"));
    expect(nameOf("tell me")).not.toBe(nameOf("tell", "me"));
  });
});

describe("a program that", () => {
  it("ends with 0 was told, also if it neither reads nor keeps quiet", async () => {
    expect(await deliver(shell("exec <&-; yes | head -c 1000000; exit 0"))).toEqual({ kind: "delivered" });
  });

  it("ends with 3 is told again, and 3 is said", async () => {
    expect(await deliver(shell("echo a secret text >&2; exit 3"))).toEqual({
      kind: "again",
      reason: "the program exited with 3",
    });
  });

  it("is killed by somebody is told again", async () => {
    expect(await deliver(shell("kill -TERM $$"))).toEqual({
      kind: "again",
      reason: "the program was ended by SIGTERM",
    });
  });

  it("is not there is told again, and its words are not repeated (X4)", async () => {
    expect(await deliver(["no-such-program-anywhere", "--token=s3cret"])).toEqual({
      kind: "again",
      reason: "the program could not be started (ENOENT)",
    });
    expect(await deliver(["a\0b"])).toEqual({
      kind: "again",
      reason: "the program could not be started (ERR_INVALID_ARG_VALUE)",
    });
  });

  it("hangs is killed after ten seconds with everything that it has started", async () => {
    using folder = createTestFolder();
    const clock = createStepClock();
    const [leader, below] = [folder.file("leader"), folder.file("below")];
    const line = `trap '' TERM; sleep 600 & echo $! > ${below}; echo $$ > ${leader}; wait`;
    const outcome = deliver(shell(line), { clock });
    const pidIn = (file: string) => eventually(`a pid in ${file}`, () => Number(contents(file).trim()) || null);
    const pids = [await pidIn(leader), await pidIn(below)];
    clock.advance(9_999);
    expect(pids.map(isAlive)).toEqual([true, true]);
    clock.advance(1);
    expect(await outcome).toEqual({
      kind: "again",
      reason: "the program was still running after 10 s and was killed",
    });
    await eventually("both are gone", () => !pids.some(isAlive));
  });

  it("ended in time leaves no timer that could kill another", async () => {
    const clock = createStepClock();
    await deliver(shell("exit 0"), { clock });
    expect(clock.timers()).toBe(0);
  });
});
