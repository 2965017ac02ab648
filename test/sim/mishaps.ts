/**
 * Makes things go wrong in a world, and lets them pass again.
 *
 * Invariant: one mishap of a kind at a time; what a mishap breaks it also mends, so that a calm world is whole.
 */

import type { Random } from "../support/sim-random.ts";
import type { StepClock } from "../support/step-clock.ts";
import type { Mishap, Temper } from "./chaos.ts";
import type { Daemons } from "./daemon.ts";
import type { Host } from "./host.ts";
import { sleep } from "./life.ts";
import type { Recorder } from "./recorder.ts";
import type { SimStore } from "./sim-store.ts";

export type MishapWorld = {
  readonly clock: StepClock;
  readonly random: Random;
  readonly recorder: Recorder;
  readonly store: SimStore;
  readonly host: Host;
  readonly daemons: Daemons;
  readonly temper: Temper;
};

/** Begins a mishap; nothing happens if one of its kind is under way. */
export function createMishaps(world: MishapWorld): (which: Mishap) => Promise<void> {
  const { clock, random, recorder, store, host, daemons, temper } = world;
  const happening = new Set<Mishap>();

  async function happen(which: Mishap, own: Random): Promise<void> {
    switch (which) {
      case "crash":
        daemons.serving?.life.kill();
        return;
      case "crash_at_point":
        daemons.serving?.life.killAfter(own.int(1, 60));
        return;
      case "freeze":
        return freeze(own);
      case "sleep":
        return sleepMachine(own);
      case "set_clock":
        clock.setWall(clock.wallMs() + own.int(-2_000, 2_000));
        return;
      case "kill_guard":
        host.killGuard();
        return;
      case "storage":
        return breakStorage(own.pick(["full", "full", "gone", "doubt"]), own.int(500, 30_000));
      case "slow_storage":
        return slowStorage(own);
      case "drain":
        await daemons.drain(own.pick(["stop", "hand_over"]));
        return;
      case "outage":
        return breakProvider(own.int(5_000, temper.settings.patienceMs * 1.5));
    }
  }

  async function freeze(own: Random): Promise<void> {
    const life = daemons.serving?.life;
    if (!life?.alive || life.draining) return;
    recorder.count("freezes");
    recorder.add({ kind: "daemon", did: "froze", life: life.number });
    life.freeze();
    const [short, long] = [own.int(500, 15_000), own.int(15_000, 90_000)];
    await sleep(clock, own.chance(0.4) ? short : long);
    if (own.chance(0.2)) life.kill();
    if (!life.alive) return;
    recorder.add({ kind: "daemon", did: "thawed", life: life.number });
    life.thaw();
  }

  async function sleepMachine(own: Random): Promise<void> {
    const [nap, night, days] = [own.int(11_000, 600_000), own.int(1, 10) * 3_600_000, own.int(1, 3) * 86_400_000];
    const gapMs = own.weighted<number>([
      [2, nap],
      [2, night],
      [1, days],
    ]);
    recorder.count("sleeps");
    recorder.add({ kind: "slept", gapMs });
    clock.sleepMachine(gapMs);
    host.breakStreams();
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

  async function slowStorage(own: Random): Promise<void> {
    recorder.add({ kind: "trouble", what: "slow_storage", on: true });
    store.slowMs = own.int(200, 3_000);
    await sleep(clock, own.int(2_000, 30_000));
    store.slowMs = 0;
    // What began slowly may still be under way.
    await sleep(clock, 4_000);
    recorder.add({ kind: "trouble", what: "slow_storage", on: false });
  }

  async function breakProvider(forMs: number): Promise<void> {
    host.outage = true;
    recorder.add({ kind: "trouble", what: "provider", on: true });
    await sleep(clock, forMs);
    host.outage = false;
    recorder.add({ kind: "trouble", what: "provider", on: false });
  }

  return async (which) => {
    if (happening.has(which)) return;
    happening.add(which);
    await happen(which, random.fork(`${which} ${clock.monotonicMs()}`));
    happening.delete(which);
  };
}
