/**
 * A real guard and real children: relay, limits, failed starts, and the guard's own end.
 */

import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createGuardClient } from "../../src/guard/guard-client.ts";
import { createGuardClock } from "../../src/guard/guard-clock.ts";
import {
  agentCommand,
  contents,
  createRecordedLog,
  createTestChildren,
  eventually,
  freshMark,
  isAlive,
  processesMarked,
  readAll,
  shell,
  startTimeOf,
  type TestChildren,
} from "../support/processes.ts";

const MIB = 1024 * 1024;

describe("a child under the guard", () => {
  let children: TestChildren;
  beforeAll(() => {
    process.env["DELEGATE_TEST_SECRET"] = "hunter2";
    children = createTestChildren({ groups: "off" });
  });
  afterAll(async () => {
    delete process.env["DELEGATE_TEST_SECRET"];
    await children[Symbol.asyncDispose]();
  });

  it("gets its standard input, closed after it, and gives output, errors and exit status (G2)", async () => {
    const child = await children.start(shell("cat; echo problem >&2; exit 3"), { stdin: "in\nput" });
    expect(await Promise.all([readAll(child.stdout), readAll(child.stderr)])).toEqual(["in\nput", "problem\n"]);
    expect(await child.ended).toEqual({ kind: "exited", code: 3, signal: null });
    expect(child.process).toMatchObject({ bootId: contents("/proc/sys/kernel/random/boot_id").trim() });
  });

  it("is named by a start time that tells it from a later process with its pid (C3)", async () => {
    const child = await children.start(shell("read line"), { stdin: null });
    expect(child.process.startTime).toBe(startTimeOf(child.process.pid));
    child.closeStdin();
    await child.ended;
  });

  it("tells the signal that ended it", async () => {
    const child = await children.start(shell("kill -9 $$"));
    expect(await child.ended).toEqual({ kind: "exited", code: null, signal: "SIGKILL" });
  });

  it("has exactly the environment of its order and its mark, and no file of the guard's but its three streams (P18)", async () => {
    const env = { PATH: "/usr/bin:/bin", A: "1", DELEGATE_CHILD_MARK: "forged" };
    const child = await children.start(shell("env; ls -l /proc/self/fd"), { env });
    const lines = (await readAll(child.stdout)).trim().split("\n");
    const variables = lines.filter((line) => /^\w+=/.test(line) && !/^(PWD|SHLVL|_|OLDPWD)=/.test(line));
    expect(variables.toSorted()).toEqual(["A=1", `DELEGATE_CHILD_MARK=${child.mark}`, "PATH=/usr/bin:/bin"]);
    const sockets = lines.filter((line) => line.includes("-> socket:")).map((line) => / (\d+) ->/.exec(line)?.[1]);
    expect(sockets).toEqual(["0", "1", "2"]);
  });

  it("finds none of the daemon's secrets in the guard's environment", () => {
    const environment = contents(`/proc/${children.guardPid()}/environ`);
    expect(environment).toContain("DELEGATE_GUARD_OF=");
    expect(environment).not.toContain("hunter2");
    expect(environment).not.toContain("DELEGATE_CHILD_MARK");
  });

  it("is heard byte for byte when it writes one byte at a time (S3)", async () => {
    const text = "日本語 \u{1f469}\u200d\u{1f680} é \u2028 end\n";
    const child = await children.start(agentCommand([{ printSlowly: text }]));
    expect(await readAll(child.stdout)).toBe(text);
  });

  it("is given 8 MiB and gives them back, faster than either side could hold them", async () => {
    const child = await children.start(["/bin/cat"], { stdin: null });
    const text = "0123456789abcdef".repeat((8 * MIB) / 16);
    const written = child.write(text).then(() => child.closeStdin());
    const echoed = await readAll(child.stdout);
    await written;
    expect(echoed === text).toBe(true);
  });

  it("is not waited for when it does not read what it is given", async () => {
    const child = await children.start(shell("exit 0"), { stdin: "x".repeat(4 * MIB) });
    expect(await child.ended).toMatchObject({ kind: "exited", code: 0 });
    await child.write("more");
  });

  it("waits itself when nobody reads: endless output fills neither guard nor daemon, nor delays others (P15)", async () => {
    const rss = (): number =>
      Number(/VmRSS:\s+(\d+)/.exec(contents(`/proc/${children.guardPid()}/status`))?.[1]) / 1024;
    const before = { guardMib: rss(), daemonMib: process.memoryUsage().rss / MIB };
    const flooding = await children.start(agentCommand([{ flood: "endless " }]));
    await standsStill(flooding.process.pid);
    const other = await children.start(shell("echo fine"));
    expect(await readAll(other.stdout)).toBe("fine\n");
    let bytes = 0;
    for await (const chunk of flooding.stdout) {
      bytes += chunk.length;
      if (bytes > 32 * MIB) break;
    }
    expect(rss() - before.guardMib).toBeLessThan(64);
    expect(process.memoryUsage().rss / MIB - before.daemonMib).toBeLessThan(128);
    const { mark, process: identity } = flooding;
    expect(await children.stop({ mark, process: identity, background: "reap" })).toMatchObject({ kind: "proven" });
  });

  it("is read on and thrown away once its reader stopped, so that it can come to its end", async () => {
    const child = await children.start(agentCommand([{ printBytes: 2 * MIB }, { exit: 9 }]));
    for await (const _ of child.stdout) break;
    expect(await child.ended).toMatchObject({ code: 9 });
  });

  it.each([
    ["ENOENT", { command: ["/nowhere/agent"] as const }],
    ["EACCES", { command: ["/etc/passwd"] as const }],
    ["WORKSPACE", { command: ["/bin/true"] as const, cwd: join(tmpdir(), `no-such-folder-${process.pid}`) }],
    ["ERR_INVALID_ARG_VALUE", { command: ["/bin/true", "a\0b"] as const }],
  ])("that cannot be started says %s within a second, and nothing runs (G5)", async (code, spec) => {
    const startedMs = performance.now();
    const mark = freshMark();
    const result = await children.spawn({ mark, cwd: tmpdir(), env: {}, stdin: "", ...spec });
    expect(result).toMatchObject({ kind: "failed", code });
    expect(performance.now() - startedMs).toBeLessThan(1_000);
    const report = await children.stop({ mark, process: null, background: "reap" });
    expect(report).toMatchObject({ stop: { proof: "none_started" } });
  });

  it("is not started any more once its mark was stopped, so a cancel in the middle of a start holds (P12)", async () => {
    const mark = freshMark();
    const spec = { mark, command: shell("sleep 600"), cwd: tmpdir(), env: {}, stdin: "" };
    const late = children.spawn(spec);
    const report = await children.stop({ mark, process: null, background: "reap" });
    expect(report.kind).toBe("proven");
    await late;
    expect(await children.spawn(spec)).toMatchObject({ kind: "failed", code: "MARK_STOPPED" });
    expect(processesMarked(mark)).toEqual([]);
  });
});

describe("the guard's end", () => {
  it("is noticed at once: children end as guard_gone, and are stopped without it before the next one starts (F38)", async () => {
    await using children = createTestChildren({ groups: "off" });
    const child = await children.start(shell("trap '' HUP PIPE; setsid sleep 600 & sleep 600"));
    await eventually("the session of its own", () => processesMarked(child.mark).length === 3);
    const startedMs = performance.now();
    process.kill(children.guardPid(), "SIGKILL");
    expect(await child.ended).toEqual({ kind: "guard_gone" });
    expect(await readAll(child.stdout)).toBe("");
    expect(performance.now() - startedMs).toBeLessThan(1_000);
    expect(processesMarked(child.mark)).toHaveLength(3);

    const report = await children.stop({ mark: child.mark, process: child.process, background: "reap" });
    expect(report).toMatchObject({ kind: "proven", stop: { proof: "marker+tree", survivors: [] } });
    expect(processesMarked(child.mark)).toEqual([]);
    const first = children.guardPid();
    const next = await children.start(shell("echo again"));
    expect(await readAll(next.stdout)).toBe("again\n");
    expect(children.guardPid()).not.toBe(first);
  });

  it("by a program that is no guard is a failed start, not a hang (G5)", async () => {
    const log = createRecordedLog();
    const clock = createGuardClock();
    await using children = createGuardClient({ daemonId: "none", leaseMs: 1_000, clock, log, execPath: "/bin/true" });
    const spec = { mark: freshMark("none"), command: shell("true"), cwd: tmpdir(), env: {}, stdin: "" };
    expect(await children.spawn(spec)).toMatchObject({ kind: "failed", code: "GUARD_GONE" });
    const report = await children.stop({ mark: spec.mark, process: null, background: "reap" });
    expect(report).toMatchObject({ stop: { proof: "none_started" } });
  });

  it("comes with a release, which stops the children and refuses new ones (P12)", async () => {
    const children = createTestChildren({ groups: "off" });
    const child = await children.start(shell("sleep 600"));
    const guard = children.guardPid();
    await children.release("stop");
    expect(await child.ended).toEqual({ kind: "stopped_by_guard" });
    expect(processesMarked(child.mark)).toEqual([]);
    const spec = { mark: freshMark(), command: shell("true"), cwd: tmpdir(), env: {}, stdin: "" };
    expect(await children.spawn(spec)).toMatchObject({ kind: "failed", code: "RELEASED" });
    await children[Symbol.asyncDispose]();
    await eventually("the guard has ended", () => !isAlive(guard));
  });

  it("comes after a hand-over at which the daemon need not wait: the guard stops a stubborn child by itself (P12)", async () => {
    await using children = createTestChildren({ groups: "off" });
    const child = await children.start(shell("trap '' TERM; echo ready; while :; do sleep 1; done"));
    for await (const _ of child.stdout) break;
    const startedMs = performance.now();
    await children.release("hand_over");
    expect(performance.now() - startedMs).toBeLessThan(1_000);
    expect(processesMarked(child.mark)).not.toEqual([]);
    await eventually("the guard has ended", () => !isAlive(children.guardPid()), 10_000);
    expect(processesMarked(child.mark)).toEqual([]);
    expect(await child.ended).toEqual({ kind: "stopped_by_guard" });
  });

  it("comes with SIGTERM only after it stopped its children (P12)", async () => {
    await using children = createTestChildren({ groups: "off" });
    const child = await children.start(shell("sleep 600"));
    process.kill(children.guardPid(), "SIGTERM");
    expect(await child.ended).toEqual({ kind: "stopped_by_guard" });
    await eventually("the guard has ended", () => !isAlive(children.guardPid()));
    expect(processesMarked(child.mark)).toEqual([]);
  });

  it("is brought about by the daemon when it does not answer: a frozen guard protects nobody (F38)", async () => {
    await using children = createTestChildren({ groups: "off", leaseMs: 600, beatMs: 50 });
    const child = await children.start(shell("sleep 600"));
    process.kill(children.guardPid(), "SIGSTOP");
    expect(await child.ended).toEqual({ kind: "guard_gone" });
    const report = await children.stop({ mark: child.mark, process: child.process, background: "reap" });
    expect(report).toMatchObject({ kind: "proven" });
    expect(processesMarked(child.mark)).toEqual([]);
  });
});

/** Waits until a process that writes without end writes no more. */
async function standsStill(pid: number): Promise<void> {
  let last = { bytes: -1, sinceMs: 0 };
  await eventually("the flood stands still", () => {
    const bytes = Number(/wchar: (\d+)/.exec(contents(`/proc/${pid}/io`))?.[1]);
    if (bytes !== last.bytes) last = { bytes, sinceMs: performance.now() };
    return bytes > 256 * 1024 && performance.now() - last.sinceMs > 150;
  });
}
