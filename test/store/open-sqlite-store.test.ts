/**
 * Opening a data directory, or being told by name why not.
 */

import { chmodSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { type OpenedStore, openSqliteStore, STORE_FILE } from "../../src/store/open-sqlite-store.ts";
import { sampleAccepted, sampleTaskId } from "../support/sample-task.ts";
import { createTempDirectory, openTestStore, sqliteOptions, type TempDirectory } from "../support/test-store.ts";

const ANOTHER_PID = 4_000_000;

describe("a data directory", () => {
  let directory: TempDirectory;
  let dataDir: string;
  let path: string;

  beforeEach(() => {
    directory = createTempDirectory();
    dataDir = join(directory.path, "data");
    path = join(dataDir, STORE_FILE);
  });
  afterEach(() => directory[Symbol.dispose]());

  const fillAndClose = async (): Promise<void> => {
    const store = await openTestStore({ dataDir });
    await store.write((tx) => tx.append(sampleAccepted(1)));
    await store[Symbol.asyncDispose]();
  };
  const alter = (sql: string): void => {
    const database = new DatabaseSync(path);
    database.exec(sql);
    database.close();
  };
  const open = (options: Partial<Parameters<typeof openSqliteStore>[0]> = {}): Promise<OpenedStore> =>
    openSqliteStore(sqliteOptions({ dataDir, ...options }));

  it("keeps what was written over a restart and runs no migration twice (P14)", async () => {
    await fillAndClose();
    const store = await openTestStore({ dataDir });

    expect(await store.task(sampleTaskId(1))).toEqual(sampleAccepted(1).task);
    await store[Symbol.asyncDispose]();
  });

  it("is made for its owner alone, whatever was there before (X3)", async () => {
    mkdirSync(dataDir, { mode: 0o755 });
    writeFileSync(path, "", { mode: 0o644 });
    const store = await openTestStore({ dataDir });
    await store.write((tx) => tx.append(sampleAccepted(1)));
    const modes = readdirSync(dataDir).map((name) => (statSync(join(dataDir, name)).mode & 0o777).toString(8));

    expect((statSync(dataDir).mode & 0o777).toString(8)).toBe("700");
    expect(new Set(modes)).toEqual(new Set(["600"]));
    await store[Symbol.asyncDispose]();
  });

  it("is opened by one at a time; the next one learns who holds it and where he serves (D7)", async () => {
    const store = await openTestStore({ dataDir });
    expect(await open({ pid: ANOTHER_PID })).toMatchObject({
      kind: "refused",
      reason: "locked",
      holder: { pid: process.pid, url: null },
    });

    const daemon = { pid: process.pid, mcpUrl: "http://127.0.0.1:4517/mcp" };
    writeFileSync(join(dataDir, "daemon.json"), JSON.stringify(daemon));
    expect(await open({ pid: ANOTHER_PID })).toMatchObject({ holder: { pid: process.pid, url: daemon.mcpUrl } });
    writeFileSync(join(dataDir, "daemon.json"), JSON.stringify({ ...daemon, pid: ANOTHER_PID }));
    expect(await open({ pid: ANOTHER_PID })).toMatchObject({ holder: { pid: process.pid, url: null } });
    writeFileSync(join(dataDir, "daemon.json"), "{");
    expect(await open({ pid: ANOTHER_PID })).toMatchObject({ reason: "locked", holder: { url: null } });
    expect(await store.write((tx) => tx.append(sampleAccepted(1)))).toBe(true);

    await store[Symbol.asyncDispose]();
    const next = await open({ pid: ANOTHER_PID });
    expect(next.kind).toBe("open");
    if (next.kind === "open") await next.store[Symbol.asyncDispose]();
  });

  it("is not locked by a pid that was left in it, be it of a living process (D7)", async () => {
    await fillAndClose();
    const lock = new DatabaseSync(join(dataDir, "lock.sqlite"));
    lock.exec(`pragma user_version = ${process.ppid}`);
    lock.close();

    const store = await openTestStore({ dataDir });
    expect(await open({ pid: ANOTHER_PID })).toMatchObject({ reason: "locked", holder: { pid: process.pid } });
    await store[Symbol.asyncDispose]();
  });

  it.each([
    [
      "a migration",
      "insert into schema_migrations values ('0099_from_the_future', '2030-01-01T00:00:00.000Z')",
      "0099_from_the_future",
    ],
    ["a form of task", "update meta set value = '7' where name = 'task_version'", "task records of version 7"],
  ])("of a newer version is refused by name and left untouched: %s", async (_, sql, found) => {
    await fillAndClose();
    alter(sql);
    const before = readFileSync(path);

    expect(await open()).toMatchObject({ kind: "refused", reason: "newer_schema", path, found: [found] });
    expect(readFileSync(path).equals(before)).toBe(true);
    // Whoever was refused holds nothing.
    expect(await open()).toMatchObject({ reason: "newer_schema" });
  });

  it.each([
    ["no database at all", () => "this is a shopping list, not a database ".repeat(200)],
    ["a database whose beginning was overwritten", () => `SQLite format 3\u0000${"?".repeat(9_000)}`],
  ])("with a broken file is refused by name and left untouched: %s", async (_, content) => {
    mkdirSync(dataDir);
    writeFileSync(path, content());

    expect(await open()).toMatchObject({ kind: "refused", reason: "corrupt", path });
    expect(readFileSync(path, "latin1")).toBe(content());
  });

  it("on a network or FUSE mount is refused before anything is made", async () => {
    const mountTable = `1 0 0:1 / / rw - ext4 /dev/vda rw\n2 1 0:2 / ${directory.path} rw - fuse.sshfs host:/ rw`;

    expect(await open({ mountTable })).toMatchObject({
      kind: "refused",
      reason: "network_mount",
      filesystem: "fuse.sshfs",
      mountPoint: directory.path,
    });
    expect(readdirSync(directory.path)).toEqual([]);
  });

  it("that cannot be made is refused by name", async () => {
    writeFileSync(join(directory.path, "file"), "");

    expect(await open({ dataDir: join(directory.path, "file", "data") })).toMatchObject({
      reason: "unwritable",
      code: "ENOTDIR",
    });
    expect(await open({ dataDir: "relative/data" })).toMatchObject({ reason: "unwritable", code: "EINVAL" });
  });

  it("that everybody may write to is refused, and its rights are left alone (X3)", async () => {
    mkdirSync(dataDir);
    chmodSync(dataDir, 0o1777);

    expect(await open()).toMatchObject({ reason: "unwritable", code: "EPERM" });
    expect(statSync(dataDir).mode & 0o7777).toBe(0o1777);
    expect(readdirSync(dataDir)).toEqual([]);
  });

  it("that is full is refused by name (P15)", async () => {
    expect(await open({ pagesMax: 8 })).toMatchObject({ reason: "unwritable", code: "disk_full", path });
    const store = await openTestStore({ dataDir });
    await store[Symbol.asyncDispose]();
  });
});
