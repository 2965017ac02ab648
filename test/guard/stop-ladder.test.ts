/**
 * The stop ladder over a made-up process table and a step clock.
 */

import { describe, expect, it } from "vitest";
import type { StopReport } from "../../src/core/command.ts";
import type { ProcessIdentity } from "../../src/core/task.ts";
import { orphanedGuards } from "../../src/guard/local-stop.ts";
import { guardOwnerText } from "../../src/guard/marker.ts";
import type { ProcessRow, ProcessTable } from "../../src/guard/process-table.ts";
import { climbStopLadder, type LadderOrder } from "../../src/guard/stop-ladder.ts";
import { createTreeRecord, type TreeRecord } from "../../src/guard/tree-record.ts";
import { freshMark } from "../support/processes.ts";
import { createStepClock, type StepClock } from "../support/step-clock.ts";

const BOOT = "boot-1";
const MARK = freshMark();
const SELF = 50;
const CHILD: ProcessIdentity = { pid: 100, startTime: "1000", bootId: BOOT };

/** What a process does when it is signalled. */
type Nature = "obeys" | "ignores TERM" | "cannot die";
type Actor = ProcessRow & { readonly nature: Nature; readonly command: string; readonly onSignal?: () => void };

function actor(pid: number, fields: Partial<Actor> = {}): Actor {
  const base = { pid, ppid: 1, pgid: pid, sid: pid, startTime: `${pid}0`, zombie: false, mark: null, guardOf: null };
  return { ...base, nature: "obeys", command: `program ${pid}`, ...fields };
}

/** A process table whose processes live and die by signals. */
function createWorld(...actors: readonly Actor[]) {
  const living = new Map(actors.map((one) => [one.pid, one]));
  const signals: string[] = [];
  let failures = 0;
  const world = {
    living,
    signals,
    add: (one: Actor): void => void living.set(one.pid, one),
    failNext(passes: number): void {
      failures = passes;
    },
    table: {
      bootId: BOOT,
      evidence: "marker+tree",
      async pass() {
        if (failures-- > 0) throw new Error("too many open files");
        return [...living.values()];
      },
      identify: async (pid) => ({ pid, startTime: living.get(pid)?.startTime ?? "", bootId: BOOT }),
      commandOf: async (pid) => living.get(pid)?.command ?? "",
      signal(pid, name) {
        const hit = [...living.values()].filter((one) => (pid < 0 ? one.pgid === -pid : one.pid === pid));
        if (hit.length === 0) throw new Error("ESRCH");
        for (const one of hit) {
          signals.push(`${name} ${one.pid}`);
          if (one.nature === "obeys" || (name === "SIGKILL" && one.nature !== "cannot die")) living.delete(one.pid);
          one.onSignal?.();
        }
      },
    } satisfies ProcessTable,
  };
  return world;
}

type World = ReturnType<typeof createWorld>;

function recordOf(root: ProcessIdentity | null): TreeRecord {
  const record = createTreeRecord({ mark: MARK, bootId: BOOT, except: new Set([SELF]) });
  if (root !== null) record.addRoot(root);
  return record;
}

type Run = { readonly report: StopReport; readonly tookMs: number };

async function climb(
  world: World,
  order: Partial<LadderOrder> = {},
  clock: StepClock = createStepClock(),
): Promise<Run> {
  const whole: LadderOrder = {
    record: recordOf(CHILD),
    background: "reap",
    group: null,
    blockers: () => [],
    closeStdin: () => undefined,
    ...order,
  };
  const runs: Run[] = [];
  const climbing = climbStopLadder({ table: world.table, clock }, whole).then((report) => {
    runs.push({ report, tookMs: clock.monotonicMs() });
  });
  for (let step = 0; step < 2_000 && runs.length === 0; step++) await clock.advanceAndSettle(5);
  await climbing;
  return runs[0] ?? expect.fail("the ladder did not end");
}

const child = (fields: Partial<Actor> = {}): Actor =>
  actor(CHILD.pid, { ppid: SELF, startTime: CHILD.startTime, mark: MARK, ...fields });

describe("stop ladder", () => {
  it("says none_started if nothing with the mark was ever there, after two looks", async () => {
    const world = createWorld(actor(7), actor(8, { mark: freshMark() }));
    const { report, tookMs } = await climb(world, { record: recordOf(null) });
    expect(report).toEqual({ kind: "proven", stop: { proof: "none_started", survivors: [], kept: [], by: null } });
    expect(tookMs).toBeLessThan(100);
    expect(world.signals).toEqual([]);
  });

  it("proves an end that already came within 100 ms (P5)", async () => {
    const { report, tookMs } = await climb(createWorld(actor(7)));
    expect(report).toMatchObject({ kind: "proven", stop: { proof: "marker+tree" } });
    expect(tookMs).toBeLessThan(100);
  });

  it("asks every group once, closes standard input, and is done as soon as all obeyed (P12, C2)", async () => {
    const world = createWorld(
      actor(1, { pgid: 0, sid: 0 }),
      actor(SELF, { mark: MARK }),
      child(),
      actor(101, { ppid: 100, pgid: 100, sid: 100, mark: MARK }),
      actor(102, { ppid: 101, mark: MARK }),
      actor(103, { ppid: 1, mark: MARK }),
    );
    let closed = 0;
    const { report, tookMs } = await climb(world, { closeStdin: () => void closed++ });
    expect(report.kind).toBe("proven");
    expect([...world.signals].sort()).toEqual(["SIGTERM 100", "SIGTERM 101", "SIGTERM 102", "SIGTERM 103"]);
    expect(closed).toBe(1);
    expect(tookMs).toBeLessThan(150);
    expect([...world.living.keys()]).toEqual([1, SELF]);
  });

  it("kills what ignores the request after three seconds (P12)", async () => {
    const world = createWorld(child({ nature: "ignores TERM" }));
    const { report, tookMs } = await climb(world);
    expect(report.kind).toBe("proven");
    expect(world.signals).toEqual(["SIGTERM 100", "SIGKILL 100"]);
    expect(tookMs).toBeGreaterThanOrEqual(3_000);
    expect(tookMs).toBeLessThan(3_400);
  });

  it("names what cannot be killed by pid and command, cut and sanitised, after eight seconds (P12, P17)", async () => {
    const command = `evil\u001b[31m\u202e name \u0000${"x".repeat(500)}`;
    const { report, tookMs } = await climb(createWorld(child({ nature: "cannot die", command })));
    if (report.kind !== "survivors") expect.fail(report.kind);
    expect(report.survivors).toHaveLength(1);
    const [survivor] = report.survivors;
    expect(survivor?.pid).toBe(100);
    expect(survivor?.command).toMatch(/^evil name x+…$/);
    expect(survivor?.command).toHaveLength(200);
    expect(tookMs).toBeGreaterThanOrEqual(8_000);
    expect(tookMs).toBeLessThan(8_500);
  });

  it("never shoots a foreign process that got the child's pid, nor its group (C3)", async () => {
    const foreign = actor(CHILD.pid, { startTime: "9999" });
    const world = createWorld(foreign, actor(200, { pgid: CHILD.pid, sid: CHILD.pid, ppid: CHILD.pid }));
    const { report } = await climb(world);
    expect(report.kind).toBe("proven");
    expect(world.signals).toEqual([]);
  });

  it("ignores a recorded process of another boot (C3)", async () => {
    const world = createWorld(child({ mark: null }));
    const { report } = await climb(world, { record: recordOf({ ...CHILD, bootId: "boot-0" }) });
    expect(report).toMatchObject({ kind: "proven", stop: { proof: "marker+tree" } });
    expect(world.signals).toEqual([]);
  });

  it("kills a member that was recorded although the leader is gone and its mark cannot be read (C3, P12)", async () => {
    const member = actor(101, { pgid: 100, sid: 100, ppid: 1, nature: "ignores TERM" });
    const record = recordOf(CHILD);
    record.observe([child(), { ...member, ppid: 100 }]);
    const world = createWorld(member);
    const { report } = await climb(world, { record });
    expect(report.kind).toBe("proven");
    expect(world.signals).toEqual(["SIGTERM 101", "SIGKILL 101"]);
  });

  it("counts an unreadable process below the child as the child's (P12)", async () => {
    const world = createWorld(
      child({ mark: null }),
      actor(101, { ppid: 100 }),
      actor(102, { ppid: 101, nature: "cannot die" }),
    );
    const { report } = await climb(world);
    expect(report).toMatchObject({ kind: "survivors", survivors: [{ pid: 102, command: "program 102" }] });
  });

  it("asks a member again that moved to a group of its own while it was asked (P12)", async () => {
    const world = createWorld();
    const settled = actor(101, { ppid: 100, mark: MARK });
    const moving = {
      ...settled,
      pgid: 100,
      nature: "ignores TERM",
      onSignal: () => world.add(settled),
    } satisfies Actor;
    world.add(child());
    world.add(moving);
    const { report, tookMs } = await climb(world);
    expect(report.kind).toBe("proven");
    expect(world.signals).toEqual(["SIGTERM 100", "SIGTERM 101", "SIGTERM 101"]);
    expect(tookMs).toBeLessThan(200);
  });

  it("keeps looking while processes fork under its hands, until two looks in a row find nobody (P12)", async () => {
    let forks = 0;
    const world = createWorld();
    const fork = (): void => {
      forks++;
      if (forks <= 40) world.add(actor(200 + forks, { mark: MARK, onSignal: fork }));
    };
    world.add(child({ onSignal: fork }));
    const { report } = await climb(world);
    expect(report.kind).toBe("proven");
    expect(forks).toBe(41);
    expect(world.living.size).toBe(0);
  });

  it("does not call a single empty look proof: what shows up before the second is stopped (P5)", async () => {
    const clock = createStepClock();
    const world = createWorld();
    clock.after(30, () => world.add(actor(101, { mark: MARK })));
    const { report } = await climb(world, {}, clock);
    expect(report.kind).toBe("proven");
    expect(world.signals).toEqual(["SIGTERM 101"]);
  });

  it("takes a look that fails for no proof, and says so when it never can look (P5)", async () => {
    const world = createWorld();
    world.failNext(3);
    expect((await climb(world)).report.kind).toBe("proven");
    world.failNext(1_000);
    expect((await climb(world)).report).toEqual({
      kind: "survivors",
      survivors: [{ pid: CHILD.pid, command: "[the process table cannot be read]" }],
    });
  });

  it("lists what an ended child left in the background where it may stay, and lets it live (C4)", async () => {
    const world = createWorld(actor(101, { mark: MARK, command: "server --port 1" }));
    const { report } = await climb(world, { background: "keep" });
    const kept = [{ pid: 101, command: "server --port 1" }];
    expect(report).toEqual({ kind: "proven", stop: { proof: "marker+tree", survivors: [], kept, by: null } });
    expect(world.signals).toEqual([]);
  });

  it("keeps nothing in the background while the child itself runs, or if it is not known (C4, P12)", async () => {
    const running = createWorld(child(), actor(101, { mark: MARK }));
    expect((await climb(running, { background: "keep" })).report).toMatchObject({ stop: { kept: [] } });
    expect(running.living.size).toBe(0);
    const unknown = createWorld(actor(101, { mark: MARK }));
    expect((await climb(unknown, { background: "keep", record: recordOf(null) })).report).toMatchObject({
      stop: { kept: [] },
    });
    expect(unknown.living.size).toBe(0);
  });

  it("proves nothing while an orphaned guard could still start the child, and kills it after the grace (P5, F38)", async () => {
    const daemonId = MARK.slice(0, MARK.indexOf("."));
    const owner = guardOwnerText({ daemonId, daemonPid: 60 });
    const world = createWorld(actor(70, { ppid: 1, guardOf: owner }), actor(71, { ppid: 60, guardOf: owner }));
    const { report, tookMs } = await climb(world, { blockers: (rows) => orphanedGuards(MARK, rows) });
    expect(report.kind).toBe("proven");
    expect(world.signals).toEqual(["SIGKILL 70"]);
    expect(tookMs).toBeGreaterThanOrEqual(3_000);
  });

  it("does not prove while the control group still holds a process that no look shows (P5)", async () => {
    let populated = true;
    const group = {
      populated: () => populated,
      pids: () => [],
      kill: () => void (populated = false),
      remove: () => undefined,
    };
    const { report, tookMs } = await climb(createWorld(), { group });
    expect(report).toMatchObject({ kind: "proven", stop: { proof: "cgroup" } });
    expect(tookMs).toBeGreaterThanOrEqual(3_000);
  });
});

describe("tree record", () => {
  it("finds members of the child's session in the moment in which its end was seen, and not later (C3)", () => {
    const orphan = actor(101, { pgid: 100, sid: 100 });
    const seen = recordOf(CHILD);
    expect(seen.observe([orphan], { justEnded: CHILD })).toEqual([orphan]);
    expect(seen.observe([orphan])).toEqual([orphan]);
    expect(recordOf(CHILD).observe([orphan])).toEqual([]);
  });

  it("takes a zombie for dead and a member's child for a member", () => {
    const record = recordOf(CHILD);
    const zombie = child({ zombie: true });
    const grandchild = actor(102, { ppid: 101 });
    expect(record.observe([zombie, actor(101, { ppid: 100 }), grandchild]).map((row) => row.pid)).toEqual([101, 102]);
    expect(record.observe([zombie])).toEqual([]);
  });
});
