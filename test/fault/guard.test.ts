/**
 * A daemon that dies or freezes while its child writes, and one that comes after it: never two writers at once.
 *
 * All children append lines with their own word to one file; afterwards the file shows whether one wrote after the next had begun.
 */

import { type ChildProcess, spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";
import type { Mark } from "../../src/core/ids.ts";
import {
  contents,
  createTestChildren,
  createTestFolder,
  eventually,
  freshMark,
  isAlive,
  processesMarked,
  shell,
} from "../support/processes.ts";

const DAEMON = fileURLToPath(new URL("../support/guard-daemon.ts", import.meta.url));
const LEASE_MS = 1_500;

type Told = Readonly<Record<string, unknown>>;
type Daemon = AsyncDisposable & {
  readonly pid: number;
  /** The first thing told under this name. */
  told(event: string): Promise<Told>;
  order(spawn: { readonly mark: Mark; readonly command: readonly string[] }): void;
  signal(signal: "SIGKILL" | "SIGSTOP" | "SIGCONT"): void;
};

type DaemonOptions = {
  readonly reap?: Mark;
  readonly spawn?: { readonly mark: Mark; readonly command: readonly string[] };
};

function startDaemon({ reap, spawn: first }: DaemonOptions): Daemon {
  const options = { daemonId: "fault", leaseMs: LEASE_MS, beatMs: 50, reap: reap ?? null, spawn: first ?? null };
  const daemon: ChildProcess = spawn(process.execPath, [DAEMON, JSON.stringify(options)], {
    stdio: ["pipe", "pipe", "inherit"],
  });
  const pid = daemon.pid ?? expect.fail("the daemon did not start");
  const all: Told[] = [];
  if (daemon.stdout !== null)
    createInterface({ input: daemon.stdout }).on("line", (line) => all.push(JSON.parse(line)));
  return {
    pid,
    told: (event) => eventually(`${event} is told`, () => all.find((told) => told["event"] === event), 15_000),
    order: (order) => void daemon.stdin?.write(`${JSON.stringify(order)}\n`),
    signal: (signal) => void daemon.kill(signal),
    async [Symbol.asyncDispose]() {
      daemon.kill("SIGCONT");
      daemon.stdin?.end();
      await eventually("the daemon has ended", () => daemon.exitCode !== null || daemon.signalCode !== null, 15_000);
    },
  };
}

/** Writes a word again and again, and starts a second writer of it in a session of its own. */
function writer(file: string, word: "first" | "second", nature = "obedient"): readonly [string, ...string[]] {
  const loop = `${nature === "stubborn" ? "trap '' TERM; " : ""}while :; do echo ${word} >> ${file}; sleep 0.02; done`;
  return shell(`setsid sh -c "${loop}" & ${loop}`);
}

async function untilWritten(file: string, word: "first" | "second"): Promise<void> {
  await eventually(`${word} writes`, () => contents(file).split(`${word}\n`).length > 5, 15_000);
}

/** Nobody wrote once the next had begun. */
function expectNoOverlap(file: string): void {
  expect(contents(file)).toMatch(/^(first\n)+(second\n)+$/);
}

describe("a daemon that is killed while its child writes", () => {
  it("leaves no child: the guard stops it and ends itself (F38, P12)", async () => {
    using folder = createTestFolder();
    const file = folder.file("writes");
    const mark = freshMark("fault");
    await using daemon = startDaemon({ spawn: { mark, command: writer(file, "first") } });
    const guard = Number((await daemon.told("guard"))["pid"]);
    await untilWritten(file, "first");
    daemon.signal("SIGKILL");
    await eventually("the child and its grandchild are gone", () => processesMarked(mark).length === 0, 10_000);
    await eventually("the guard is gone", () => !isAlive(guard), 5_000);
    const written = contents(file);
    expect(written).toMatch(/^(first\n)+$/);
    expect(processesMarked(mark)).toEqual([]);
  });

  it("is followed by one that reaps before it starts: never two writers (F38, P14)", async () => {
    using folder = createTestFolder();
    const file = folder.file("writes");
    const [first, second] = [freshMark("fault"), freshMark("fault")];
    await using killed = startDaemon({ spawn: { mark: first, command: writer(file, "first") } });
    await untilWritten(file, "first");
    killed.signal("SIGKILL");
    await using next = startDaemon({ reap: first, spawn: { mark: second, command: writer(file, "second") } });
    expect(await next.told("reaped")).toMatchObject({ kind: "proven" });
    expect(processesMarked(first)).toEqual([]);
    await untilWritten(file, "second");
    expectNoOverlap(file);
  });

  it("together with its guard leaves its child to the next one, which reaps it by its mark (F38, P14)", async () => {
    using folder = createTestFolder();
    const file = folder.file("writes");
    const [first, second] = [freshMark("fault"), freshMark("fault")];
    await using killed = startDaemon({ spawn: { mark: first, command: writer(file, "first") } });
    const guard = Number((await killed.told("guard"))["pid"]);
    await untilWritten(file, "first");
    process.kill(guard, "SIGKILL");
    killed.signal("SIGKILL");
    expect(processesMarked(first)).not.toEqual([]);
    await using next = startDaemon({ reap: first, spawn: { mark: second, command: writer(file, "second") } });
    expect(await next.told("reaped")).toMatchObject({
      kind: "proven",
      proof: expect.stringMatching(/^(cgroup|marker\+tree)$/),
    });
    await untilWritten(file, "second");
    expectNoOverlap(file);
  });

  it("and whose guard is frozen is followed by one that does not start before that guard is gone too (F38, P5)", async () => {
    const [first, second] = [freshMark("fault"), freshMark("fault")];
    await using killed = startDaemon({ spawn: { mark: first, command: shell("sleep 600") } });
    const guard = Number((await killed.told("guard"))["pid"]);
    await killed.told("started");
    process.kill(guard, "SIGSTOP");
    killed.signal("SIGKILL");
    await using next = startDaemon({ reap: first, spawn: { mark: second, command: shell("sleep 600") } });
    expect(await next.told("reaped")).toMatchObject({ kind: "proven" });
    expect(isAlive(guard)).toBe(false);
    expect(processesMarked(first)).toEqual([]);
    await next.told("started");
  });
});

describe("a daemon that is frozen while its child writes", () => {
  it("has its child stopped within the lease, is told so when it thaws, and can start anew (F38)", async () => {
    using folder = createTestFolder();
    const file = folder.file("writes");
    const [first, second] = [freshMark("fault"), freshMark("fault")];
    await using daemon = startDaemon({ spawn: { mark: first, command: writer(file, "first") } });
    await untilWritten(file, "first");
    daemon.signal("SIGSTOP");
    const frozenMs = performance.now();
    await eventually("the child is gone", () => processesMarked(first).length === 0, 10_000);
    expect(performance.now() - frozenMs).toBeLessThan(LEASE_MS + 1_000);
    daemon.signal("SIGCONT");
    expect(await daemon.told("ended")).toMatchObject({ kind: "stopped_by_guard" });
    daemon.order({ mark: second, command: shell("sleep 600") });
    await eventually("a new child runs", () => processesMarked(second).length > 0, 10_000);
  });

  it("is not outlived by a stubborn writer; the next daemon reaps before it starts (F38, P10)", async () => {
    using folder = createTestFolder();
    const file = folder.file("writes");
    const [first, second] = [freshMark("fault"), freshMark("fault")];
    await using frozen = startDaemon({ spawn: { mark: first, command: writer(file, "first", "stubborn") } });
    await untilWritten(file, "first");
    frozen.signal("SIGSTOP");
    await using _next = startDaemon({ reap: first, spawn: { mark: second, command: writer(file, "second") } });
    await untilWritten(file, "second");
    expectNoOverlap(file);
    frozen.signal("SIGCONT");
    expect((await frozen.told("ended"))["kind"]).toMatch(/^(stopped_by_guard|exited)$/);
  });
});

describe("a guard that is killed while its child writes", () => {
  it("is missed at once, and its child is reaped before the next one starts: never two writers (F38)", async () => {
    using folder = createTestFolder();
    const file = folder.file("writes");
    await using children = createTestChildren();
    const child = await children.start(writer(file, "first"));
    await untilWritten(file, "first");
    process.kill(children.guardPid(), "SIGKILL");
    expect(await child.ended).toEqual({ kind: "guard_gone" });
    const report = await children.stop({ mark: child.mark, process: child.process, background: "reap" });
    expect(report).toMatchObject({ kind: "proven" });
    await children.start(writer(file, "second"));
    await untilWritten(file, "second");
    expectNoOverlap(file);
  });
});
