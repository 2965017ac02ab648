/**
 * The rules of the history checker, each shown a history that breaks it.
 *
 * Most are true histories of a seeded world in which one thing was changed, so that a rule that never fires is noticed.
 */

import { beforeAll, describe, expect, it } from "vitest";
import { attemptIdOf, markOf } from "../../src/core/ids.ts";
import { checkHistory, RULES } from "../support/history-check.ts";
import { decodeHistory, type Entry, type EntryOf, encodeHistory, type History } from "../support/history.ts";
import { runWorld } from "./world.ts";

/** Worlds in which everything happens that the changes below need. */
const SEEDS = [2, 3, 4, 7, 15, 20];
const histories: History[] = [];

beforeAll(async () => {
  for (const seed of SEEDS) histories.push((await runWorld(seed)).history);
}, 60_000);

/** Changes a history so that it breaks a rule; null if this one offers no place for it. */
type Change = (history: History) => History | null;

const CHANGES: Readonly<Record<string, Change>> = {
  numbering: without((entry) => entry.kind === "event" && entry.number === 5),
  snapshot: changed("snapshot", (entry) => ({ ...entry, task: { ...entry.task, steps: entry.task.steps + 1 } })),
  settlements: changed("event", (entry) => {
    if (entry.event.kind !== "TaskSettled") return null;
    const settlement = { ...entry.event.settlement, number: entry.event.settlement.number + 1 };
    return { ...entry, event: { ...entry.event, settlement } };
  }),
  epochs: changed("event", (entry) => {
    if (entry.event.kind !== "ChildBound" || entry.event.epoch < 2) return null;
    return { ...entry, event: { ...entry.event, epoch: entry.event.epoch - 1 } };
  }),
  evidence: changed("event", (entry) => {
    if (entry.event.kind !== "TaskSettled" || entry.event.settlement.verdict.status !== "completed") return null;
    const verdict = { ...entry.event.settlement.verdict, evidence: null };
    return { ...entry, event: { ...entry.event, settlement: { ...entry.event.settlement, verdict } } };
  }),
  patience: without((entry, before) => {
    const failed = before?.kind === "event" && before.event.kind === "AttemptFailed" ? before.event : null;
    if (entry.kind !== "event" || entry.event.kind !== "RetryScheduled") return false;
    return failed?.fault.nature === "passing" && failed.fault.class !== "quota";
  }),
  stalls: after("event", (entry) => {
    if (entry.event.kind !== "AttemptStarted") return null;
    const { epoch, atMs } = entry.event;
    return { ...entry, number: entry.number + 1, event: { kind: "StallBegan", epoch, atMs } };
  }),
  restarts: restartThatForgets,
  reported: before("event", (entry) => {
    if (entry.event.kind !== "AttemptLost") return null;
    const { taskId, atMs, runMs, event } = entry;
    return { kind: "reported", taskId, atMs, runMs, epoch: event.epoch, end: "success" };
  }),
  "own-word": (history) => {
    const first = history.entries.find((entry) => entry.kind === "reported" && entry.end !== "lost");
    return without((entry) => entry === first)(history);
  },
  rest: changed("rest", (entry) => ({ ...entry, timers: 1 })),
  "handle-or-next": changed("answer", (entry) => ({ ...entry, next: null })),
  identity: changed("answer", (entry) => {
    const [shown, ...rest] = entry.tasks;
    return shown === undefined ? null : { ...entry, tasks: [{ ...shown, childThreadId: "th_other" }, ...rest] };
  }),
  durable: changed("answer", (entry) => {
    const [shown, ...rest] = entry.tasks;
    return shown === undefined ? null : { ...entry, tasks: [{ ...shown, version: shown.version + 1_000 }, ...rest] };
  }),
  "one-per-key": after("answer", (entry) => (entry.created === "new" ? entry : null)),
  "committed-is-told": refusedThoughCommitted,
  continued: (history) => {
    const told = history.entries.filter((entry) => entry.kind === "answer" && entry.created === "new");
    const sent = told.find((entry) => callOf(history, entry)?.tool === "task_continue");
    return sent === undefined ? null : after("answer", (entry) => (entry === sent ? entry : null), 30)(history);
  },
  findable: changed("answer", (entry, history) => {
    const call = callOf(history, entry);
    if (call?.tool !== "task_status" || call.key === null || entry.form !== "task") return null;
    return { ...entry, form: "refusal", code: "unknown_task", tasks: [] };
  }),
  "by-word": without((entry) => {
    if (entry.kind !== "call") return false;
    return entry.tool === "task_ack" || entry.tool === "task_wait" || entry.tool === "task_continue";
  }),
  cancelled: after("answer", (entry, history) => {
    const taskId = entry.tasks[0]?.taskId;
    if (callOf(history, entry)?.tool !== "task_cancel" || entry.form !== "task" || taskId === undefined) return null;
    const { atMs, runMs } = entry;
    const attemptId = attemptIdOf(taskId, 99);
    const event = {
      kind: "AttemptStarted",
      attemptId,
      epoch: 99,
      mark: markOf("sim", attemptId),
      head: null,
      atMs,
    } as const;
    return { kind: "event", taskId, number: 99, atMs, runMs, event };
  }),
  slices: withoutOne((entry) => entry.kind === "answer"),
  wakes: answeredTooLate,
  truth: toldTooOld,
  rereading: (history) => {
    const seen = new Set<string>();
    return changed("answer", (entry) => {
      const [shown, ...rest] = entry.tasks;
      if (shown?.phase !== "settled" || !shown.told || entry.stale || entry.form === "list") return null;
      const key = `${shown.taskId}:${shown.settlements}`;
      if (seen.has(key)) return { ...entry, tasks: [{ ...shown, result: "another" }, ...rest] };
      seen.add(key);
      return null;
    })(history);
  },
  pending: changed("answer", (entry, history) => {
    if (!callOf(history, entry)?.atRest) return null;
    return { ...entry, pending: { ...entry.pending, count: entry.pending.count + 10 } };
  }),
  foreign: (history) => {
    const shown = history.entries.find((entry) => entry.kind === "answer" && entry.tasks.length > 0);
    if (shown?.kind !== "answer") return null;
    return changed("call", (entry) => (entry.id === shown.id ? { ...entry, caller: "mallory" } : null))(history);
  },
  tree: changed("event", (entry) => {
    if (entry.event.kind !== "TaskAccepted") return null;
    // As if a task that has no child at work had delegated it.
    const origin = { ...entry.event.origin, parentTaskId: entry.taskId };
    return { ...entry, event: { ...entry.event, origin } };
  }),
  "one-child": after("process", (entry) => {
    if (entry.did !== "started") return null;
    return { ...entry, pid: entry.pid + 10_000, epoch: entry.epoch + 1 };
  }),
  "mark-first": before("event", (entry) => {
    if (entry.event.kind !== "AttemptStarted") return null;
    return strayOf(entry.taskId, entry.event.epoch, entry);
  }),
  "one-writer": after("process", (entry, history) => {
    if (entry.did !== "started" || entry.access !== "write") return null;
    const other = history.entries.find((one) => one.kind === "process" && one.taskId !== entry.taskId);
    if (other?.kind !== "process") return null;
    return { ...entry, pid: entry.pid + 10_000, taskId: other.taskId };
  }),
  claimed: after("process", (entry) => {
    if (entry.did !== "started" || entry.access !== "write") return null;
    const { taskId, atMs, runMs } = entry;
    return { kind: "claim", taskId, atMs, runMs, path: null };
  }),
  "ended-means-stopped": before("event", (entry) => {
    return entry.event.kind === "AttemptStopped" ? strayOf(entry.taskId, entry.event.epoch, entry) : null;
  }),
  attended: leftAlone,
  slots: ({ header, entries }) => ({ header: { ...header, slots: 0 }, entries }),
  sessions: changed("process", (entry) => (entry.did === "started" && entry.main ? { ...entry, session: "x" } : null)),
  "nothing-left": before("rest", ({ atMs, runMs }, history) => {
    const started = history.entries.find((entry) => entry.kind === "event" && entry.event.kind === "AttemptStarted");
    return started?.kind === "event" ? strayOf(started.taskId, 1, { atMs, runMs }) : null;
  }),
};

describe("the history checker", () => {
  it("finds nothing in what true worlds tell", () => {
    expect(histories.flatMap((history) => checkHistory(history))).toEqual([]);
  });

  it("has a broken history for every rule", () => {
    expect(Object.keys(CHANGES).sort()).toEqual(RULES.map(({ name }) => name).sort());
  });

  it.for(RULES)("breaks $name where it is not true that $says", ({ name }) => {
    const rules = histories.map((history) => {
      const broken = CHANGES[name]?.(history) ?? null;
      return broken === null ? [] : checkHistory(broken).map(({ rule }) => rule);
    });
    expect(rules.flat()).toContain(name);
  });

  it("judges a history without calls and processes by the rules that remain", () => {
    for (const { header, entries } of histories) {
      const told = entries.filter(({ kind }) => kind === "event" || kind === "snapshot" || kind === "daemon");
      const bare = told.map((entry) => ({ ...entry, runMs: null }));
      expect(checkHistory({ header: { ...header, source: "export" }, entries: bare })).toEqual([]);
      const torn = bare.filter((_, index) => index !== 3);
      expect(checkHistory({ header, entries: torn }).map(({ rule }) => rule)).toContain("numbering");
    }
  });

  it("stops telling after a hundred violations", () => {
    const history = longest();
    const entries = history.entries.map((entry) => (entry.kind === "answer" ? { ...entry, next: null } : entry));
    expect(checkHistory({ header: history.header, entries })).toHaveLength(100);
  });
});

describe("the history format", () => {
  it("refuses a line that is not of it, by number", () => {
    const text = encodeHistory(longest());
    const lines = text.split("\n");
    expect(decodeHistory(lines.with(3, '{"kind":"gossip"}').join("\n"))).toMatchObject({ kind: "refused", line: 4 });
    expect(decodeHistory(lines.with(0, '{"format":"other"}').join("\n"))).toMatchObject({ kind: "refused", line: 1 });
    expect(decodeHistory("")).toMatchObject({ kind: "refused", line: 1 });
    expect(decodeHistory(lines.with(2, "{").join("\n"))).toMatchObject({ kind: "refused", line: 3 });
  });

  it("refuses an event of a form that is not known instead of guessing", () => {
    const text = encodeHistory(longest()).replace('"event":{"v":2', '"event":{"v":99');
    expect(decodeHistory(text)).toMatchObject({ kind: "refused" });
  });
});

type Place<Kind extends Entry["kind"]> = (entry: EntryOf<Kind>, history: History) => Entry | null;

/** Replaces the first entry for which there is another one. */
function changed<Kind extends Entry["kind"]>(kind: Kind, place: Place<Kind>): Change {
  return at(kind, place, (_, other) => [other]);
}

/** Puts an entry behind the first one that asks for it. */
function after<Kind extends Entry["kind"]>(kind: Kind, place: Place<Kind>, times = 1): Change {
  return at(kind, place, (entry, other) => [entry, ...Array.from({ length: times }, () => other)]);
}

/** Puts an entry before the first one that asks for it. */
function before<Kind extends Entry["kind"]>(kind: Kind, place: Place<Kind>): Change {
  return at(kind, place, (entry, other) => [other, entry]);
}

function at<Kind extends Entry["kind"]>(
  kind: Kind,
  place: Place<Kind>,
  put: (entry: Entry, other: Entry) => readonly Entry[],
): Change {
  return (history) => {
    const { header, entries } = history;
    for (const [index, entry] of entries.entries()) {
      if (!isOf(entry, kind)) continue;
      const other = place(entry, history);
      if (other !== null) return { header, entries: entries.toSpliced(index, 1, ...put(entry, other)) };
    }
    return null;
  };
}

/** Leaves out all entries of this kind. */
function without(leave: (entry: Entry, before: Entry | undefined) => boolean): Change {
  return ({ header, entries }) => {
    const left = entries.filter((entry, index) => !leave(entry, entries[index - 1]));
    return left.length === entries.length ? null : { header, entries: left };
  };
}

function withoutOne(leave: (entry: Entry) => boolean): Change {
  return ({ header, entries }) => {
    const index = entries.findIndex(leave);
    return index < 0 ? null : { header, entries: entries.toSpliced(index, 1) };
  };
}

function isOf<Kind extends Entry["kind"]>(entry: Entry, kind: Kind): entry is EntryOf<Kind> {
  return entry.kind === kind;
}

function callOf({ entries }: History, answer: Entry): EntryOf<"call"> | null {
  if (answer.kind !== "answer") return null;
  const call = entries.find((entry) => entry.kind === "call" && entry.id === answer.id);
  return call?.kind === "call" ? call : null;
}

/** A process that nobody knows of. */
function strayOf(
  taskId: EntryOf<"process">["taskId"],
  epoch: number,
  { atMs, runMs }: Pick<Entry, "atMs" | "runMs">,
): Entry {
  const mark = markOf("sim", attemptIdOf(taskId, epoch));
  const what = { did: "started", pid: 99_999, access: "read", path: "/w", session: null } as const;
  return { kind: "process", atMs, runMs, taskId, epoch, mark, main: false, stubborn: false, ...what };
}

/** A delegation whose answer was taken away although its work exists; of a key that was used once. */
function refusedThoughCommitted(history: History): History | null {
  return changed("answer", (entry) => {
    const call = callOf(history, entry);
    if (call?.tool !== "delegate_task" || entry.created !== "new") return null;
    const later = history.entries.slice(history.entries.indexOf(call) + 1, history.entries.indexOf(entry));
    const overlaps = later.some((one) => one.kind === "call" && one.key === call.key && one.caller === call.caller);
    const first = history.entries.find(
      (one) => one.kind === "call" && one.key === call.key && one.caller === call.caller,
    );
    if (overlaps || first !== call) return null;
    return { ...entry, form: "refusal", created: "none", code: "storage_unavailable", tasks: [] };
  })(history);
}

/** A daemon that starts, and then does nothing about a task that an earlier one left running. */
function restartThatForgets(history: History): History | null {
  const { header, entries } = history;
  for (const [index, entry] of entries.entries()) {
    if (entry.kind !== "event" || entry.event.kind !== "AttemptLost" || !entry.event.unseen) continue;
    const { taskId } = entry;
    const told = entries.slice(0, index);
    const started = told.findLast((one) => one.kind === "daemon");
    const runMs = (entry.runMs ?? 0) + 60_000;
    if (started?.kind !== "daemon" || started.did !== "started") continue;
    const calm = told.filter((one) => one.kind !== "trouble");
    return { header, entries: [...calm, { kind: "claim", taskId, path: null, atMs: entry.atMs, runMs }] };
  }
  return null;
}

/** The answer to a wait, moved to seconds after its news. */
function answeredTooLate(history: History): History | null {
  const { header, entries } = history;
  for (const [index, entry] of entries.entries()) {
    const call = callOf(history, entry);
    if (entry.kind !== "answer" || call?.tool !== "task_wait" || entry.waitEnded !== "news") continue;
    const lateMs = (entry.runMs ?? 0) + 6_000;
    if (call.about === null || lateMs > (call.runMs ?? 0) + call.waitMs) continue;
    const later = entries.findIndex((one) => (one.runMs ?? 0) > lateMs);
    const between = entries.slice(index, later);
    if (later < 0 || between.some(({ kind }) => kind === "daemon" || kind === "trouble")) continue;
    return { header, entries: entries.toSpliced(later, 0, { ...entry, runMs: lateMs }).toSpliced(index, 1) };
  }
  return null;
}

/** An answer that tells of a task as it was before its last change, which is seconds old. */
function toldTooOld(history: History): History | null {
  return changed("answer", (entry) => {
    const [shown, ...rest] = entry.tasks;
    if (shown === undefined || entry.stale) return null;
    const last = history.entries.find(
      (one) => one.kind === "event" && one.taskId === shown.taskId && one.number === shown.version,
    );
    if (last === undefined || (entry.runMs ?? 0) - (last.runMs ?? 0) < 5_000) return null;
    return { ...entry, tasks: [{ ...shown, version: shown.version - 1 }, ...rest] };
  })(history);
}

/** A child whose daemon dies, and which nobody stops. */
function leftAlone({ header, entries }: History): History | null {
  const index = entries.findIndex(
    (entry) => entry.kind === "process" && entry.did === "started" && entry.main && !entry.stubborn,
  );
  const child = entries[index];
  if (child === undefined) return null;
  const told = entries.slice(0, index + 1).filter((entry) => entry.kind !== "trouble");
  const later = (ms: number) => ({ atMs: child.atMs + ms, runMs: (child.runMs ?? 0) + ms });
  const died: Entry = { kind: "daemon", did: "crashed", life: 1, ...later(1) };
  return { header, entries: [...told, died, { kind: "rest", waiting: 0, timers: 0, ...later(60_000) }] };
}

function longest(): History {
  const [history] = histories.toSorted((one, other) => other.entries.length - one.entries.length);
  if (history === undefined) throw new Error("no world has told its history");
  return history;
}
