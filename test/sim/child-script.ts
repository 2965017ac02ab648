/**
 * What a simulated child does: one conversation per task and message, with the faults that it will meet and its end.
 *
 * Invariant: drawn from the task and the message alone, so that the same work goes the same way however often it is tried.
 */

import type { FaultEvidence } from "../../src/core/failure.ts";
import type { DriverEnd } from "../../src/ports/driver.ts";
import type { Random } from "../support/sim-random.ts";

/** One line that a child writes to its standard output. */
export type Line =
  | { readonly say: "bound"; readonly session: string }
  | { readonly say: "progress"; readonly steps: number; readonly tool: boolean }
  | { readonly say: "ask"; readonly optionIds: readonly string[] }
  | { readonly say: "end"; readonly end: DriverEnd; readonly text: string | null };

export type Act =
  | { readonly do: "pause"; readonly ms: number }
  | { readonly do: "say"; readonly line: Line }
  /** Waits until somebody answers. */
  | { readonly do: "ask" }
  /** Does nothing until the world rests. */
  | { readonly do: "hang" }
  /** Starts a process that outlives it. */
  | { readonly do: "helper" }
  | { readonly do: "exit"; readonly code: number };

export type Plan = {
  /** Faults that are still to come before it can end; each attempt meets the first. */
  readonly faults: FaultEvidence[];
  readonly steps: number;
  readonly gapMs: number;
  readonly end: Ending;
  readonly asks: boolean;
  readonly quietMs: number;
  readonly helpers: number;
  readonly stubborn: "no" | "a_while" | "long";
  readonly result: string;
};

type Ending = "explicit" | "assumed" | "empty" | "definitive" | "unknown" | "exit" | "lost" | "hang" | "chatter";

export type ChildTemper = {
  readonly faulty: number;
  readonly asking: number;
  readonly stubborn: number;
  readonly hanging: number;
  readonly leaving: number;
};

const PASSING: readonly FaultEvidence[] = [
  { httpStatus: 403, text: "<!doctype html><title>Attention Required! | Cloudflare</title>" },
  { httpStatus: 529, providerKind: "overloaded_error" },
  { transport: true },
  { httpStatus: 503 },
  { httpStatus: 429, retryAfterMs: 20_000 },
  { rerun: true },
];
const DEFINITIVE: readonly FaultEvidence[] = [
  { httpStatus: 401, text: "invalid x-api-key" },
  { httpStatus: 400 },
  { httpStatus: 402 },
  { stopReason: "refusal" },
  { stopReason: "max_turns" },
];
const USAGE_LIMIT: FaultEvidence = { httpStatus: 429, retryAfterMs: 11 * 60_000 };
const UNKNOWN: FaultEvidence = { text: "something odd" };
const OUTAGE: FaultEvidence = PASSING[0] ?? { transport: true };

export function planOf(random: Random, temper: ChildTemper): Plan {
  const faults: FaultEvidence[] = [];
  while (faults.length < 8 && random.chance(temper.faulty)) {
    faults.push(
      random.weighted<FaultEvidence>([
        [12, random.pick(PASSING)],
        [1, USAGE_LIMIT],
        [1, UNKNOWN],
      ]),
    );
  }
  return {
    faults,
    steps: random.int(0, 6),
    gapMs: random.weighted([
      [5, random.int(100, 3_000)],
      [3, random.int(3_000, 15_000)],
      [1, 40_000],
    ]),
    end: random.weighted<Ending>([
      [10, "explicit"],
      [5, "assumed"],
      [1, "empty"],
      [1, "definitive"],
      [0.5, "unknown"],
      [0.7, "exit"],
      [0.5, "lost"],
      [temper.hanging, "hang"],
      [0.5, "chatter"],
    ]),
    asks: random.chance(temper.asking),
    quietMs: random.chance(0.1) ? random.int(20_000, 120_000) : 0,
    helpers: random.chance(temper.leaving) ? random.int(1, 2) : 0,
    stubborn: random.chance(temper.stubborn) ? random.pick(["a_while", "long"]) : "no",
    result: `result ${random.int(1, 1_000_000_000)} ${"x".repeat(random.chance(0.1) ? 7_000 : random.int(1, 40))}`,
  };
}

/** One attempt. `outage`: the provider is down. Takes the fault that it meets out of the plan. */
export function* attemptOf(plan: Plan, session: string, random: Random, outage: () => boolean): Generator<Act, void> {
  yield { do: "pause", ms: random.int(5, 400) };
  yield { do: "say", line: { say: "bound", session } };
  if (outage()) return yield* faultWith(OUTAGE, plan, random);
  const fault = plan.faults.shift();
  const steps = fault === undefined ? plan.steps : random.int(0, plan.steps);
  for (let step = 0; step < steps; step += 1) {
    yield { do: "pause", ms: plan.gapMs };
    yield { do: "say", line: { say: "progress", steps: 1, tool: random.chance(0.3) } };
    if (outage()) return yield* faultWith(OUTAGE, plan, random);
  }
  for (let helper = 0; helper < plan.helpers; helper += 1) yield { do: "helper" };
  if (fault !== undefined) return yield* faultWith(fault, plan, random);
  if (plan.quietMs > 0) yield { do: "pause", ms: plan.quietMs };
  if (plan.asks) {
    yield { do: "ask" };
    yield { do: "pause", ms: random.int(10, 2_000) };
  }
  yield* endOf(plan, random);
}

function* faultWith(fault: FaultEvidence, plan: Plan, random: Random): Generator<Act, void> {
  const text = random.chance(0.3) ? plan.result.slice(0, 5) : null;
  yield { do: "say", line: { say: "end", end: { end: "fault", fault }, text } };
  yield* leave(random);
}

function* endOf(plan: Plan, random: Random): Generator<Act, void> {
  const { result } = plan;
  const say = (end: DriverEnd, text: string | null): Act => ({ do: "say", line: { say: "end", end, text } });
  switch (plan.end) {
    case "explicit":
    case "assumed":
      yield say({ end: "success", evidence: plan.end }, result);
      break;
    case "empty":
      yield say({ end: "success", evidence: "explicit" }, null);
      break;
    case "definitive":
      yield say({ end: "fault", fault: random.pick(DEFINITIVE) }, null);
      break;
    case "unknown":
      yield say({ end: "fault", fault: UNKNOWN }, result);
      break;
    case "lost":
      yield say({ end: "lost" }, null);
      break;
    case "chatter":
      yield say({ end: "success", evidence: "explicit" }, result);
      yield say({ end: "fault", fault: UNKNOWN }, null);
      yield { do: "say", line: { say: "progress", steps: 1, tool: false } };
      break;
    case "hang":
      yield { do: "hang" };
      yield say({ end: "success", evidence: "explicit" }, result);
      break;
    case "exit":
      yield { do: "exit", code: 1 };
      return;
  }
  yield* leave(random);
}

/** Most programs end after their last word, some linger. */
function* leave(random: Random): Generator<Act, void> {
  if (random.chance(0.2)) yield { do: "pause", ms: random.int(100, 20_000) };
  if (random.chance(0.05)) yield { do: "hang" };
  yield { do: "exit", code: 0 };
}
