/**
 * The meter as metrics that a Prometheus server reads.
 *
 * Invariant: a registry of its own; nothing is shared with other meters of the process, and nothing keeps it alive.
 * Invariant: a label whose value nobody knows beforehand says `other`, so that no client can grow the list (P15).
 * Invariant: a store that cannot be read leaves its figures out and the rest stands.
 */

import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from "prom-client";
import { FAILURE_CLASSES } from "../core/failure.ts";
import { CODES } from "../core/rejection.ts";
import type { Status } from "../core/task.ts";
import type { Meter } from "../ports/meter.ts";
import { METRICS, type Metric } from "./metric-table.ts";

export type PrometheusMeterOptions = {
  /** Names that clients are known by, in small letters. */
  readonly clients: Iterable<string>;
  readonly tools: Iterable<string>;
};

/** What is true now, asked for at each look. */
export type LiveFigures = {
  tasks(): Promise<Readonly<Record<Status, number>>>;
  running(): number;
  queued(): number;
  waiting(): number;
  openConnections(): number;
  /** Since the last look. */
  eventLoopDelay(): { readonly meanMs: number; readonly p99Ms: number; readonly maxMs: number };
};

export type PrometheusMeter = Meter & {
  /** Everything as text, in the form that `contentType` names. */
  render(live: LiveFigures): Promise<{ readonly contentType: string; readonly body: string }>;
};

export function createPrometheusMeter(options: PrometheusMeterOptions): PrometheusMeter {
  const registry = new Registry();
  collectDefaultMetrics({ register: registry });
  const showLive = createLiveGauges(registry);
  return {
    ...createCounts(registry, options),
    ...createTimes(registry),
    async render(live) {
      await showLive(live);
      return { contentType: registry.contentType, body: await registry.metrics() };
    },
  };
}

type Times = Pick<Meter, "queueWaited" | "storeTook">;

function createTimes(registry: Registry): Times {
  const queueWait = histogramOf(METRICS.queueWait, registry);
  const store = histogramOf(METRICS.store, registry);
  return {
    queueWaited: (waitedMs) => queueWait.observe(secondsOf(waitedMs)),
    storeTook: (operation, tookMs) => store.observe({ operation }, secondsOf(tookMs)),
  };
}

function createCounts(registry: Registry, options: PrometheusMeterOptions): Omit<Meter, keyof Times> {
  const clients = boundedBy(options.clients);
  const tools = boundedBy(options.tools);
  const codes = boundedBy(CODES);
  const failures = boundedBy(FAILURE_CLASSES);
  const slices = counterOf(METRICS.slices, registry);
  const replays = counterOf(METRICS.replays, registry);
  const conflicts = counterOf(METRICS.conflicts, registry);
  const joined = counterOf(METRICS.joined, registry);
  const refusals = counterOf(METRICS.refusals, registry);
  const accepted = counterOf(METRICS.accepted, registry);
  const settled = counterOf(METRICS.settled, registry);
  const heals = counterOf(METRICS.heals, registry);
  const recoveries = counterOf(METRICS.recoveries, registry);
  const survivors = counterOf(METRICS.survivors, registry);
  const stalls = counterOf(METRICS.stalls, registry);
  const questions = counterOf(METRICS.questions, registry);
  const notices = counterOf(METRICS.notices, registry);
  return {
    sliceEnded: (outcome, client) => slices.inc({ outcome, client: clients(client?.toLowerCase() ?? "") }),
    replayed: (tool) => replays.inc({ tool: tools(tool) }),
    conflicted: (tool) => conflicts.inc({ tool: tools(tool) }),
    joined: () => joined.inc(),
    refused: (code) => refusals.inc({ code: codes(code) }),
    accepted: () => accepted.inc(),
    settled: (status, failure) => settled.inc({ status, failure: failure === null ? "none" : failures(failure) }),
    healed: (failure) => heals.inc({ failure: failures(failure) }),
    recovered: () => recoveries.inc(),
    survivorsFound: (count) => survivors.inc(count),
    stoodStill: () => stalls.inc(),
    asked: (kind) => questions.inc({ kind }),
    notified: (outcome) => notices.inc({ outcome }),
  };
}

function createLiveGauges(registry: Registry): (live: LiveFigures) => Promise<void> {
  const tasks = gaugeOf(METRICS.tasks, registry);
  const running = gaugeOf(METRICS.running, registry);
  const queued = gaugeOf(METRICS.queued, registry);
  const waits = gaugeOf(METRICS.waits, registry);
  const connections = gaugeOf(METRICS.connections, registry);
  const delayMean = gaugeOf(METRICS.delayMean, registry);
  const delayP99 = gaugeOf(METRICS.delayP99, registry);
  const delayMax = gaugeOf(METRICS.delayMax, registry);
  return async (live) => {
    const counted = await live.tasks().catch(() => null);
    tasks.reset();
    for (const [status, count] of Object.entries(counted ?? {})) tasks.set({ status }, count);
    running.set(live.running());
    queued.set(live.queued());
    waits.set(live.waiting());
    connections.set(live.openConnections());
    const delay = live.eventLoopDelay();
    delayMean.set(secondsOf(delay.meanMs));
    delayP99.set(secondsOf(delay.p99Ms));
    delayMax.set(secondsOf(delay.maxMs));
  };
}

function counterOf<Label extends string>(metric: Metric<Label>, registry: Registry): Counter<Label> {
  return new Counter({ name: metric.name, help: metric.help, labelNames: metric.labels, registers: [registry] });
}

function gaugeOf<Label extends string>(metric: Metric<Label>, registry: Registry): Gauge<Label> {
  return new Gauge({ name: metric.name, help: metric.help, labelNames: metric.labels, registers: [registry] });
}

function histogramOf<Label extends string>(
  metric: Metric<Label> & { readonly buckets: readonly number[] },
  registry: Registry,
): Histogram<Label> {
  const { name, help, labels, buckets } = metric;
  return new Histogram({ name, help, labelNames: labels, buckets: [...buckets], registers: [registry] });
}

function boundedBy(known: Iterable<string>): (value: string) => string {
  const values = new Set(known);
  return (value) => (values.has(value) ? value : "other");
}

/** A wall clock that was set back makes waits negative; a histogram must not shrink. */
function secondsOf(ms: number): number {
  return Math.max(0, ms) / 1_000;
}
