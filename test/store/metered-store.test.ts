/** Timing changes nothing but the meter: the same calls, the same promises, the same failures. */

import { describe, expect, it } from "vitest";
import { threadIdFrom } from "../../src/core/ids.ts";
import type { ReceiptKey, Store, TaskQuery } from "../../src/ports/store.ts";
import { createMemoryStore } from "../../src/store/memory-store.ts";
import { createMeteredStore } from "../../src/store/metered-store.ts";
import { noMeter } from "../../src/system/no-meter.ts";
import { sampleTaskId } from "../support/sample-task.ts";
import { createStepClock } from "../support/step-clock.ts";

type Took = readonly [operation: string, ms: number];

/** A store whose every call is recorded and ends when the test says so. */
function recordedStore() {
  const calls: { readonly name: string; readonly args: readonly unknown[] }[] = [];
  const pending: PromiseWithResolvers<unknown>[] = [];
  const inner = new Proxy(createMemoryStore(), {
    get(_target, name) {
      if (name === "healthy") return () => false;
      return (...args: readonly unknown[]) => {
        calls.push({ name: String(name), args });
        const result = Promise.withResolvers<unknown>();
        pending.push(result);
        return result.promise;
      };
    },
  });
  return { inner, calls, pending };
}

function meteredStore(store: Store) {
  const clock = createStepClock();
  const took: Took[] = [];
  const meter = { ...noMeter, storeTook: (operation: string, ms: number) => void took.push([operation, ms]) };
  return { clock, took, store: createMeteredStore(store, meter, clock) };
}

const taskId = sampleTaskId(1);
const KEY: ReceiptKey = {
  caller: "me",
  parentTaskId: null,
  tool: "delegate_task",
  aboutTaskId: null,
  clientRequestId: "key-0123456789",
};
const QUERY: TaskQuery = {
  caller: "me",
  below: null,
  open: false,
  unread: false,
  conversation: null,
  status: null,
  parentTaskId: null,
  idPrefix: null,
  limit: 5,
  before: null,
};
type ReadName = Exclude<keyof Store, "write" | "healthy" | symbol>;

/** Every read, with arguments that only have to arrive. */
const READS: Readonly<Record<ReadName, (store: Store) => Promise<unknown>>> = {
  task: (store) => store.task(taskId),
  tasks: (store) => store.tasks([taskId], { caller: "me", below: null }),
  taskIdOfThread: (store) => store.taskIdOfThread(threadIdFrom("01ARZ3NDEKTSV4RRFFQ69G5FAV")),
  receipt: (store) => store.receipt(KEY),
  list: (store) => store.list(QUERY),
  pending: (store) => store.pending({ caller: "me", parentTaskId: null, conversation: null, shownMax: 1, limit: 2 }),
  unfinished: (store) => store.unfinished(),
  unfinishedBelow: (store) => store.unfinishedBelow([taskId]),
  settledBefore: (store) => store.settledBefore(1, 2),
  transcriptsSettledBefore: (store) => store.transcriptsSettledBefore(1, 2),
  text: (store) => store.text(taskId, "result"),
  events: (store) => store.events(taskId, 1, 2),
  milestones: (store) => store.milestones(taskId, 1, 2),
  transcript: (store) => store.transcript(taskId, 1, 2, 3),
  counts: (store) => store.counts(),
  dueNotices: (store) => store.dueNotices(1, 2),
  nextNoticeAtMs: (store) => store.nextNoticeAtMs(),
};

describe("a metered store", () => {
  it.each(Object.entries(READS))("hands %s on at once as it came, and times it", async (name, read) => {
    const { inner, calls, pending } = recordedStore();
    const { store, clock, took } = meteredStore(inner);
    void read(inner);
    const result = read(store);
    expect(calls[1]).toEqual({ name, args: calls[0]?.args });
    expect(result).toBe(pending[1]?.promise);
    clock.advance(25);
    pending[1]?.resolve("what the store said");
    expect(await result).toBe("what the store said");
    expect(took).toEqual([["read", 25]]);
  });

  it("times a write until it is durable, also one that fails, and passes the failure on", async () => {
    const { inner, pending } = recordedStore();
    const { store, clock, took } = meteredStore(inner);
    const written = store.write(async () => 1);
    const failing = store.write(async () => 2);
    clock.advance(7);
    pending[0]?.resolve(1);
    expect(await written).toBe(1);
    clock.advance(3);
    pending[1]?.reject(new Error("disk full"));
    await expect(failing).rejects.toThrow("disk full");
    expect(took).toEqual([
      ["write", 7],
      ["write", 10],
    ]);
  });

  it("does not time what takes none: health and the end", async () => {
    const { inner, calls, pending } = recordedStore();
    const { store, took } = meteredStore(inner);
    expect(store.healthy()).toBe(false);
    const closed = store[Symbol.asyncDispose]();
    pending[0]?.resolve(undefined);
    await closed;
    expect(calls).toHaveLength(1);
    expect(took).toEqual([]);
  });
});
