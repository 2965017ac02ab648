/**
 * The tools over HTTP as clients of both eras see them: identity across calls, waits that are cut, many clients at once.
 */

import { describe, expect, it } from "vitest";
import { at, listAt, textAt } from "../support/json.ts";
import { CLIENT_KINDS, type TestClient, type ToolResult } from "../support/mcp-clients.ts";
import { eventually } from "../support/processes.ts";
import {
  callBody,
  initialize,
  jsonObject,
  messagesOf,
  openStream,
  post,
  resumeStream,
  send,
} from "../support/raw-mcp.ts";
import { fakeWork, startTestDaemon, type TestDaemon } from "../support/test-daemon.ts";

const say = (text: string): object => ({ do: "say", text });
const gate = (name: string): object => ({ do: "waitFor", name });
const TOKEN = "token-of-alice";

const idOf = ({ structured }: ToolResult): string => textAt(structured, "taskId");
const resultOf = ({ structured }: ToolResult): string => textAt(structured, "fromChild", "result", "text");

/** Resolves when so many calls are being held. */
async function held(daemon: TestDaemon, count: number): Promise<void> {
  await eventually(`${count} held calls`, () => daemon.engine.waiting === count);
}

describe.each(CLIENT_KINDS)("a client of kind %s", (kind) => {
  it("has the whole handle in its first answer and the result under the same ids (P1, P2)", async () => {
    await using daemon = await startTestDaemon();
    await using client = await daemon.client(kind);
    const first = await client.call("delegate_task", fakeWork("review-auth-1", [gate("go"), say("fine")]));
    expect(first.structured).toMatchObject({ created: "new", status: "working" });
    const waiting = client.call("task_wait", { ...Object(at(first.structured, "next", "arguments")) });
    await held(daemon, 1);
    daemon.driver.release("go");
    const last = await waiting;
    expect(last.structured).toMatchObject({ status: "completed", waitEnded: "news", settlement: 1 });
    for (const id of ["taskId", "childThreadId", "nodeId"]) expect(last.structured[id]).toBe(first.structured[id]);
    expect(resultOf(last)).toBe("fine");
  });

  it("is told the whole handle by the first progress message of a held call (P1)", async () => {
    await using daemon = await startTestDaemon();
    await using client = await daemon.client(kind);
    const told: (string | undefined)[] = [];
    const onProgress = (_progress: number, message: string | undefined): void => void told.push(message);
    const work = fakeWork("review-auth-1", [gate("go"), say("fine")], { mode: "wait" });
    const delegating = client.call("delegate_task", work, { onProgress });
    await eventually("a progress message", () => told.length > 0);
    daemon.driver.release("go");
    const { structured } = await delegating;
    expect(structured).toMatchObject({ created: "new", status: "completed" });
    for (const id of ["taskId", "childThreadId", "nodeId"]) expect(told[0]).toContain(textAt(structured, id));
  });

  it("repeats a call under its key and gets its task, be it with another client (P3, F3)", async () => {
    await using daemon = await startTestDaemon();
    await using client = await daemon.client(kind);
    await using other = await daemon.client("1.x");
    const work = fakeWork("review-auth-1", [gate("go")]);
    const first = await client.call("delegate_task", work);
    for (const again of [await client.call("delegate_task", work), await other.call("delegate_task", work)]) {
      expect(again.structured).toMatchObject({ taskId: idOf(first), created: "replayed" });
    }
  });
});

describe("a client with a short limit", () => {
  it("has the handle before its limit, and the result later under the same ids (H1, P8)", async () => {
    await using daemon = await startTestDaemon();
    await using client = await daemon.client("1.x", "alice", { headers: { "x-request-timeout-ms": "1500" } });
    const before = performance.now();
    const work = fakeWork("review-auth-1", [gate("go"), say("fine")], { mode: "wait" });
    const first = await client.call("delegate_task", work, { timeoutMs: 1_500 });
    expect(performance.now() - before).toBeLessThan(1_500);
    expect(first.structured).toMatchObject({
      created: "new",
      status: "working",
      waitEnded: "slice",
      next: { kind: "wait" },
    });
    daemon.driver.release("go");
    const last = await client.call(
      "task_wait",
      { ...Object(at(first.structured, "next", "arguments")) },
      { timeoutMs: 1_500 },
    );
    expect([idOf(last), resultOf(last)]).toEqual([idOf(first), "fine"]);
  });

  it("that cancels its call ends the wait and not the task, and nothing is left of the wait (P7, C5, PE2)", async () => {
    await using daemon = await startTestDaemon();
    await using client = await daemon.client();
    const taskId = idOf(await client.call("delegate_task", fakeWork("review-auth-1", [gate("go"), say("fine")])));
    for (let time = 0; time < 20; time += 1) {
      const control = new AbortController();
      const waiting = client.call("task_wait", { taskIds: [taskId] }, { signal: control.signal });
      await held(daemon, 1);
      control.abort();
      await expect(waiting).rejects.toThrow();
      await held(daemon, 0);
    }
    daemon.driver.release("go");
    expect(resultOf(await client.call("task_wait", { taskIds: [taskId] }))).toBe("fine");
  });
});

describe("a held call", () => {
  it("sends its first byte within a second, and its answer when there is news (P8)", async () => {
    await using daemon = await startTestDaemon();
    const session = await initialize(daemon, { name: "raw", version: "1" }, TOKEN);
    const work = fakeWork("review-auth-1", [gate("go"), say("fine")], { mode: "wait" });
    const before = performance.now();
    await using stream = await openStream(daemon, callBody(7, "delegate_task", work), { token: TOKEN, session });
    expect(await stream.next()).not.toBeNull();
    expect(performance.now() - before).toBeLessThan(1_000);
    await held(daemon, 1);
    daemon.driver.release("go");
    const [message] = messagesOf(await stream.rest());
    expect(at(message, "result", "structuredContent", "status")).toBe("completed");
  });

  it("cut before its answer costs nothing: the key, the status, a wait and a resumed stream all tell it (L4, H7, F2)", async () => {
    await using daemon = await startTestDaemon();
    const session = await initialize(daemon, { name: "raw", version: "1" }, TOKEN);
    const work = fakeWork("review-auth-1", [gate("go"), say("fine")], { mode: "wait" });
    await using stream = await openStream(daemon, callBody(7, "delegate_task", work), { token: TOKEN, session });
    const first = await stream.next();
    await held(daemon, 1);
    stream.abort();
    await held(daemon, 0);
    daemon.driver.release("go");
    await using client = await daemon.client();
    const status = await client.call("task_status", { clientRequestId: "review-auth-1" });
    await eventually("the end", async () => {
      const { structured } = await client.call("task_status", { taskId: idOf(status) });
      return structured["status"] === "completed";
    });
    const again = await client.call("delegate_task", work);
    expect([again.structured["created"], resultOf(again)]).toEqual(["replayed", "fine"]);
    expect(resultOf(await client.call("task_wait", { taskIds: [idOf(status)] }))).toBe("fine");
    await using resumed = await resumeStream(daemon, first?.id ?? "", { token: TOKEN, session });
    const [message] = messagesOf(await resumed.rest());
    expect(at(message, "result", "structuredContent")).toMatchObject({ taskId: idOf(status), status: "completed" });
    expect(at(message, "id")).toBe(7);
  });

  it("of a client that deletes its session goes on, and the task is found by a new one (C7, F22)", async () => {
    await using daemon = await startTestDaemon();
    const session = await initialize(daemon, { name: "raw", version: "1" }, TOKEN);
    const work = callBody(1, "delegate_task", fakeWork("review-auth-1", [gate("go"), say("fine")]));
    await (await post(daemon, work, { token: TOKEN, session })).text();
    expect((await send(daemon, "DELETE", { token: TOKEN, session })).status).toBe(405);
    daemon.driver.release("go");
    await using client = await daemon.client();
    const list = await client.call("task_list", {});
    expect(listAt(list.structured, "tasks")).toMatchObject([
      { thisConversation: false, title: "Review the auth diff" },
    ]);
    expect(resultOf(await client.call("task_wait", {}))).toBe("fine");
  });
});

describe("many clients at once", () => {
  it("each wait for a task of their own, with progress, and get their own answer alone (M1, P16)", async () => {
    await using daemon = await startTestDaemon({ limits: { concurrentChildren: 10 } });
    const names = Array.from({ length: 10 }, (_, index) => `caller${index}`);
    const clients = await Promise.all(names.map((name, index) => daemon.client(CLIENT_KINDS[index % 4], name)));
    const told = new Map<string, string[]>(names.map((name) => [name, []]));
    const tasks = await Promise.all(
      clients.map((client, index) =>
        client.call(
          "delegate_task",
          fakeWork("review-auth-1", [gate(`go ${index}`), say(`secret of ${names[index]}`)]),
        ),
      ),
    );
    const waits = clients.map((client, index) => {
      const onProgress = (_value: number, message: string | undefined): void => {
        told.get(names[index] ?? "")?.push(message ?? "");
      };
      return client.call("task_wait", { taskIds: [idOf(tasks[index] ?? NOTHING)] }, { onProgress });
    });
    await held(daemon, 10);
    for (const index of [3, 1, 4, 9, 2, 6, 5, 8, 7, 0]) daemon.driver.release(`go ${index}`);
    const answers = await Promise.all(waits);
    for (const [index, answer] of answers.entries()) {
      expect([idOf(answer), resultOf(answer)]).toEqual([idOf(tasks[index] ?? NOTHING), `secret of ${names[index]}`]);
      const others = tasks.filter((_, other) => other !== index).map(idOf);
      const heard = told.get(names[index] ?? "")?.join("\n") ?? "";
      for (const other of others) expect(heard + answer.text).not.toContain(other);
    }
    expect(new Set(tasks.map(idOf)).size).toBe(10);
    await Promise.all(clients.map((client) => client[Symbol.asyncDispose]()));
  });

  it("with one key on two connections start one child on a real store, and a hundred keys lose none (D3, E5, F7)", async () => {
    await using daemon = await startTestDaemon({ store: "sqlite" });
    await using one = await daemon.client("1.x");
    await using other = await daemon.client("2.x modern");
    const work = fakeWork("review-auth-1", [gate("go")]);
    const same = await Promise.all(
      Array.from({ length: 50 }, (_, index) => (index % 2 === 0 ? one : other).call("delegate_task", work)),
    );
    expect(new Set(same.map(idOf)).size).toBe(1);
    expect(same.filter(({ structured }) => structured["created"] === "new")).toHaveLength(1);
    const keys = Array.from({ length: 100 }, (_, index) => `review-many-${index}`);
    const many = await Promise.all(
      keys.map((key, index) => (index % 2 === 0 ? one : other).call("delegate_task", fakeWork(key, [gate("go")]))),
    );
    expect(many.map(({ structured }) => structured["created"])).toEqual(Array(100).fill("new"));
    expect(await daemon.store.counts()).toMatchObject({ working: 101 });
    for (const key of keys) expect((await one.call("task_status", { clientRequestId: key })).isError).toBe(false);
  });

  it("with the same request ids at the same moment are answered each with its own (M2)", async () => {
    await using daemon = await startTestDaemon();
    const names = ["alice", "bob"];
    const sessions = await Promise.all(
      names.map((name) => initialize(daemon, { name: "raw", version: "1" }, `token-of-${name}`)),
    );
    const call = async (
      index: number,
      name: string,
      args: Record<string, unknown>,
    ): Promise<Record<string, unknown>> => {
      const options = { token: `token-of-${names[index]}`, session: sessions[index] ?? "" };
      const response = await post(daemon, callBody(1, name, args), options);
      const text = await response.text();
      return response.headers.get("content-type")?.startsWith("text/event-stream") === true
        ? jsonObject(/^data: (\{.*)$/m.exec(text)?.[1] ?? "")
        : jsonObject(text);
    };
    const started = await Promise.all(
      names.map((name, index) =>
        call(index, "delegate_task", fakeWork("review-auth-1", [gate(name), say(`of ${name}`)])),
      ),
    );
    const ids = started.map((answer) => textAt(answer, "result", "structuredContent", "taskId"));
    const waits = names.map((_, index) => call(index, "task_wait", { taskIds: [ids[index]] }));
    await held(daemon, 2);
    for (const name of names.toReversed()) daemon.driver.release(name);
    for (const [index, answer] of (await Promise.all(waits)).entries()) {
      expect(at(answer, "id")).toBe(1);
      expect(textAt(answer, "result", "structuredContent", "fromChild", "result", "text")).toBe(`of ${names[index]}`);
    }
  });

  it("come one after another, crash and come again (M3)", async () => {
    await using daemon = await startTestDaemon();
    const open = async (): Promise<TestClient> => daemon.client();
    await using first = await open();
    const taskId = idOf(await first.call("delegate_task", fakeWork("review-auth-1", [gate("go"), say("fine")])));
    const crash = new AbortController();
    const second = await daemon.client("1.x", "alice", {
      fetch: (input, init) =>
        fetch(input, { ...init, signal: AbortSignal.any([crash.signal, ...(init?.signal ? [init.signal] : [])]) }),
    });
    const lost = second.call("task_wait", { taskIds: [taskId] });
    await held(daemon, 1);
    crash.abort();
    await Promise.all([second[Symbol.asyncDispose](), expect(lost).rejects.toThrow()]);
    await held(daemon, 0);
    await using third = await open();
    const waiting = third.call("task_wait", { taskIds: [taskId] });
    await held(daemon, 1);
    daemon.driver.release("go");
    expect(resultOf(await waiting)).toBe("fine");
    expect(resultOf(await first.call("task_status", { taskId }))).toBe("fine");
  });
});

const NOTHING: ToolResult = { text: "", structured: {}, isError: false };
