/**
 * One simulated world: the real engine, a host, clients and mishaps, all out of one seed, in a time of its own.
 *
 * First a storm, in which everything goes wrong that can; then calm, in which everything must come to its end; then rest,
 * in which nothing may be held any more. The history of all three goes to the checker.
 * Invariant: the same seed gives the same history, byte for byte.
 */

import { checkHistory, type Violation } from "../support/history-check.ts";
import type { History } from "../support/history.ts";
import { createRandom, createSimIds, type Random } from "../support/sim-random.ts";
import { createStepClock } from "../support/step-clock.ts";
import { type Mishap, temperOf } from "./chaos.ts";
import { listAtRest, runClient } from "./clients.ts";
import { createDaemons, LEASE_MS, type Mutation } from "./daemon.ts";
import { createHost } from "./host.ts";
import { runKids } from "./kids.ts";
import { sleep } from "./life.ts";
import { createMishaps } from "./mishaps.ts";
import { createNet } from "./net.ts";
import { answerQuestions, createClients } from "./people.ts";
import { type Counts, countOutcomes, createRecorder } from "./recorder.ts";
import { createSimStore } from "./sim-store.ts";
import { createTimeline } from "./timeline.ts";

export type Outcome = {
  readonly seed: number;
  readonly history: History;
  readonly violations: readonly Violation[];
  readonly counts: Counts;
};

/** Running time that the calm may take: longer than any pause, patience and deadline of a world together. */
const CALM_MS = 60 * 60_000;
/** How late an answer may be: store and network delays of a quiet world, added up. */
const ANSWER_WITHIN_MS = 1_500;
/** Announcements come a few at a time; after this many lists everything has been told. */
const LISTS_AT_REST = 6;

export async function runWorld(seed: number, mutation: Mutation = {}): Promise<Outcome> {
  const parts = createParts(seed, mutation);
  const { timeline, recorder, temper } = parts;
  const broken: string[] = [];
  for (const work of beginStorm(parts)) work.catch((error: unknown) => broken.push(String(error)));

  await timeline.pass(temper.stormMs);
  await calmDown(parts);
  await rest(parts);

  const history: History = { header: recorder.header, entries: recorder.entries };
  countOutcomes(recorder);
  recorder.count("steps", timeline.turns);
  const last = recorder.entries.length - 1;
  const thrown = broken.map((says): Violation => ({ rule: "world", promises: [], index: last, says }));
  return { seed, history, violations: [...checkHistory(history), ...thrown], counts: recorder.counts };
}

type Parts = ReturnType<typeof createParts>;

function createParts(seed: number, mutation: Mutation) {
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
  const of = (name: string): { readonly random: Random } => ({ random: random.fork(name) });
  const shared = { clock, recorder, temper };
  const ids = createSimIds(random.fork("ids"), clock.wallMs);
  const store = createSimStore({ ...shared, ...of("store") });
  const rules = { guardStops: true, remembersStops: true, ...mutation.host };
  const host = createHost({ ...shared, ...of("host"), leaseMs: LEASE_MS, temper: temper.child, rules });
  const daemons = createDaemons({ ...shared, ...of("daemons"), store, host, ids, mutation });
  const serving = () => daemons.serving;
  const net = createNet({ ...shared, ...of("net"), serving, lossy: temper.lossy });
  const weather = { stormy: true };
  const stormy = () => weather.stormy;
  const clients = createClients({ ...shared, random, net, stormy });
  const timeline = createTimeline(clock);
  return { ...shared, random, store, host, daemons, net, weather, stormy, clients, timeline };
}

/** Starts everything that moves by itself. */
function beginStorm(parts: Parts): readonly Promise<void>[] {
  return [
    parts.daemons.keepRunning(),
    goWrong(parts),
    answerQuestions(parts),
    ...runKids(parts),
    ...parts.clients.map(runClient),
  ];
}

async function goWrong(parts: Parts): Promise<void> {
  const { clock, temper, stormy } = parts;
  const random = parts.random.fork("mishaps");
  const begin = createMishaps({ ...parts, random: random.fork("how") });
  const mishaps: readonly (readonly [number, Mishap])[] = [[0.01, "crash"], ...temper.mishaps];
  while (stormy()) {
    await sleep(clock, random.int(100, temper.mishapEveryMs));
    if (stormy()) void begin(random.weighted(mishaps));
  }
}

/** Nothing goes wrong any more; everything that was begun comes to its end. */
async function calmDown({ weather, net, store, host, daemons, timeline }: Parts): Promise<void> {
  weather.stormy = false;
  net.calm = true;
  await timeline.until(() => store.trouble === "none" && store.slowMs === 0, 60_000);
  daemons.calm();
  host.calm();
  const isUp = (): boolean => daemons.serving?.life.alive === true && !daemons.serving.life.frozen;
  await timeline.until(isUp, 180_000);
  const isDone = async (): Promise<boolean> => net.open === 0 && (await store.truth.unfinished()).length === 0;
  await timeline.until(isDone, CALM_MS);
  await timeline.pass(1_000);
}

/** Everybody hears what there is to hear, the daemon stops in order, and nothing may be left. */
async function rest({ clients, store, daemons, recorder, timeline }: Parts): Promise<void> {
  for (const client of clients.filter(({ caller }) => caller.kind === "person")) {
    for (let list = 0; list < LISTS_AT_REST; list += 1) await timeline.during(listAtRest(client), 60_000);
  }
  const waiting = daemons.serving?.engine.waiting ?? 0;
  daemons.stopRestarting();
  const draining = daemons.drain("stop");
  await timeline.during(draining, 60_000);
  for (const task of (await store.truth.list(EVERYTHING)).tasks) recorder.add({ kind: "snapshot", task });
  recorder.add({ kind: "rest", waiting, timers: await draining });
}

const EVERYTHING = {
  caller: null,
  below: null,
  open: false,
  unread: false,
  conversation: null,
  status: null,
  parentTaskId: null,
  idPrefix: null,
  limit: 1_000,
  before: null,
} as const;
