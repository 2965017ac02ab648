/**
 * Daemons of a simulated world, one after another: the real engine over the world's store, host and clock.
 *
 * Invariant: at most one is alive; the data directory's lock sees to that in the real world.
 */

import { createEngine, type RunningEngine } from "../../src/engine/create-engine.ts";
import type { Clock } from "../../src/ports/clock.ts";
import type { Children } from "../../src/ports/children.ts";
import type { IdSource } from "../../src/ports/id-source.ts";
import type { Log } from "../../src/ports/log.ts";
import type { AgentSettings, EngineSettings } from "../../src/ports/settings.ts";
import type { Store } from "../../src/ports/store.ts";
import type { Workspace } from "../../src/ports/workspace.ts";
import { noFaults } from "../../src/system/no-faults.ts";
import type { Random } from "../support/sim-random.ts";
import type { Temper } from "./chaos.ts";
import type { Host, HostRules } from "./host.ts";
import { createLife, type Life, sleep } from "./life.ts";
import type { Serving } from "./net.ts";
import type { Recorder } from "./recorder.ts";
import { createSimDriver } from "./sim-driver.ts";
import type { SimStore } from "./sim-store.ts";
import { ALL_LEVELS, NO_GIT, PLAIN_PARTS, PLAIN_SETTINGS } from "../support/engine-parts.ts";

/** Parts put in the place of right ones, to see whether the checker notices. */
export type Mutation = {
  readonly store?: (store: Store, tools: MutationTools) => Store;
  readonly children?: (children: Children, tools: MutationTools) => Children;
  readonly engine?: (engine: RunningEngine) => RunningEngine;
  readonly host?: Partial<HostRules>;
};
export type MutationTools = { readonly clock: Clock; readonly random: Random; readonly life: Life };

export type Daemons = {
  readonly serving: (Serving & { readonly engine: RunningEngine; readonly store: Store }) | null;
  /** Starts daemons, and again after each death, until told to stop. */
  keepRunning(): Promise<void>;
  /** No daemon is started after the present one. */
  stopRestarting(): void;
  /** Resolves with the timers that are still set a while after the engine has stopped. */
  drain(mode: "stop" | "hand_over"): Promise<number>;
  /** Restarts come at once from now on. */
  calm(): void;
};

export const LEASE_MS = 30_000;
/** What an orderly stop may take before somebody kills the daemon. */
const DRAIN_MS = 30_000;
/** After this nothing of a stopped engine may be waiting for anything. */
const AFTER_DRAIN_MS = 2_000;
const DAEMON_ID = "sim";

export function createDaemons(world: {
  readonly clock: Clock;
  readonly random: Random;
  readonly recorder: Recorder;
  readonly store: SimStore;
  readonly host: Host;
  readonly ids: IdSource;
  readonly temper: Temper;
  readonly mutation: Mutation;
}): Daemons {
  const { clock, random, recorder, host, ids, temper, mutation } = world;
  let serving: Daemons["serving"] = null;
  let lives = 0;
  let restarting = true;
  let calm = false;

  return {
    get serving() {
      return serving;
    },
    async keepRunning() {
      const mayStart = (): boolean => restarting;
      while (mayStart()) {
        const life = open();
        await life.died;
        serving = null;
        const waitMs = calm
          ? 200
          : random.weighted([
              [8, random.int(100, 1_500)],
              [1, random.int(2_000, 60_000)],
            ]);
        await sleep(clock, waitMs);
      }
    },
    stopRestarting() {
      restarting = false;
    },
    async drain(mode) {
      if (serving === null || serving.life.draining) return 0;
      const { life, engine } = serving;
      life.draining = true;
      recorder.count("drains");
      recorder.add({ kind: "daemon", did: "draining", life: life.number });
      await Promise.race([engine.drain(mode).catch(() => undefined), life.died, sleep(clock, DRAIN_MS)]);
      if (life.alive) await sleep(clock, AFTER_DRAIN_MS);
      const timers = life.timers();
      life.kill();
      return timers;
    },
    calm() {
      calm = true;
    },
  };

  function open(): Life {
    lives += 1;
    const life: Life = createLife({
      number: lives,
      clock,
      delayMs: () => (random.chance(0.12) ? random.int(1, 25) : 0),
      onDeath() {
        recorder.add({ kind: "daemon", did: life.draining ? "drained" : "crashed", life: life.number });
        if (!life.draining) recorder.count("crashes");
        host.daemonDied(life);
      },
    });
    recorder.count("daemons");
    recorder.add({ kind: "daemon", did: "started", life: life.number });
    const tools: MutationTools = { clock, random: random.fork(`mutation ${lives}`), life };
    const store = mutation.store?.(world.store.handle(life), tools) ?? world.store.handle(life);
    const children = mutation.children?.(host.children(life), tools) ?? host.children(life);
    const driverWorld = {
      life,
      random: random.fork(`driver ${lives}`),
      recorder,
      unruly: temper.unruly,
      handOver: host.answer,
    };
    const right = createEngine({
      ...PLAIN_PARTS,
      store,
      children,
      drivers: new Map(
        (["scripted", "other"] as const).map((name) => [
          name,
          createSimDriver({ ...driverWorld, name, onLoss: "resume" }),
        ]),
      ),
      workspace: WORKSPACE,
      clock: life.clock,
      ids,
      log: SILENT,
      faults: noFaults,
      settings: settingsOf(temper),
    });
    const engine = mutation.engine?.(right) ?? right;
    serving = { life, engine, store };
    // A daemon that cannot read its store exits; whoever supervises it starts it again.
    engine.start().catch(() => life.kill());
    return life;
  }
}

const SILENT: Log = { debug: () => undefined, info: () => undefined, warn: () => undefined, error: () => undefined };

const WORKSPACE: Workspace = {
  ...NO_GIT,
  roots: ["/w"],
  async resolve(wanted) {
    const path = wanted ?? "/w";
    if (path.startsWith("/w")) return { kind: "resolved", path };
    return { kind: "refused", code: "workspace_not_allowed", reason: "outside_roots" };
  },
};

function settingsOf({ settings }: Temper): EngineSettings {
  const agent = (driver: string, change: Partial<AgentSettings>): AgentSettings => ({
    driver,
    command: ["child"],
    promptBy: "stdin",
    onLoss: "resume",
    model: null,
    trusted: true,
    requireEvidence: "assumed",
    env: {},
    levels: ALL_LEVELS,
    writes: true,
    ...change,
  });
  const { backoffMaxMs, lossesMax, patienceMs } = settings;
  return {
    daemonId: DAEMON_ID,
    limits: {
      concurrentChildren: settings.slots,
      queueMax: settings.queueMax,
      depthMax: settings.depthMax,
      tasksPerTreeMax: settings.tasksPerTreeMax,
      waitsMax: settings.waitsMax,
      delegationsPerMinute: settings.delegationsPerMinute,
    },
    retry: { patienceMs, backoffMaxMs, unknownAttemptsMax: 2, lossesMax, pauseMaxMs: 15 * 60_000 },
    stallAfterMs: settings.stallAfterMs,
    questionDeadlineMs: settings.questionDeadlineMs,
    maxActiveMs: settings.maxActiveMs,
    permissionsMax: "accept_edits",
    ...PLAIN_SETTINGS,
    guardLeaseMs: LEASE_MS,
    agents: new Map([
      ["alpha", agent("scripted", {})],
      ["beta", agent("other", { onLoss: "rerun" })],
      ["gamma", agent("scripted", { onLoss: "fail", requireEvidence: "explicit" })],
    ]),
    defaultAgent: "alpha",
    scratchRoot: "/scratch",
  };
}
