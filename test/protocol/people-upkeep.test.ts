/**
 * `/api` for operators: exports, retention and what runs here, over real sockets.
 */

import { describe, expect, it } from "vitest";
import type { ExportLine } from "../../src/ports/upkeep.ts";
import { eventually } from "../support/processes.ts";
import { OTHER_ID, startPeopleServer, TASK_ID } from "../support/people-server.ts";

describe("an export", () => {
  it("is one JSON object a line, from head to end, and found by the beginning of an id", async () => {
    await using server = await startPeopleServer();
    for (const named of [TASK_ID, "01M8RB6A55JAK79A8N9ME45MJ0"]) {
      const exported = await server.get(`/api/tasks/${named}/export`);
      expect([exported.status, exported.headers.get("content-type")]).toEqual([200, "application/x-ndjson"]);
      const lines = (await exported.text()).trimEnd().split("\n");
      expect(lines.map((line) => JSON.parse(line))).toMatchObject([
        { kind: "head", taskId: TASK_ID },
        { kind: "text", body: "line 1\nline 2 漢字" },
        { kind: "end", texts: 1 },
      ]);
    }
  });

  it("of a task that is not the caller's is a 404 with the answer of the tools (P16)", async () => {
    const unknown = { say: "NO SUCH TASK", next: { kind: "fix" }, error: { code: "unknown_task", retryable: false } };
    await using server = await startPeopleServer({ answer: () => unknown });
    const exported = await server.get(`/api/tasks/${OTHER_ID}/export`);
    expect([exported.status, await exported.json()]).toEqual([404, unknown]);
    expect(server.called).toEqual([{ name: "task_status", args: { taskId: OTHER_ID }, by: "person alice" }]);
  });

  it("that cannot be finished is cut, so that nobody takes it for whole", async () => {
    async function* lines(): AsyncGenerator<ExportLine> {
      yield { kind: "head", format: 1, exportedAt: "x", taskId: TASK_ID };
      throw new Error("the disk is gone");
    }
    await using server = await startPeopleServer({ lines });
    const exported = await server.get(`/api/tasks/${TASK_ID}/export`);
    await expect(exported.text()).rejects.toThrow();
    expect(server.log.entries).toContainEqual(expect.objectContaining({ event: "export_failed", level: "error" }));
  });

  it("is read no faster than its reader takes it, and ends with a stopping daemon (P15)", async () => {
    let made = 0;
    async function* lines(): AsyncGenerator<ExportLine> {
      for (; made < 10_000; made += 1) yield { kind: "text", name: "t", body: "x".repeat(64 * 1024) };
    }
    await using server = await startPeopleServer({ lines });
    const exported = await server.get(`/api/tasks/${TASK_ID}/export`);
    let before = -1;
    await eventually("the export waits for its reader", async () => {
      const isStill = made > 0 && made === before;
      before = made;
      return isStill;
    });
    expect(made).toBeLessThan(1_000);
    await server.stop();
    await expect(exported.text()).rejects.toThrow();
  });

  it("past the limit of those under way is refused by name, and has its turn when one ends (P15)", async () => {
    async function* lines(): AsyncGenerator<ExportLine> {
      for (let line = 0; line < 1_000; line += 1) yield { kind: "text", name: "t", body: "x".repeat(64 * 1024) };
    }
    await using server = await startPeopleServer({ lines });
    const path = `/api/tasks/${TASK_ID}/export`;
    const open = await Promise.all(Array.from({ length: 16 }, () => server.get(path)));
    expect(open.map(({ status }) => status)).toEqual(open.map(() => 200));
    const refused = await server.get(path);
    expect([refused.status, await refused.json()]).toMatchObject([
      503,
      { error: { code: "capacity_full" }, next: { kind: "repeat_same_call" } },
    ]);
    await open[0]?.body?.cancel();
    await eventually("a place is free again", async () => (await server.get(path)).status === 200);
  });

  it("and the host need the scope read", async () => {
    await using server = await startPeopleServer();
    for (const path of [`/api/tasks/${TASK_ID}/export`, "/api/host", "/api/events"])
      expect((await server.get(path, "nobody")).status).toBe(403);
  });
});

describe("retention by hand", () => {
  it("counts or removes for an admin", async () => {
    await using server = await startPeopleServer();
    expect(await (await server.post("/api/prune", { dryRun: true }, "admin")).json()).toEqual({
      dryRun: true,
      tasks: 3,
      transcripts: 2,
      receipts: null,
    });
    expect(await (await server.post("/api/prune", {}, "admin")).json()).toMatchObject({ dryRun: false, receipts: 1 });
    expect(server.pruned).toEqual([{ dryRun: true }, { dryRun: false }]);
  });

  it("does nothing for others, and nothing for a body that says something else", async () => {
    await using server = await startPeopleServer();
    expect((await server.post("/api/prune", { dryRun: true })).status).toBe(403);
    for (const body of [{ dryrun: true }, { dryRun: "yes" }, [], "x"]) {
      const refused = await server.post("/api/prune", body, "admin");
      expect([refused.status, await refused.json()]).toMatchObject([
        400,
        { error: { code: "invalid_arguments" }, next: { kind: "fix" } },
      ]);
    }
    expect(server.pruned).toEqual([]);
  });
});

describe("the host", () => {
  const running = [
    { taskId: TASK_ID, attemptId: `${TASK_ID}.a1`, pid: 4711 },
    { taskId: OTHER_ID, attemptId: `${OTHER_ID}.a2`, pid: null },
  ];
  const host = { daemonId: "dm_1", running, queued: 2, waiting: 1 };

  it("shows everything to an admin, and to others their own with the rest as a number (P16)", async () => {
    await using server = await startPeopleServer({ host });
    expect(await (await server.get("/api/host", "admin")).json()).toEqual({ ...host, others: 0 });
    const mine = await (await server.get("/api/host")).text();
    expect(JSON.parse(mine)).toEqual({ ...host, running: running.slice(0, 1), others: 1 });
    expect(mine).not.toContain(OTHER_ID);
  });
});
