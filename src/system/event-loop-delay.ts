/**
 * How late the event loop comes to what is due: the first sign that something blocks it.
 *
 * Invariant: never keeps the process alive by itself.
 */

import { monitorEventLoopDelay } from "node:perf_hooks";

/** Since the last look at it. */
export type EventLoopDelay = { readonly meanMs: number; readonly p99Ms: number; readonly maxMs: number };

export type EventLoopWatch = Disposable & { take(): EventLoopDelay };

const RESOLUTION_MS = 20;
const NANOSECONDS_IN_MS = 1_000_000;

export function watchEventLoop(): EventLoopWatch {
  const histogram = monitorEventLoopDelay({ resolution: RESOLUTION_MS });
  histogram.enable();
  return {
    take() {
      const { mean, max } = histogram;
      const delay = { meanMs: lateMs(mean), p99Ms: lateMs(histogram.percentile(99)), maxMs: lateMs(max) };
      histogram.reset();
      return delay;
    },
    [Symbol.dispose]: () => void histogram.disable(),
  };
}

/** What is recorded is the time between two looks, of which the resolution is no delay; without looks it is no number. */
function lateMs(betweenNs: number): number {
  return Math.max(0, (betweenNs || 0) / NANOSECONDS_IN_MS - RESOLUTION_MS);
}
