/**
 * What happened, line by line: the form in which a simulated world or a real daemon tells its history to the checker.
 *
 * The form is JSON lines: first the header, then one entry a line in the order in which things happened. Entries of kinds
 * that a source cannot tell (a daemon sees no processes start elsewhere, and may keep no calls) are simply absent; rules
 * that need them then say nothing.
 * Invariant: events are as durable as they are told: an entry `event` stands where its commit was made, never earlier.
 * Invariant: reading back what was written gives equal entries; a line that is not of this form is refused by number.
 */

import { z } from "zod";
import { encodeEvent, decodeEvent, decodeTask, encodeTask } from "../../src/store/codec.ts";
import { parseId } from "../../src/core/ids.ts";

const TASK_ID = z.string().transform((text, context) => {
  const parsed = parseId(text);
  if (parsed.kind === "task") return parsed.taskId;
  context.addIssue({ code: "custom", message: "not a task id" });
  return z.NEVER;
});

/** Records travel in the envelope of the store, so that older forms are lifted as the store lifts them. */
const EVENT = z.unknown().transform((record, context) => {
  const decoded = decodeEvent(JSON.stringify(record));
  if (decoded.kind === "ok") return decoded.value;
  context.addIssue({ code: "custom", message: decoded.detail });
  return z.NEVER;
});
const TASK = z.unknown().transform((record, context) => {
  const decoded = decodeTask(JSON.stringify(record));
  if (decoded.kind === "ok") return decoded.value;
  context.addIssue({ code: "custom", message: decoded.detail });
  return z.NEVER;
});

const HEADER = z.strictObject({
  format: z.literal("delegate-mcp-history"),
  version: z.literal(1),
  /** Who wrote it. */
  source: z.enum(["simulator", "export"]),
  /** The seed that replays it. */
  seed: z.string().nullable(),
  /** After two thirds of this without a sign of life of its daemon a child is to be stopped; null: not told. */
  leaseMs: z.number().nullable(),
  /** Children with a running turn that a daemon may have; null: not told. */
  slots: z.number().nullable(),
  /** How late an answer may be while nothing disturbs the daemon; null: not told. */
  answerWithinMs: z.number().nullable(),
});

/** Wall time, and running time where the source measured it (null: wall time counts for both). */
const STAMP = { atMs: z.number(), runMs: z.number().nullable() };

const SHOWN_TASK = z.strictObject({
  taskId: TASK_ID,
  childThreadId: z.string(),
  nodeId: z.string(),
  status: z.enum(["working", "input_required", "completed", "failed", "cancelled"]),
  phase: z.string(),
  version: z.number(),
  news: z.number(),
  settlements: z.number(),
  /** What was shown of the settlement's text, shortened to a digest; null where nothing was shown. */
  result: z.string().nullable(),
  /** True where the answer counts the task among the ones with something to tell. */
  told: z.boolean(),
});

const PENDING = z.strictObject({
  count: z.number(),
  completions: z.array(z.strictObject({ taskId: TASK_ID, nodeId: z.string(), settlement: z.number() })),
});

const ENTRIES = [
  /** The life of a daemon: its number, and what became of it. */
  z.strictObject({
    ...STAMP,
    kind: z.literal("daemon"),
    life: z.number(),
    did: z.enum(["started", "crashed", "froze", "thawed", "draining", "drained"]),
  }),
  /**
   * Something outside the daemon that slows or breaks it, while it lasts. `doubtful_storage`: commits that were made may be
   * reported as failed.
   */
  z.strictObject({
    ...STAMP,
    kind: z.literal("trouble"),
    what: z.enum(["storage", "doubtful_storage", "slow_storage", "provider", "guard"]),
    on: z.boolean(),
  }),
  /** Wall time ran on while the machine stood still. */
  z.strictObject({ ...STAMP, kind: z.literal("slept"), gapMs: z.number() }),
  /** A call as its caller sent it. */
  z.strictObject({
    ...STAMP,
    kind: z.literal("call"),
    id: z.number(),
    client: z.string(),
    caller: z.string(),
    by: z.enum(["caller", "person", "child"]),
    conversation: z.string().nullable(),
    tool: z.enum([
      "delegate_task",
      "task_continue",
      "task_wait",
      "task_status",
      "task_list",
      "task_cancel",
      "task_ack",
    ]),
    key: z.string().nullable(),
    /** Ids as sent; null: none. */
    about: z.array(z.string()).nullable(),
    waitMs: z.number(),
    until: z.enum(["any", "all"]).nullable(),
    after: z.string().nullable(),
    settlement: z.number().nullable(),
    /** True if the answer has to be complete: the world rests, nothing else is under way. */
    atRest: z.boolean(),
  }),
  /** The answer that left the daemon; `delivered` false if nobody received it. */
  z.strictObject({
    ...STAMP,
    kind: z.literal("answer"),
    id: z.number(),
    delivered: z.boolean(),
    form: z.enum(["task", "tasks", "list", "refusal"]),
    next: z.string().nullable(),
    created: z.enum(["new", "replayed", "joined", "none"]).nullable(),
    code: z.string().nullable(),
    waitEnded: z.enum(["news", "slice", "shutdown"]).nullable(),
    movedOn: z.boolean(),
    /** True if the answer says itself that the storage did not tell how things are now. */
    stale: z.boolean(),
    tasks: z.array(SHOWN_TASK),
    unknown: z.array(z.string()),
    pending: PENDING,
  }),
  /** A call that got no answer: never arrived, its connection or daemon died, or the caller left. */
  z.strictObject({
    ...STAMP,
    kind: z.literal("unanswered"),
    id: z.number(),
    why: z.enum(["not_sent", "cut", "left"]),
  }),
  /** A committed event. */
  z.strictObject({ ...STAMP, kind: z.literal("event"), taskId: TASK_ID, number: z.number(), event: EVENT }),
  /** A committed receipt. */
  z.strictObject({
    ...STAMP,
    kind: z.literal("receipt"),
    caller: z.string(),
    tool: z.string(),
    key: z.string(),
    about: TASK_ID.nullable(),
    taskId: TASK_ID,
  }),
  /** A committed change of a claim; `path` null: given back. */
  z.strictObject({ ...STAMP, kind: z.literal("claim"), taskId: TASK_ID, path: z.string().nullable() }),
  /** A process of a child began or ended, seen from its host. */
  z.strictObject({
    ...STAMP,
    kind: z.literal("process"),
    did: z.enum(["started", "ended"]),
    pid: z.number(),
    mark: z.string(),
    taskId: TASK_ID,
    epoch: z.number(),
    access: z.enum(["read", "write"]),
    path: z.string(),
    /** The conversation that the program was told to go on with; null: none, or not its main process. */
    session: z.string().nullable(),
    main: z.boolean(),
    /** True if no signal ends it for a while. */
    stubborn: z.boolean(),
  }),
  /** How an attempt ended, as its driver told a daemon that was alive. */
  z.strictObject({
    ...STAMP,
    kind: z.literal("reported"),
    taskId: TASK_ID,
    epoch: z.number(),
    end: z.enum(["success", "fault", "lost"]),
  }),
  /** What the store holds of a task. */
  z.strictObject({ ...STAMP, kind: z.literal("snapshot"), task: TASK }),
  /** Nothing more will happen by itself: what is still held. */
  z.strictObject({ ...STAMP, kind: z.literal("rest"), waiting: z.number(), timers: z.number() }),
] as const;

const ENTRY = z.discriminatedUnion("kind", ENTRIES);

export type HistoryHeader = z.infer<typeof HEADER>;
export type Entry = z.infer<typeof ENTRY>;
export type EntryOf<Kind extends Entry["kind"]> = Extract<Entry, { readonly kind: Kind }>;
/** An entry before it was given its moment. */
export type Happening = { [Kind in Entry["kind"]]: Omit<EntryOf<Kind>, "atMs" | "runMs"> }[Entry["kind"]];
export type ShownTask = EntryOf<"answer">["tasks"][number];
export type History = { readonly header: HistoryHeader; readonly entries: readonly Entry[] };

export type HistoryRead =
  | { readonly kind: "read"; readonly history: History }
  /** `line`: 1 is the header. */
  | { readonly kind: "refused"; readonly line: number; readonly reason: string };

export function encodeHistory({ header, entries }: History): string {
  return [header, ...entries.map(recordOf)].map((line) => `${JSON.stringify(line)}\n`).join("");
}

export function decodeHistory(text: string): HistoryRead {
  const [first = "", ...rest] = text.split("\n").filter((line) => line !== "");
  const header = HEADER.safeParse(parsed(first));
  if (!header.success) return { kind: "refused", line: 1, reason: z.prettifyError(header.error) };
  const entries: Entry[] = [];
  for (const [index, line] of rest.entries()) {
    const entry = ENTRY.safeParse(parsed(line));
    if (!entry.success) return { kind: "refused", line: index + 2, reason: z.prettifyError(entry.error) };
    entries.push(entry.data);
  }
  return { kind: "read", history: { header: header.data, entries } };
}

/** One entry on one line, short enough to read: what a person sees of a history. */
export function lineOfEntry(entry: Entry): string {
  const { atMs, runMs, kind, ...rest } = entry;
  const seconds = ((runMs ?? atMs) / 1000).toFixed(3).padStart(10);
  const shown = entry.kind === "snapshot" ? { taskId: entry.task.handle.taskId, version: entry.task.version } : rest;
  return `${seconds} ${kind.padEnd(10)} ${JSON.stringify(shown)}`;
}

function recordOf(entry: Entry): object {
  if (entry.kind === "event") return { ...entry, event: parsed(encodeEvent(entry.event)) };
  if (entry.kind === "snapshot") return { ...entry, task: parsed(encodeTask(entry.task)) };
  return entry;
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
