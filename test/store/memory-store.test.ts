/**
 * What the memory store alone can do: crash.
 */

import { beforeEach, describe, expect, it } from "vitest";
import { createMemoryStore, type MemoryStore } from "../../src/store/memory-store.ts";
import { sampleAccepted, sampleStarted, sampleTaskId } from "../support/sample-task.ts";
import { type ArmedFaults, createArmedFaults } from "../support/test-store.ts";

describe("a crash of the memory store", () => {
  let faults: ArmedFaults;
  let store: MemoryStore;

  beforeEach(() => {
    faults = createArmedFaults();
    store = createMemoryStore({ faults });
  });

  const accept = (n: number) => store.write((tx) => tx.append(sampleAccepted(n)));

  it("drops nothing that was committed (P4)", async () => {
    await accept(1);
    const next = store.crash();

    expect(await next.task(sampleTaskId(1))).toEqual(sampleAccepted(1).task);
    expect(await next.text(sampleTaskId(1), "prompt.r1")).toBe("Do piece 1.");
    expect(await next.write((tx) => tx.append(sampleStarted(sampleAccepted(1).task)))).toBe(true);
  });

  it("rejects works that wait, run or are held before their commit, and keeps nothing of them (P4)", async () => {
    const release = faults.hold("before_commit");
    const works = [accept(1), accept(2)];
    await faults.reached("before_commit");
    const next = store.crash();

    for (const work of works) await expect(work).rejects.toMatchObject({ storageCode: "crashed" });
    release();
    await next.write(async () => undefined);
    expect(await next.unfinished()).toEqual([]);
  });

  it("keeps what was committed though its caller never heard of it (P4)", async () => {
    const release = faults.hold("after_commit");
    const work = accept(1);
    await faults.reached("after_commit");
    const next = store.crash();

    await expect(work).rejects.toMatchObject({ storageCode: "crashed" });
    expect((await next.task(sampleTaskId(1)))?.version).toBe(2);
    release();
  });

  it("makes what a dead daemon still does count for nothing (P14)", async () => {
    const wakeUp = Promise.withResolvers<undefined>();
    const straggler = store.write(async (tx) => {
      await wakeUp.promise;
      return tx.append(sampleAccepted(1));
    });
    const next = store.crash();
    await expect(straggler).rejects.toMatchObject({ storageCode: "crashed" });
    wakeUp.resolve(undefined);
    await next.write(async () => undefined);

    expect(await next.task(sampleTaskId(1))).toBeNull();
    await expect(store.write(async () => undefined)).rejects.toMatchObject({ storageCode: "crashed" });
    await expect(store.unfinished()).rejects.toMatchObject({ storageCode: "crashed" });
  });
});
