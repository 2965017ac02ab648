/**
 * The store under SIGKILL, under rivals, and on a disk that is really full.
 *
 * Absent on purpose: loss of power. A killed process loses nothing that the kernel has; that a commit waits for the disk is
 * asked of SQLite itself (test/store/sqlite.test.ts).
 */

import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, readdirSync, rmSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { DatabaseSync } from "node:sqlite";
import { fileURLToPath } from "node:url";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { Store } from "../../src/ports/store.ts";
import { openSqliteStore, STORE_FILE } from "../../src/store/open-sqlite-store.ts";
import { sampleAccepted, sampleReceipt, sampleTaskId } from "../support/sample-task.ts";
import { createTempDirectory, openTestStore, sqliteOptions, type TempDirectory } from "../support/test-store.ts";

const WRITER = fileURLToPath(new URL("store-kill-writer.ts", import.meta.url));
const KILLS = 10;
/** Acknowledgements before each kill; some more arrive while the signal is on its way. */
const ACKNOWLEDGED_BEFORE_KILL = [440, 471, 437, 492, 455];
/** Numbers of one writer's tasks; far enough apart that no writer reaches the next one's. */
const STRIDE = 100_000;

describe("a store whose process is killed", () => {
  let directory: TempDirectory;
  let dataDir: string;
  let path: string;
  let writers: ChildProcess[];

  beforeEach(() => {
    directory = createTempDirectory();
    dataDir = join(directory.path, "data");
    path = join(dataDir, STORE_FILE);
    writers = [];
  });
  afterEach(async () => {
    await Promise.all(writers.map(kill));
    directory[Symbol.dispose]();
  });

  /** Starts a writer and resolves with its lines, which end when it does. */
  const start = (first: number): Writer => {
    const child = spawn(process.execPath, [WRITER, dataDir, String(first)], {
      stdio: ["ignore", "pipe", "inherit"],
      env: { PATH: "/usr/bin:/bin" },
    });
    writers.push(child);
    return { child, lines: createInterface({ input: child.stdout })[Symbol.asyncIterator]() };
  };

  it("loses nothing that was acknowledged and leaves nothing torn (P3, P4, P14, R1)", {
    timeout: 120_000,
  }, async () => {
    const accepted: number[] = [];
    const settled: number[] = [];
    for (let round = 0; round < KILLS; round++) {
      const writer = start(round * STRIDE + 1);
      expect(await nextLine(writer)).toBe("open");
      const before = accepted.length + settled.length;
      const enough = ACKNOWLEDGED_BEFORE_KILL[round % ACKNOWLEDGED_BEFORE_KILL.length] ?? 440;
      for (let line = await nextLine(writer); line !== null; line = await nextLine(writer)) {
        const [word, n] = line.split(" ");
        (word === "accepted" ? accepted : settled).push(Number(n));
        if (accepted.length + settled.length === before + enough) writer.child.kill("SIGKILL");
      }
      expect(await signalOf(writer.child)).toBe("SIGKILL");
    }
    expect(accepted.length).toBeGreaterThan(2_000);

    const store = await openTestStore({ dataDir });
    await expectAll(store, accepted, settled);
    await store[Symbol.asyncDispose]();
    expectNothingTorn(path);
    const claimOfNoOpenTask = "select task_id from tasks where is_open <> (task_id in (select task_id from claims))";
    expect(valuesOf(path, claimOfNoOpenTask)).toEqual([]);
  });

  it("is refused to a second daemon, also while the first is frozen, and free once it is dead (D7)", async () => {
    const first = start(1);
    expect(await nextLine(first)).toBe("open");
    const second = start(STRIDE);
    expect(await nextLine(second)).toBe("refused locked");

    first.child.kill("SIGSTOP");
    writeFileSync(
      join(dataDir, "daemon.json"),
      JSON.stringify({ pid: first.child.pid, mcpUrl: "http://127.0.0.1:1/mcp" }),
    );
    const refused = await openSqliteStore(sqliteOptions({ dataDir }));
    expect(refused).toMatchObject({
      kind: "refused",
      reason: "locked",
      holder: { pid: first.child.pid, url: "http://127.0.0.1:1/mcp" },
    });
    await kill(first.child);
    const store = await openTestStore({ dataDir });
    await store[Symbol.asyncDispose]();
  });

  it("is opened by exactly one of several daemons that start at once (D7)", async () => {
    const rivals = [1, 2, 3, 4].map((n) => start(n * STRIDE));
    const answers = await Promise.all(rivals.map(nextLine));

    expect(answers.filter((answer) => answer === "open")).toHaveLength(1);
    expect(answers.filter((answer) => answer === "refused locked")).toHaveLength(3);
  });

  it("keeps its folder at 0700 and each file at 0600 under umask 022 (X3)", async () => {
    const writer = start(1);
    expect(await nextLine(writer)).toBe("open");
    for (let line = await nextLine(writer); line !== "settled 20"; line = await nextLine(writer))
      expect(line).not.toBeNull();
    writer.child.kill("SIGSTOP");
    const modes = Object.fromEntries(
      readdirSync(dataDir).map((name) => [name, (statSync(join(dataDir, name)).mode & 0o777).toString(8)]),
    );

    expect(statSync(dataDir).mode & 0o777).toBe(0o700);
    expect(modes).toEqual({
      [STORE_FILE]: "600",
      [`${STORE_FILE}-wal`]: "600",
      [`${STORE_FILE}-shm`]: "600",
      "lock.sqlite": "600",
    });
  });
});

const canMount = tryToMount();

describe.skipIf(!canMount)("a disk that is full", () => {
  let directory: TempDirectory;
  let disk: string;
  let dataDir: string;
  let ballast: string;
  let opened: Store[];

  beforeEach(() => {
    directory = createTempDirectory();
    disk = join(directory.path, "disk");
    dataDir = join(disk, "data");
    ballast = join(disk, "ballast");
    opened = [];
    mkdirSync(disk);
    mount(disk);
  });
  afterEach(async () => {
    for (const store of opened) await store[Symbol.asyncDispose]();
    unmount(disk);
    directory[Symbol.dispose]();
  });

  const open = async (): Promise<Store> => {
    const store = await openTestStore({ dataDir });
    opened.push(store);
    return store;
  };

  it("refuses a write by name, keeps what was there, and serves again when there is room (P4, P15)", async () => {
    writeFileSync(ballast, Buffer.alloc(2 * 1024 * 1024));
    const store = await open();
    const accept = (n: number) =>
      store.write(async (tx) => {
        const change = sampleAccepted(n, { prompt: "x".repeat(50_000) });
        await tx.append(change);
        await tx.putReceipt(sampleReceipt(change.task));
      });
    const acknowledged: number[] = [];
    const refusal = await untilRefused(accept, acknowledged);

    expect(refusal).toMatchObject({ storageCode: "disk_full" });
    expect(store.healthy()).toBe(false);
    expect(acknowledged.length).toBeGreaterThan(2);
    const refused = acknowledged.length + 1;
    expect(await store.task(sampleTaskId(refused))).toBeNull();
    expect(await store.receipt(sampleReceipt(sampleAccepted(refused).task))).toBeNull();
    for (const n of acknowledged) expect(await store.text(sampleTaskId(n), "prompt.r1")).toHaveLength(50_000);

    rmSync(ballast);
    await accept(refused);
    expect(store.healthy()).toBe(true);
    await store[Symbol.asyncDispose]();
    expectNothingTorn(join(dataDir, STORE_FILE));
  });

  it("is not called healthy because of a write that wrote nothing (P15)", async () => {
    const store = await open();
    fillUp(ballast);
    const tryBoth = async (): Promise<unknown> => {
      const body = "x".repeat(50_000);
      await expect(store.write((tx) => tx.append(sampleAccepted(1, { prompt: body })))).rejects.toMatchObject({
        storageCode: "disk_full",
      });
      return store.write(async () => undefined).catch((error: unknown) => error);
    };
    // What the first tries leave of the log of changes has room for a few small writes, which do count.
    let nothing = await tryBoth();
    for (let tries = 0; nothing === undefined && tries < 100; tries++) nothing = await tryBoth();

    expect(nothing).toMatchObject({ storageCode: "disk_full" });
    expect(store.healthy()).toBe(false);
    rmSync(ballast);
    await store.write(async () => undefined);
    expect(store.healthy()).toBe(true);
  });

  it("is refused by name when a daemon starts on it, and harms nothing that is there", async () => {
    const store = await open();
    await store.write((tx) => tx.append(sampleAccepted(1)));
    await store[Symbol.asyncDispose]();
    fillUp(ballast);

    expect(await openSqliteStore(sqliteOptions({ dataDir }))).toMatchObject({ kind: "refused", reason: "unwritable" });
    const fresh = await openSqliteStore(sqliteOptions({ dataDir: join(disk, "fresh") }));
    expect(fresh).toMatchObject({ kind: "refused", reason: "unwritable" });
    rmSync(ballast);
    expect(await (await open()).task(sampleTaskId(1))).not.toBeNull();
  });
});

type Writer = { readonly child: ChildProcess; readonly lines: AsyncIterator<string> };

async function nextLine(writer: Writer): Promise<string | null> {
  const { value, done } = await writer.lines.next();
  return done === true ? null : value;
}

async function kill(child: ChildProcess): Promise<void> {
  child.kill("SIGKILL");
  await signalOf(child);
}

/** How a process ended, once it has. */
async function signalOf(child: ChildProcess): Promise<string | null> {
  if (child.exitCode === null && child.signalCode === null) await once(child, "exit");
  return child.signalCode;
}

async function expectAll(store: Store, accepted: readonly number[], settled: readonly number[]): Promise<void> {
  for (const n of accepted) {
    const task = await store.task(sampleTaskId(n));
    expect(task?.version ?? 0, `task ${n}`).toBeGreaterThanOrEqual(2);
    expect(await store.receipt(sampleReceipt(sampleAccepted(n).task)), `receipt of ${n}`).not.toBeNull();
    expect(await store.text(sampleTaskId(n), "prompt.r1"), `prompt of ${n}`).toBe(
      `prompt of ${n} — ${"词".repeat(n % 2_000)}`,
    );
  }
  for (const n of settled) {
    expect((await store.task(sampleTaskId(n)))?.state.kind, `task ${n}`).toBe("settled");
    expect(await store.text(sampleTaskId(n), "result.r1")).toBe(`result of ${n}`);
  }
}

/** Looks at every row, acknowledged or not: each task is whole, and nothing belongs to no task. */
function expectNothingTorn(path: string): void {
  const list = (query: string) => valuesOf(path, query);
  expect(list("pragma integrity_check")).toEqual(["ok"]);
  expect(list("pragma foreign_key_check")).toEqual([]);
  expect(list("select task_id from tasks where task_id not in (select task_id from receipts)")).toEqual([]);
  expect(list("select task_id from receipts where task_id not in (select task_id from tasks)")).toEqual([]);
  expect(
    list("select task_id from tasks where task_id not in (select task_id from texts where name = 'prompt.r1')"),
  ).toEqual([]);
  expect(
    list(`select t.task_id from tasks t left join events e on e.task_id = t.task_id
          group by t.task_id having count(e.number) <> t.version or max(e.number) <> t.version`),
  ).toEqual([]);
  expect(list("select task_id from tasks where is_unread <> (task_id in (select task_id from announcements))")).toEqual(
    [],
  );
  expect(list("select sum(unread) from unread_counts")).toEqual(list("select nullif(count(*), 0) from announcements"));
}

/** The first column of each row. */
function valuesOf(path: string, query: string): readonly unknown[] {
  const database = new DatabaseSync(path, { readOnly: true });
  const rows = database.prepare(query).all();
  database.close();
  return rows.map((row) => Object.values(row)[0]);
}

async function untilRefused(accept: (n: number) => Promise<void>, acknowledged: number[]): Promise<unknown> {
  for (let n = 1; n < 500; n++) {
    try {
      await accept(n);
    } catch (error) {
      return error;
    }
    acknowledged.push(n);
  }
  return "the disk never filled up";
}

function mount(folder: string): void {
  execFileSync("/bin/mount", ["-t", "tmpfs", "-o", "size=4m", "tmpfs", folder], { stdio: "ignore" });
}

function unmount(folder: string): void {
  execFileSync("/bin/umount", [folder], { stdio: "ignore" });
}

/** Small disks can be had by root alone. */
function tryToMount(): boolean {
  const directory = createTempDirectory();
  try {
    mount(directory.path);
    unmount(directory.path);
    return true;
  } catch {
    return false;
  } finally {
    directory[Symbol.dispose]();
  }
}

/** Writes until not one byte more goes in. */
function fillUp(path: string): void {
  for (const bytes of [1024 * 1024, 64 * 1024, 4096, 512, 1]) {
    for (let times = 0; times < 4096; times++) {
      try {
        writeFileSync(path, Buffer.alloc(bytes), { flag: "a" });
      } catch {
        break;
      }
    }
  }
}
