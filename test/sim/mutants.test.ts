/**
 * Proof that the simulator bites: every mutant is found by a rule that it breaks.
 *
 * The normal run looks at a few seeds from the one on that was last measured to find it. `SIM_MUTANTS=500` searches from
 * seed 1 and prints the first seed that finds each.
 */

import { readFileSync } from "node:fs";
import path from "node:path";
import { afterEach, describe, expect, it, vi } from "vitest";
import type { Command } from "../../src/core/command.ts";
import { SWITCHES, switches } from "./mutant-switches.ts";
import { type Mutant, MUTANTS } from "./mutants.ts";
import { runWorld } from "./world.ts";

vi.mock(import("../../src/engine/receipts.ts"), async (original) => {
  const right = await original();
  const { switches: wrong } = await import("./mutant-switches.ts");
  return {
    ...right,
    keyOf: (caller, ...rest) => {
      const name = wrong.keyPerConversation ? `${caller.name} in ${caller.conversation ?? "none"}` : caller.name;
      return right.keyOf({ ...caller, name }, ...rest);
    },
  };
});

vi.mock(import("../../src/engine/waiter-hub.ts"), async (original) => {
  const right = await original();
  const { switches: wrong } = await import("./mutant-switches.ts");
  return {
    ...right,
    createWaiterHub: (clock) => {
      const hub = right.createWaiterHub(clock);
      let wakes = 0;
      return {
        subscribe: hub.subscribe,
        close: hub.close,
        get size() {
          return hub.size;
        },
        wake(taskId) {
          wakes += 1;
          if (!wrong.lostWakes || wakes % 3 !== 0) hub.wake(taskId);
        },
      };
    },
  };
});

vi.mock(import("../../src/core/verdict.ts"), async (original) => {
  const right = await original();
  const { switches: wrong } = await import("./mutant-switches.ts");
  return {
    ...right,
    settlementOf: (task, ...rest) => {
      const settlement = right.settlementOf(task, ...rest);
      return wrong.settlementReused ? { ...settlement, number: Math.max(1, task.settlements) } : settlement;
    },
  };
});

vi.mock(import("../../src/core/decide.ts"), async (original) => {
  const right = await original();
  const { switches: wrong } = await import("./mutant-switches.ts");
  return {
    ...right,
    decide: (task, command, nowMs) => {
      const late: Command =
        wrong.noEpochFence && task !== null && "epoch" in command ? { ...command, epoch: task.epoch } : command;
      return right.decide(task, late, nowMs);
    },
  };
});

vi.mock(import("../../src/engine/attempt-runner.ts"), async (original) => {
  const right = await original();
  const { switches: wrong } = await import("./mutant-switches.ts");
  return {
    ...right,
    createAttemptRunner: (world) => {
      const runner = right.createAttemptRunner(world);
      return { ...runner, finished: async (...of) => (wrong.neverHangsUp ? undefined : runner.finished(...of)) };
    },
  };
});

vi.mock(import("../../src/engine/machine-sleep.ts"), async (original) => {
  const right = await original();
  const { switches: wrong } = await import("./mutant-switches.ts");
  return {
    ...right,
    createMachineSleep: (world) => {
      const sleeps = right.createMachineSleep(world);
      return { start: sleeps.start, noticed: async () => (wrong.sleepForgotten ? undefined : sleeps.noticed()) };
    },
  };
});

/** Seeds that the normal run tries, from a little before the recorded one on; it stops at the first that finds the mutant. */
const TRIED = 40;
const BEFORE = 3;
/** Mutants that are found later than this are searched for on demand only; a test of their own holds them in every run. */
const LATE = 50;
const SEARCHED = Number(process.env["SIM_MUTANTS"] ?? "0");

afterEach(() => {
  for (const name of SWITCHES) switches[name] = false;
});

describe("the simulator finds what breaks a promise (P2, P3, P4, P5, P6, P8, P9, P10, P12, P14)", () => {
  const wanted = MUTANTS.filter(({ firstSeed }) => SEARCHED > 0 || firstSeed <= LATE);

  it.for(wanted)("$name: $says", { timeout: 600_000 }, async (mutant) => {
    const from = SEARCHED > 0 ? 1 : Math.max(1, mutant.firstSeed - BEFORE);
    const found = await firstSeedOf(mutant, from, SEARCHED > 0 ? SEARCHED : TRIED);
    if (SEARCHED > 0) process.stdout.write(`${mutant.name}: ${found?.seed ?? "not found"} ${found?.says ?? ""}\n`);
    expect(found).not.toBeNull();
  });

  it("leaves no rare mutant to chance: a test of its own cites the promise", () => {
    for (const { heldBy, firstSeed, promises } of MUTANTS) {
      if (firstSeed <= LATE) continue;
      const test = readFileSync(path.join(import.meta.dirname, "../..", heldBy ?? "no test is named"), "utf8");
      expect(promises.filter((promise) => !test.includes(promise))).toEqual([]);
    }
  });
});

async function firstSeedOf(
  mutant: Mutant,
  from: number,
  count: number,
): Promise<{ readonly seed: number; readonly says: string } | null> {
  for (const name of mutant.switches) switches[name] = true;
  for (let seed = from; seed < from + count; seed += 1) {
    const { violations } = await runWorld(seed, mutant.mutation);
    const found = violations.find(({ rule }) => mutant.rules.includes(rule));
    if (found !== undefined) return { seed, says: `${found.rule}: ${found.says}` };
  }
  return null;
}
