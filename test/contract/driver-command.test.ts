/**
 * Driver `command` over a real guard with real programs.
 */

import { readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createCommandDriver } from "../../src/drivers/command/command-driver.ts";
import { PROGRESS_GAP_MS } from "../../src/drivers/progress-gate.ts";
import { createGuardClock } from "../../src/guard/guard-clock.ts";
import type { AttemptOrder, DriverEvent } from "../../src/ports/driver.ts";
import {
  AGENT_COMMAND,
  createRecordedLog,
  createTestChildren,
  processesMarked,
  shell,
  type TestChildren,
} from "../support/processes.ts";
import { createScriptedChild } from "../support/scripted-child.ts";
import { createStepClock } from "../support/step-clock.ts";
import { createOrder, createScratch, describeDriver, recordRun, type Scratch } from "./driver-promises.ts";

const driver = createCommandDriver();
const clock = createGuardClock();
const log = createRecordedLog();

let children: TestChildren;
let scratch: Scratch;

beforeAll(() => {
  children = createTestChildren({ groups: "off" });
  scratch = createScratch();
});
afterAll(async () => {
  scratch[Symbol.dispose]();
  await children[Symbol.asyncDispose]();
});

function orderOf(command: AttemptOrder["command"], fields: Partial<AttemptOrder> = {}): AttemptOrder {
  return createOrder({ command, scratchDir: scratch.path, ...fields });
}

async function runToEnd(order: AttemptOrder): Promise<DriverEvent> {
  const last = await recordRun({ driver, tools: { children, clock, log } }, order).done;
  return last ?? expect.fail("nothing was reported");
}

describeDriver("command", () => ({
  driver,
  tools: { children, clock, log },
  order: (kind) =>
    orderOf({ success: shell("echo one; echo two"), fault: shell("exit 3"), hang: shell("sleep 600") }[kind]),
}));

describe("the task", () => {
  const nasty = `-n "quotes" 'and' $VARIABLES\n\\back\`ticks\`\r\n日本語 \u{1f680}\u2028\t`;
  const long = nasty.repeat(Math.ceil(200_000 / nasty.length));

  it("of 200 kB with quotes, newlines, a leading dash and CJK is equal at the program, on standard input (S4, G2)", async () => {
    expect(await runToEnd(orderOf(["/bin/cat"], { prompt: `${long}.` }))).toMatchObject({
      end: "success",
      evidence: "assumed",
      text: `${long}.`,
    });
  });

  it("is equal in a file that only the owner can read, with standard input closed, where the operator wants a file (S4, G2)", async () => {
    const line = 'cat - "$DELEGATE_CHILD_TASK_FILE"; stat -c " %a" "$DELEGATE_CHILD_TASK_FILE"';
    const end = await runToEnd(orderOf(shell(line), { prompt: `${long}.`, promptBy: "file" }));
    expect(end).toMatchObject({ end: "success", text: `${long}. 600` });
  });

  it("never stands in the program's arguments or variables", async () => {
    const secret = "the task itself";
    const order = orderOf(shell('tr "\\0" "\\n" < /proc/$$/environ; cat /proc/$$/cmdline'), { prompt: secret });
    expect(await runToEnd(order)).toMatchObject({ end: "success", text: expect.not.stringContaining(secret) });
  });

  it("of a continuation comes with its history, in a file that only the owner can read", async () => {
    const history = [
      { message: "first 日本", result: "done\n" },
      { message: "second", result: null },
    ];
    const order = orderOf([...AGENT_COMMAND], { prompt: '[{"echo": "history"}]', history });
    const end = await runToEnd(order);
    if (end.kind !== "end") expect.fail(end.kind);
    expect(JSON.parse(end.text ?? "")).toEqual({ task: "first 日本", turns: history });
    const path = join(scratch.path, "history.json");
    expect(statSync(path).mode & 0o777).toBe(0o600);
    expect(JSON.parse(readFileSync(path, "utf8"))).toEqual({ task: "first 日本", turns: history });
  });

  it("that cannot be written is a failed start with the system's code (G5)", async () => {
    const order = orderOf(shell("echo never"), { promptBy: "file", scratchDir: "/nowhere/at/all" });
    expect(await runToEnd(order)).toMatchObject({ end: "fault", fault: { spawnCode: "ENOENT" }, sideEffects: false });
    expect(processesMarked(order.mark)).toEqual([]);
  });
});

describe("the end", () => {
  it.each([
    [
      "output and status 0 is success, assumed, without the last line ends",
      "printf 'a\\n\\nb\\r\\n\\n'",
      { end: "success", text: "a\n\nb" },
    ],
    ["status 0 without output is empty, not success", "exit 0", { end: "fault", fault: { empty: true }, text: null }],
    [
      "status 0 with white space alone is empty",
      "printf ' \\n\\t\\n'",
      { end: "fault", fault: { empty: true }, text: null },
    ],
    ["status 75 asks to be run again", "echo half; exit 75", { end: "fault", fault: { rerun: true }, text: "half" }],
    [
      "another status is a fault with the end of standard error",
      "echo part; echo why >&2; exit 3",
      { end: "fault", fault: { exit: { code: 3, signal: null }, text: "why" }, text: "part" },
    ],
    ["a signal is a fault", "kill -9 $$", { end: "fault", fault: { exit: { code: null, signal: "SIGKILL" } } }],
  ])("of a program: %s (P13)", async (_, line, expected) => {
    expect(await runToEnd(orderOf(shell(line)))).toMatchObject({ kind: "end", ...expected });
  });

  it("of a program that is not there says so within a second (G5)", async () => {
    const startedMs = performance.now();
    const end = await runToEnd(orderOf(["/nowhere/agent"]));
    expect(end).toMatchObject({ end: "fault", fault: { spawnCode: "ENOENT" }, sideEffects: false });
    expect(performance.now() - startedMs).toBeLessThan(1_000);
  });

  it("with a fault has standard error as a note in the conversation; a good one has none", async () => {
    const failing = recordRun({ driver, tools: { children, clock, log } }, orderOf(shell("echo why >&2; exit 3")));
    await failing.done;
    expect(failing.events).toContainEqual({ kind: "message", role: "note", text: "why" });
    const good = recordRun({ driver, tools: { children, clock, log } }, orderOf(shell("echo noise >&2; echo ok")));
    await good.done;
    expect(good.events.filter(({ kind }) => kind === "message")).toEqual([]);
  });

  it("holds at most 2,000 characters of standard error, its last ones", async () => {
    const end = await runToEnd(orderOf(shell("yes é | head -c 99999 >&2; printf last >&2; exit 1")));
    if (end.kind !== "end" || end.end !== "fault") expect.fail("no fault");
    expect(end.fault.text).toHaveLength(2_000);
    expect(end.fault.text).toMatch(/é\nlast$/);
  });

  it("keeps head and tail of an answer that is too long, with a marked gap (P15)", async () => {
    const order = orderOf(shell("printf head; head -c 3000000 /dev/zero | tr '\\0' x; printf tail"), {
      resultBytesMax: 10_000,
    });
    const end = await runToEnd(order);
    if (end.kind !== "end" || end.text === null) expect.fail("no text");
    expect(end.text).toMatch(/^headx+\n… 2990008 bytes left out …\nx+tail$/);
    expect(end.text.length).toBeLessThan(10_100);
  });

  it("of an answer written one byte at a time is equal byte for byte (S3)", async () => {
    const text = '{"k": "日本語 \u{1f469}\u200d\u{1f680}"}';
    const end = await runToEnd(orderOf([...AGENT_COMMAND], { prompt: JSON.stringify([{ printSlowly: text }]) }));
    expect(end).toMatchObject({ end: "success", text });
  });

  it("does not wait for a background process that holds the output open (C4)", async () => {
    const order = orderOf(shell("setsid sleep 600 & echo done"));
    const startedMs = performance.now();
    expect(await runToEnd(order)).toMatchObject({ end: "success", text: "done" });
    expect(performance.now() - startedMs).toBeLessThan(2_000);
    await children.stop({ mark: order.mark, process: null, background: "reap" });
    expect(processesMarked(order.mark)).toEqual([]);
  });

  it("is lost when the guard is killed, with what there was of the answer (F38)", async () => {
    await using mortal = createTestChildren({ groups: "off" });
    const order = orderOf(shell("echo so far; sleep 600"));
    const run = recordRun({ driver, tools: { children: mortal, clock, log } }, order);
    await run.reported("progress");
    process.kill(mortal.guardPid(), "SIGKILL");
    expect(await run.done).toMatchObject({ end: "lost", text: "so far" });
    await mortal.stop({ mark: order.mark, process: null, background: "reap" });
    expect(processesMarked(order.mark)).toEqual([]);
  });

  it("says that files may have changed only of a program that ran and may write", async () => {
    const reading = createOrder({ command: shell("echo x"), scratchDir: scratch.path }, { access: "read" });
    expect(await runToEnd(reading)).toMatchObject({ sideEffects: false });
    expect(await runToEnd(orderOf(shell("exit 1")))).toMatchObject({ sideEffects: true });
  });
});

describe("the environment", () => {
  it("is exactly that of the order, the mark and our variables (P18)", async () => {
    const order = orderOf(["/usr/bin/env"], { env: { ONE: "1" }, promptBy: "file" });
    const end = await runToEnd(order);
    if (end.kind !== "end") expect.fail(end.kind);
    expect(end.text?.split("\n").toSorted()).toEqual([
      `DELEGATE_CHILD_MARK=${order.mark}`,
      `DELEGATE_CHILD_TASK_FILE=${join(scratch.path, "task.txt")}`,
      "ONE=1",
    ]);
  });
});

describe("progress", () => {
  it("is said at most once in a quarter of a second, and no line is lost (P15)", async () => {
    const steps = createStepClock();
    const child = createScriptedChild();
    const run = recordRun({ driver, tools: { children: child.children, clock: steps, log } }, orderOf(["/bin/x"]));
    const progress = (): readonly number[] =>
      run.events.flatMap((event) => (event.kind === "progress" ? [event.steps] : []));
    await run.reported("bound");
    child.stdout.push("one\n");
    await run.reported("progress");
    for (let chunk = 0; chunk < 100; chunk++) child.stdout.push("more\n");
    child.stderr.push("noise\n");
    await steps.advanceAndSettle(PROGRESS_GAP_MS - 1);
    expect(progress()).toEqual([1]);
    await steps.advanceAndSettle(1);
    child.stderr.push("noise\n");
    await steps.advanceAndSettle(0);
    expect(progress()).toEqual([1, 100]);
    child.stdout.push("last\n");
    child.end({ kind: "exited", code: 0, signal: null });
    await steps.advanceAndSettle(0);
    expect(await run.done).toMatchObject({ kind: "end", end: "success" });
    expect(progress()).toEqual([1, 100, 1]);
  });

  it("is lost with a child that the guard stopped (F38)", async () => {
    const child = createScriptedChild();
    const run = recordRun({ driver, tools: { children: child.children, clock, log } }, orderOf(["/bin/x"]));
    child.end({ kind: "stopped_by_guard" });
    expect(await run.done).toMatchObject({ kind: "end", end: "lost" });
  });
});
