/**
 * Builds verdicts and settlements: how a run ended, and the terminal word once that is proven.
 *
 * Invariant: a settlement's number and news follow the task's own counters, so no path can reuse one.
 */

import type { Actor } from "./caller.ts";
import type { FailureClass, Fault } from "./failure.ts";
import type { Settlement, StopRecord, Task, TextRef, Usage, Verdict } from "./task.ts";

type Parts = Pick<Verdict, "result" | "sideEffects" | "usage">;

const NOTHING: Omit<Verdict, "status"> = {
  class: null,
  evidence: null,
  httpStatus: null,
  stopReason: null,
  retryAtMs: null,
  sideEffects: true,
  contextKept: true,
  continuable: true,
  result: null,
  partial: false,
  usage: null,
  by: null,
};

export function completed(evidence: "explicit" | "assumed", parts: Parts): Verdict {
  return { ...NOTHING, status: "completed", evidence, ...parts };
}

export function cancelled(task: Task, by: Actor): Verdict {
  return { ...NOTHING, status: "cancelled", sideEffects: task.epoch > 0, by };
}

export function failedBy(fault: Fault, parts: Parts, retryAtMs: number | null): Verdict {
  return {
    ...NOTHING,
    status: "failed",
    class: fault.class,
    httpStatus: fault.httpStatus,
    stopReason: fault.stopReason,
    retryAtMs,
    contextKept: fault.class !== "context_lost",
    partial: parts.result !== null,
    ...parts,
  };
}

/** A failure of ours to name, without a fault of the provider: deadline, lost, no_result, input_expired, … */
export function failedAs(failure: FailureClass, change: Partial<Verdict> = {}): Verdict {
  return { ...NOTHING, status: "failed", class: failure, ...change };
}

export function settlementOf(task: Task, verdict: Verdict, stop: StopRecord, nowMs: number): Settlement {
  return {
    number: task.settlements + 1,
    runOrdinal: task.run.ordinal,
    verdict,
    stop,
    atMs: nowMs,
    news: task.news + 1,
  };
}

/** How a task without processes of its own was stopped the last time. */
export function lastStopOf({ lastStop }: Task): StopRecord {
  return lastStop ?? { proof: "none_started", survivors: [], kept: [], by: null };
}

/** What a run leaves behind when it ends without saying anything more. */
export function partsOf(result: TextRef | null, sideEffects: boolean, usage: Usage | null): Parts {
  return { result, sideEffects, usage };
}
