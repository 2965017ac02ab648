/**
 * The outbox of notices: who is told of a settlement, when, how often, and with which words (contract §11).
 */

import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { LIMITS } from "../../src/core/limits.ts";
import type { NoticeMessage, NoticeOutcome, Notifier } from "../../src/ports/notifier.ts";
import {
  callerOf,
  scriptOf,
  startTestEngine,
  type TestAnswer,
  type TestEngine,
  type TestEngineOptions,
} from "../support/test-engine.ts";

const KEY = "review-auth-1";
const HOUR = 3_600_000;
const say = (text: string): object => ({ do: "say", text });
const gate = (name: string): object => ({ do: "waitFor", name });

const DELIVERED: NoticeOutcome = { kind: "delivered" };
const AGAIN: NoticeOutcome = { kind: "again", reason: "HTTP 503" };

type FakeNotifier = Notifier & {
  readonly told: readonly NoticeMessage[];
  readonly busiest: () => number;
  answer: () => Promise<NoticeOutcome> | NoticeOutcome;
};

function createFakeNotifier(name = "webhook-1", answer: FakeNotifier["answer"] = () => DELIVERED): FakeNotifier {
  const told: NoticeMessage[] = [];
  let busy = 0;
  let busiest = 0;
  const notifier: FakeNotifier = {
    name,
    told,
    answer,
    busiest: () => busiest,
    async deliver(message) {
      told.push(message);
      busy += 1;
      busiest = Math.max(busiest, busy);
      const outcome = await notifier.answer();
      busy -= 1;
      return outcome;
    },
  };
  return notifier;
}

function withNotifiers(...notifiers: readonly Notifier[]): TestEngineOptions {
  return { parts: { notifiers, mcpUrl: () => "http://127.0.0.1:4517/mcp" } };
}

async function ended(test: TestEngine, steps: readonly object[] = [say("fine")], key = KEY): Promise<TestAnswer> {
  const answer = await test.delegate(key, steps);
  await test.settle();
  return answer;
}

const idsOf = ({ told }: FakeNotifier): readonly string[] => told.map(({ id }) => id);

function bodyFor({ structured, taskId }: TestAnswer, settlement: number, status: string, timestamp: string): object {
  const { childThreadId } = structured;
  const nodeId = `node:delegated-task:${taskId}`;
  const data = { taskId, childThreadId, nodeId, settlement, status, url: "http://127.0.0.1:4517" };
  return { type: "task.settled", timestamp, data };
}

describe("a settlement", () => {
  it("is told once to each notifier, under the task's own node, also after a continuation (P2, F14)", async () => {
    const [one, other] = [createFakeNotifier("webhook-1"), createFakeNotifier("command-2")];
    await using test = await startTestEngine(withNotifiers(one, other));
    const first = await ended(test, [{ do: "end", fault: { httpStatus: 401 } }]);
    await test.clock.advanceAndSettle(1_000);
    const { taskId } = first;
    const message = scriptOf([gate("go"), say("two")]);
    await test.call(
      "task_continue",
      { taskId, clientRequestId: "continue-1", message },
      { caller: callerOf("alice", { kind: "person" }) },
    );
    test.driver.release("go");
    await test.settle();
    await test.call("task_continue", { taskId, clientRequestId: "continue-2", message: scriptOf([gate("never")]) });
    await test.settle();
    const cancelling = test.call("task_cancel", { taskId });
    await test.clock.advanceAndSettle(HOUR);
    await cancelling;
    for (const { name, told } of [one, other]) {
      expect(told.map(({ id }) => id)).toEqual([1, 2, 3].map((number) => `${taskId}:${number}:${name}`));
      expect(told.map(({ body }) => body)).toEqual([
        bodyFor(first, 1, "failed", "2026-01-01T00:00:00.000Z"),
        bodyFor(first, 2, "completed", "2026-01-01T00:00:01.000Z"),
        bodyFor(first, 3, "cancelled", "2026-01-01T00:00:02.000Z"),
      ]);
    }
    expect(await test.store.nextNoticeAtMs()).toBeNull();
  });

  it("is told of with nothing that a caller or a child wrote (P17)", async () => {
    const notifier = createFakeNotifier();
    const options = withNotifiers(notifier);
    await using test = await startTestEngine({ ...options, limits: { delegationsPerMinute: 100_000 } });
    let number = 0;
    const words = fc.string({ unit: "grapheme", minLength: 8, maxLength: 60 });
    await fc.assert(
      fc.asyncProperty(words, words, words, async (title, text, question) => {
        number += 1;
        const steps = [{ do: "ask", prompt: question, optionIds: [text] }, say(`${text} ${question}`)];
        const work = { title, labels: [title], cwd: "/shop/secret-project", role: "review" };
        const asked = await test.delegate(`${KEY}-${number}`, steps, work);
        await test.settle();
        const [optionId] = listAt((await test.status(asked.taskId)).structured, "question", "optionIds");
        await test.call("task_answer", { taskId: asked.taskId, questionId: "q_1", optionId });
        await test.settle();
        const last = notifier.told.at(-1);
        expect(last).toEqual({
          id: `${asked.taskId}:1:webhook-1`,
          sentAtMs: test.clock.wallMs(),
          body: bodyFor(asked, 1, "completed", new Date(test.clock.wallMs()).toISOString()),
        });
        await test.call("task_ack", { taskId: asked.taskId, settlement: 1 });
      }),
      { numRuns: 25 },
    );
    expect(notifier.told).toHaveLength(number);
  });

  it("among a hundred at once is told like each of the others, a bounded number at a time (L1, P15)", async () => {
    const notifier = createFakeNotifier("webhook-1", async () => {
      await new Promise<void>((resolve) => setImmediate(resolve));
      return DELIVERED;
    });
    const limits = { delegationsPerMinute: 1_000, concurrentChildren: 100 };
    await using test = await startTestEngine({ ...withNotifiers(notifier), limits });
    const tasks: string[] = [];
    for (let n = 1; n <= 100; n += 1) tasks.push((await test.delegate(`${KEY}-${n}`, [gate("go"), say("x")])).taskId);
    await test.settle();
    test.driver.release("go");
    for (let turn = 0; turn < 60; turn += 1) await test.settle();
    expect(new Set(idsOf(notifier))).toEqual(new Set(tasks.map((taskId) => `${taskId}:1:webhook-1`)));
    expect(notifier.told).toHaveLength(100);
    expect(notifier.busiest()).toBeLessThanOrEqual(20);
  });
});

describe("a notice that was stored", () => {
  it("with its settlement is told after a crash right behind the commit, and none before it (P14)", async () => {
    const notifier = createFakeNotifier();
    await using test = await startTestEngine(withNotifiers(notifier));
    const { taskId } = await test.delegate(KEY, [gate("go"), say("fine")]);
    await test.settle();
    const first = test.faults.hold("before_commit");
    test.driver.release("go");
    await test.settle();
    await using second = await test.restart();
    await second.settle();
    expect(notifier.told).toEqual([]);
    const behind = second.faults.hold("after_commit");
    second.driver.release("go");
    await second.clock.advanceAndSettle(60_000);
    await using third = await second.restart();
    third.driver.release("go");
    await third.clock.advanceAndSettle(60_000);
    expect(idsOf(notifier)).toEqual([`${taskId}:1:webhook-1`]);
    first();
    behind();
  });

  it("is told again by the next life where this one died while telling it, under the same id", async () => {
    const stuck = Promise.withResolvers<NoticeOutcome>();
    const notifier = createFakeNotifier("webhook-1", () => stuck.promise);
    await using test = await startTestEngine(withNotifiers(notifier));
    const { taskId } = await ended(test);
    notifier.answer = () => DELIVERED;
    await using second = await test.restart();
    await second.settle();
    expect(idsOf(notifier)).toEqual(Array(2).fill(`${taskId}:1:webhook-1`));
    expect(await second.store.nextNoticeAtMs()).toBeNull();
    stuck.resolve(DELIVERED);
  });

  it("is told again rather than lost where its delivery cannot be written down (F10)", async () => {
    const stuck = Promise.withResolvers<NoticeOutcome>();
    const notifier = createFakeNotifier("webhook-1", () => stuck.promise);
    await using test = await startTestEngine(withNotifiers(notifier));
    const { taskId } = await ended(test);
    test.trouble.begin("disk_full");
    stuck.resolve(DELIVERED);
    await test.clock.advanceAndSettle(11_000);
    expect(test.log.entries).toContainEqual(expect.objectContaining({ event: "notices_failed" }));
    const tries = notifier.told.length;
    expect(tries).toBeGreaterThan(1);
    test.trouble.end();
    await test.clock.advanceAndSettle(HOUR);
    expect(idsOf(notifier)).toEqual(Array(tries + 1).fill(`${taskId}:1:webhook-1`));
    expect(await test.store.nextNoticeAtMs()).toBeNull();
  });

  it("is told once although its settlement could not be written at first (F10)", async () => {
    const notifier = createFakeNotifier();
    await using test = await startTestEngine(withNotifiers(notifier));
    const { taskId } = await test.delegate(KEY, [gate("go"), say("fine")]);
    await test.settle();
    test.trouble.begin("read_only");
    test.driver.release("go");
    await test.clock.advanceAndSettle(30_000);
    expect(notifier.told).toEqual([]);
    test.trouble.end();
    await test.clock.advanceAndSettle(30_000);
    expect(idsOf(notifier)).toEqual([`${taskId}:1:webhook-1`]);
  });

  it("is tried again after growing pauses, and given up after days (P15)", async () => {
    const notifier = createFakeNotifier("webhook-1", () => AGAIN);
    await using test = await startTestEngine(withNotifiers(notifier));
    await ended(test);
    await test.clock.advanceAndSettle(3 * HOUR);
    const sent = notifier.told.map(({ sentAtMs }) => sentAtMs);
    const pauses = sent.slice(1).map((atMs, index) => (atMs - (sent[index] ?? 0)) / 1_000);
    expect(pauses.slice(0, 10)).toEqual([5, 10, 20, 40, 80, 160, 320, 640, 1_280, 1_800]);
    expect(new Set(pauses.slice(10))).toEqual(new Set([1_800]));
    expect(new Set(idsOf(notifier)).size).toBe(1);
    expect(test.log.entries).not.toContainEqual(expect.objectContaining({ event: "notice_given_up" }));
    test.clock.sleepMachine(LIMITS.noticeGiveUpMs);
    await test.clock.advanceAndSettle(HOUR);
    const tries = notifier.told.length;
    expect(test.log.entries).toContainEqual(expect.objectContaining({ event: "notice_given_up" }));
    await test.clock.advanceAndSettle(2 * HOUR);
    expect([notifier.told.length, await test.store.nextNoticeAtMs()]).toEqual([tries, null]);
  });

  it("keeps its place in the pauses over a restart", async () => {
    const notifier = createFakeNotifier("webhook-1", () => AGAIN);
    await using test = await startTestEngine(withNotifiers(notifier));
    await ended(test);
    await test.clock.advanceAndSettle(16_000);
    expect(notifier.told).toHaveLength(3);
    await using second = await test.restart();
    await second.clock.advanceAndSettle(10_000);
    expect(notifier.told).toHaveLength(3);
    await second.clock.advanceAndSettle(10_000);
    expect(notifier.told).toHaveLength(4);
  });

  it("that its receiver refuses is dropped at once, and the others' are not", async () => {
    const gone = createFakeNotifier("webhook-1", () => ({ kind: "refused", reason: "HTTP 410" }));
    const other = createFakeNotifier("webhook-2");
    await using test = await startTestEngine(withNotifiers(gone, other));
    await ended(test);
    await test.clock.advanceAndSettle(HOUR);
    expect([gone.told.length, other.told.length, await test.store.nextNoticeAtMs()]).toEqual([1, 1, null]);
    expect(test.log.entries).toContainEqual(expect.objectContaining({ event: "notice_given_up" }));
  });

  it.each([1, 0])("for a target that was taken out of the configuration is dropped, with %i left", async (left) => {
    const [kept, removed] = [
      createFakeNotifier("webhook-1", () => AGAIN),
      createFakeNotifier("webhook-2", () => AGAIN),
    ];
    await using test = await startTestEngine(withNotifiers(kept, removed));
    const { taskId } = await ended(test);
    const tries = removed.told.length;
    kept.answer = () => DELIVERED;
    await using second = await test.restart(withNotifiers(...(left === 1 ? [kept] : [])));
    await second.clock.advanceAndSettle(HOUR);
    expect([removed.told.length, await second.store.nextNoticeAtMs()]).toEqual([tries, null]);
    expect(kept.told.at(-1)?.id).toBe(`${taskId}:1:webhook-1`);
    expect(kept.told).toHaveLength(left + 1);
  });
});

describe("a notifier that hangs", () => {
  it("holds up a stop for two seconds, and what it was told is told again (P14)", async () => {
    const stuck = Promise.withResolvers<NoticeOutcome>();
    const notifier = createFakeNotifier("webhook-1", () => stuck.promise);
    await using test = await startTestEngine(withNotifiers(notifier));
    const { taskId } = await ended(test);
    let stopped = false;
    const stopping = test.engine.drain("hand_over").then(() => {
      stopped = true;
    });
    await test.clock.advanceAndSettle(1_900);
    expect(stopped).toBe(false);
    await test.clock.advanceAndSettle(200);
    await stopping;
    stuck.resolve(DELIVERED);
    await test.settle();
    notifier.answer = () => DELIVERED;
    await using second = await test.restart();
    await second.settle();
    expect(idsOf(notifier)).toEqual(Array(2).fill(`${taskId}:1:webhook-1`));
  });

  it("holds up no other task and no caller (P7)", async () => {
    const stuck = Promise.withResolvers<NoticeOutcome>();
    const notifier = createFakeNotifier("webhook-1", () => stuck.promise);
    await using test = await startTestEngine(withNotifiers(notifier));
    await ended(test);
    const second = await ended(test, [say("two")], "review-auth-2");
    expect((await test.status(second.taskId)).structured["status"]).toBe("completed");
    stuck.resolve(DELIVERED);
    await test.settle();
    expect(notifier.told).toHaveLength(2);
  });
});
