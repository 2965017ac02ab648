/**
 * Every settlement reaches its caller at least once, and only the caller's own words clear it (P9, contract §6 and §11).
 */

import { describe, expect, it } from "vitest";
import { at, listAt, textAt } from "../support/json.ts";
import { BOB, callerOf, startTestEngine, type TestAnswer, type TestEngine } from "../support/test-engine.ts";

const say = (text: string): object => ({ do: "say", text });
const gate = (name: string): object => ({ do: "waitFor", name });

async function start(test: TestEngine, names: readonly string[], from = callerOf("alice")): Promise<readonly string[]> {
  const taskIds: string[] = [];
  for (const name of names) {
    const steps = [gate(name), say(`result of ${name}`)];
    taskIds.push(
      (await test.delegate(`review-auth-${name}`, steps, { title: `Task ${name}` }, { caller: from })).taskId,
    );
  }
  await test.settle();
  return taskIds;
}

async function finish(test: TestEngine, names: readonly string[]): Promise<void> {
  for (const name of names) test.driver.release(name);
  await test.settle();
}

const pendingOf = ({ structured }: TestAnswer): readonly unknown[] =>
  listAt(structured, "pendingCompletions").map((completion) => at(completion, "taskId"));
const unreadOf = async (test: TestEngine): Promise<number> =>
  listAt((await test.call("task_list", { unread: true })).structured, "tasks").length;
const argumentsOf = ({ structured }: TestAnswer): Readonly<Record<string, unknown>> => ({
  ...Object(at(structured, "next", "arguments")),
});

/** Results by task that an answer to a wait tells in full. */
function toldBy({ structured }: TestAnswer): readonly string[] {
  const items = structured["tasks"] === undefined ? [structured] : listAt(structured, "tasks");
  return items.map((item) => textAt(item, "fromChild", "result", "text")).filter((text) => text !== "");
}

describe("completions", () => {
  it("of any number of waves are all delivered, and none is left unread (L1)", async () => {
    await using test = await startTestEngine({ limits: { concurrentChildren: 10 } });
    const names = ["a", "b", "c", "d", "e", "f"];
    const waves = [["a"], ["b", "c"], ["d"], ["e"], ["f"]];
    let args: Readonly<Record<string, unknown>> = { taskIds: await start(test, names) };
    const told: string[] = [];
    for (const wave of waves) {
      const waiting = test.call("task_wait", args);
      await test.settle();
      await finish(test, wave);
      for (let answer = await waiting; ; answer = await test.peek(args)) {
        told.push(...toldBy(answer));
        if (at(answer.structured, "next", "kind") !== "wait") break;
        args = argumentsOf(answer);
        if (told.length >= names.indexOf(wave.at(-1) ?? "") + 1) break;
      }
    }
    expect(told.sort()).toEqual(names.map((name) => `result of ${name}`));
    for (const { taskId, settlement } of await unread(test)) await test.call("task_ack", { taskId, settlement });
    expect(await unreadOf(test)).toBe(0);
  });

  it("that arrive while an answer is under way are all in the next ones (L2)", async () => {
    await using test = await startTestEngine({ limits: { concurrentChildren: 10 } });
    const names = "abcdefghij".split("");
    const taskIds = await start(test, names);
    const read = test.trouble.holdAnswer("tasks", 1);
    const waiting = test.call("task_wait", { taskIds });
    await read.arrived;
    await finish(test, names);
    read.release();
    await test.settle();
    const told = new Set<string>();
    for (let answer = await waiting; ; answer = await test.call("task_wait", argumentsOf(answer))) {
      for (const text of toldBy(answer)) told.add(text);
      if (at(answer.structured, "next", "kind") !== "wait") break;
      expect(textAt(answer.structured, "waitEnded")).toBe("news");
    }
    expect([...told].sort()).toEqual(names.map((name) => `result of ${name}`));
  });

  it("five of them come in one answer with their results (L6)", async () => {
    await using test = await startTestEngine({ limits: { concurrentChildren: 10 } });
    const names = "abcde".split("");
    const taskIds = await start(test, names);
    await finish(test, names);
    const answer = await test.call("task_wait", { taskIds, until: "all" });
    expect(toldBy(answer)).toEqual(names.map((name) => `result of ${name}`));
    expect(answer.structured).toMatchObject({ counts: { completed: 5 }, next: { kind: "use_result" } });
  });

  it("are told in answers about something else, three times at most, then only counted (L5, F21)", async () => {
    await using test = await startTestEngine();
    const [ended = "", open = ""] = await start(test, ["a", "b"]);
    await finish(test, ["a"]);
    const answers: TestAnswer[] = [];
    for (let time = 0; time < 5; time += 1) answers.push(await test.status(open));
    expect(answers.map(pendingOf)).toEqual([[ended], [ended], [ended], [], []]);
    expect(answers.map(({ structured }) => structured["pendingCount"])).toEqual([
      undefined,
      undefined,
      undefined,
      1,
      1,
    ]);
    expect(listAt(answers[0]?.structured, "pendingCompletions")).toEqual([
      { taskId: ended, nodeId: `node:delegated-task:${ended}`, settlement: 1, status: "completed", title: "Task a" },
    ]);
    expect(answers[0]?.text).toContain(`Unread: task ${ended} completed (settlement 1) "Task a". See task_status.`);
    expect(answers[4]?.text).toContain('1 more unread: task_list {"unread":true}');
    // What a child wrote is in none of them (P17).
    for (const { text } of answers) expect(text).not.toContain("result of a");
  });

  it("are not used up by a person who looks on (L5, P9)", async () => {
    await using test = await startTestEngine();
    const [ended = "", open = ""] = await start(test, ["a", "b"]);
    await finish(test, ["a"]);
    const person = callerOf("alice", { kind: "person" });
    for (let time = 0; time < 5; time += 1) {
      expect(pendingOf(await test.status(open, { caller: person }))).toEqual([ended]);
    }
    expect(pendingOf(await test.status(open))).toEqual([ended]);
  });

  it("are cleared by no other caller, an admin who waits for them or goes on with them included (P9, P16)", async () => {
    await using test = await startTestEngine();
    const [ended = "", open = ""] = await start(test, ["a", "b"]);
    await finish(test, ["a"]);
    const admin = callerOf("carol", { scopes: ["read", "delegate", "admin"] });
    const after = `a1:${ended.slice(-8)}.9.9`;
    expect((await test.peek({ taskIds: [ended], after }, { caller: admin })).taskId).toBe(ended);
    expect(pendingOf(await test.status(open))).toEqual([ended]);
    const further = { taskId: ended, message: "and now?", clientRequestId: "continue-of-carol" };
    expect((await test.call("task_continue", further, { caller: admin })).structured["created"]).toBe("new");
    const kept = (await test.store.unfinished()).find(({ handle }) => handle.taskId === ended);
    expect(kept?.acknowledgedThrough).toBe(0);
  });

  it("of every tool's answer, refusals included (L5)", async () => {
    await using test = await startTestEngine();
    const [, open = ""] = await start(test, ["a", "b"]);
    await finish(test, ["a"]);
    const missing = { taskId: "dt_01KDVDNA00YBXHH9WG1E67JZYZ" };
    const calls: readonly (readonly [string, object])[] = [
      ["delegate_task", { clientRequestId: "review-auth-x", task: "x", agent: "nobody" }],
      ["task_wait", { taskIds: [open], waitMs: 0 }],
      ["task_status", missing],
    ];
    for (const [tool, args] of calls) expect(pendingOf(await test.call(tool, { ...args })), tool).toHaveLength(1);
  });

  it("of another conversation of the same caller are only counted; without one all are told (L5)", async () => {
    await using test = await startTestEngine();
    const here = callerOf("alice", { conversation: "here" });
    const there = callerOf("alice", { conversation: "there" });
    const [mine] = await start(test, ["a"], here);
    const [other] = await start(test, ["b"], there);
    const [open = ""] = await start(test, ["c"], here);
    await finish(test, ["a", "b"]);
    const told = await test.status(open, { caller: here });
    expect([pendingOf(told), told.structured["pendingCount"]]).toEqual([[mine], 1]);
    const anywhere = await test.status(open);
    expect(new Set(pendingOf(anywhere))).toEqual(new Set([mine, other]));
    expect(pendingOf(await test.call("task_list", {}, { caller: BOB }))).toEqual([]);
  });

  it("that the answer itself shows are not announced in it (L5)", async () => {
    await using test = await startTestEngine();
    const [ended = ""] = await start(test, ["a"]);
    await finish(test, ["a"]);
    for (const answer of [
      await test.status(ended),
      await test.call("task_list", {}),
      await test.call("task_wait", {}),
    ]) {
      expect([pendingOf(answer), answer.structured["pendingCount"]]).toEqual([[], undefined]);
    }
  });
});

describe("a result", () => {
  it("is read again and again, by whatever id, and reading confirms nothing (P9, H7, F2)", async () => {
    await using test = await startTestEngine();
    const [taskId = ""] = await start(test, ["a"]);
    await finish(test, ["a"]);
    const first = await test.status(taskId);
    for (let time = 0; time < 10; time += 1) {
      for (const id of [taskId, first.structured["childThreadId"], first.structured["nodeId"]]) {
        expect(toldBy(await test.call("task_status", { taskId: id }))).toEqual(["result of a"]);
        expect(toldBy(await test.call("task_wait", { taskIds: [id] }))).toEqual(["result of a"]);
      }
    }
    expect(await unreadOf(test)).toBe(1);
  });

  it("is confirmed by task_ack, which can be repeated, and stays readable (P9)", async () => {
    await using test = await startTestEngine();
    const [taskId = ""] = await start(test, ["a"]);
    await finish(test, ["a"]);
    const acked = await test.call("task_ack", { taskId, settlement: 1 });
    expect(at(acked.structured, "meta", "replayed")).toBeUndefined();
    expect(await unreadOf(test)).toBe(0);
    const again = await test.call("task_ack", { taskId, settlement: 1 });
    expect(at(again.structured, "meta", "replayed")).toBe(true);
    expect(toldBy(await test.status(taskId))).toEqual(["result of a"]);
  });

  it("that does not exist yet cannot be confirmed in advance (P9)", async () => {
    await using test = await startTestEngine();
    const [taskId = ""] = await start(test, ["a"]);
    await test.call("task_ack", { taskId, settlement: 1 });
    await test.call("task_ack", { taskId, settlement: 7 });
    await finish(test, ["a"]);
    expect(await unreadOf(test)).toBe(1);
  });

  it("of one run is not confirmed by the word for an earlier one (P9)", async () => {
    await using test = await startTestEngine();
    const [taskId = ""] = await start(test, ["a"]);
    await finish(test, ["a"]);
    const message = `Do it: ${JSON.stringify({ steps: [say("two")] })}`;
    await test.call("task_continue", { taskId, message, clientRequestId: "continue-1" });
    await test.settle();
    await test.call("task_ack", { taskId, settlement: 1 });
    expect(await unreadOf(test)).toBe(1);
    const other = await test.call("task_ack", { taskId, settlement: 1 }, { caller: BOB });
    expect(textAt(other.structured, "error", "code")).toBe("unknown_task");
  });
});

async function unread(test: TestEngine): Promise<readonly { readonly taskId: string; readonly settlement: number }[]> {
  const { structured } = await test.call("task_list", { unread: true });
  return listAt(structured, "tasks").map((task) => {
    return { taskId: textAt(task, "taskId"), settlement: Number(at(task, "settlement")) };
  });
}
