/**
 * A database that an earlier version left behind: opened, lifted, and used on.
 */

import { mkdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { evolve } from "../../src/core/evolve.ts";
import type { Task } from "../../src/core/task.ts";
import type { PendingQuery, Store, TaskQuery } from "../../src/ports/store.ts";
import { MIGRATION_NAMES } from "../../src/store/migrations/migrations.ts";
import { STORE_FILE } from "../../src/store/open-sqlite-store.ts";
import { sampleAccepted, sampleAcked, samplePath, sampleReceipt, sampleTaskId } from "../support/sample-task.ts";
import { createTempDirectory, openTestStore, type TempDirectory } from "../support/test-store.ts";

const PENDING: PendingQuery = { caller: "alice", parentTaskId: null, conversation: null, shownMax: 3, limit: 5 };
const ALL: TaskQuery = {
  caller: "alice",
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

describe("a database of version 1", () => {
  let directory: TempDirectory;
  let dataDir: string;
  let store: Store;

  beforeEach(async () => {
    directory = createTempDirectory();
    dataDir = join(directory.path, "data");
    mkdirSync(dataDir, { mode: 0o700 });
    const database = new DatabaseSync(join(dataDir, STORE_FILE), { enableForeignKeyConstraints: false });
    database.exec(readFileSync(join(import.meta.dirname, "fixtures", "version-1.sql"), "utf8"));
    database.close();
    store = await openTestStore({ dataDir });
  });
  afterEach(async () => {
    await store[Symbol.asyncDispose]();
    directory[Symbol.dispose]();
  });

  const taskOf = async (n: number): Promise<Task> => {
    const task = await store.task(sampleTaskId(n));
    if (task === null) throw new Error(`task ${n} is lost`);
    return task;
  };
  const idsOf = (tasks: readonly Task[]) => tasks.map((task) => task.handle.taskId);

  it("opens with every task, text, event, claim and receipt that was in it (P2, P14)", async () => {
    expect(idsOf((await store.list(ALL)).tasks)).toEqual([5, 4, 3, 2, 1].map(sampleTaskId));
    expect(await store.counts()).toEqual({ working: 2, input_required: 0, completed: 3, failed: 0, cancelled: 0 });
    expect(await store.text(sampleTaskId(3), "prompt.r2")).toBe("Continue");
    expect(await store.write((tx) => tx.claimHolder("/repo/one/deep", "alice"))).toMatchObject({ mine: true });
    expect(await store.receipt(sampleReceipt(sampleAccepted(1).task))).toMatchObject({ taskId: sampleTaskId(1) });
    expect(idsOf(await store.unfinished())).toEqual([sampleTaskId(1), sampleTaskId(5)]);
  });

  it("tells each task's history in the present form, which leads to the task as it is (P14)", async () => {
    for (let n = 1; n <= 5; n++) {
      const events = await store.events(sampleTaskId(n), 0, 100);
      const folded = events.reduce<Task | null>((task, { event }) => evolve(task, event), null);

      // The newest answer was not kept with a task before.
      expect({ ...folded, lastAnswer: null }).toEqual(await taskOf(n));
    }
    expect(await store.events(sampleTaskId(1), 4, 2)).toMatchObject([
      { number: 5, event: { kind: "InputAnswered", choice: { kind: "option", optionId: "allow" } } },
      { number: 6, event: { kind: "MessageQueued", choice: null } },
    ]);
    expect(await taskOf(1)).toMatchObject({ startHead: null, messages: [{ choice: null }] });
  });

  it("knows what is below a task (P16)", async () => {
    const path = samplePath(await taskOf(3));

    expect((await taskOf(4)).origin.ancestors).toEqual([sampleTaskId(3)]);
    expect(idsOf((await store.list({ ...ALL, below: path })).tasks)).toEqual([5, 4].map(sampleTaskId));
    expect(idsOf(await store.unfinishedBelow(path))).toEqual([sampleTaskId(5)]);
    expect(idsOf(await store.tasks([1, 3, 4, 5].map(sampleTaskId), { caller: "alice", below: path }))).toEqual(
      [4, 5].map(sampleTaskId),
    );
    const load = await store.write((tx) =>
      tx.load({ caller: "alice", rootTaskId: sampleTaskId(3), sinceMs: Number.MAX_SAFE_INTEGER }),
    );
    expect(load).toEqual({ openTasks: 2, tasksInTree: 2, delegationsSince: 0 });
  });

  it("announces to each audience what is its own, as often as was left of it (P9)", async () => {
    const ofRoot = await store.pending(PENDING);
    const ofChild = await store.pending({ ...PENDING, parentTaskId: sampleTaskId(3) });

    expect({ ids: idsOf(ofRoot.tasks), count: ofRoot.count }).toEqual({ ids: [2, 3].map(sampleTaskId), count: 2 });
    expect({ ids: idsOf(ofChild.tasks), count: ofChild.count }).toEqual({ ids: [sampleTaskId(4)], count: 1 });
    expect(idsOf((await store.pending({ ...PENDING, conversation: "talk" })).tasks)).toEqual([sampleTaskId(2)]);
    // Number 2 had been shown once.
    expect(idsOf((await store.pending({ ...PENDING, shownMax: 1 })).tasks)).toEqual([sampleTaskId(3)]);
    await store.write(async (tx) => tx.append(sampleAcked(await taskOf(2))));
    expect((await store.pending(PENDING)).count).toBe(1);
  });

  it("forgets an audience that has read everything: children come and go (P15)", async () => {
    await store.write(async (tx) => tx.append(sampleAcked(await taskOf(4))));
    await store[Symbol.asyncDispose]();
    const database = new DatabaseSync(join(dataDir, STORE_FILE));
    const rows = database.prepare("select caller, parent_id, unread from unread_counts").all();
    database.close();

    expect(rows.map((row) => ({ ...row }))).toEqual([{ caller: "alice", parent_id: "", unread: 2 }]);
  });

  it("takes transcripts and notices of its tasks, and runs no migration twice (P14)", async () => {
    await store.write(async (tx) => {
      await tx.appendTranscript(sampleTaskId(2), [{ role: "note", atMs: 1, text: "kept" }], 1_000);
      await tx.append(sampleAccepted(6, { parent: await tx.task(sampleTaskId(4)) }));
    });
    await store[Symbol.asyncDispose]();
    store = await openTestStore({ dataDir });

    expect(await store.transcript(sampleTaskId(2), 0, 9, 100)).toMatchObject([{ number: 1, text: "kept" }]);
    expect(await store.transcriptsSettledBefore(Number.MAX_SAFE_INTEGER, 9)).toEqual([sampleTaskId(2)]);
    expect((await taskOf(6)).origin.ancestors).toEqual([3, 4].map(sampleTaskId));
    expect(idsOf(await store.unfinishedBelow([sampleTaskId(3)])).toSorted()).toEqual([5, 6].map(sampleTaskId));
  });

  it("ends with the tables that a new one has (P14)", async () => {
    const freshDir = join(directory.path, "fresh");
    const fresh = await openTestStore({ dataDir: freshDir });
    await fresh[Symbol.asyncDispose]();
    await store[Symbol.asyncDispose]();
    const schemaOf = (dir: string) => {
      const database = new DatabaseSync(join(dir, STORE_FILE));
      const rows = database.prepare("select sql from sqlite_master where sql is not null order by name").all();
      const names = database.prepare("select name from schema_migrations order by name").all();
      const broken = database.prepare("pragma foreign_key_check").all();
      database.close();
      return { sql: rows.map((row) => row["sql"]), names: names.map((row) => row["name"]), broken };
    };

    expect(schemaOf(dataDir)).toEqual(schemaOf(freshDir));
    expect(schemaOf(dataDir)).toMatchObject({ names: [...MIGRATION_NAMES], broken: [] });
  });
});
