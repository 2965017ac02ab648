/**
 * What every store promises, run over each of them.
 */

import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { Task } from "../../src/core/task.ts";
import type { PendingQuery, Store, StoreWriter, TaskChange, TaskQuery } from "../../src/ports/store.ts";
import { createMemoryStore } from "../../src/store/memory-store.ts";
import {
  SAMPLE_START_MS,
  sampleAccepted,
  sampleAcked,
  sampleAsked,
  sampleContinued,
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

    it("takes back the announcement of a task that somebody continues unread", async () => {
      const settled = await putSettled(1);
      await put(sampleContinued(settled));

      expect(await pendingIds()).toEqual({ ids: [], count: 0 });
      expect(await listed({ unread: true })).toEqual([]);
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

      await store.write((tx) => tx.purge(sampleTaskId(1)));
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

/** Tries to overwrite every field of a value, however deep. */
function tamper(value: unknown): void {
  if (typeof value !== "object" || value === null) return;
  for (const [name, field] of Object.entries(value)) {
    tamper(field);
    Reflect.set(value, name, "tampered");
  }
}
