/** What a Prometheus server reads: values, names, bounded labels, and a process that ends when it is done. */

import { execFile } from "node:child_process";
import path from "node:path";
import { promisify } from "node:util";
import { register } from "prom-client";
import { describe, expect, it } from "vitest";
import { METRICS } from "../../src/telemetry/metric-table.ts";
import { createPrometheusMeter, type LiveFigures, type PrometheusMeter } from "../../src/telemetry/prometheus-meter.ts";

const LIVE: LiveFigures = {
  tasks: async () => ({ working: 3, input_required: 1, completed: 7, failed: 0, cancelled: 2 }),
  running: () => 4,
  queued: () => 5,
  waiting: () => 6,
  openConnections: () => 8,
  eventLoopDelay: () => ({ meanMs: 1, p99Ms: 20, maxMs: 300 }),
};

function meterOfTest(): PrometheusMeter {
  return createPrometheusMeter({ clients: ["codex-mcp-client", "cursor"], tools: ["delegate_task", "task_wait"] });
}

/** Samples by name and labels; the text is read by its grammar, a line that does not fit is an error. */
async function samplesOf(meter: PrometheusMeter, live: LiveFigures = LIVE): Promise<ReadonlyMap<string, number>> {
  const { body } = await meter.render(live);
  const samples = new Map<string, number>();
  for (const line of body.split("\n").filter((line) => line !== "" && !line.startsWith("#"))) {
    const [, sample, value] = /^([a-z_][a-z0-9_]*(?:\{[^{}]*\})?) (\S+)$/i.exec(line) ?? [];
    expect(sample, line).toBeDefined();
    samples.set(sample ?? "", Number(value));
  }
  return samples;
}

describe("metrics", () => {
  it("count what happens, by few labels", async () => {
    const meter = meterOfTest();
    meter.accepted();
    meter.accepted();
    meter.settled("failed", "quota");
    meter.settled("completed", null);
    meter.sliceEnded("news", "Cursor");
    meter.sliceEnded("gone", null);
    meter.replayed("delegate_task");
    meter.conflicted("delegate_task");
    meter.joined();
    meter.refused("capacity_full");
    meter.healed("transport");
    meter.recovered();
    meter.survivorsFound(3);
    meter.stoodStill();
    meter.asked("permission");
    meter.notified("given_up");
    const samples = await samplesOf(meter);
    expect(Object.fromEntries(samples)).toMatchObject({
      delegate_mcp_tasks_accepted_total: 2,
      'delegate_mcp_tasks_settled_total{status="failed",failure="quota"}': 1,
      'delegate_mcp_tasks_settled_total{status="completed",failure="none"}': 1,
      'delegate_mcp_slices_ended_total{outcome="news",client="cursor"}': 1,
      'delegate_mcp_slices_ended_total{outcome="gone",client="other"}': 1,
      'delegate_mcp_replays_total{tool="delegate_task"}': 1,
      'delegate_mcp_conflicts_total{tool="delegate_task"}': 1,
      delegate_mcp_twins_joined_total: 1,
      'delegate_mcp_refusals_total{code="capacity_full"}': 1,
      'delegate_mcp_heals_total{failure="transport"}': 1,
      delegate_mcp_recoveries_total: 1,
      delegate_mcp_survivors_total: 3,
      delegate_mcp_stalls_total: 1,
      'delegate_mcp_questions_total{kind="permission"}': 1,
      'delegate_mcp_notices_total{outcome="given_up"}': 1,
    });
  });

  it("measure times in seconds", async () => {
    const meter = meterOfTest();
    meter.queueWaited(2_500);
    meter.queueWaited(-60_000);
    meter.storeTook("write", 4);
    meter.storeTook("write", 60);
    meter.storeTook("read", 0.4);
    const samples = await samplesOf(meter);
    expect(samples.get("delegate_mcp_queue_wait_seconds_sum")).toBe(2.5);
    expect(samples.get('delegate_mcp_queue_wait_seconds_bucket{le="1"}')).toBe(1);
    expect(samples.get('delegate_mcp_queue_wait_seconds_bucket{le="5"}')).toBe(2);
    expect(samples.get('delegate_mcp_store_seconds_count{operation="write"}')).toBe(2);
    expect(samples.get('delegate_mcp_store_seconds_bucket{le="0.005",operation="write"}')).toBe(1);
    expect(samples.get('delegate_mcp_store_seconds_sum{operation="write"}')).toBeCloseTo(0.064);
    expect(samples.get('delegate_mcp_store_seconds_bucket{le="0.0005",operation="read"}')).toBe(1);
  });

  it("show what is true at the time of the look", async () => {
    const meter = meterOfTest();
    const samples = await samplesOf(meter);
    expect(Object.fromEntries(samples)).toMatchObject({
      'delegate_mcp_tasks{status="working"}': 3,
      'delegate_mcp_tasks{status="failed"}': 0,
      delegate_mcp_children_running: 4,
      delegate_mcp_tasks_queued: 5,
      delegate_mcp_waits_open: 6,
      delegate_mcp_connections_open: 8,
      delegate_mcp_event_loop_delay_mean_seconds: 0.001,
      delegate_mcp_event_loop_delay_p99_seconds: 0.02,
      delegate_mcp_event_loop_delay_max_seconds: 0.3,
    });
    expect(samples.get("process_start_time_seconds")).toBeGreaterThan(1_000_000_000);
    const later = await samplesOf(meter, { ...LIVE, running: () => 0 });
    expect(later.get("delegate_mcp_children_running")).toBe(0);
  });

  it("leave out the tasks while the store cannot be read, and keep the rest", async () => {
    const meter = meterOfTest();
    await samplesOf(meter);
    const samples = await samplesOf(meter, {
      ...LIVE,
      tasks: async () => await Promise.reject(new Error("disk gone")),
    });
    expect([...samples.keys()].filter((sample) => sample.startsWith("delegate_mcp_tasks{"))).toEqual([]);
    expect(samples.get("delegate_mcp_children_running")).toBe(4);
  });

  it("do not grow with what clients call themselves (P15)", async () => {
    const meter = meterOfTest();
    for (let client = 0; client < 500; client++) {
      meter.sliceEnded("slice", `client-${client}"}\n# evil`);
      meter.replayed(`tool-${client}`);
      meter.refused(`code-${client}`);
    }
    const samples = await samplesOf(meter);
    expect(samples.get('delegate_mcp_slices_ended_total{outcome="slice",client="other"}')).toBe(500);
    expect(samples.get('delegate_mcp_replays_total{tool="other"}')).toBe(500);
    expect(samples.get('delegate_mcp_refusals_total{code="other"}')).toBe(500);
    expect([...samples.keys()].filter((sample) => /client-|tool-|code-|evil/.test(sample))).toEqual([]);
  });

  it("are named by the rules: base units, counters end in _total, all of them exist", async () => {
    for (const { name, kind, help } of Object.values(METRICS)) {
      expect(name).toMatch(/^delegate_mcp_[a-z0-9_]+$/);
      expect(name.endsWith("_total"), name).toBe(kind === "counter");
      if (kind === "histogram") expect(name).toMatch(/_seconds$/);
      expect(help.length).toBeGreaterThan(10);
    }
    const { body } = await meterOfTest().render(LIVE);
    const made = [...body.matchAll(/^# TYPE (delegate_mcp_\S+ \w+)$/gm)].map(([, line]) => line ?? "");
    expect(made.toSorted()).toEqual(
      Object.values(METRICS)
        .map(({ name, kind }) => `${name} ${kind}`)
        .toSorted(),
    );
  });

  it("are nobody else's: two meters share nothing, and the package's own registry stays empty", async () => {
    const [one, other] = [meterOfTest(), meterOfTest()];
    one.accepted();
    expect((await samplesOf(other)).get("delegate_mcp_tasks_accepted_total")).toBe(0);
    expect(register.getMetricsAsArray()).toEqual([]);
  });

  it("do not keep the process alive", async () => {
    const at = (file: string): string => JSON.stringify(path.join(import.meta.dirname, "../../src", file));
    const program = `
      const { createPrometheusMeter } = await import(${at("telemetry/prometheus-meter.ts")});
      const { watchEventLoop } = await import(${at("system/event-loop-delay.ts")});
      const meter = createPrometheusMeter({ clients: [], tools: [] });
      const watch = watchEventLoop();
      const zero = () => 0;
      const live = { tasks: async () => ({}), running: zero, queued: zero, waiting: zero, openConnections: zero };
      const { body } = await meter.render({ ...live, eventLoopDelay: watch.take });
      console.log(body.includes("delegate_mcp_event_loop_delay_max_seconds"));`;
    const run = await promisify(execFile)(process.execPath, ["--input-type=module", "--eval", program], {
      timeout: 20_000,
    });
    expect(run.stdout).toBe("true\n");
  });
});
