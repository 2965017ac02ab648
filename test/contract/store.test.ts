/**
 * What every store promises, run over each of them.
 */

import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { TaskEvent } from "../../src/core/event.ts";
import { evolve } from "../../src/core/evolve.ts";
import type { Task } from "../../src/core/task.ts";
import type {
  NewTranscriptEntry,
  Notice,
  PendingQuery,
  Store,
  StoreWriter,
  TaskChange,
  TaskQuery,
  TranscriptEntry,
} from "../../src/ports/store.ts";
import { createMemoryStore } from "../../src/store/memory-store.ts";
import {
  SAMPLE_START_MS,
  sampleAccepted,
  sampleAcked,
  sampleAsked,
  sampleContinued,
  samplePath,
  sampleReceipt,
  sampleSettled,
  sampleStarted,
  sampleTaskId,
  sampleThreadId,
} from "../support/sample-task.ts";
import { type ArmedFaults, createArmedFaults, createTempDirectory, openTestStore } from "../support/test-store.ts";

type OpenStore = (faults: ArmedFaults) => Promise<{ readonly store: Store; readonly close: () => Promise<void> }>;

const openMemory: OpenStore = async (faults) => {
  const store = createMemoryStore({ faults });
  return { store, close: async () => store[Symbol.asyncDispose]() };
};

const openSqlite: OpenStore = async (faults) => {
  const directory = createTempDirectory();
  const store = await openTestStore({ dataDir: directory.path, faults });
  return {
    store,
    close: async () => {
      await store[Symbol.asyncDispose]();
      directory[Symbol.dispose]();
    },
  };
};

const STORES: readonly { readonly name: string; readonly open: OpenStore }[] = [
  { name: "memory", open: openMemory },
  { name: "sqlite", open: openSqlite },
];

const ANY: TaskQuery = {
  caller: null,
  below: null,
  open: false,
  unread: false,
  conversation: null,
  status: null,
  parentTaskId: null,
  idPrefix: null,
  limit: 50,
  before: null,
};
const PENDING: PendingQuery = { caller: "alice", parentTaskId: null, conversation: null, shownMax: 3, limit: 5 };

describe.each(STORES)("a store ($name)", ({ open }) => {
  let faults: ArmedFaults;
  let store: Store;
  let close: () => Promise<void>;

  beforeEach(async () => {
    faults = createArmedFaults();
    ({ store, close } = await open(faults));
  });
  afterEach(() => close());

  /** Stores changes in one transaction each and answers with the newest task. */
  const put = async (...changes: readonly TaskChange[]): Promise<Task> => {
    let task: Task | null = null;
    for (const change of changes) {
      expect(await store.write((tx) => tx.append(change))).toBe(true);
      task = change.task;
    }
    if (task === null) throw new Error("nothing was put");
    return task;
  };
  const putSettled = async (n: number, ...rest: Parameters<typeof settledFrom>[1][]): Promise<Task> => {
    const accepted = sampleAccepted(n, ...rest);
    const started = sampleStarted(accepted.task);
    return put(accepted, started, sampleSettled(started.task));
  };
  const settledFrom = (task: Task, _options?: Parameters<typeof sampleAccepted>[1]): readonly TaskChange[] => {
    const started = sampleStarted(task);
    return [started, sampleSettled(started.task)];
  };
  const idsOf = (tasks: readonly Task[]): readonly string[] => tasks.map((task) => task.handle.taskId);
  const listed = async (query: Partial<TaskQuery>): Promise<readonly string[]> =>
    idsOf((await store.list({ ...ANY, ...query })).tasks);

  describe("accepting", () => {
    it("lets one of 20 calls with one key in one turn win and shows its receipt to the others (P3, D3)", async () => {
      const attempt = (n: number) =>
        store.write(async (tx) => {
          const change = sampleAccepted(n, { key: "one-key-for-all" });
          const receipt = sampleReceipt(change.task);
          const earlier = await tx.receipt(receipt);
          if (earlier !== null) return { won: false, taskId: earlier.taskId };
          await tx.append(change);
          await tx.putReceipt(receipt);
          return { won: true, taskId: receipt.taskId };
        });
      const answers = await Promise.all(Array.from({ length: 20 }, (_, index) => attempt(index + 1)));

      expect(answers.filter((answer) => answer.won)).toHaveLength(1);
      expect(new Set(answers.map((answer) => answer.taskId)).size).toBe(1);
      expect(await listed({})).toHaveLength(1);
    });

    it("refuses a second receipt for a key and leaves no trace of the work that tried (P3, D7)", async () => {
      const first = sampleAccepted(1, { key: "taken-key" });
      const second = sampleAccepted(2, { key: "taken-key" });
      const accept = (change: TaskChange) =>
        store.write(async (tx) => {
          await tx.append(change);
          await tx.putReceipt(sampleReceipt(change.task));
        });
      await accept(first);

      await expect(accept(second)).rejects.toThrow();
      expect(await store.task(sampleTaskId(2))).toBeNull();
      expect((await store.receipt(sampleReceipt(first.task)))?.taskId).toBe(sampleTaskId(1));
      expect(store.healthy()).toBe(true);
    });

    it("keeps keys apart by caller, parent, tool and continued task, and gives a receipt back whole (P3)", async () => {
      const { task } = sampleAccepted(1);
      const receipts = [
        sampleReceipt(task),
        sampleReceipt(task, { caller: "bob" }),
        sampleReceipt(task, { parentTaskId: sampleTaskId(9) }),
        sampleReceipt(task, { tool: "task_continue", aboutTaskId: sampleTaskId(1) }),
        sampleReceipt(task, { tool: "task_continue", aboutTaskId: sampleTaskId(2) }),
      ];
      await store.write(async (tx) => {
        for (const receipt of receipts) await tx.putReceipt(receipt);
      });

      for (const receipt of receipts) {
        expect(await store.receipt(receipt)).toEqual(receipt);
        expect(await store.write((tx) => tx.receipt(receipt))).toEqual(receipt);
      }
      expect(await store.receipt(sampleReceipt(task, { clientRequestId: "another-key" }))).toBeNull();
    });

    it("loses none of 100 concurrent delegations with their event writes (P3, E5)", async () => {
      const delegations = Array.from({ length: 100 }, (_, index) => {
        const change = sampleAccepted(index + 1, { prompt: `prompt ${index + 1}` });
        return store.write(async (tx) => {
          await tx.append(change);
          await tx.putReceipt(sampleReceipt(change.task));
        });
      });
      const progress = Array.from({ length: 100 }, (_, index) =>
        store.write((tx) => tx.append(sampleStarted(sampleAccepted(index + 1).task))),
      );
      await Promise.all(delegations);

      expect(await Promise.all(progress)).toEqual(Array.from({ length: 100 }, () => true));
      for (let n = 1; n <= 100; n++) {
        expect((await store.task(sampleTaskId(n)))?.version).toBe(3);
        expect(await store.text(sampleTaskId(n), "prompt.r1")).toBe(`prompt ${n}`);
        expect(await store.receipt(sampleReceipt(sampleAccepted(n).task))).not.toBeNull();
      }
    });
  });

  describe("committing", () => {
    it("shows nothing and answers nobody before the commit stands, not even with a refusal (P4)", async () => {
      const release = faults.hold("before_commit");
      const answered: string[] = [];
      const accepted = sampleAccepted(1);
      const works = [
        store.write((tx) => tx.append(accepted)).then(() => answered.push("accepted")),
        store.write(refuseWith("no")).catch(() => answered.push("refused")),
      ];
      await faults.reached("before_commit");
      await turns(5);

      expect(await store.task(sampleTaskId(1))).toBeNull();
      expect(answered).toEqual([]);
      release();
      await Promise.all(works);
      expect(answered).toEqual(["accepted", "refused"]);
      expect(await store.task(sampleTaskId(1))).toEqual(accepted.task);
    });

    it("leaves no trace of a work that throws and does not touch the others of its turn (P4)", async () => {
      const broken = sampleAccepted(2, { cwd: "/repo/broken" });
      const works = await Promise.allSettled([
        store.write((tx) => tx.append(sampleAccepted(1))),
        store.write(async (tx) => {
          await tx.append(broken);
          await tx.putReceipt(sampleReceipt(broken.task));
          await tx.putClaim({ taskId: broken.task.handle.taskId, caller: "alice", path: "/repo/broken", sinceMs: 1 });
          throw new Error("changed its mind");
        }),
        store.write((tx) => tx.append(sampleAccepted(3))),
      ]);

      expect(works.map((work) => work.status)).toEqual(["fulfilled", "rejected", "fulfilled"]);
      expect(works[1]).toMatchObject({ reason: { message: "changed its mind" } });
      expect(await listed({})).toEqual([sampleTaskId(3), sampleTaskId(1)]);
      expect(await store.receipt(sampleReceipt(broken.task))).toBeNull();
      expect(await store.text(sampleTaskId(2), "prompt.r1")).toBeNull();
      expect(await store.events(sampleTaskId(2), 0, 10)).toEqual([]);
      expect(await store.write((tx) => tx.claimHolder("/repo/broken", "alice"))).toBeNull();
      expect(store.healthy()).toBe(true);
    });

    it("undoes a work that throws when it is alone in its turn (P4)", async () => {
      const work = store.write(async (tx) => {
        await tx.append(sampleAccepted(1));
        throw new Error("changed its mind");
      });

      await expect(work).rejects.toThrow("changed its mind");
      expect(await store.task(sampleTaskId(1))).toBeNull();
    });

    it("shows a work what it and the works before it have written", async () => {
      const first = sampleAccepted(1, { cwd: "/repo/seen" });
      await Promise.all([
        store.write(async (tx) => {
          await tx.append(first);
          expect(await tx.task(sampleTaskId(1))).toEqual(first.task);
        }),
        store.write(async (tx) => {
          expect(await tx.task(sampleTaskId(1))).toEqual(first.task);
          expect(await tx.append(sampleStarted(first.task))).toBe(true);
        }),
      ]);

      expect((await store.task(sampleTaskId(1)))?.version).toBe(3);
    });

    it("names the trouble of a failed commit, writes nothing, and is healthy again after the next one (P15)", async () => {
      faults.failOnce("before_commit", new Error("the disk went away"));
      const failed = store.write((tx) => tx.append(sampleAccepted(1)));

      await expect(failed).rejects.toMatchObject({ storageCode: "commit_failed" });
      expect(store.healthy()).toBe(false);
      expect(await store.task(sampleTaskId(1))).toBeNull();
      await expect(store.write(refuseWith("its own doing"))).rejects.toThrow("its own doing");
      expect(store.healthy()).toBe(false);
      await put(sampleAccepted(1));
      expect(store.healthy()).toBe(true);
      expect((await store.events(sampleTaskId(1), 0, 10)).map((row) => row.number)).toEqual([1, 2]);
    });

    it("keeps what was committed when only the word of it was lost (P4)", async () => {
      faults.failOnce("after_commit", new Error("the machine was busy elsewhere"));

      await expect(store.write((tx) => tx.append(sampleAccepted(1)))).rejects.toMatchObject({
        storageCode: "commit_failed",
      });
      expect((await store.task(sampleTaskId(1)))?.version).toBe(2);
    });

    it("refuses a transaction that is used after its work has ended", async () => {
      const kept: StoreWriter[] = [];
      await store.write(async (tx) => void kept.push(tx));

      await expect(Promise.all(kept.map((tx) => tx.append(sampleAccepted(1))))).rejects.toThrow("invariant broken");
      expect(await store.task(sampleTaskId(1))).toBeNull();
    });

    it("commits what was handed over before it is closed, and refuses by name after", async () => {
      const last = store.write((tx) => tx.append(sampleAccepted(1)));
      const closing = store[Symbol.asyncDispose]();

      expect(await last).toBe(true);
      await closing;
      await expect(store.write((tx) => tx.append(sampleAccepted(2)))).rejects.toMatchObject({ storageCode: "closed" });
      await expect(store.task(sampleTaskId(1))).rejects.toMatchObject({ storageCode: "closed" });
    });
  });

  describe("appending", () => {
    it("refuses a change that follows an old version and writes nothing of it (P2)", async () => {
      const accepted = sampleAccepted(1);
      const started = sampleStarted(accepted.task);
      await put(accepted, started);
      const late = { ...sampleSettled(started.task, "cancelled"), texts: [{ name: "result.r1", body: "late" }] };
      const behind = { ...late, task: { ...late.task, version: late.task.version - 1 }, expectedVersion: 2 };

      expect(await store.write((tx) => tx.append(behind))).toBe(false);
      expect(await store.task(sampleTaskId(1))).toEqual(started.task);
      expect(await store.events(sampleTaskId(1), 0, 10)).toHaveLength(3);
      expect(await store.text(sampleTaskId(1), "result.r1")).toBeNull();
    });

    it("creates a task once (P2)", async () => {
      await put(sampleAccepted(1));

      expect(await store.write((tx) => tx.append({ ...sampleAccepted(1), texts: [{ name: "x", body: "y" }] }))).toBe(
        false,
      );
      expect(await store.text(sampleTaskId(1), "x")).toBeNull();
    });

    it("lets one of two holders of the same version win (P2)", async () => {
      const accepted = await put(sampleAccepted(1));
      const both = [sampleStarted(accepted), sampleSettled(accepted, "cancelled")];
      const results = await Promise.all(both.map((change) => store.write((tx) => tx.append(change))));

      expect(results).toEqual([true, false]);
      expect((await store.task(sampleTaskId(1)))?.state.kind).toBe("running");
    });

    it("numbers events 1, 2, … without a gap and pages them (P14)", async () => {
      const accepted = sampleAccepted(1);
      const started = sampleStarted(accepted.task);
      const settled = sampleSettled(started.task);
      await put(accepted, started, settled);
      const all = [...accepted.events, ...started.events, ...settled.events].map((event, index) => ({
        number: index + 1,
        event,
      }));

      expect(await store.events(sampleTaskId(1), 0, 100)).toEqual(all);
      expect(await store.events(sampleTaskId(1), 2, 2)).toEqual(all.slice(2, 4));
      expect(await store.events(sampleTaskId(1), all.length, 2)).toEqual([]);
      expect(await store.events(sampleTaskId(9), 0, 2)).toEqual([]);
    });

    it("leaves signs of life out of milestones, and nothing else (P15)", async () => {
      const accepted = sampleAccepted(1);
      const started = sampleStarted(accepted.task);
      const alive = Array.from({ length: 50 }, (_, at): TaskEvent => {
        return { atMs: at, kind: "ProgressRecorded", epoch: 1, steps: 1, toolRunningSinceMs: null };
      });
      const lived = alive.reduce<Task | null>(evolve, started.task) ?? started.task;
      const progress = { task: lived, events: alive, expectedVersion: started.task.version, texts: [] };
      const tricky = { kind: "fake", name: '"kind":"ProgressRecorded"' };
      const asked = sampleAsked(lived, { action: tricky });
      await put(accepted, started, progress, asked);
      const told = (await store.events(sampleTaskId(1), 0, 500)).filter(
        ({ event }) => event.kind !== "ProgressRecorded",
      );

      expect(told.at(-1)).toMatchObject({ event: { kind: "InputRequested", question: { action: tricky } } });
      expect(await store.milestones(sampleTaskId(1), 0, 500)).toEqual(told);
      expect(await store.milestones(sampleTaskId(1), 3, 1)).toEqual(
        told.filter(({ number }) => number > 3).slice(0, 1),
      );
      expect(await store.milestones(sampleTaskId(1), 500, 5)).toEqual([]);
      expect(await store.milestones(sampleTaskId(9), 0, 5)).toEqual([]);
    });

    it("refuses a change whose version does not count its events", async () => {
      const change = sampleAccepted(1);
      const skewed = { ...change, task: { ...change.task, version: 7 } };

      await expect(store.write((tx) => tx.append(skewed))).rejects.toThrow("invariant broken");
      expect(await store.task(sampleTaskId(1))).toBeNull();
    });

    it("returns values that nobody can change the stored ones through", async () => {
      const change = sampleAccepted(1);
      const receipt = sampleReceipt(change.task);
      await store.write(async (tx) => {
        await tx.append(change);
        await tx.putReceipt(receipt);
      });
      const before = JSON.stringify(await snapshot());

      for (const value of [change, receipt, ...(await snapshot())]) tamper(value);
      expect(JSON.stringify(await snapshot())).toBe(before);

      async function snapshot() {
        const taskId = sampleTaskId(1);
        return [
          await store.task(taskId),
          await store.events(taskId, 0, 9),
          await store.receipt(sampleReceipt(sampleAccepted(1).task)),
        ];
      }
    });
  });

  describe("texts", () => {
    it.each([
      ["CJK and emoji", "子任务完成 ✅ 👩‍👩‍👧‍👦 𠮷 — ﷽ \n\t\"quoted\" 'and' \\ back"],
      ["nothing", ""],
      ["control characters", "a\u0000b\u001b[31mred\u0007"],
      ["8 MB", "漢字🙂x".repeat(800_000)],
    ])("gives a text back byte for byte: %s (S3)", async (_, body) => {
      const change = sampleAccepted(1);
      await put({ ...change, texts: [{ name: "result.r1", body }] });

      const read = await store.text(sampleTaskId(1), "result.r1");
      expect(read === body).toBe(true);
    });

    it("replaces a text of the same name and keeps texts of tasks apart", async () => {
      const one = sampleAccepted(1);
      const other = sampleAccepted(2);
      await put(
        { ...one, texts: [{ name: "result.r1", body: "old" }] },
        { ...other, texts: [{ name: "result.r1", body: "other" }] },
      );
      await put({ ...sampleStarted(one.task), texts: [{ name: "result.r1", body: "new" }] });

      expect(await store.text(sampleTaskId(1), "result.r1")).toBe("new");
      expect(await store.text(sampleTaskId(2), "result.r1")).toBe("other");
      expect(await store.text(sampleTaskId(1), "result.r2")).toBeNull();
      expect(await store.text(sampleTaskId(3), "result.r1")).toBeNull();
    });
  });

  describe("claims", () => {
    it.each([
      ["/repo/a", "/repo/a", true],
      ["/repo/a", "/repo/a/deep/below", true],
      ["/repo/a", "/repo", true],
      ["/repo/a", "/", true],
      ["/", "/repo/a", true],
      ["/repo/a", "/repo/ab", false],
      ["/repo/ab", "/repo/a", false],
      ["/repo/a", "/repo/a.b", false],
      ["/repo/a", "/repo/a!", false],
      ["/repo/a/b", "/repo/a/c", false],
      ["/repo/a", "/other", false],
    ])("a claim on %s and a wish for %s collide: %s (P10)", async (held, wanted, collide) => {
      await claim(1, "alice", held);

      const holder = await store.write((tx) => tx.claimHolder(wanted, "alice"));
      expect(holder !== null).toBe(collide);
    });

    it("names its own holder with the handle and hides another caller's (P10, P16)", async () => {
      const task = await claim(1, "alice", "/repo/a");

      expect(await store.write((tx) => tx.claimHolder("/repo/a/b", "alice"))).toEqual({
        mine: true,
        handle: task.handle,
        sinceMs: 1_001,
      });
      expect(await store.write((tx) => tx.claimHolder("/repo/a/b", "bob"))).toEqual({ mine: false, sinceMs: 1_001 });
    });

    it("names the oldest of several holders (P10)", async () => {
      await claim(3, "alice", "/repo");
      await claim(2, "bob", "/repo/a");
      await claim(1, "alice", "/repo/a/b");

      expect(await store.write((tx) => tx.claimHolder("/repo/a", "alice"))).toMatchObject({
        mine: true,
        sinceMs: 1_001,
      });
      expect(await store.write((tx) => tx.claimHolder("/repo/a/c", "alice"))).toEqual({ mine: false, sinceMs: 1_002 });
    });

    it("frees the path when a claim is dropped (P10)", async () => {
      await claim(1, "alice", "/repo/a");
      expect(await store.write((tx) => tx.hasClaim(sampleTaskId(1)))).toBe(true);

      await store.write((tx) => tx.dropClaim(sampleTaskId(1)));
      expect(await store.write((tx) => tx.hasClaim(sampleTaskId(1)))).toBe(false);
      expect(await store.write((tx) => tx.claimHolder("/repo/a", "alice"))).toBeNull();
    });

    it("gives a path that two works of one turn want to the first (P10, D1)", async () => {
      const wish = (n: number) =>
        store.write(async (tx) => {
          const change = sampleAccepted(n);
          await tx.append(change);
          const holder = await tx.claimHolder("/repo/a", "alice");
          if (holder !== null) return holder;
          await tx.putClaim({ taskId: change.task.handle.taskId, caller: "alice", path: "/repo/a", sinceMs: n });
          return null;
        });
      const [first, second] = await Promise.all([wish(1), wish(2)]);

      expect(first).toBeNull();
      expect(second).toMatchObject({ mine: true, handle: { taskId: sampleTaskId(1) } });
    });

    async function claim(n: number, caller: string, path: string): Promise<Task> {
      const change = sampleAccepted(n, { caller });
      await store.write(async (tx) => {
        await tx.append(change);
        await tx.putClaim({ taskId: change.task.handle.taskId, caller, path, sinceMs: 1_000 + n });
      });
      return change.task;
    }
  });

  describe("finding", () => {
    it("gives tasks by id in the order asked, and leaves foreign and unknown ids out alike (P16)", async () => {
      const mine = await put(sampleAccepted(1));
      const other = await put(sampleAccepted(2, { caller: "bob" }));
      const asked = [sampleTaskId(7), sampleTaskId(2), sampleTaskId(1), sampleTaskId(1)];

      expect(await store.tasks(asked, { caller: "alice", below: null })).toEqual([mine]);
      expect(await store.tasks(asked, { caller: "carol", below: null })).toEqual([]);
      expect(await store.tasks(asked, { caller: null, below: null })).toEqual([other, mine]);
      expect(await store.tasks([], { caller: "alice", below: null })).toEqual([]);
    });

    it("shows a child what is below its own task and nothing beside, above or of itself (P16, P18)", async () => {
      const { own, below, tasks } = await putTree();
      const reach = { caller: "alice", below: samplePath(own) };
      const all = tasks.map((task) => task.handle.taskId);

      expect(await store.tasks([...all, sampleTaskId(99)], reach)).toEqual(below);
      expect(await store.tasks(all, { ...reach, caller: "bob" })).toEqual([]);
      expect(await store.tasks(all, { ...reach, caller: null })).toEqual(below);
      expect(await listed(reach)).toEqual(idsOf(below).toReversed());
      expect(await listed({ ...reach, caller: null })).toEqual(idsOf(below).toReversed());
      expect(await listed({ ...reach, caller: "bob" })).toEqual([]);
    });

    it("filters and pages what is below a task like everything else (P16, P15)", async () => {
      const { own, below } = await putTree();
      const reach = { caller: "alice", below: samplePath(own) };
      const [child, grandchild, other] = idsOf(below);

      expect(await listed({ ...reach, parentTaskId: own.handle.taskId })).toEqual([other, child]);
      expect(await listed({ ...reach, parentTaskId: "root" })).toEqual([]);
      expect(await listed({ ...reach, open: true })).toEqual([grandchild, child]);
      expect(await listed({ ...reach, unread: true })).toEqual([other]);
      expect(await listed({ ...reach, status: "completed" })).toEqual([other]);
      expect(await listed({ ...reach, conversation: "talk" })).toEqual([]);
      expect(await listed({ ...reach, idPrefix: grandchild ?? "" })).toEqual([grandchild]);
      const first = await store.list({ ...ANY, ...reach, limit: 2 });
      expect({ ids: idsOf(first.tasks), more: first.more }).toEqual({ ids: [other, grandchild], more: true });
      const rest = await store.list({ ...ANY, ...reach, limit: 2, before: first.tasks[1]?.handle.taskId ?? null });
      expect({ ids: idsOf(rest.tasks), more: rest.more }).toEqual({ ids: [child], more: false });
    });

    it("names what is unfinished below a task, at any depth, inside a work too (P14)", async () => {
      const { own, below } = await putTree();
      const [child, grandchild] = below;
      const unfinished = [child, grandchild];
      const sorted = (tasks: readonly Task[]) => tasks.toSorted((one, two) => one.createdAtMs - two.createdAtMs);

      expect(sorted(await store.unfinishedBelow(samplePath(own)))).toEqual(unfinished);
      expect(sorted(await store.write((tx) => tx.unfinishedBelow(samplePath(own))))).toEqual(unfinished);
      expect(await store.unfinishedBelow([sampleTaskId(99)])).toEqual([]);
      await store.write(async (tx) => {
        const late = sampleAccepted(50, { parent: own });
        await tx.append(late);
        expect(idsOf(await tx.unfinishedBelow(samplePath(own)))).toContain(late.task.handle.taskId);
      });
    });

    it("refuses a path that names nothing, which would mean everything (P16)", async () => {
      await put(sampleAccepted(1));
      await expect(store.unfinishedBelow([])).rejects.toThrow("invariant broken");
      await expect(store.list({ ...ANY, below: [] })).rejects.toThrow("invariant broken");
      await expect(store.tasks([sampleTaskId(1)], { caller: null, below: [] })).rejects.toThrow("invariant broken");
    });

    it("tells a task from one whose id begins like it (P16)", async () => {
      const root = await put(sampleAccepted(1));
      const own = await put(sampleAccepted(32, { parent: root }));
      const neighbour = await put(sampleAccepted(33, { parent: root }));
      const below = await put(sampleAccepted(34, { parent: own }));
      await put(sampleAccepted(35, { parent: neighbour }));

      expect(await listed({ below: samplePath(own) })).toEqual([below.handle.taskId]);
    });

    /** Two trees of alice; in the first: a root, `own` and a sibling with a child each, and what is `below` own. */
    async function putTree() {
      const root = await put(sampleAccepted(10));
      const own = await put(sampleAccepted(11, { parent: root }));
      const sibling = await put(sampleAccepted(12, { parent: root }));
      const niece = await put(sampleAccepted(13, { parent: sibling }));
      const child = await put(sampleAccepted(14, { parent: own }));
      const grandchild = await put(sampleAccepted(15, { parent: child }));
      const settled = await putSettled(16, { parent: own });
      const stranger = await put(sampleAccepted(17, { parent: await put(sampleAccepted(18)) }));
      const below = [child, grandchild, settled];
      return { own, below, tasks: [root, own, sibling, niece, ...below, stranger] };
    }

    it("finds a task by its thread (P2)", async () => {
      await put(sampleAccepted(1));

      expect(await store.taskIdOfThread(sampleThreadId(1))).toBe(sampleTaskId(1));
      expect(await store.taskIdOfThread(sampleThreadId(2))).toBeNull();
    });

    it("lists newest first, by each filter, with and without a caller (P16)", async () => {
      const root = await put(sampleAccepted(1, { conversation: "talk" }));
      await putSettled(2);
      const acknowledged = await putSettled(3, { conversation: "talk" });
      await put(sampleAcked(acknowledged));
      const asking = sampleStarted(await put(sampleAccepted(4, { parent: root })));
      await put(asking, sampleAsked(asking.task));
      await put(sampleAccepted(5, { caller: "bob", conversation: "talk" }));
      await putSettled(6, { caller: "bob" });

      const expected: readonly [Partial<TaskQuery>, readonly number[], readonly number[]][] = [
        [{}, [4, 3, 2, 1], [6, 5, 4, 3, 2, 1]],
        [{ open: true }, [4, 1], [5, 4, 1]],
        [{ unread: true }, [2], [6, 2]],
        [{ conversation: "talk" }, [3, 1], [5, 3, 1]],
        [{ status: "completed" }, [3, 2], [6, 3, 2]],
        [{ status: "working" }, [1], [5, 1]],
        [{ status: "input_required" }, [4], [4]],
        [{ status: "cancelled" }, [], []],
        [{ parentTaskId: sampleTaskId(1) }, [4], [4]],
        [{ parentTaskId: "root" }, [3, 2, 1], [6, 5, 3, 2, 1]],
        [{ parentTaskId: "root", open: true }, [1], [5, 1]],
        [{ idPrefix: sampleTaskId(3) }, [3], [3]],
        [{ idPrefix: sampleTaskId(3).slice(0, -1) }, [4, 3, 2, 1], [6, 5, 4, 3, 2, 1]],
        [{ idPrefix: "dt_99" }, [], []],
        [{ before: sampleTaskId(3) }, [2, 1], [2, 1]],
        [{ open: true, conversation: "talk", status: "working" }, [1], [5, 1]],
      ];
      for (const [filter, ofAlice, ofAll] of expected) {
        expect(await listed({ ...filter, caller: "alice" }), JSON.stringify(filter)).toEqual(ofAlice.map(sampleTaskId));
        expect(await listed(filter), JSON.stringify(filter)).toEqual(ofAll.map(sampleTaskId));
      }
    });

    it("pages through tasks of one moment without losing or repeating one (P15)", async () => {
      for (let n = 1; n <= 7; n++) await put(sampleAccepted(n, { createdAtMs: SAMPLE_START_MS }));
      const pages: (readonly string[])[] = [];
      let before: TaskQuery["before"] = null;
      for (let page = 0; page < 4; page++) {
        const { tasks, more } = await store.list({ ...ANY, caller: "alice", limit: 2, before });
        pages.push(idsOf(tasks));
        before = tasks.at(-1)?.handle.taskId ?? null;
        expect(more).toBe(page < 3);
      }

      expect(pages.map((page) => page.length)).toEqual([2, 2, 2, 1]);
      expect(pages.flat()).toEqual([7, 6, 5, 4, 3, 2, 1].map(sampleTaskId));
    });

    it("names everything that is not over: open tasks, and settled ones whose processes are not proven gone (P14)", async () => {
      await putSettled(1);
      const started = sampleStarted(await put(sampleAccepted(2)));
      await put(started, sampleSettled(started.task, "cancelled", { leavesResidue: true }));
      await put(sampleAccepted(3));

      expect(idsOf(await store.unfinished())).toEqual([sampleTaskId(2), sampleTaskId(3)]);
    });

    it("counts tasks by status", async () => {
      await put(sampleAccepted(1));
      await putSettled(2);
      await putSettled(3, { caller: "bob" });

      expect(await store.counts()).toEqual({ working: 1, input_required: 0, completed: 2, failed: 0, cancelled: 0 });
    });

    it("counts what the limits of a delegation ask about (P15)", async () => {
      const root = await put(sampleAccepted(1));
      const child = await put(sampleAccepted(2, { parent: root }));
      await put(sampleAccepted(3, { parent: child, caller: "bob" }));
      await putSettled(4);
      const load = (caller: string, rootTaskId: Task["handle"]["taskId"] | null, sinceMs: number) =>
        store.write((tx) => tx.load({ caller, rootTaskId, sinceMs }));

      expect(await load("alice", null, 0)).toEqual({ openTasks: 3, tasksInTree: 0, delegationsSince: 3 });
      expect(await load("alice", sampleTaskId(1), SAMPLE_START_MS + 2_000)).toEqual({
        openTasks: 3,
        tasksInTree: 2,
        delegationsSince: 2,
      });
      expect(await load("carol", sampleTaskId(4), 0)).toEqual({ openTasks: 3, tasksInTree: 0, delegationsSince: 0 });
    });
  });

  describe("announcing", () => {
    const pendingIds = async (query: Partial<PendingQuery> = {}) => {
      const { tasks, count } = await store.pending({ ...PENDING, ...query });
      return { ids: idsOf(tasks), count };
    };
    const show = (...numbers: readonly number[]) =>
      store.write((tx) => tx.countShown(numbers.map((n) => ({ taskId: sampleTaskId(n), settlement: 1 }))));

    it("names unread settlements oldest first, those of this conversation only, and counts all (P9, L5)", async () => {
      await putSettled(3, { conversation: "talk", createdAtMs: SAMPLE_START_MS });
      await putSettled(1, { conversation: "other" });
      await putSettled(2, { conversation: "talk" });
      await putSettled(4, { caller: "bob", conversation: "talk" });
      await put(sampleAccepted(5, { conversation: "talk" }));

      expect(await pendingIds({ conversation: "talk" })).toEqual({ ids: [3, 2].map(sampleTaskId), count: 3 });
      expect(await pendingIds()).toEqual({ ids: [3, 1, 2].map(sampleTaskId), count: 3 });
      expect(await pendingIds({ limit: 1 })).toEqual({ ids: [sampleTaskId(3)], count: 3 });
      expect(await pendingIds({ caller: "carol" })).toEqual({ ids: [], count: 0 });
    });

    it("shows each settlement a bounded number of times and then only counts it (P15)", async () => {
      await putSettled(1);
      await putSettled(2);
      await show(1);
      expect((await pendingIds()).ids).toEqual([1, 2].map(sampleTaskId));
      await show(1, 2);
      await show(1);

      expect(await pendingIds()).toEqual({ ids: [sampleTaskId(2)], count: 2 });
      expect(await pendingIds({ shownMax: 1 })).toEqual({ ids: [], count: 2 });
    });

    it("is silent after an acknowledgement, and announces the next settlement from the start (P9)", async () => {
      const settled = await putSettled(1);
      await show(1);
      await show(1);
      await show(1);
      const acknowledged = await put(sampleAcked(settled));
      expect(await pendingIds()).toEqual({ ids: [], count: 0 });

      const continued = await put(sampleContinued(acknowledged));
      expect(await pendingIds()).toEqual({ ids: [], count: 0 });
      await put(...settledFrom(continued));
      expect(await pendingIds()).toEqual({ ids: [sampleTaskId(1)], count: 1 });
    });

    it("tells each settlement to whoever delegated it: the root caller, or the child of one task (P9, P16)", async () => {
      const root = await put(sampleAccepted(1));
      const child = await put(sampleAccepted(2, { parent: root }));
      await putSettled(3, { conversation: "talk" });
      await putSettled(4, { parent: root, conversation: "talk" });
      await putSettled(5, { parent: child });
      await putSettled(6, { parent: root });
      const [ofRoot, ofChild] = [root.handle.taskId, child.handle.taskId];

      expect(await pendingIds()).toEqual({ ids: [sampleTaskId(3)], count: 1 });
      expect(await pendingIds({ parentTaskId: ofRoot })).toEqual({ ids: [4, 6].map(sampleTaskId), count: 2 });
      expect(await pendingIds({ parentTaskId: ofRoot, conversation: "talk" })).toEqual({
        ids: [sampleTaskId(4)],
        count: 2,
      });
      expect(await pendingIds({ parentTaskId: ofChild })).toEqual({ ids: [sampleTaskId(5)], count: 1 });
      expect(await pendingIds({ caller: "bob", parentTaskId: ofRoot })).toEqual({ ids: [], count: 0 });
    });

    it("counts an audience down to nothing and up again (P9)", async () => {
      const root = await put(sampleAccepted(1));
      const parentTaskId = root.handle.taskId;
      const first = await putSettled(2, { parent: root });
      const second = await putSettled(3, { parent: root });
      await put(sampleAcked(first));
      expect(await pendingIds({ parentTaskId })).toEqual({ ids: [sampleTaskId(3)], count: 1 });
      const read = await put(sampleAcked(second));
      expect(await pendingIds({ parentTaskId })).toEqual({ ids: [], count: 0 });

      await put(...settledFrom(await put(sampleContinued(read))));
      expect(await pendingIds({ parentTaskId })).toEqual({ ids: [sampleTaskId(3)], count: 1 });
      expect(await pendingIds()).toEqual({ ids: [], count: 0 });
    });

    it("takes back the announcement of a task that somebody continues unread", async () => {
      const settled = await putSettled(1);
      await put(sampleContinued(settled));

      expect(await pendingIds()).toEqual({ ids: [], count: 0 });
      expect(await listed({ unread: true })).toEqual([]);
    });
  });

  describe("transcripts", () => {
    const MANY = 1_000_000;
    const entry = (text: string, atMs = 1): NewTranscriptEntry => ({ role: "child", atMs, text });
    const append = (n: number, texts: readonly string[], bytesMax = MANY) =>
      store.write((tx) =>
        tx.appendTranscript(
          sampleTaskId(n),
          texts.map((text) => entry(text)),
          bytesMax,
        ),
      );
    const whole = (n: number) => store.transcript(sampleTaskId(n), 0, 500, 100 * MANY);
    /** What is kept, in one line: `(3/7)` is a gap of 3 entries and 7 bytes. */
    const outline = async (n: number) =>
      (await whole(n))
        .map(({ number, text, dropped }) => {
          const gap = dropped === null ? "" : `(${dropped.entries}/${dropped.bytes}) `;
          return `${gap}${number}:${text}`;
        })
        .join(" ");

    it("gives entries back whole, numbered 1, 2, … over all appends, tasks apart (P14)", async () => {
      await put(sampleAccepted(1), sampleAccepted(2));
      const entries: readonly NewTranscriptEntry[] = [
        { role: "child", atMs: 10, text: "子任务 ✅ 👩‍👩‍👧‍👦\u0000 \n 'quoted'" },
        { role: "tool", atMs: 11, text: "" },
        { role: "note", atMs: 12, text: "attempt 2 began" },
      ];
      await store.write((tx) => tx.appendTranscript(sampleTaskId(1), entries.slice(0, 2), MANY));
      await store.write((tx) => tx.appendTranscript(sampleTaskId(1), [], MANY));
      await store.write((tx) => tx.appendTranscript(sampleTaskId(1), entries.slice(2), MANY));
      await append(2, ["other"]);

      expect(await whole(1)).toEqual(entries.map((given, index) => ({ ...given, number: index + 1, dropped: null })));
      expect(await outline(2)).toBe("1:other");
      expect(await whole(3)).toEqual([]);
    });

    it("keeps nothing for a task that does not exist, and fails nothing (P15)", async () => {
      await append(1, ["too late"]);
      await put(sampleAccepted(1));

      expect(await whole(1)).toEqual([]);
    });

    it("keeps nothing of a work that throws (P4)", async () => {
      await put(sampleAccepted(1));
      await append(1, ["kept"]);
      const work = store.write(async (tx) => {
        await tx.appendTranscript(sampleTaskId(1), [entry("x".repeat(50))], 20);
        throw new Error("changed its mind");
      });

      await expect(work).rejects.toThrow("changed its mind");
      await append(1, ["next"]);
      expect(await outline(1)).toBe("1:kept 2:next");
    });

    it("pages by number, by entries and by bytes of text, and always gives at least one entry (P15)", async () => {
      await put(sampleAccepted(1));
      await append(1, ["漢字", "", "abcd", "x".repeat(100), "y"]);
      const numbers = async (after: number, limit: number, bytesMax: number) =>
        (await store.transcript(sampleTaskId(1), after, limit, bytesMax)).map(({ number }) => number);

      expect(await numbers(0, 2, MANY)).toEqual([1, 2]);
      expect(await numbers(2, 2, MANY)).toEqual([3, 4]);
      expect(await numbers(5, 2, MANY)).toEqual([]);
      // Two characters, six bytes.
      expect(await numbers(0, 9, 6)).toEqual([1, 2]);
      expect(await numbers(0, 9, 10)).toEqual([1, 2, 3]);
      expect(await numbers(0, 9, 9)).toEqual([1, 2]);
      expect(await numbers(3, 9, 10)).toEqual([4]);
      expect(await numbers(0, 9, 1)).toEqual([1]);
      expect(await numbers(0, 9, MANY)).toEqual([1, 2, 3, 4, 5]);
    });

    it("keeps beginning and end at its cap and marks the gap, whose sum grows (P15)", async () => {
      await put(sampleAccepted(1));
      await append(1, ["aaaa", "bbbb", "cccc", "dddd", "eeee"], 20);
      expect(await outline(1)).toBe("1:aaaa 2:bbbb 3:cccc 4:dddd 5:eeee");

      await append(1, ["f"], 20);
      expect(await outline(1)).toBe("1:aaaa 2:bbbb (1/4) 4:dddd 5:eeee 6:f");
      await append(1, ["ggg"], 20);
      expect(await outline(1)).toBe("1:aaaa 2:bbbb (1/4) 4:dddd 5:eeee 6:f 7:ggg");
      await append(1, ["hhhh", "i"], 20);
      expect(await outline(1)).toBe("1:aaaa 2:bbbb (3/12) 6:f 7:ggg 8:hhhh 9:i");
      expect(await store.transcript(sampleTaskId(1), 2, 1, MANY)).toMatchObject([
        { number: 6, dropped: { entries: 3, bytes: 12 } },
      ]);
    });

    it("counts its cap in bytes of UTF-8 (P15)", async () => {
      await put(sampleAccepted(1));
      await append(1, ["漢", "字", "漢", "字"], 9);

      // 12 bytes; half of the cap holds one entry of 3.
      expect(await outline(1)).toBe("1:漢 (1/3) 3:漢 4:字");
    });

    it("drops a great deal at once, and never the newest entry, however long (P15)", async () => {
      await put(sampleAccepted(1));
      await append(
        1,
        Array.from({ length: 300 }, () => "xx"),
        20,
      );
      expect(await outline(1)).toBe("1:xx 2:xx 3:xx 4:xx 5:xx (290/580) 296:xx 297:xx 298:xx 299:xx 300:xx");
      await append(1, ["z".repeat(30)], 20);
      expect(await outline(1)).toBe(`1:xx 2:xx 3:xx 4:xx 5:xx (295/590) 301:${"z".repeat(30)}`);
      await append(1, ["y"], 20);
      expect(await outline(1)).toBe("1:xx 2:xx 3:xx 4:xx 5:xx (296/620) 302:y");
    });

    it("begins with a gap where the first entry alone is more than half of the cap (P15)", async () => {
      await put(sampleAccepted(1));
      await append(1, ["a".repeat(15), "bbbb", "cccc"], 20);

      expect(await outline(1)).toBe("(1/15) 2:bbbb 3:cccc");
    });

    it("goes on under a cap that was lowered: the beginning stays, the end has its half (P15)", async () => {
      await put(sampleAccepted(1));
      await append(1, ["aaaa", "bbbb", "cccc", "dddd"], 20);
      await append(1, ["e", "f"], 4);

      expect(await outline(1)).toBe("1:aaaa 2:bbbb (2/8) 5:e 6:f");
    });

    it("says the same as a plain telling of the rule after any appends (P15)", async () => {
      await put(sampleAccepted(1));
      let told: readonly TranscriptEntry[] = [];
      let seed = 7;
      for (let round = 0; round < 60; round++) {
        const texts = Array.from({ length: 1 + (round % 4) }, () => {
          seed = (seed * 1_103_515_245 + 12_345) % 2_147_483_648;
          return "漢x".repeat(seed % 9);
        });
        await append(1, texts, 200);
        told = tellAppended(told, texts, 200);
        expect(await whole(1)).toEqual(told);
      }
      expect(told.some(({ dropped }) => dropped !== null)).toBe(true);
    });

    it("is dropped as a whole, and starts over when its task goes on (D5)", async () => {
      const settled = await putSettled(1);
      await append(1, ["aaaa", "bbbb", "cccc"], 8);
      await store.write((tx) => tx.dropTranscript(sampleTaskId(1)));
      await store.write((tx) => tx.dropTranscript(sampleTaskId(9)));

      expect(await whole(1)).toEqual([]);
      expect(await store.task(sampleTaskId(1))).toEqual(settled);
      await append(1, ["again"]);
      expect(await outline(1)).toBe("1:again");
    });

    it("is old enough to drop when its settlement is, oldest first, as long as there is one (D5)", async () => {
      const newer = await putSettled(1, { createdAtMs: SAMPLE_START_MS + 60_000 });
      await putSettled(2, { createdAtMs: SAMPLE_START_MS });
      await putSettled(3, { createdAtMs: SAMPLE_START_MS });
      await put(sampleAccepted(4, { createdAtMs: SAMPLE_START_MS }));
      for (const n of [1, 2, 4]) await append(n, ["x"]);
      const beforeMs = newer.state.kind === "settled" ? newer.state.settlement.atMs : 0;

      expect(await store.transcriptsSettledBefore(beforeMs + 1, 10)).toEqual([sampleTaskId(2), sampleTaskId(1)]);
      expect(await store.transcriptsSettledBefore(beforeMs, 10)).toEqual([sampleTaskId(2)]);
      expect(await store.transcriptsSettledBefore(beforeMs + 1, 1)).toEqual([sampleTaskId(2)]);
      await store.write((tx) => tx.dropTranscript(sampleTaskId(2)));
      expect(await store.transcriptsSettledBefore(beforeMs + 1, 10)).toEqual([sampleTaskId(1)]);
      await append(3, ["late"]);
      expect(await store.transcriptsSettledBefore(beforeMs + 1, 10)).toEqual([sampleTaskId(3), sampleTaskId(1)]);
      await put(sampleContinued(newer));
      expect(await store.transcriptsSettledBefore(beforeMs + 1, 10)).toEqual([sampleTaskId(3)]);
    });
  });

  describe("notices", () => {
    const notice = (n: number, change: Partial<Notice> = {}): Notice => ({
      noticeId: `${sampleTaskId(n)}:1:desk`,
      taskId: sampleTaskId(n),
      settlement: 1,
      status: "completed",
      target: "desk",
      settledAtMs: 1_000,
      dueAtMs: 1_000 + n,
      tries: 0,
      ...change,
    });
    const due = async (nowMs: number, limit = 10) => store.dueNotices(nowMs, limit);

    beforeEach(async () => {
      for (const n of [1, 2, 3]) await put(sampleAccepted(n));
    });

    it("names what is due, oldest first, and when the next one is (P9, P15)", async () => {
      expect(await store.nextNoticeAtMs()).toBeNull();
      await store.write((tx) => tx.putNotices([notice(3), notice(1), notice(2)]));

      expect(await due(1_000)).toEqual([]);
      expect(await due(1_002)).toEqual([notice(1), notice(2)]);
      expect(await due(2_000)).toEqual([notice(1), notice(2), notice(3)]);
      expect(await due(2_000, 1)).toEqual([notice(1)]);
      expect(await store.nextNoticeAtMs()).toBe(1_001);
    });

    it("never puts the same notice twice, in one work or in two (P3)", async () => {
      await store.write((tx) => tx.putNotices([notice(1), notice(1, { dueAtMs: 7 })]));
      await store.write((tx) => tx.delayNotice(notice(1).noticeId, 5_000));
      await store.write((tx) => tx.putNotices([notice(1)]));

      expect(await due(9_000)).toEqual([notice(1, { dueAtMs: 5_000, tries: 1 })]);
    });

    it("tries a delayed notice again in its time and counts the tries; a dropped one is gone (P9)", async () => {
      await store.write((tx) => tx.putNotices([notice(1), notice(2)]));
      const { noticeId } = notice(1);
      await store.write((tx) => tx.delayNotice(noticeId, 3_000));
      await store.write((tx) => tx.delayNotice(noticeId, 4_000));

      expect(await due(3_999)).toEqual([notice(2)]);
      expect(await due(4_000)).toEqual([notice(2), notice(1, { dueAtMs: 4_000, tries: 2 })]);
      await store.write((tx) => tx.dropNotice(notice(2).noticeId));
      expect(await store.nextNoticeAtMs()).toBe(4_000);
      await store.write((tx) => tx.dropNotice(noticeId));
      expect(await store.nextNoticeAtMs()).toBeNull();
      // Somebody else was faster: nothing to do, nothing wrong.
      await store.write(async (tx) => {
        await tx.dropNotice(noticeId);
        await tx.delayNotice(noticeId, 1);
      });
      expect(await due(9_000)).toEqual([]);
    });

    it("stands or falls with the work that settles its task (P4)", async () => {
      const work = store.write(async (tx) => {
        await tx.putNotices([notice(1)]);
        throw new Error("changed its mind");
      });
      await expect(work).rejects.toThrow("changed its mind");
      expect(await due(9_000)).toEqual([]);

      await expect(store.write((tx) => tx.putNotices([notice(99)]))).rejects.toThrow();
      expect(store.healthy()).toBe(true);
    });
  });

  describe("retention", () => {
    it("purges a task but keeps its receipts, so that a late repeat is no new child (P3, D5)", async () => {
      const accepted = sampleAccepted(1, { cwd: "/repo/old" });
      const started = sampleStarted(accepted.task);
      const settled = sampleSettled(started.task);
      await store.write(async (tx) => {
        await tx.append(accepted);
        await tx.putReceipt(sampleReceipt(accepted.task));
        await tx.putClaim({ taskId: sampleTaskId(1), caller: "alice", path: "/repo/old", sinceMs: 1 });
      });
      await put(started, settled);
      await putSettled(2);
      const notice = (n: number): Notice => ({
        noticeId: `${sampleTaskId(n)}:1:desk`,
        taskId: sampleTaskId(n),
        settlement: 1,
        status: "completed",
        target: "desk",
        settledAtMs: 1,
        dueAtMs: 1,
        tries: 0,
      });
      await store.write(async (tx) => {
        for (const n of [1, 2]) {
          await tx.appendTranscript(sampleTaskId(n), [{ role: "child", atMs: 1, text: `entry of ${n}` }], 1_000);
          await tx.putNotices([notice(n)]);
        }
      });

      await store.write((tx) => tx.purge(sampleTaskId(1)));
      expect(await store.transcript(sampleTaskId(1), 0, 10, 1_000)).toEqual([]);
      expect(await store.transcript(sampleTaskId(2), 0, 10, 1_000)).toHaveLength(1);
      expect(await store.dueNotices(10, 10)).toEqual([notice(2)]);
      expect(await store.transcriptsSettledBefore(Number.MAX_SAFE_INTEGER, 10)).toEqual([sampleTaskId(2)]);
      expect(await store.task(sampleTaskId(1))).toBeNull();
      expect(await store.taskIdOfThread(sampleThreadId(1))).toBeNull();
      expect(await store.events(sampleTaskId(1), 0, 10)).toEqual([]);
      expect(await store.text(sampleTaskId(1), "prompt.r1")).toBeNull();
      expect(await listed({})).toEqual([sampleTaskId(2)]);
      expect(await store.write((tx) => tx.claimHolder("/repo/old", "alice"))).toBeNull();
      expect((await store.pending(PENDING)).count).toBe(1);
      expect(await store.receipt(sampleReceipt(accepted.task))).toEqual(sampleReceipt(accepted.task));
      await store.write((tx) => tx.purge(sampleTaskId(1)));
    });

    it("never purges a task that is open or not proven stopped (P5)", async () => {
      await put(sampleAccepted(1));
      const started = sampleStarted(await put(sampleAccepted(2)));
      await put(started, sampleSettled(started.task, "cancelled", { leavesResidue: true }));

      for (const n of [1, 2]) {
        await expect(store.write((tx) => tx.purge(sampleTaskId(n)))).rejects.toThrow("invariant broken");
        expect(await store.task(sampleTaskId(n))).not.toBeNull();
      }
    });

    it("names what is old enough to purge, oldest settlement first, and forgets tombstones in their time (D5)", async () => {
      const newer = await putSettled(1, { createdAtMs: SAMPLE_START_MS + 60_000 });
      const older = await putSettled(2, { createdAtMs: SAMPLE_START_MS });
      await put(sampleAccepted(3, { createdAtMs: SAMPLE_START_MS }));
      const settledAt = (task: Task) => (task.state.kind === "settled" ? task.state.settlement.atMs : 0);

      expect(await store.settledBefore(settledAt(newer) + 1, 10)).toEqual([sampleTaskId(2), sampleTaskId(1)]);
      expect(await store.settledBefore(settledAt(newer), 10)).toEqual([sampleTaskId(2)]);
      expect(await store.settledBefore(settledAt(newer) + 1, 1)).toEqual([sampleTaskId(2)]);

      await store.write(async (tx) => {
        await tx.putReceipt(sampleReceipt(newer));
        await tx.putReceipt(sampleReceipt(older));
        await tx.purge(sampleTaskId(2));
      });
      expect(await store.write((tx) => tx.forgetReceipts(settledAt(older), 10))).toBe(0);
      expect(await store.receipt(sampleReceipt(older))).not.toBeNull();
      expect(await store.write((tx) => tx.forgetReceipts(settledAt(newer) + 1, 10))).toBe(1);
      expect(await store.receipt(sampleReceipt(older))).toBeNull();
      expect(await store.receipt(sampleReceipt(newer))).not.toBeNull();
    });
  });
});

function refuseWith(reason: string): () => Promise<never> {
  return async () => {
    throw new Error(reason);
  };
}

async function turns(count: number): Promise<void> {
  for (let turn = 0; turn < count; turn++) await new Promise<void>((resolve) => void setImmediate(resolve));
}

/** The rule of the cap told plainly, from the whole transcript. Holds for a cap that never changes. */
function tellAppended(
  before: readonly TranscriptEntry[],
  texts: readonly string[],
  bytesMax: number,
): readonly TranscriptEntry[] {
  const entries = [...before];
  for (const text of texts) {
    entries.push({ role: "child", atMs: 1, text, number: (entries.at(-1)?.number ?? 0) + 1, dropped: null });
  }
  const size = (some: readonly TranscriptEntry[]) => some.reduce((sum, { text }) => sum + Buffer.byteLength(text), 0);
  const gap = entries.findIndex(({ dropped }) => dropped !== null);
  const fits = entries.findIndex((_, index) => size(entries.slice(0, index + 1)) > bytesMax / 2);
  const head = gap >= 0 ? gap : fits;
  if (head < 0) return entries;
  while (size(entries) > bytesMax) {
    const [gone, next] = entries.slice(head);
    if (gone === undefined || next === undefined) break;
    const dropped = {
      entries: (gone.dropped?.entries ?? 0) + 1,
      bytes: (gone.dropped?.bytes ?? 0) + Buffer.byteLength(gone.text),
    };
    entries.splice(head, 2, { ...next, dropped });
  }
  return entries;
}

/** Tries to overwrite every field of a value, however deep. */
function tamper(value: unknown): void {
  if (typeof value !== "object" || value === null) return;
  for (const [name, field] of Object.entries(value)) {
    tamper(field);
    Reflect.set(value, name, "tampered");
  }
}
