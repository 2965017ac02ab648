/**
 * When to try again after a passing fault.
 *
 * Invariant: deterministic: the jitter comes from the attempt id, so a replayed history schedules the same moments.
 * Absent on purpose: a limit on the number of tries. Passing faults are bounded by patience alone.
 */

import type { AttemptId } from "./ids.ts";
import { LIMITS } from "./limits.ts";

/** Milliseconds to wait after fault number `fault` (1, 2, …) of a series: exponential, 50–100 % of it, at most `backoffMaxMs`, at least what the provider asked for. */
export function backoffMs(
  attemptId: AttemptId,
  fault: number,
  backoffMaxMs: number,
  retryAfterMs: number | null,
): number {
  const exponent = Math.min(fault - 1, 30);
  const full = Math.min(backoffMaxMs, LIMITS.backoffFirstMs * 2 ** exponent);
  const jittered = Math.round(full * (0.5 + 0.5 * fraction(attemptId)));
  return Math.max(jittered, retryAfterMs ?? 0);
}

/** A number in [0, 1) that depends on the text alone (FNV-1a). */
function fraction(text: string): number {
  let hash = 0x811c9dc5;
  for (let index = 0; index < text.length; index += 1) {
    hash = Math.imul(hash ^ text.charCodeAt(index), 0x01000193) >>> 0;
  }
  return hash / 0x1_0000_0000;
}
