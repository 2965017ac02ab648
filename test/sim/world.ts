/**
 * One simulated world: the real engine, a host, clients and mishaps, all out of one seed, in a time of its own.
 *
 * First a storm, in which everything goes wrong that can; then calm, in which everything must come to its end; then rest,
 * in which nothing may be held any more. The history of all three goes to the checker.
 * Invariant: the same seed gives the same history, byte for byte. Time moves only when nothing is left to do at a moment:
 * one turn of the event loop empties the queue of promises, and the simulated parts wait for nothing else.
 */

import type { Caller } from "../../src/core/caller.ts";
import { createExecutor } from "../../src/engine/execute.ts";
import { noFaults } from "../../src/system/no-faults.ts";
import { checkHistory, type Violation } from "../support/history-check.ts";
import type { History } from "../support/history.ts";
import { createRandom, createSimIds } from "../support/sim-random.ts";
import { createStepClock } from "../support/step-clock.ts";
import { type Mishap, temperOf } from "./chaos.ts";
import { type ClientWorld, type Desk, listAtRest, runClient } from "./clients.ts";
import { createDaemons, LEASE_MS, type Mutation } from "./daemon.ts";
import { createHost } from "./host.ts";
import { sleep } from "./life.ts";
import { createNet } from "./net.ts";
import { type Counts, createRecorder } from "./recorder.ts";
import { createSimStore } from "./sim-store.ts";

export type Outcome = {
  readonly seed: number;
  readonly history: History;
  readonly violations: readonly Violation[];
  readonly counts: Counts;
};

/** Running time that the calm may take: longer than any pause, patience or deadline of a world together. */
const CALM_MS = 60 * 60_000;
/** Turns of the event loop; a world that needs more runs in circles. */
const TURNS_MAX = 300_000;
/** How late an answer may be: store and network delays of a quiet world, added up. */
const ANSWER_WITHIN_MS = 1_500;

export async function runWorld(seed: number, mutation: Mutation = {}): Promise<Outcome> {
  const random = createRandom(seed);
  const temper = temperOf(random.fork("temper"));
  const clock = createStepClock();
  const recorder = createRecorder(clock, {
    format: "delegate-mcp-history",
    version: 1,
    source: "simulator",
    seed: String(seed),
    leaseMs: LEASE_MS,
    slots: temper.settings.slots,
    answerWithinMs: ANSWER_WITHIN_MS,
  });
  const ids = createSimIds(random.fork("ids"), clock.wallMs);
  const store = createSimStore({ clock, random: random.fork("store"), recorder });
  const rules = { guardStops: true, remembersStops: true, ...mutation.host };
  const host = createHost({
    clock,
    random: random.fork("host"),
    recorder,
    leaseMs: LEASE_MS,
    temper: temper.child,
    rules,
  });
  const daemons = createDaemons({
    clock,
    random: random.fork("daemons"),
    recorder,
    store,
    host,
    ids,
    temper,
    mutation,
  });
  const net = createNet({
    clock,
    random: random.fork("net"),
    recorder,
    serving: () => daemons.serving,
    lossy: temper.lossy,
  });
  let stormy = true;

  const desks: readonly Desk[] = ["ada", "bob"].map((name) => ({ name, works: [], continued: [], views: new Map() }));
  const clients = desks.flatMap((desk) =>
    (["caller", "caller", "person"] as const).map((kind, index): ClientWorld => {
      const name = `${desk.name}-${kind}-${index}`;
      const conversation = kind === "person" ? null : `${desk.name}-window-${index}`;
      const caller: Caller = { name: desk.name, scopes: ["read", "delegate"], kind, conversation };
      const others = desks.filter((other) => other !== desk);
      return {
        clock,
        random: random.fork(name),
        recorder,
        net,
        desk,
        name,
        caller,
        others,
        temper: temper.client,
        stormy: () => stormy,
      };
    }),
  );

  /** Lets time pass until it holds; false if it did not within `limitMs`. */
  async function until(holds: () => boolean | Promise<boolean>, limitMs: number): Promise<boolean> {
    const untilMs = clock.monotonicMs() + limitMs;
    for (let look = 0; clock.monotonicMs() <= untilMs; look += 1) {
      if (await holds()) return true;
      const stepMs = clock.nextInMs();
      if (stepMs === null) return false;
      clock.advance(stepMs);
      await new Promise<void>((resolve) => setImmediate(resolve));
      turns += 1;
      if (turns > TURNS_MAX) throw new Error(`seed ${seed}: the world runs in circles`);
    }
    return false;
  }
  let turns = 0;

  const happening = new Set<Mishap>();

  /** One of a kind at a time. */
  async function begin(which: Mishap): Promise<void> {
    if (happening.has(which)) return;
    happening.add(which);
    await mishap(which);
    happening.delete(which);
  }

  async function mishap(which: Mishap): Promise<void> {
    const own = random.fork(`mishap ${clock.monotonicMs()}`);
    const serving = daemons.serving;
    switch (which) {
      case "crash":
        serving?.life.kill();
        return;
      case "crash_at_point":
        serving?.life.killAfter(own.int(1, 60));
        return;
      case "freeze": {
        if (serving === null || serving.life.draining) return;
        const { life } = serving;
        if (!life.alive) return;
        recorder.count("freezes");
        recorder.add({ kind: "daemon", did: "froze", life: life.number });
        life.freeze();
        await sleep(
          clock,
          own.weighted([
            [2, own.int(500, 15_000)],
            [3, own.int(15_000, 90_000)],
          ]),
        );
        if (own.chance(0.2)) life.kill();
        if (!life.alive) return;
        recorder.add({ kind: "daemon", did: "thawed", life: life.number });
        life.thaw();
        return;
      }
      case "sleep": {
        const gapMs = own.weighted([
          [2, own.int(11_000, 600_000)],
          [2, own.int(1, 10) * 3_600_000],
          [1, own.int(1, 3) * 86_400_000],
        ]);
        recorder.count("sleeps");
        recorder.add({ kind: "slept", gapMs });
        clock.sleepMachine(gapMs);
        host.breakStreams();
        return;
      }
      case "set_clock":
        clock.setWall(clock.wallMs() + own.int(-2_000, 2_000));
        return;
      case "kill_guard":
        host.killGuard();
        return;
      case "storage":
        await breakStorage(own.pick(["full", "full", "gone", "doubt"]), own.int(500, 30_000));
        return;
      case "slow_storage":
        recorder.add({ kind: "trouble", what: "slow_storage", on: true });
        store.slowMs = own.int(200, 3_000);
        await sleep(clock, own.int(2_000, 30_000));
        store.slowMs = 0;
        await sleep(clock, 4_000);
        recorder.add({ kind: "trouble", what: "slow_storage", on: false });
        return;
      case "drain":
        await daemons.drain(own.pick(["stop", "hand_over"]));
        return;
      case "outage":
        host.outage = true;
        recorder.add({ kind: "trouble", what: "provider", on: true });
        await sleep(clock, own.int(5_000, temper.settings.patienceMs * 1.5));
        host.outage = false;
        recorder.add({ kind: "trouble", what: "provider", on: false });
        return;
    }
  }

  async function breakStorage(trouble: "full" | "gone" | "doubt", forMs: number): Promise<void> {
    const what = trouble === "doubt" ? "doubtful_storage" : "storage";
    recorder.count("storageFailures");
    recorder.add({ kind: "trouble", what, on: true });
    store.trouble = trouble;
    await sleep(clock, forMs);
    store.trouble = "none";
    recorder.add({ kind: "trouble", what, on: false });
  }

  async function goWrong(): Promise<void> {
    const own = random.fork("mishaps");
    while (stormy) {
      await sleep(clock, own.int(100, temper.mishapEveryMs));
      if (stormy) void begin(own.weighted([[0.01, "crash"], ...temper.mishaps]));
    }
  }

  /** A person who answers some of the children's questions, beside the engine, which has no verb for it yet. */
  async function answerQuestions(): Promise<void> {
    const own = random.fork("answers");
    while (stormy) {
      await sleep(clock, own.int(5_000, 40_000));
      const serving = daemons.serving;
      if (serving === null || !own.chance(temper.answering)) continue;
      const waiting = (await store.truth.unfinished()).filter(({ state }) => state.kind === "awaiting_answer");
      const [task] = waiting;
      if (task?.state.kind !== "awaiting_answer" || !serving.life.alive) continue;
      const { attempt, question } = task.state;
      const executor = createExecutor({ store: serving.store, clock, faults: noFaults }, () => undefined);
      const by = { kind: "person", name: "pat" } as const;
      const { questionId } = question;
      const command = { kind: "AnswerInput", questionId, choice: own.pick(question.optionIds), by } as const;
      const executed = await executor.execute(task.handle.taskId, command).catch(() => null);
      if (executed?.decision.kind === "accepted") host.answer(attempt.mark);
    }
  }

  const background = [daemons.keepRunning(), goWrong(), answerQuestions(), ...clients.map(runClient)];
  const broken: string[] = [];
  for (const work of background) work.catch((error: unknown) => broken.push(String(error)));

  await until(() => false, temper.stormMs);
  stormy = false;
  net.calm = true;
  await until(() => store.trouble === "none" && store.slowMs === 0, 60_000);
  daemons.calm();
  host.calm();
  await until(async () => (daemons.serving?.life.alive ?? false) && !daemons.serving?.life.frozen, 180_000);
  await until(async () => net.open === 0 && (await store.truth.unfinished()).length === 0, CALM_MS);
  await until(() => false, 1_000);
  for (const client of clients) {
    if (client.caller.kind !== "person") continue;
    for (let look = 0; look < 6; look += 1) {
      let done = false;
      void listAtRest(client).finally(() => {
        done = true;
      });
      await until(() => done, 60_000);
    }
  }
  const last = daemons.serving;
  const waiting = last?.engine.waiting ?? 0;
  daemons.stopRestarting();
  let timers: number | null = null;
  void daemons.drain("stop").then((left) => {
    timers = left;
  });
  await until(() => timers !== null, 60_000);
  for (const task of (await store.truth.list({ ...EVERYTHING })).tasks) recorder.add({ kind: "snapshot", task });
  recorder.add({ kind: "rest", waiting, timers: timers ?? 0 });

  const history: History = { header: recorder.header, entries: recorder.entries };
  countOutcomes(recorder);
  recorder.count("steps", turns);
  const violations = [...checkHistory(history)];
  for (const says of broken) {
    violations.push({ rule: "world", promises: [], index: history.entries.length - 1, says });
  }
  return { seed, history, violations, counts: recorder.counts };
}

const EVERYTHING = {
  caller: null,
  open: false,
  unread: false,
  conversation: null,
  status: null,
  parentTaskId: null,
  idPrefix: null,
  limit: 1_000,
  before: null,
} as const;

function countOutcomes(recorder: ReturnType<typeof createRecorder>): void {
  for (const entry of recorder.entries) {
    if (entry.kind !== "event") continue;
    switch (entry.event.kind) {
      case "TaskAccepted":
        recorder.count("tasks");
        break;
      case "AttemptFailed":
        recorder.count("faults");
        break;
      case "RetryScheduled":
        if (entry.event.reason === "healing") recorder.count("healed");
        break;
      case "AttemptLost":
        recorder.count("losses");
        break;
      case "StallBegan":
        recorder.count("stalls");
        break;
      case "InputRequested":
        recorder.count("questions");
        break;
      case "InputAnswered":
        recorder.count("answered");
        break;
      case "InputExpired":
        recorder.count("expired");
        break;
      case "TaskReopened":
        recorder.count("reopened");
        break;
      case "SurvivorsFound":
        recorder.count("named");
        break;
      case "TaskSettled": {
        const { verdict, stop } = entry.event.settlement;
        recorder.count(verdict.status);
        if (stop.proof === "abandoned") recorder.count("abandoned");
        recorder.count("kept", stop.kept.length);
        break;
      }
      default:
        break;
    }
  }
}
