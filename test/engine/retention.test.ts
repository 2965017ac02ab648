/**
 * Retention: what is removed when, what never is, and what its keys say afterwards (contract §3, §10).
 */

import { describe, expect, it } from "vitest";
import type { TaskId } from "../../src/core/ids.ts";
import { LIMITS } from "../../src/core/limits.ts";
import { createRetention, type Retention } from "../../src/engine/retention.ts";
import type { Store } from "../../src/ports/store.ts";
import { createMemoryStore } from "../../src/store/memory-store.ts";
import { storageTrouble } from "../../src/store/storage-trouble.ts";
import { listAt, textAt } from "../support/json.ts";
import { createQuietLog, type QuietLog } from "../support/quiet-log.ts";
import {
  SAMPLE_START_MS,
  sampleAccepted,
  sampleContinued,
  sampleReceipt,
  sampleSettled,
  sampleStarted,
  sampleTaskId,
} from "../support/sample-task.ts";
import { createStepClock, type StepClock } from "../support/step-clock.ts";
import { callerOf, scriptOf, startTestEngine, type TestAnswer, type TestEngine } from "../support/test-engine.ts";

const KEY = "review-auth-1";
const HOUR = 3_600_000;
const DAY = 24 * HOUR;
const RETENTION = { transcriptsMs: 10 * DAY, resultsMs: 30 * DAY, tombstonesMs: 60 * DAY };
const PERSON = callerOf("alice", { kind: "person" });

const say = (text: string): object => ({ do: "say", text });
const told = (text: string): object => ({ do: "message", text });
const codeOf = ({ structured }: TestAnswer): string => textAt(structured, "error", "code");

const startEngine = (): Promise<TestEngine> => startTestEngine({ settings: { retention: RETENTION } });

/** Days pass, the last hour of them awake. */
async function days(test: TestEngine, count: number): Promise<void> {
  test.clock.sleepMachine(count * DAY - HOUR);
  await test.clock.advanceAndSettle(HOUR);
}

async function ended(test: TestEngine, steps: readonly object[] = [told("I look."), say("fine")]): Promise<string> {
  const { taskId } = await test.delegate(KEY, steps);
  await test.settle();
  return taskId;
}

async function texts(test: TestEngine, taskId: string, view = "messages"): Promise<readonly string[]> {
  const { structured } = await test.call("thread_read", { taskId, view });
  return listAt(structured, "fromChild", "parts").map((part) => textAt(part, "text"));
}

describe("what a task has left", () => {
  it("goes step by step: its transcript, then the task and its result, then the key (P9, D5)", async () => {
    await using test = await startEngine();
    const taskId = await ended(test);
    await days(test, 9);
    expect(await texts(test, taskId)).toContain("I look.");
    await days(test, 2);
    expect(await texts(test, taskId)).toEqual([expect.stringContaining("Do what"), "TaskSettled 1: completed"]);
    expect(await texts(test, taskId, "result")).toEqual(["fine"]);
    await days(test, 18);
    expect(await texts(test, taskId, "result")).toEqual(["fine"]);
    await days(test, 2);
    expect(codeOf(await test.status(taskId))).toBe("unknown_task");
    expect(codeOf(await test.call("thread_read", { taskId }))).toBe("unknown_task");
    for (const at of [31, 58]) {
      if (at > 31) await days(test, 27);
      const late = await test.delegate(KEY, [told("I look."), say("fine")]);
      expect([codeOf(late), late.structured["created"]]).toEqual(["expired_receipt", "none"]);
      await test.settle();
      expect(listAt((await test.call("task_list", {})).structured, "tasks")).toEqual([]);
    }
    await days(test, 3);
    const anew = await test.delegate(KEY, [say("again")]);
    expect(anew.structured).toMatchObject({ created: "new" });
    expect(anew.taskId).not.toBe(taskId);
  });

  it("has its time begin anew when it is continued (F14)", async () => {
    await using test = await startEngine();
    const taskId = await ended(test);
    await days(test, 9);
    const message = scriptOf([told("Again."), say("twice")], "Go on.");
    await test.call("task_continue", { taskId, clientRequestId: "continue-1", message }, { caller: PERSON });
    await test.settle();
    await days(test, 9);
    expect(await texts(test, taskId)).toEqual(expect.arrayContaining(["I look.", "Again."]));
    await days(test, 20);
    expect(await texts(test, taskId, "result")).toEqual(["twice"]);
    await days(test, 2);
    expect(codeOf(await test.status(taskId))).toBe("unknown_task");
  });

  it("is announced no more after it is gone", async () => {
    await using test = await startEngine();
    await ended(test);
    await days(test, 31);
    const { structured } = await test.call("task_list", {});
    expect([structured["pendingCompletions"], structured["pendingCount"]]).toEqual([undefined, undefined]);
  });
});

describe("what is never removed", () => {
  it("is a task that has not ended, however old (P14)", async () => {
    await using test = await startEngine();
    const { taskId } = await test.delegate(KEY, [told("I look."), { do: "waitFor", name: "go" }, say("fine")]);
    await test.settle();
    await days(test, 100);
    expect(await texts(test, taskId)).toContain("I look.");
    expect((await test.status(taskId)).structured["status"]).toBe("working");
  });

  it("is one whose processes are not proven gone, until they are (P5)", async () => {
    await using test = await startEngine();
    test.children.leave([{ pid: 4711, command: "sleep infinity" }]);
    const taskId = await ended(test);
    await test.clock.advanceAndSettle(40_000);
    await test.engine.cancel({ taskId, reason: null, abandon: true }, PERSON);
    await days(test, 100);
    expect((await test.status(taskId)).structured).toMatchObject({ stop: { proof: "abandoned" } });
    expect(await texts(test, taskId)).toContain("I look.");
    test.children.leave([]);
    await test.clock.advanceAndSettle(2 * HOUR);
    expect(codeOf(await test.status(taskId))).toBe("unknown_task");
  });
});

type World = Disposable & {
  readonly store: Store;
  readonly clock: StepClock;
  readonly log: QuietLog;
  readonly retention: Retention;
};

/** Retention alone, over a store that a test can change. */
function world(change: (store: Store) => Partial<Store> = () => ({})): World {
  const memory = createMemoryStore();
  const store: Store = { ...memory, ...change(memory) };
  const clock = createStepClock(SAMPLE_START_MS + 40 * DAY);
  const log = createQuietLog();
  const retention = createRetention({ store, clock, log, retention: RETENTION });
  return { store, clock, log, retention, [Symbol.dispose]: () => retention[Symbol.dispose]() };
}

/** Tasks from number `first` on, settled 40 days ago, with a transcript each. */
async function fill(store: Store, count: number, first = 1): Promise<void> {
  for (let n = first; n < first + count; n += 1) {
    const accepted = sampleAccepted(n);
    const started = sampleStarted(accepted.task);
    const settled = sampleSettled(started.task);
    await store.write(async (tx) => {
      for (const step of [accepted, started, settled]) await tx.append(step);
      await tx.putReceipt(sampleReceipt(accepted.task));
      const entry = { role: "child", atMs: SAMPLE_START_MS, text: "hello" } as const;
      await tx.appendTranscript(sampleTaskId(n), [entry], 1_000);
    });
  }
}

describe("removing", () => {
  it("happens at the start and every hour, a few at a time, each in a transaction of its own (P15)", async () => {
    const asked: number[] = [];
    let writes = 0;
    using test = world((store) => ({
      settledBefore: (beforeMs, limit) => {
        asked.push(limit);
        return store.settledBefore(beforeMs, limit);
      },
      write: (work) => {
        writes += 1;
        return store.write(work);
      },
    }));
    await fill(test.store, 120);
    writes = 0;
    test.retention.start();
    await untilDone(test);
    expect(await test.store.settledBefore(Number.MAX_SAFE_INTEGER, 1)).toEqual([]);
    expect(writes).toBeGreaterThanOrEqual(240);
    expect(asked.slice(0, -1)).toEqual(Array(4).fill(LIMITS.retentionBatch));
    expect(test.log.entries).toContainEqual({
      level: "info",
      event: "retention_pruned",
      fields: { dryRun: false, tasks: 120, transcripts: 120, receipts: 0 },
    });
    await fill(test.store, 3, 201);
    test.clock.advance(HOUR - 1);
    await untilDone(test);
    expect(await test.store.settledBefore(Number.MAX_SAFE_INTEGER, 10)).toHaveLength(3);
    await test.clock.advanceAndSettle(1);
    await untilDone(test);
    expect(await test.store.settledBefore(Number.MAX_SAFE_INTEGER, 10)).toEqual([]);
  });

  it("that fails is tried again within the hour, and nothing is lost meanwhile (F10)", async () => {
    let broken = true;
    using test = world((store) => ({
      write: (work) => (broken ? Promise.reject(storageTrouble("disk_full", "armed by the test")) : store.write(work)),
    }));
    broken = false;
    await fill(test.store, 2);
    broken = true;
    test.retention.start();
    await untilDone(test);
    expect(test.log.entries).toMatchObject([{ level: "error", event: "retention_failed" }]);
    expect(await test.store.settledBefore(Number.MAX_SAFE_INTEGER, 10)).toHaveLength(2);
    broken = false;
    await test.clock.advanceAndSettle(HOUR);
    await untilDone(test);
    expect(await test.store.settledBefore(Number.MAX_SAFE_INTEGER, 10)).toEqual([]);
  });

  it("spares a task that was continued after it was found, and goes on with the others (P3, P9)", async () => {
    const continued = async (store: Store): Promise<void> => {
      const task = await store.task(sampleTaskId(1));
      if (task?.state.kind !== "settled") return;
      await store.write((tx) => tx.append(sampleContinued(task)));
    };
    const late =
      (store: Store, find: Store["settledBefore"]): Store["settledBefore"] =>
      async (beforeMs, limit) => {
        const found = await find(beforeMs, limit);
        await continued(store);
        return found;
      };
    for (const name of ["settledBefore", "transcriptsSettledBefore"] as const) {
      using test = world((store) => ({ [name]: late(store, store[name]) }));
      await fill(test.store, 3);
      expect(await test.retention.prune({ dryRun: false })).toMatchObject({ tasks: 2 });
      const left: readonly (TaskId | undefined)[] = (await test.store.unfinished()).map(({ handle }) => handle.taskId);
      expect(left).toEqual([sampleTaskId(1)]);
      const transcript = await test.store.transcript(sampleTaskId(1), 0, 10, 1_000);
      expect(transcript).toHaveLength(name === "settledBefore" ? 0 : 1);
    }
  });

  it("can be tried dry: it counts all and touches nothing", async () => {
    using test = world();
    await fill(test.store, 600);
    const report = { dryRun: true, tasks: 600, transcripts: 600, receipts: null };
    expect(await test.retention.prune({ dryRun: true })).toEqual(report);
    expect(await test.retention.prune({ dryRun: true })).toEqual(report);
    expect(await test.store.settledBefore(Number.MAX_SAFE_INTEGER, 1_000)).toHaveLength(600);
  });

  it("forgets no key before its time, and all of them after it (D5)", async () => {
    using test = world();
    await fill(test.store, 120);
    expect(await test.retention.prune({ dryRun: false })).toMatchObject({ tasks: 120, receipts: 0 });
    test.clock.sleepMachine(19 * DAY);
    expect(await test.retention.prune({ dryRun: false })).toMatchObject({ tasks: 0, receipts: 0 });
    expect(await test.store.receipt(sampleReceipt(sampleAccepted(7).task))).not.toBeNull();
    test.clock.sleepMachine(2 * DAY);
    expect(await test.retention.prune({ dryRun: false })).toMatchObject({ tasks: 0, receipts: 120 });
    expect(await test.store.receipt(sampleReceipt(sampleAccepted(7).task))).toBeNull();
  });
});

/** Until it has set its next timer, or is waiting for it; bounded. */
async function untilDone({ clock }: World): Promise<void> {
  for (let turn = 0; turn < 2_000 && clock.timers() === 0; turn += 1) await clock.advanceAndSettle(0);
  expect(clock.timers()).toBe(1);
}
