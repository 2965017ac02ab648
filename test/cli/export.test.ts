/**
 * `export`, `prune` and `host`, against the real routes.
 */

import { existsSync, readFileSync, statSync, writeFileSync } from "node:fs";
import path from "node:path";
import { describe, expect, it } from "vitest";
import type { ExportLine } from "../../src/ports/upkeep.ts";
import { OTHER_ID, TASK_ID } from "../support/people-server.ts";
import { refusal, until } from "./cli-world.ts";
import { createPeopleWorld } from "./people-world.ts";

const kindsIn = (text: string): readonly unknown[] =>
  text
    .trimEnd()
    .split("\n")
    .map((line) => JSON.parse(line).kind);

async function* withoutEnd(): AsyncGenerator<ExportLine> {
  yield { kind: "head", format: 1, exportedAt: "x", taskId: TASK_ID };
}

async function* endless(): AsyncGenerator<ExportLine> {
  for (let count = 0; count < 100_000; count += 1) {
    yield { kind: "text", name: "t", body: "x".repeat(10_000) };
    if (count > 10) await new Promise((resolve) => setImmediate(resolve));
  }
}

describe("export", () => {
  it("writes the lines to standard output, by the beginning of an id too", async () => {
    await using world = await createPeopleWorld({ answer: () => ({ say: "x", taskId: TASK_ID }) });
    for (const id of [TASK_ID, "01M8RB6A55JAK79A8N9ME45MJ0"]) {
      const { code, stdout, stderr } = await world.run(["export", id]);
      expect([code, stderr, kindsIn(stdout)]).toEqual([0, "", ["head", "text", "end"]]);
    }
  });

  it("writes a file that is its owner's alone, and replaces none", async () => {
    await using world = await createPeopleWorld();
    const file = path.join(world.dir, "task.ndjson");
    const { code, stdout, stderr } = await world.run(["export", TASK_ID, "--out", "task.ndjson"]);
    expect([code, stdout]).toEqual([0, `${file}\n`]);
    expect(stderr).toContain("3 lines,");
    expect(statSync(file).mode & 0o777).toBe(0o600);
    expect(kindsIn(readFileSync(file, "utf8"))).toEqual(["head", "text", "end"]);
    writeFileSync(file, "mine");
    expect((await world.run(["export", TASK_ID, "--out", "task.ndjson"])).code).toBe(7);
    expect(readFileSync(file, "utf8")).toBe("mine");
    expect((await world.run(["export", TASK_ID, "--out", "no-such-folder/x"])).code).toBe(2);
    const other = await world.run(["export", TASK_ID, "--out", "other.ndjson", "--json"]);
    expect(JSON.parse(other.stdout)).toMatchObject({ file: path.join(world.dir, "other.ndjson"), lines: 3 });
  });

  it("fails without the last line, and leaves no file that looks like an export", async () => {
    await using world = await createPeopleWorld({ lines: withoutEnd });
    const { code, stderr } = await world.run(["export", TASK_ID, "--out", "task.ndjson"]);
    expect([code, existsSync(path.join(world.dir, "task.ndjson"))]).toEqual([5, false]);
    expect(stderr).toContain("error: The export is not complete.");
    expect((await world.run(["export", TASK_ID])).code).toBe(5);
  });

  it("fails when the daemon breaks off in the middle", async () => {
    async function* broken(): AsyncGenerator<ExportLine> {
      yield* withoutEnd();
      throw new Error("gone");
    }
    await using world = await createPeopleWorld({ lines: broken });
    const { code } = await world.run(["export", TASK_ID, "--out", "task.ndjson"]);
    expect([code, existsSync(path.join(world.dir, "task.ndjson"))]).toEqual([5, false]);
  });

  it("ends with 130 on Ctrl-C, without a file", async () => {
    await using world = await createPeopleWorld({ lines: endless });
    const running = world.start(["export", TASK_ID, "--out", "task.ndjson"]);
    await until(() => existsSync(path.join(world.dir, "task.ndjson")), "the file is there");
    running.signal("SIGINT");
    expect((await running.ended).code).toBe(130);
    expect(existsSync(path.join(world.dir, "task.ndjson"))).toBe(false);
  });

  it("ends with 3 for a task that is not the caller's, without a file (P16)", async () => {
    await using world = await createPeopleWorld({ answer: () => refusal("unknown_task", "NO SUCH TASK.") });
    const { code, stderr } = await world.run(["export", OTHER_ID, "--out", "task.ndjson"]);
    expect([code, existsSync(path.join(world.dir, "task.ndjson"))]).toEqual([3, false]);
    expect(stderr).toContain("error: NO SUCH TASK.");
  });
});

describe("prune", () => {
  it("removes nothing unless told so: it shows what would go, and ends with 2", async () => {
    await using world = await createPeopleWorld();
    const { code, stdout, stderr } = await world.run(["prune"], { name: "admin" });
    expect([code, stdout]).toEqual([2, "tasks\t3\ntranscripts\t2\n"]);
    expect(stderr).toContain("Remove it: delegate-mcp prune --yes");
    expect((await world.run(["prune", "--dry-run"], { name: "admin" })).code).toBe(0);
    expect((await world.run(["prune", "--dry-run", "--yes"], { name: "admin" })).code).toBe(0);
    expect(world.server.pruned).toEqual([{ dryRun: true }, { dryRun: true }, { dryRun: true }]);
  });

  it("removes with --yes, and says the numbers to a program", async () => {
    await using world = await createPeopleWorld();
    const { code, stdout } = await world.run(["prune", "--yes", "--json"], { name: "admin" });
    expect([code, JSON.parse(stdout)]).toEqual([0, { dryRun: false, tasks: 3, transcripts: 2, receipts: 1 }]);
  });

  it("is for admins: 4 for others", async () => {
    await using world = await createPeopleWorld();
    const { code, stderr } = await world.run(["prune", "--yes"]);
    expect([code, world.server.pruned]).toEqual([4, []]);
    expect(stderr).toContain("This token lacks the scope admin.");
  });
});

describe("host", () => {
  const running = [{ taskId: TASK_ID, attemptId: `${TASK_ID}.a2`, pid: 4711 }];
  const host = { daemonId: "dm_1", running, queued: 2, waiting: 1 };

  it.each([[["host"]], [["host", "list"]]])("shows the one host as a table: %j", async (args) => {
    await using world = await createPeopleWorld({ host });
    expect((await world.run(args)).stdout).toBe("dm_1\t1\t2\t1\n");
    const { stdout } = await world.run(args, { terminal: true });
    expect(stdout).toBe(
      `HOST  CHILDREN  QUEUED  WAITS\ndm_1  1         2       1\n\nTASK${" ".repeat(27)}TRY  PROCESS\n${TASK_ID}  a2   4711\n`,
    );
    const json = await world.run([...args, "--json"]);
    expect(JSON.parse(json.stdout)).toEqual({ hosts: [{ ...host, others: 0 }] });
  });

  it("has none to forget in this version, and says so with 3", async () => {
    await using world = await createPeopleWorld();
    const { code, stderr } = await world.run(["host", "forget", "dm_2"]);
    expect(code).toBe(3);
    expect(stderr).toContain("on one host");
    const { stdout } = await world.run(["host", "forget", "dm_2", "--json"]);
    expect(JSON.parse(stdout)).toMatchObject({ error: { code: "one_host", exitCode: 3 } });
  });
});
