/**
 * One commit for a turn of the event loop, and what happens when it cannot be made.
 */

import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { Store } from "../../src/ports/store.ts";
import { WORKS_PER_COMMIT_MAX, WORKS_WAITING_MAX } from "../../src/store/group-commit.ts";
import { STORE_FILE } from "../../src/store/open-sqlite-store.ts";
import { createQuietLog, type QuietLog } from "../support/quiet-log.ts";
import { sampleAccepted, sampleReceipt, sampleSettled, sampleStarted, sampleTaskId } from "../support/sample-task.ts";
import {
  type ArmedFaults,
  createArmedFaults,
  createTempDirectory,
  openTestStore,
  type TempDirectory,
} from "../support/test-store.ts";

describe("group commit", () => {
  let directory: TempDirectory;
  let faults: ArmedFaults;
  let store: Store;
  let commits: number;

  beforeEach(async () => {
    directory = createTempDirectory();
    faults = createArmedFaults();
    commits = 0;
    const counting = {
      at: (point: Parameters<ArmedFaults["at"]>[0]) => {
        if (point === "before_commit") commits += 1;
        return faults.at(point);
      },
    };
    store = await openTestStore({ dataDir: directory.path, faults: counting });
  });
  afterEach(async () => {
    await store[Symbol.asyncDispose]();
    directory[Symbol.dispose]();
  });

  const accept = (n: number) => store.write((tx) => tx.append(sampleAccepted(n)));

  it("makes one commit for all works of a turn (P4)", async () => {
    await Promise.all(Array.from({ length: 50 }, (_, n) => accept(n)));

    expect(commits).toBe(1);
  });

  it("gathers what comes while a commit is running into the next one (P4)", async () => {
    const release = faults.hold("before_commit");
    const first = accept(1);
    await faults.reached("before_commit");
    const later = Array.from({ length: 20 }, (_, index) => accept(10 + index));
    expect(await store.task(sampleTaskId(1))).toBeNull();
    release();
    await Promise.all([first, ...later]);

    expect(commits).toBe(2);
  });

  it("bounds the works of one commit and loses none beyond it (P15)", async () => {
    const works = Array.from({ length: WORKS_PER_COMMIT_MAX + 1 }, (_, n) => accept(n));

    expect((await Promise.all(works)).every((written) => written)).toBe(true);
    expect(commits).toBe(2);
  });

  it("refuses by name what exceeds the works that may wait (P15)", async () => {
    const release = faults.hold("before_commit");
    const first = accept(1);
    await faults.reached("before_commit");
    const waiting = Array.from({ length: WORKS_WAITING_MAX }, () => store.write(async () => undefined));

    await expect(accept(2)).rejects.toMatchObject({ storageCode: "queue_full" });
    release();
    await Promise.all([first, ...waiting]);
    expect(await accept(2)).toBe(true);
  });

  it("waits for statements that a work did not wait for, so that they cannot slip into another work", async () => {
    const [careless] = await Promise.allSettled([
      store.write(async (tx) => {
        void tx.append(sampleAccepted(1));
        throw new Error("left in a hurry");
      }),
      accept(2),
    ]);

    expect(careless.status).toBe("rejected");
    expect(await store.task(sampleTaskId(1))).toBeNull();
    expect(await store.task(sampleTaskId(2))).not.toBeNull();
  });

  it("loses none of 100 works and their event writes beside a long reader in another process's place (E5)", async () => {
    await accept(1_000);
    const reader = new DatabaseSync(join(directory.path, STORE_FILE), { readOnly: true });
    reader.exec("begin");
    const seen = () => reader.prepare("select count(*) as n from tasks").get()?.["n"];
    expect(seen()).toBe(1);

    await Promise.all(Array.from({ length: 100 }, (_, n) => accept(n)));
    await Promise.all(
      Array.from({ length: 100 }, (_, n) => store.write((tx) => tx.append(sampleStarted(sampleAccepted(n).task)))),
    );
    expect(seen()).toBe(1);
    reader.exec("commit");
    expect(seen()).toBe(101);
    expect(reader.prepare("select count(*) as n from events").get()?.["n"]).toBe(302);
    reader.close();
  });

  it("names a write lock that another program holds, and recovers when it is gone (P15)", async () => {
    const intruder = new DatabaseSync(join(directory.path, STORE_FILE));
    intruder.exec("begin immediate");
    await expect(accept(1)).rejects.toMatchObject({ storageCode: "busy" });
    expect(store.healthy()).toBe(false);
    expect(await store.task(sampleTaskId(1))).toBeNull();

    intruder.exec("rollback");
    intruder.close();
    expect(await accept(1)).toBe(true);
    expect(store.healthy()).toBe(true);
  });
});

describe("a full database", () => {
  let directory: TempDirectory;
  let log: QuietLog;
  let store: Store;

  beforeEach(async () => {
    directory = createTempDirectory();
    log = createQuietLog();
    store = await openTestStore({ dataDir: directory.path, pagesMax: 200, log });
  });
  afterEach(async () => {
    await store[Symbol.asyncDispose]();
    directory[Symbol.dispose]();
  });

  /** Accepts and settles tasks with texts of 16 KB until the database is full; resolves with how many there are. */
  const fill = async (): Promise<number> => {
    for (let n = 1; n < 200; n++) {
      try {
        await acceptAndSettle(n, "x".repeat(16_384));
      } catch (error) {
        expect(error).toMatchObject({ storageCode: "disk_full" });
        return n - 1;
      }
    }
    throw new Error("the database never filled up");
  };
  const acceptAndSettle = (n: number, prompt: string) =>
    store.write(async (tx) => {
      const accepted = sampleAccepted(n, { prompt });
      await tx.append(accepted);
      await tx.putReceipt(sampleReceipt(accepted.task));
      const started = sampleStarted(accepted.task);
      const settled = sampleSettled(started.task);
      const events = [...started.events, ...settled.events];
      await tx.append({ task: settled.task, events, expectedVersion: accepted.task.version, texts: [] });
    });

  it("refuses a write by name, writes nothing of it, and keeps what was there (P4, P15)", async () => {
    const kept = await fill();

    expect(kept).toBeGreaterThan(3);
    expect(store.healthy()).toBe(false);
    expect(log.entries.map((entry) => entry.event)).toContain("commit_failed");
    expect(await store.task(sampleTaskId(kept + 1))).toBeNull();
    expect(await store.text(sampleTaskId(kept + 1), "prompt.r1")).toBeNull();
    expect(await store.receipt(sampleReceipt(sampleAccepted(kept + 1).task))).toBeNull();
    expect(await store.events(sampleTaskId(kept + 1), 0, 10)).toEqual([]);
    for (let n = 1; n <= kept; n++) expect(await store.text(sampleTaskId(n), "prompt.r1")).toHaveLength(16_384);
  });

  it("rejects every work of the commit that did not fit, also one that swallowed the error (P4)", async () => {
    const kept = await fill();
    const works = await Promise.allSettled([
      store.write((tx) => tx.append(sampleAccepted(501, { prompt: "small" }))),
      store.write(async (tx) => {
        await tx.append(sampleAccepted(502, { prompt: "x".repeat(1_000_000) })).catch(() => false);
        return "swallowed";
      }),
    ]);

    expect(works.map((work) => work.status)).toEqual(["rejected", "rejected"]);
    for (const work of works) expect(work).toMatchObject({ reason: { storageCode: "disk_full" } });
    expect(await store.task(sampleTaskId(501))).toBeNull();
    expect(await store.task(sampleTaskId(kept))).not.toBeNull();
  });

  it("is healthy again once there is room and a write has succeeded (P15)", async () => {
    const kept = await fill();
    await expect(acceptAndSettle(300, "x".repeat(16_384))).rejects.toMatchObject({ storageCode: "disk_full" });

    await store.write(async (tx) => {
      for (let n = 1; n <= 3; n++) await tx.purge(sampleTaskId(n));
    });
    expect(store.healthy()).toBe(true);
    expect(log.entries.map((entry) => entry.event)).toContain("storage_recovered");
    await acceptAndSettle(300, "x".repeat(16_384));
    expect(await store.text(sampleTaskId(300), "prompt.r1")).toHaveLength(16_384);
    expect(await store.task(sampleTaskId(kept))).not.toBeNull();
  });
});
