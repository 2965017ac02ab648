/**
 * Records that cannot be trusted: of another version, broken, or of another kind.
 */

import { describe, expect, it } from "vitest";
import {
  decodeEvent,
  decodeReceipt,
  decodeTask,
  encodeEvent,
  encodeReceipt,
  encodeTask,
  unwrap,
  wrap,
} from "../../src/store/codec.ts";
import { sampleAccepted, sampleAsked, sampleReceipt, sampleSettled, sampleStarted } from "../support/sample-task.ts";

const accepted = sampleAccepted(1);
const started = sampleStarted(accepted.task);
const asked = sampleAsked(started.task);
const settled = sampleSettled(started.task);

describe("a stored task", () => {
  it.each([accepted, started, asked, settled])(
    "comes back as it was in every state ($task.state.kind) (P2)",
    ({ task }) => {
      expect(decodeTask(encodeTask(task))).toEqual({ kind: "ok", value: task });
    },
  );

  it("is refused by name when a newer version wrote it", () => {
    const newer = encodeTask(accepted.task).replace('"v":2', '"v":3');

    expect(decodeTask(newer)).toMatchObject({ kind: "refused", reason: "unknown_version" });
  });

  it.each([
    ["no JSON", "{"],
    ["no envelope", "[]"],
    ["no version", JSON.stringify({ record: accepted.task })],
    ["a version that is no number", JSON.stringify({ v: "1", record: accepted.task })],
    ["version 0", JSON.stringify({ v: 0, record: accepted.task })],
    ["no record", JSON.stringify({ v: 2 })],
    ["no record of an older form", JSON.stringify({ v: 1 })],
    [
      "a node id of another task",
      broken((task) => task.replace("node:delegated-task:dt_0", "node:delegated-task:dt_1")),
    ],
    ["a task id that is none", broken((task) => task.replaceAll(accepted.task.handle.taskId, "dt_short"))],
    ["an unknown state", broken((task) => task.replace('"kind":"queued"', '"kind":"dreaming"'))],
    ["a state that is a name of every object", broken((task) => task.replace('"kind":"queued"', '"kind":"toString"'))],
    ["no version of its own", broken((task) => task.replace('"version":2', '"version":"2"'))],
    ["no owner", broken((task) => task.replace('"caller":"alice"', '"caller":7'))],
  ])("is refused by name when it is broken: %s", (_, text) => {
    expect(decodeTask(text)).toMatchObject({ kind: "refused", reason: "malformed_record" });
  });
});

describe("a stored event", () => {
  it("comes back as it was", () => {
    for (const event of [...accepted.events, ...started.events, ...asked.events, ...settled.events]) {
      expect(decodeEvent(encodeEvent(event))).toEqual({ kind: "ok", value: event });
    }
  });

  it.each([
    ["of a newer version", wrap(3, accepted.events[0]), "unknown_version"],
    ["of a kind that nobody knows", wrap(2, { kind: "TaskDreamt", atMs: 1 }), "malformed_record"],
    ["of a kind that is a name of every object", wrap(2, { kind: "constructor", atMs: 1 }), "malformed_record"],
    ["without a time", wrap(2, { kind: "TaskAccepted" }), "malformed_record"],
  ])("is refused by name: %s", (_, text, reason) => {
    expect(decodeEvent(text)).toMatchObject({ kind: "refused", reason });
  });
});

describe("a stored receipt", () => {
  it("comes back as it was, and is refused by name when its digests are broken (P3)", () => {
    const receipt = sampleReceipt(accepted.task, { aboutTaskId: accepted.task.handle.taskId });
    const row = encodeReceipt(receipt);

    expect(decodeReceipt(row)).toEqual({ kind: "ok", value: receipt });
    expect(decodeReceipt({ ...row, field_digests: "[]" })).toMatchObject({ reason: "malformed_record" });
    expect(decodeReceipt({ ...row, field_digests: '{"task":1}' })).toMatchObject({ reason: "malformed_record" });
  });
});

describe("an older record", () => {
  const upcasters = {
    1: (record: unknown) => ({ lifted: [record] }),
    2: (record: unknown) => ({ twice: record }),
  };

  it("is lifted step by step to the newest form", () => {
    expect(unwrap(wrap(1, "old"), 3, upcasters)).toEqual({ kind: "ok", value: { twice: { lifted: ["old"] } } });
    expect(unwrap(wrap(2, "middle"), 3, upcasters)).toEqual({ kind: "ok", value: { twice: "middle" } });
    expect(unwrap(wrap(3, "new"), 3, upcasters)).toEqual({ kind: "ok", value: "new" });
  });

  it("is refused by name where a step is missing", () => {
    expect(unwrap(wrap(1, "old"), 3, { 1: upcasters[1] })).toMatchObject({ reason: "unknown_version" });
  });
});

function broken(change: (text: string) => string): string {
  const text = encodeTask(accepted.task);
  const changed = change(text);
  if (changed === text) throw new Error("the sample was not broken");
  return changed;
}
