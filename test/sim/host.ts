/**
 * A simulated host: processes with marks, a guard beside each daemon, and what a daemon can do to them.
 *
 * The guard spawns children, passes on what they say, and stops them when its daemon dies or gives no sign of life for two
 * thirds of the lease. It can die itself: its children then run on, heard by nobody, until a daemon reaps them by mark.
 * Invariant: a mark that was asked to stop is not started again by the same daemon, and a guard carries out what reached it
 * before it notices that its daemon is gone, as the real ones do.
 */

import { parseId, type TaskId } from "../../src/core/ids.ts";
import type { Survivor } from "../../src/core/task.ts";
import type { StopReport } from "../../src/core/command.ts";
import type { Child, ChildEnd, Children, SpawnResult, SpawnSpec, StopTarget } from "../../src/ports/children.ts";
import type { Clock } from "../../src/ports/clock.ts";
import type { Random } from "../support/sim-random.ts";
import { type Act, attemptOf, type ChildTemper, type Line, type Plan, planOf } from "./child-script.ts";
import { type Life, sleep } from "./life.ts";
import { createPipe, type Pipe } from "./pipe.ts";
import type { Recorder } from "./recorder.ts";

export type Host = {
  children(life: Life): Children;
  /** The daemon is gone: its guard notices. */
  daemonDied(life: Life): void;
  killGuard(): void;
  /** The child with this mark has its answer. */
  answer(mark: string): void;
  /** Breaks the provider connections of what runs. */
  breakStreams(): void;
  outage: boolean;
  /** From now on nothing hangs, nothing resists, nothing fails. */
  calm(): void;
  readonly running: number;
};

/** What a right host and its adapter do; a mutant leaves one of them out. */
export type HostRules = {
  /** The guard stops children whose daemon gives no sign of life. */
  readonly guardStops: boolean;
  /** A mark that was asked to stop is never started again. */
  readonly remembersStops: boolean;
};

type Process = {
  readonly pid: number;
  readonly mark: Mark;
  readonly path: string;
  readonly access: "read" | "write";
  readonly session: string | null;
  readonly main: boolean;
  /** Signals that it outlives; what is above 0 is lowered by every sweep. */
  sweeps: number;
  readonly pipe: Pipe<Uint8Array> | null;
  readonly ended: PromiseWithResolvers<ChildEnd>;
  guard: Guard | null;
  kept: boolean;
};

type Mark = { readonly text: string; readonly taskId: TaskId; readonly epoch: number };
type Guard = { alive: boolean; beatMs: number; closed: boolean };

const encoder = new TextEncoder();

export function createHost(world: {
  readonly clock: Clock;
  readonly random: Random;
  readonly recorder: Recorder;
  readonly leaseMs: number;
  readonly temper: ChildTemper;
  readonly rules: HostRules;
}): Host {
  const { clock, random, recorder, leaseMs, temper, rules } = world;
  const processes = new Map<number, Process>();
  const plans = new Map<string, Plan>();
  const answers = new Map<string, () => void>();
  const hung = new Set<() => void>();
  const guards = new Map<Life, Guard>();
  const breaks = new Set<Process>();
  let calm = false;
  let lastPid = 100;
  let sessions = 0;

  const host: Host = {
    outage: false,
    children,
    daemonDied,
    killGuard,
    answer: (mark) => answers.get(mark)?.(),
    breakStreams() {
      for (const process of processes.values()) if (process.main && random.chance(0.5)) breaks.add(process);
    },
    calm() {
      calm = true;
      host.outage = false;
      for (const process of processes.values()) process.sweeps = 0;
      for (const plan of plans.values()) plan.faults.length = 0;
      for (const resume of hung) resume();
      for (const resume of answers.values()) resume();
    },
    get running() {
      return processes.size;
    },
  };
  return host;

  function start(
    mark: Mark,
    how: Pick<Process, "path" | "access" | "session" | "main" | "guard">,
    plan: Plan,
  ): Process {
    lastPid += 1;
    const stubborn = !calm && plan.stubborn !== "no" && (how.main || random.chance(0.5));
    const process: Process = {
      ...how,
      pid: lastPid,
      mark,
      sweeps: stubborn ? random.int(1, plan.stubborn === "long" ? 25 : 3) : 0,
      pipe: how.main ? createPipe() : null,
      ended: Promise.withResolvers(),
      kept: false,
    };
    processes.set(process.pid, process);
    record(process, "started");
    return process;
  }

  function record({ pid, mark, access, path, session, main, sweeps }: Process, did: "started" | "ended"): void {
    const { taskId, epoch, text } = mark;
    const stubborn = sweeps > 0;
    recorder.add({ kind: "process", did, pid, mark: text, taskId, epoch, access, path, session, main, stubborn });
  }

  function end(process: Process, how: ChildEnd): void {
    if (!processes.delete(process.pid)) return;
    record(process, "ended");
    process.pipe?.close();
    process.ended.resolve(process.guard?.alive === false ? { kind: "guard_gone" } : how);
  }

  /** Signals everything; resolves with who is left when the ladder is at its end. */
  async function climb(victims: () => readonly Process[], how: ChildEnd): Promise<readonly Process[]> {
    const untilMs = clock.monotonicMs() + 8_000;
    const slowMs = random.chance(0.15) ? 3_000 : 0;
    const asked = new Set<Process>();
    while (victims().length > 0 && clock.monotonicMs() < untilMs) {
      // Whoever shows up during the climb is asked as well.
      for (const process of victims()) {
        if (asked.has(process)) continue;
        asked.add(process);
        if (process.sweeps > 0) process.sweeps -= 1;
        if (process.sweeps === 0) clock.after(random.int(2, 200) + slowMs, () => end(process, how));
      }
      await sleep(clock, 100);
    }
    await sleep(clock, 60);
    return victims();
  }

  function children(life: Life): Children {
    const stopped = new Set<string>();
    let released = false;

    async function spawn(spec: SpawnSpec): Promise<SpawnResult> {
      await life.pass();
      const refusal = (): SpawnResult | null => {
        if (rules.remembersStops && stopped.has(spec.mark)) return failed("MARK_STOPPED");
        return released ? failed("RELEASED") : null;
      };
      const early = refusal();
      if (early !== null) return early;
      const guard = guardOf(life);
      if (guard === null) return failed("GUARD_GONE");
      await sleep(clock, random.int(1, 40));
      // The order is on its way: it is carried out also if the daemon dies now.
      const late = refusal();
      if (late !== null) return late;
      if (!guard.alive) return failed("GUARD_GONE");
      if (!calm && random.chance(0.03)) return failed(random.pick(["EAGAIN", "ENOENT", "EAGAIN"]));
      const child = launch(spec, guard, life);
      await sleep(clock, random.int(0, 20));
      await life.pass();
      return { kind: "started", child };
    }

    function failed(code: string): SpawnResult {
      recorder.count("spawnFailures");
      return { kind: "failed", code, message: code };
    }

    async function stop(target: StopTarget): Promise<StopReport> {
      await life.pass();
      stopped.add(target.mark);
      recorder.count("reaps");
      const known = (): readonly Process[] => [...processes.values()].filter(({ mark }) => mark.text === target.mark);
      const none = known().length === 0;
      const kept = target.background === "keep" ? known().filter((process) => !process.main) : [];
      for (const process of kept) process.kept = true;
      const left = await climb(() => known().filter((process) => !process.kept), {
        kind: "exited",
        code: null,
        signal: "SIGKILL",
      });
      await life.pass();
      if (left.length > 0) {
        recorder.count("survivors");
        return { kind: "survivors", survivors: left.map(survivorOf) };
      }
      const proof = none ? "none_started" : "marker+tree";
      return { kind: "proven", stop: { proof, survivors: [], kept: kept.map(survivorOf), by: null } };
    }

    return {
      spawn,
      stop,
      heartbeat() {
        const guard = guards.get(life);
        if (life.alive && !life.frozen && guard !== undefined) guard.beatMs = clock.monotonicMs();
      },
      async release() {
        released = true;
        await life.pass();
        const guard = guards.get(life);
        if (guard?.alive) await stopAll(guard);
        if (guard !== undefined) guard.alive = false;
      },
      async [Symbol.asyncDispose]() {},
    };
  }

  /** The guard of a life; a dead one is replaced, not always at once. */
  function guardOf(life: Life): Guard | null {
    const known = guards.get(life);
    if (known?.alive) return known;
    if (known !== undefined && !calm && random.chance(0.3)) return null;
    const guard: Guard = { alive: true, beatMs: clock.monotonicMs(), closed: false };
    guards.set(life, guard);
    recorder.add({ kind: "trouble", what: "guard", on: false });
    watch(guard);
    return guard;
  }

  function watch(guard: Guard): void {
    const limitMs = (leaseMs * 2) / 3;
    clock.after(Math.max(50, guard.beatMs + limitMs - clock.monotonicMs()), () => {
      if (!guard.alive || guard.closed) return;
      if (clock.monotonicMs() - guard.beatMs >= limitMs) void stopAll(guard);
      watch(guard);
    });
  }

  async function stopAll(guard: Guard): Promise<void> {
    if (!rules.guardStops) return;
    const own = (): readonly Process[] =>
      [...processes.values()].filter((process) => process.guard === guard && !process.kept);
    if (own().length > 0) recorder.count("guardStops");
    await climb(own, { kind: "stopped_by_guard" });
  }

  function daemonDied(life: Life): void {
    const guard = guards.get(life);
    guards.delete(life);
    if (guard === undefined) return;
    if (!guard.alive) {
      recorder.count("orphans", [...processes.values()].filter((process) => process.guard === guard).length);
      return;
    }
    guard.closed = true;
    clock.after(random.int(45, 90), () => {
      stopAll(guard)
        .finally(() => {
          guard.alive = false;
        })
        .catch(() => undefined);
    });
  }

  function killGuard(): void {
    for (const guard of guards.values()) {
      if (!guard.alive || guard.closed) continue;
      guard.alive = false;
      recorder.count("guardDeaths");
      recorder.add({ kind: "trouble", what: "guard", on: true });
      for (const process of processes.values()) {
        if (process.guard !== guard) continue;
        process.pipe?.close();
        process.ended.resolve({ kind: "guard_gone" });
      }
    }
  }

  function launch(spec: SpawnSpec, guard: Guard, life: Life): Child {
    const mark = readMark(spec.mark);
    const prompt = `${mark.taskId} ${spec.stdin ?? ""}`;
    const plan = plans.get(prompt) ?? planOf(random.fork(prompt), calm ? QUIET : temper);
    plans.set(prompt, plan);
    const session = spec.env["SIM_SESSION"] ?? null;
    const access = spec.env["SIM_ACCESS"] === "write" ? "write" : "read";
    const process = start(mark, { path: spec.cwd, access, session, main: true, guard }, plan);
    sessions += 1;
    recorder.count("spawns");
    const own = session ?? `session-${sessions}`;
    void live(
      process,
      attemptOf(plan, own, random.fork(spec.mark), () => host.outage),
      plan,
    );
    return {
      process: { pid: process.pid, startTime: String(clock.monotonicMs()), bootId: "sim" },
      stdout: process.pipe?.read(() => life.pass()) ?? nothing(),
      stderr: nothing(),
      write: async () => undefined,
      closeStdin: () => undefined,
      ended: process.ended.promise,
    };
  }

  /** Goes through the script while the process lives. */
  async function live(process: Process, script: Iterable<Act>, plan: Plan): Promise<void> {
    for (const act of script) {
      if (!processes.has(process.pid)) return;
      if (breaks.delete(process)) {
        say(process, { say: "end", end: { end: "fault", fault: { transport: true } }, text: null });
        end(process, { kind: "exited", code: 0, signal: null });
        return;
      }
      await perform(process, act, plan);
    }
  }

  async function perform(process: Process, act: Act, plan: Plan): Promise<void> {
    switch (act.do) {
      case "pause":
        await sleep(clock, act.ms);
        return;
      case "say":
        say(process, act.line);
        return;
      case "ask":
        if (calm) return;
        say(process, { say: "ask", optionIds: ["allow", "reject"] });
        await new Promise<void>((resolve) => answers.set(process.mark.text, resolve));
        answers.delete(process.mark.text);
        return;
      case "hang":
        if (calm) return;
        await new Promise<void>((resolve) => hung.add(resolve));
        return;
      case "helper": {
        const { path, access, guard } = process;
        const helper = start(process.mark, { path, access, session: null, main: false, guard }, plan);
        // Most background processes run until somebody stops them; some end.
        if (random.chance(0.3)) {
          clock.after(random.int(1_000, 60_000), () => end(helper, { kind: "exited", code: 0, signal: null }));
        }
        return;
      }
      case "exit":
        end(process, { kind: "exited", code: act.code, signal: null });
        return;
    }
  }

  function say(process: Process, line: Line): void {
    if (processes.has(process.pid)) process.pipe?.put(encoder.encode(`${JSON.stringify(line)}\n`));
  }
}

const QUIET: ChildTemper = { faulty: 0, asking: 0, stubborn: 0, hanging: 0, leaving: 0 };

function survivorOf({ pid, mark, main }: Process): Survivor {
  return { pid, command: `${main ? "child" : "helper"} of ${mark.text}` };
}

/** `<daemonId>.<taskId>.a<epoch>`. */
function readMark(text: string): Mark {
  const [, taskText = "", attempt = ""] = text.split(".");
  const parsed = parseId(taskText);
  if (parsed.kind !== "task") throw new Error(`not a mark: ${text}`);
  return { text, taskId: parsed.taskId, epoch: Number(attempt.slice(1)) };
}

async function* nothing(): AsyncGenerator<Uint8Array> {}
