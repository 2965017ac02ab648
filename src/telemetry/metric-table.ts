/**
 * Every metric of our own: name, kind, labels and what it means; made into metrics here and into a page by `npm run generate`.
 *
 * Invariant: base units, named at the end (`_seconds`, `_total`); every label has few values that nobody outside can add to.
 * Absent on purpose: task ids, titles, paths and names of callers.
 */

export type Metric<Label extends string = string> = {
  readonly name: `delegate_mcp_${string}`;
  readonly kind: "counter" | "gauge" | "histogram";
  readonly help: string;
  readonly labels: readonly Label[];
  /** Of a histogram, in seconds. */
  readonly buckets?: readonly number[];
};

/** From "at once" to the longest that a queue is worth waiting for. */
const WAIT_BUCKETS = [0.01, 0.1, 1, 5, 15, 60, 300, 900, 3_600, 14_400];
/** A commit with its sync takes a few milliseconds on a good disk and a second on one that is in trouble. */
const STORE_BUCKETS = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1, 5];

export const METRICS = {
  accepted: counter("delegate_mcp_tasks_accepted_total", [], "Delegations that became tasks"),
  settled: counter(
    "delegate_mcp_tasks_settled_total",
    ["status", "failure"],
    "Tasks that ended, by status and class of failure (`none` where it did not fail)",
  ),
  queueWait: {
    ...described("delegate_mcp_queue_wait_seconds", [], "Time that a task waited before a child was started for it"),
    kind: "histogram",
    buckets: WAIT_BUCKETS,
  },
  slices: counter(
    "delegate_mcp_slices_ended_total",
    ["outcome", "client"],
    "Held calls that ended: with `news`, at the end of their `slice`, by a `shutdown`, or because the client was `gone`",
  ),
  replays: counter("delegate_mcp_replays_total", ["tool"], "Calls whose key was known and that were answered again"),
  conflicts: counter("delegate_mcp_conflicts_total", ["tool"], "Calls whose key was known for other arguments"),
  joined: counter("delegate_mcp_twins_joined_total", [], "Delegations that joined the same work under way"),
  refusals: counter("delegate_mcp_refusals_total", ["code"], "Refused calls, by code"),
  heals: counter("delegate_mcp_heals_total", ["failure"], "Passing faults that were healed, by class"),
  recoveries: counter("delegate_mcp_recoveries_total", [], "Children that were lost and went on"),
  survivors: counter("delegate_mcp_survivors_total", [], "Processes that a stop could not end"),
  stalls: counter("delegate_mcp_stalls_total", [], "Children that were alive and stood still"),
  questions: counter("delegate_mcp_questions_total", ["kind"], "Questions that children asked"),
  notices: counter("delegate_mcp_notices_total", ["outcome"], "Tries to deliver a notice of a settlement"),
  store: {
    ...described(
      "delegate_mcp_store_seconds",
      ["operation"],
      "Time that the store took: a `write` until it was durable, a `read`",
    ),
    kind: "histogram",
    buckets: STORE_BUCKETS,
  },
  tasks: gauge("delegate_mcp_tasks", ["status"], "Tasks in the store by status; absent while the store cannot be read"),
  running: gauge("delegate_mcp_children_running", [], "Children that run"),
  queued: gauge("delegate_mcp_tasks_queued", [], "Tasks that wait for a place or a workspace"),
  waits: gauge("delegate_mcp_waits_open", [], "Calls that are held"),
  connections: gauge("delegate_mcp_connections_open", [], "Connections to the HTTP server"),
  delayMean: gauge(
    "delegate_mcp_event_loop_delay_mean_seconds",
    [],
    "How late the event loop came, on average since the last look",
  ),
  delayP99: gauge("delegate_mcp_event_loop_delay_p99_seconds", [], "The same, 99th percentile"),
  delayMax: gauge("delegate_mcp_event_loop_delay_max_seconds", [], "The same, the longest"),
} as const satisfies Readonly<Record<string, Metric>>;

function counter<Label extends string>(name: Metric["name"], labels: readonly Label[], help: string) {
  return { ...described(name, labels, help), kind: "counter" } as const;
}

function gauge<Label extends string>(name: Metric["name"], labels: readonly Label[], help: string) {
  return { ...described(name, labels, help), kind: "gauge" } as const;
}

function described<Label extends string>(name: Metric["name"], labels: readonly Label[], help: string) {
  return { name, labels, help };
}
