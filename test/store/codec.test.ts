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

describe("a record of form 1", () => {
  const { origin, ...restOfTask } = accepted.task;
  const { ancestors: _, ...originOfForm1 } = origin;
  const by = { kind: "caller", name: "alice" } as const;
  const message = { name: "message-2", bytes: 4 };
  const form1 = (change: Record<string, unknown> = {}) => {
    const { startHead: _start, lastAnswer: _answer, ...task } = restOfTask;
    return { ...task, origin: originOfForm1, ...change };
  };
  const decodedEvent = (event: unknown) => decodeEvent(wrap(1, event));

  it("is a task without ancestors, start, answer and choices, and becomes one with them (P2)", () => {
    expect(decodeTask(wrap(1, form1()))).toEqual({ kind: "ok", value: accepted.task });
  });

  it("had no task above it but its parent (P16)", () => {
    const parentTaskId = sampleAccepted(7).task.handle.taskId;
    const child = decodeTask(wrap(1, form1({ origin: { ...originOfForm1, parentTaskId } })));

    expect(child).toMatchObject({ kind: "ok", value: { origin: { parentTaskId, ancestors: [parentTaskId] } } });
  });

  it("lets whoever works now go on with each message that waits (P2)", () => {
    const messages = [
      { message, by, atMs: 1 },
      { message, by, atMs: 2 },
    ];

    expect(decodeTask(wrap(1, form1({ messages })))).toMatchObject({
      kind: "ok",
      value: { messages: messages.map((waiting) => ({ ...waiting, choice: null })) },
    });
  });

  it("is an event whose choices were texts or apart, and becomes one with them as objects (P2)", () => {
    const [first] = accepted.events;
    const { head: _head, ...start } = { head: null, ...started.events[0] };

    expect(decodedEvent({ ...first, origin: originOfForm1 })).toEqual({ kind: "ok", value: first });
    expect(decodedEvent(start)).toEqual({ kind: "ok", value: started.events[0] });
    expect(decodedEvent({ atMs: 1, kind: "InputAnswered", questionId: "q_1", choice: "allow", by })).toEqual({
      kind: "ok",
      value: { atMs: 1, kind: "InputAnswered", questionId: "q_1", choice: { kind: "option", optionId: "allow" }, by },
    });
    expect(decodedEvent({ atMs: 1, kind: "MessageQueued", message, by })).toEqual({
      kind: "ok",
      value: { atMs: 1, kind: "MessageQueued", message, by, choice: null },
    });
    const reopened = { atMs: 1, kind: "TaskReopened", by, agent: "pi", driver: "pi", model: null };
    expect(decodedEvent(reopened)).toEqual({
      kind: "ok",
      value: { atMs: 1, kind: "TaskReopened", by, choice: { agent: "pi", driver: "pi", model: null } },
    });
  });

  it("is an event of any other kind as it was (P14)", () => {
    for (const event of [...asked.events, ...settled.events]) {
      expect(decodedEvent(event)).toEqual({ kind: "ok", value: event });
    }
  });

  it.each([
    ["a task that is no object", () => decodeTask(wrap(1, [accepted.task]))],
    ["a task without an origin", () => decodeTask(wrap(1, form1({ origin: "alice" })))],
    ["an event that is no object", () => decodeEvent(wrap(1, "TaskAccepted"))],
    ["an event of a kind that nobody knows", () => decodeEvent(wrap(1, { atMs: 1, kind: "TaskDreamt" }))],
  ])("is refused by name when it is broken: %s", (_what, decode) => {
    expect(decode()).toMatchObject({ kind: "refused", reason: "malformed_record" });
  });
});

function broken(change: (text: string) => string): string {
  const text = encodeTask(accepted.task);
  const changed = change(text);
  if (changed === text) throw new Error("the sample was not broken");
  return changed;
}
