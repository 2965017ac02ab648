/**
 * What goes wrong in a world, and when: every world has a temper of its own, drawn from its seed.
 */

import type { Random } from "../support/sim-random.ts";
import type { ChildTemper } from "./child-script.ts";
import type { ClientTemper } from "./clients.ts";

export const MISHAPS = [
  "crash",
  "crash_at_point",
  "freeze",
  "sleep",
  "set_clock",
  "kill_guard",
  "storage",
  "slow_storage",
  "drain",
  "outage",
] as const;
export type Mishap = (typeof MISHAPS)[number];

export type Temper = {
  readonly stormMs: number;
  /** Longest time between two mishaps. */
  readonly mishapEveryMs: number;
  readonly mishaps: readonly (readonly [number, Mishap])[];
  readonly lossy: number;
  readonly unruly: number;
  readonly child: ChildTemper;
  readonly client: ClientTemper;
  readonly answering: number;
  /** How often children delegate in their turn. */
  readonly delegating: number;
  readonly settings: TemperSettings;
};

export type TemperSettings = {
  readonly slots: number;
  readonly depthMax: number;
  readonly tasksPerTreeMax: number;
  readonly waitsMax: number;
  readonly queueMax: number;
  readonly delegationsPerMinute: number;
  readonly patienceMs: number;
  readonly backoffMaxMs: number;
  readonly lossesMax: number;
  readonly stallAfterMs: number;
  readonly questionDeadlineMs: number;
  readonly maxActiveMs: number;
};

const MINUTE_MS = 60_000;

export function temperOf(random: Random): Temper {
  return {
    stormMs: random.int(2, 8) * MINUTE_MS,
    mishapEveryMs: random.pick([8_000, 20_000, 40_000, 120_000]),
    mishaps: MISHAPS.map((mishap) => [random.pick([0, 0.5, 1, 1, 3]), mishap]),
    lossy: random.pick([0, 0.1, 0.3]),
    unruly: random.pick([0, 0.1, 0.4]),
    child: {
      faulty: random.pick([0, 0.3, 0.6]),
      asking: random.pick([0, 0.2, 0.5]),
      stubborn: random.pick([0, 0, 0.1, 0.4]),
      hanging: random.pick([0, 0.3, 1]),
      leaving: random.pick([0, 0.1, 0.4]),
    },
    client: {
      thinkMs: random.pick([3_000, 10_000, 30_000]),
      worksMax: random.int(2, 5),
      waitMs: random.pick([5_000, 30_000, 60_000]),
      cancels: random.pick([0, 0.3, 1]),
      continues: random.pick([0, 0.5, 1.5]),
      busy: random.pick([0, 0.3, 1]),
    },
    answering: random.pick([0, 0.3, 0.8]),
    settings: {
      slots: random.int(1, 4),
      waitsMax: random.weighted([
        [5, 1_000],
        [1, 2],
      ]),
      queueMax: random.weighted([
        [5, 100],
        [1, 1],
      ]),
      delegationsPerMinute: random.weighted([
        [5, 60],
        [1, 3],
      ]),
      patienceMs: random.int(2, 8) * MINUTE_MS,
      backoffMaxMs: random.pick([10_000, 20_000]),
      lossesMax: random.pick([3, 8]),
      stallAfterMs: random.pick([30_000, 60_000]),
      questionDeadlineMs: random.int(20, 180) * 1_000,
      maxActiveMs: random.int(3, 12) * MINUTE_MS,
      depthMax: random.pick([1, 2, 3]),
      tasksPerTreeMax: random.pick([50, 3]),
    },
    delegating: random.pick([0, 0.3, 0.8]),
  };
}
