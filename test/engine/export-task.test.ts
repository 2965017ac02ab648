/**
 * The export of a task: everything that the store holds of it, in bounded memory.
 */

import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { describe, expect, it } from "vitest";
import type { TaskId } from "../../src/core/ids.ts";
import { LIMITS } from "../../src/core/limits.ts";
import { exportLines } from "../../src/engine/export-task.ts";
import type { Store } from "../../src/ports/store.ts";
import type { ExportLine } from "../../src/ports/upkeep.ts";
import { STORE_FILE } from "../../src/store/open-sqlite-store.ts";
import { sampleAccepted, sampleStarted } from "../support/sample-task.ts";
import { createStepClock } from "../support/step-clock.ts";
import { callShown } from "../support/answers.ts";
import { eventually } from "../support/processes.ts";
import { fakeWork, startTestDaemon } from "../support/test-daemon.ts";
import { ALICE, BOB, callerOf, createFakeChildren } from "../support/test-engine.ts";
import { createTempDirectory, openTestStore } from "../support/test-store.ts";

async function linesOf(lines: AsyncIterable<ExportLine> | null): Promise<readonly ExportLine[]> {
  if (lines === null) throw new Error("nothing to export");
  const all: ExportLine[] = [];
  for await (const line of lines) all.push(line);
  return all;
}

type Line<Kind extends ExportLine["kind"]> = Extract<ExportLine, { readonly kind: Kind }>;

function ofKind<Kind extends ExportLine["kind"]>(lines: readonly ExportLine[], kind: Kind): readonly Line<Kind>[] {
  return lines.filter((line): line is Line<Kind> => line.kind === kind);
}

describe("an export", () => {
  it("holds the task, every event, every text and the whole transcript, and ends with their numbers (P9)", async () => {
    await using daemon = await startTestDaemon({ store: "sqlite", children: createFakeChildren() });
    const client = await daemon.client("1.x", "alice");
    const steps = [
      { do: "message", role: "tool", text: "looked\nat 漢字" },
      { do: "ask", prompt: "And why?" },
      { do: "say", text: "long ".repeat(5_000) },
    ];
    const { taskId: id } = await callShown(client, "delegate_task", fakeWork("export-all-1", steps));
    const settled = async (settlement: number): Promise<TaskId> => {
      const task = await eventually("it has settled", async () => {
        const [found] = (await daemon.store.list(ALL)).tasks;
        return found?.settlements === settlement && found.state.kind === "settled" ? found : null;
      });
      return task.handle.taskId;
    };
    await eventually("it asks", async () => (await daemon.store.list(ALL)).tasks[0]?.state.kind === "awaiting_answer");
    await client.call("task_answer", { taskId: id, questionId: "q_1", text: "because" });
    const taskId = await settled(1);
    const more = { taskId: id, clientRequestId: "export-all-2", message: "Go on, then." };
    await client.call("task_continue", more);
    await settled(2);

    const lines = await linesOf(await daemon.engine.upkeep.exportTask(taskId, ALICE));
    expect(lines[0]).toMatchObject({ kind: "head", format: 1, taskId });
    expect(ofKind(lines, "task").map(({ task }) => task)).toEqual([await daemon.store.task(taskId)]);
    const events = ofKind(lines, "event").map(({ number, event }) => ({ number, event }));
    expect(events).toEqual(await daemon.store.events(taskId, 0, 500));
    const entries = ofKind(lines, "transcript").map(({ entry }) => entry);
    expect(entries).toEqual(await daemon.store.transcript(taskId, 0, 500, LIMITS.transcriptBytesMax));
    const texts = ofKind(lines, "text").map(({ name, body }) => ({ name, body }));
    const stored = storedTexts(join(daemon.root, "../data"), taskId);
    expect(stored.length).toBeGreaterThanOrEqual(5);
    expect(texts.toSorted(byName)).toEqual(stored.toSorted(byName));
    expect(lines.at(-1)).toEqual({
      kind: "end",
      events: events.length,
      texts: texts.length,
      entries: entries.length,
    });

    expect(await daemon.engine.upkeep.exportTask(taskId, BOB)).toBeNull();
    expect(await daemon.engine.upkeep.exportTask(taskId, callerOf("root", { scopes: ["admin"] }))).not.toBeNull();
  });

  it("of a 50 MB transcript takes a few MB of memory (P15)", async () => {
    using directory = createTempDirectory();
    const store = await openTestStore({ dataDir: directory.path });
    const taskId = await filled(store);
    const task = await store.task(taskId);
    if (task === null) throw new Error("no task");
    const held = heldBytes();
    let bytes = 0;
    let lines = 0;
    let last: ExportLine | null = null;
    let grownMax = 0;
    for await (const line of exportLines(store, createStepClock(), task)) {
      bytes += JSON.stringify(line).length;
      last = line;
      lines += 1;
      if (lines % 100 === 0) grownMax = Math.max(grownMax, heldBytes() - held);
    }
    expect(last).toMatchObject({ kind: "end", entries: 800 });
    expect(bytes).toBeGreaterThan(50 * 1024 * 1024);
    expect(grownMax).toBeLessThan(12 * 1024 * 1024);
    await store[Symbol.asyncDispose]();
  });
});

setFlagsFromString("--expose-gc");
const collect: unknown = runInNewContext("gc");

/** What is in use after everything that can go is gone. */
function heldBytes(): number {
  if (typeof collect === "function") collect();
  const { heapUsed, external } = process.memoryUsage();
  return heapUsed + external;
}

async function filled(store: Store): Promise<TaskId> {
  const accepted = sampleAccepted(1);
  const started = sampleStarted(accepted.task);
  const { taskId } = accepted.task.handle;
  const text = "I read the next module. ".repeat(2_800);
  await store.write(async (tx) => {
    await tx.append(accepted);
    await tx.append(started);
  });
  for (let n = 0; n < 80; n += 1) {
    const entries = Array.from({ length: 10 }, () => ({ role: "child", atMs: n, text }) as const);
    await store.write((tx) => tx.appendTranscript(taskId, entries, LIMITS.transcriptBytesMax));
  }
  return taskId;
}

function storedTexts(dataDir: string, taskId: TaskId): readonly { readonly name: string; readonly body: string }[] {
  const database = new DatabaseSync(join(dataDir, STORE_FILE), { readOnly: true });
  try {
    const rows = database.prepare("select name, body from texts where task_id = ?").all(taskId);
    return rows.map(({ name, body }) => ({ name: String(name), body: String(body) }));
  } finally {
    database.close();
  }
}

function byName(one: { readonly name: string }, other: { readonly name: string }): number {
  return one.name.localeCompare(other.name);
}

const ALL = {
  caller: null,
  below: null,
  open: false,
  unread: false,
  conversation: null,
  status: null,
  parentTaskId: null,
  idPrefix: null,
  limit: 5,
  before: null,
} as const;
