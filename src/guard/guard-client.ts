/**
 * The daemon's way to its children: through the guard while there is one, by mark without it.
 *
 * Invariant: a mark that was asked to stop is never started again, so a spawn that was under way when its task was cancelled
 * starts nothing.
 * Invariant: no call waits for a guard without a bound, and none fails because the guard died but a spawn, which says so.
 * Absent on purpose: keeping children for a returning daemon. Until then `hand_over` stops them too, without the daemon.
 */

import type { StopReport } from "../core/command.ts";
import type { Mark } from "../core/ids.ts";
import type { Children, SpawnResult, SpawnSpec } from "../ports/children.ts";
import type { Clock } from "../ports/clock.ts";
import type { Log } from "../ports/log.ts";
import { type GuardLink, startGuard } from "./guard-link.ts";
import { createLocalStop } from "./local-stop.ts";

export type GuardClientOptions = {
  /** First part of every mark that this daemon gives out. */
  readonly daemonId: string;
  readonly leaseMs: number;
  readonly clock: Clock;
  readonly log: Log;
  /** Program that runs the guard: Node 22.19 or newer. Default: the one that runs this. */
  readonly execPath?: string;
  /** `auto` (default): control groups where a trial works. `off`: never. */
  readonly groups?: "auto" | "off";
};

/** Marks that were stopped, remembered to refuse a late spawn. */
const STOPPED_MARKS_MAX = 10_000;

/**
 * The guard starts with the first spawn, and again with the next one after it died. From then on `heartbeat` has to be called
 * at least every third of `leaseMs`: after two thirds without one the guard stops the children.
 *
 * `spawn` fails with the system's code, `WORKSPACE` (no working directory), `GUARD_GONE` (no guard could be had, or it died in
 * the middle), `MARK_STOPPED` (the mark was stopped before) or `RELEASED`.
 */
export function createGuardClient(options: GuardClientOptions): Children {
  const { execPath = process.execPath, groups = "auto" } = options;
  const useGroups = groups === "auto";
  const stopLocally = createLocalStop({ clock: options.clock, useGroups });
  const stopped = createRecentSet<Mark>(STOPPED_MARKS_MAX);
  let link: GuardLink | null = null;
  let starting: Promise<GuardLink | null> | null = null;
  let released = false;

  const living = (): GuardLink | null => (link === null || link.isGone() ? null : link);
  const ensureGuard = async (): Promise<GuardLink | null> => {
    const guard = living();
    if (guard !== null) return guard;
    starting ??= startGuard({ ...options, execPath, useGroups }).then((started) => {
      starting = null;
      link = started;
      return started;
    });
    return starting;
  };
  const refusal = (mark: Mark): SpawnResult | null => {
    if (stopped.has(mark)) return failed("MARK_STOPPED", "this attempt was stopped before it started");
    return released ? failed("RELEASED", "the daemon is shutting down") : null;
  };

  const spawn = async (spec: SpawnSpec): Promise<SpawnResult> => {
    const early = refusal(spec.mark);
    if (early !== null) return early;
    const guard = await ensureGuard();
    if (guard === null) return failed("GUARD_GONE", "no guard process could be started");
    return refusal(spec.mark) ?? guard.spawn(spec);
  };
  const stop = async (target: Parameters<Children["stop"]>[0]): Promise<StopReport> => {
    stopped.add(target.mark);
    return (await living()?.stop(target)) ?? stopLocally(target);
  };
  const release = async (mode: "stop" | "hand_over"): Promise<void> => {
    released = true;
    await starting;
    await living()?.release(mode);
  };

  return {
    spawn,
    stop,
    heartbeat: () => living()?.beat(),
    release,
    async [Symbol.asyncDispose]() {
      await release("stop");
      await link?.gone;
    },
  };
}

function failed(code: string, message: string): SpawnResult {
  return { kind: "failed", code, message };
}

type RecentSet<Item> = { has(item: Item): boolean; add(item: Item): void };

/** Remembers the newest `itemsMax` items. */
function createRecentSet<Item>(itemsMax: number): RecentSet<Item> {
  const items = new Set<Item>();
  return {
    has: (item) => items.has(item),
    add(item) {
      items.delete(item);
      items.add(item);
      const [oldest] = items;
      if (items.size > itemsMax && oldest !== undefined) items.delete(oldest);
    },
  };
}
