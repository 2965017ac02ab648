/**
 * `/api`: the tools for people, by the same calls and with the same answers, as statuses and bodies of HTTP.
 */

import { Agent, request } from "node:http";
import { describe, expect, it } from "vitest";
import { at, listAt, textAt } from "../support/json.ts";
import { eventually } from "../support/processes.ts";
import { createStepClock } from "../support/step-clock.ts";
import { type ApiAnswer, fakeWork, startTestDaemon, type TestDaemon } from "../support/test-daemon.ts";
import { createFakeChildren } from "../support/test-engine.ts";

const say = (text: string): object => ({ do: "say", text });
const gate = (name: string): object => ({ do: "waitFor", name });
const OPEN = [gate("go"), say("fine")];

async function delegated(
  daemon: TestDaemon,
  key: string,
  steps: readonly object[] = OPEN,
  name = "alice",
): Promise<string> {
  const { status, body } = await daemon.api("POST", "/api/tasks", fakeWork(key, steps), name);
  expect(status).toBe(200);
  return textAt(body, "taskId");
}

const codeOf = ({ body }: ApiAnswer): string => textAt(body, "error", "code");

describe("a person's calls", () => {
  it("delegate, look, wait, list, continue, confirm and cancel, with the answers of the tools (P1, P2)", async () => {
    await using daemon = await startTestDaemon();
    const started = await daemon.api("POST", "/api/tasks", fakeWork("review-auth-1", OPEN));
    expect(started).toMatchObject({ status: 200, body: { created: "new", status: "working", next: { kind: "wait" } } });
    const taskId = textAt(started.body, "taskId");
    expect(await daemon.api("GET", `/api/tasks/${taskId}`)).toMatchObject({
      status: 200,
      body: { taskId, status: "working" },
    });
    const waiting = daemon.api("POST", "/api/wait", { taskIds: [taskId] });
    await eventually("the wait", () => daemon.engine.waiting === 1);
    daemon.driver.release("go");
    expect(await waiting).toMatchObject({
      status: 200,
      body: { waitEnded: "news", fromChild: { result: { text: "fine" } } },
    });
    const listed = await daemon.api("GET", "/api/tasks?unread=1");
    expect(listAt(listed.body, "tasks")).toMatchObject([{ taskId, status: "completed", settlement: 1 }]);
    const acked = await daemon.api("POST", `/api/tasks/${taskId}/ack`, { settlement: 1 });
    expect([acked.status, listAt((await daemon.api("GET", "/api/tasks?unread=1")).body, "tasks")]).toEqual([200, []]);
    const message = { message: "more", clientRequestId: "continue-1", afterSettlement: 1 };
    expect(await daemon.api("POST", `/api/tasks/${taskId}/continue`, message)).toMatchObject({
      status: 200,
      body: { created: "new" },
    });
    const cancelled = await daemon.api("POST", `/api/tasks/${taskId}/cancel`, { reason: "enough" });
    expect([cancelled.status, cancelled.body["taskId"]]).toEqual([200, taskId]);
  });

  it("are a person's in the record, and the same caller's tasks (P16)", async () => {
    await using daemon = await startTestDaemon();
    await using client = await daemon.client();
    const mine = await client.call("delegate_task", fakeWork("review-auth-1", OPEN));
    const taskId = textAt(mine.structured, "taskId");
    const cancelled = await daemon.api("POST", `/api/tasks/${taskId}/cancel`, {});
    expect(at(cancelled.body, "outcome", "by")).toEqual({ kind: "person", name: "alice" });
    expect((await daemon.api("GET", `/api/tasks/${taskId}`, undefined, "bob")).status).toBe(404);
  });

  it("can be held, and a wait of 0 is a look", async () => {
    await using daemon = await startTestDaemon();
    const taskId = await delegated(daemon, "review-auth-1");
    for (const waitMs of [0, "0"]) {
      const { body } = await daemon.api("POST", "/api/wait", { taskIds: [taskId], waitMs });
      expect(body["waitEnded"]).toBe("slice");
    }
    const before = performance.now();
    await daemon.api("POST", "/api/wait", { taskIds: [taskId], timeoutMs: "50" });
    expect(performance.now() - before).toBeLessThan(5_000);
  });

  it("free their wait when they go away (P7)", async () => {
    await using daemon = await startTestDaemon();
    const taskId = await delegated(daemon, "review-auth-1");
    const gone = new AbortController();
    const waiting = fetch(`${daemon.origin}/api/wait`, {
      method: "POST",
      headers: { authorization: "Bearer token-of-alice", "content-type": "application/json" },
      body: JSON.stringify({ taskIds: [taskId] }),
      signal: gone.signal,
    });
    await eventually("the wait", () => daemon.engine.waiting === 1);
    gone.abort();
    await expect(waiting).rejects.toThrow();
    await eventually("no wait", () => daemon.engine.waiting === 0);
  });

  it("over one kept connection leave no listener behind (E3)", async () => {
    await using daemon = await startTestDaemon();
    const taskId = await delegated(daemon, "review-auth-1");
    const warnings: string[] = [];
    const warned = (warning: Error): void => void warnings.push(warning.name);
    process.on("warning", warned);
    const agent = new Agent({ keepAlive: true, maxSockets: 1 });
    for (let time = 0; time < 30; time += 1) {
      const { promise, resolve, reject } = Promise.withResolvers<void>();
      const headers = { authorization: "Bearer token-of-alice" };
      const call = request(`${daemon.origin}/api/tasks/${taskId}`, { agent, headers }, (response) => {
        response.resume();
        response.once("end", resolve);
      });
      call.once("error", reject);
      call.end();
      await promise;
    }
    agent.destroy();
    process.off("warning", warned);
    expect(warnings).toEqual([]);
  });
});

describe("the status", () => {
  it("of a refusal is 200, of a mistake 400, of a missing scope 403, of an unknown id 404 (P1)", async () => {
    await using daemon = await startTestDaemon();
    const taskId = await delegated(daemon, "review-auth-1");
    const cases: readonly (readonly [number, string, Promise<ApiAnswer>])[] = [
      [200, "idempotency_conflict", daemon.api("POST", "/api/tasks", fakeWork("review-auth-1", [say("x")]))],
      [400, "missing_client_request_id", daemon.api("POST", "/api/tasks", { task: "x" })],
      [
        400,
        "invalid_arguments",
        daemon.api("POST", "/api/tasks", { task: "x", clientRequestId: "review-auth-2", bananas: 1 }),
      ],
      [400, "invalid_arguments", daemon.api("POST", "/api/wait", { taskId })],
      [400, "invalid_arguments", daemon.api("POST", "/api/wait", [])],
      [400, "invalid_arguments", daemon.api("GET", "/api/tasks?open=perhaps")],
      [400, "invalid_arguments", daemon.api("GET", "/api/tasks?limit=0")],
      [400, "invalid_arguments", daemon.api("POST", `/api/tasks/${taskId}/ack`, {})],
      [400, "invalid_arguments", daemon.api("POST", `/api/tasks/${taskId}/cancel`, { abandon: "yes" })],
      [403, "not_allowed", daemon.api("POST", "/api/tasks", fakeWork("review-auth-2", OPEN), "reader")],
      [404, "unknown_task", daemon.api("GET", "/api/tasks/4711")],
      [404, "unknown_thread", daemon.api("GET", "/api/tasks/th_01M8RDENWBWY0DFWYS2QHAG06Y")],
      [
        404,
        "unknown_task",
        daemon.api("POST", "/api/tasks/4711/continue", { message: "x", clientRequestId: "continue-1" }),
      ],
    ];
    for (const [status, code, asking] of cases) {
      const answer = await asking;
      expect([answer.status, codeOf(answer)]).toEqual([status, code]);
      expect(textAt(answer.body, "next", "kind")).not.toBe("");
    }
  });

  it("while stopping is 503 for what would start something (F34)", async () => {
    await using daemon = await startTestDaemon();
    await daemon.engine.drain("stop");
    const answer = await daemon.api("POST", "/api/tasks", fakeWork("review-auth-1", OPEN));
    expect([answer.status, codeOf(answer)]).toEqual([503, "stopping"]);
  });

  it("without a token is 401, with what to do", async () => {
    await using daemon = await startTestDaemon();
    const response = await fetch(`${daemon.origin}/api/tasks`);
    expect(response.status).toBe(401);
    expect(at(await response.json(), "next", "kind")).toBe("ask_user");
  });
});

describe("the beginning of an id", () => {
  it("names its task if it is the only one, however it is typed, in every route", async () => {
    await using daemon = await startTestDaemon();
    const taskId = await delegated(daemon, "review-auth-1");
    const bare = taskId.slice("dt_".length);
    for (const prefix of [
      taskId,
      taskId.slice(0, 20),
      bare.slice(0, 12),
      bare.toLowerCase(),
      `DT_${bare.slice(0, 9)}`,
    ]) {
      expect((await daemon.api("GET", `/api/tasks/${prefix}`)).body["taskId"], prefix).toBe(taskId);
    }
    const message = { message: "x", clientRequestId: "continue-1" };
    expect((await daemon.api("POST", `/api/tasks/${bare.slice(0, 12)}/continue`, message)).body["taskId"]).toBe(taskId);
    expect((await daemon.api("POST", `/api/tasks/${bare.slice(0, 12)}/ack`, { settlement: 1 })).body["taskId"]).toBe(
      taskId,
    );
    expect((await daemon.api("POST", `/api/tasks/${bare.slice(0, 12)}/cancel`, {})).body["taskId"]).toBe(taskId);
  });

  it("of several is 409 with those it fits, and nothing is done to any", async () => {
    await using daemon = await startTestDaemon();
    const ids = [await delegated(daemon, "review-auth-1"), await delegated(daemon, "review-auth-2")];
    // Ids begin with their time.
    const prefix = (ids[0] ?? "").slice(0, 7);
    for (const asking of [
      daemon.api("GET", `/api/tasks/${prefix}`),
      daemon.api("POST", `/api/tasks/${prefix}/cancel`, {}),
      daemon.api("POST", `/api/tasks/${prefix}/cancel`, { abandon: true }),
    ]) {
      const { status, body } = await asking;
      expect(status).toBe(409);
      expect(listAt(body, "tasks").map((task) => textAt(task, "taskId"))).toEqual(ids.toReversed());
    }
    for (const id of ids) expect((await daemon.api("GET", `/api/tasks/${id}`)).body["status"]).toBe("working");
  });

  it("is looked for among the caller's own tasks alone (P16)", async () => {
    await using daemon = await startTestDaemon();
    const mine = await delegated(daemon, "review-auth-1");
    await delegated(daemon, "review-auth-1", OPEN, "bob");
    expect((await daemon.api("GET", `/api/tasks/${mine.slice(0, 7)}`)).body["taskId"]).toBe(mine);
    expect((await daemon.api("GET", `/api/tasks/${mine.slice(0, 7)}`, undefined, "admin")).status).toBe(409);
    expect((await daemon.api("GET", `/api/tasks/${mine.slice(0, 20)}`, undefined, "carol")).status).toBe(404);
  });

  it.each(["dt_", "DT_", "%25", "dt_%25", "_", "..%2f..", "*", "dt_ILOU", "x".repeat(90), "%F0%9F%94%91"])(
    "that begins no id, %s, is unknown and never all tasks",
    async (prefix) => {
      await using daemon = await startTestDaemon();
      const taskId = await delegated(daemon, "review-auth-1");
      for (const asking of [
        daemon.api("GET", `/api/tasks/${prefix}`),
        daemon.api("POST", `/api/tasks/${prefix}/cancel`, {}),
      ]) {
        expect((await asking).status).toBe(404);
      }
      expect((await daemon.api("GET", `/api/tasks/${taskId}`)).body["status"]).toBe("working");
    },
  );
});

describe("giving survivors up", () => {
  it("is a person's alone, for named survivors, with the scope (P5, F37)", async () => {
    const clock = createStepClock();
    const children = createFakeChildren();
    await using daemon = await startTestDaemon({ clock, children });
    const taskId = await delegated(daemon, "review-auth-1");
    // Only what has started can leave something behind; a look at the directory's repository comes before it.
    await eventually("the child", () => daemon.engine.load().running === 1);
    const abandon = { abandon: true };
    const early = await daemon.api("POST", `/api/tasks/${taskId}/cancel`, abandon);
    expect([early.status, codeOf(early), early.body["taskId"]]).toEqual([200, "not_pending", taskId]);
    expect(textAt(early.body, "say")).toMatch(/^NOT DONE \(not_pending\)/);
    children.leave([{ pid: 4711, command: "node server.js" }]);
    daemon.driver.release("go");
    await clock.advanceAndSettle(40_000);
    await using client = await daemon.client();
    const model = await client.call("task_cancel", { taskId, abandon: true });
    expect(textAt(model.structured, "error", "code")).toBe("invalid_arguments");
    const reader = await daemon.api("POST", `/api/tasks/${taskId}/cancel`, abandon, "reader");
    expect([reader.status, codeOf(reader)]).toEqual([403, "not_allowed"]);
    const foreign = await daemon.api("POST", `/api/tasks/${taskId}/cancel`, abandon, "bob");
    expect(foreign.status).toBe(404);
    const given = await daemon.api("POST", `/api/tasks/${taskId}/cancel`, abandon);
    expect(given).toMatchObject({
      status: 200,
      body: {
        status: "completed",
        stop: {
          proof: "abandoned",
          survivors: [{ pid: 4711, command: "node server.js" }],
          by: { kind: "person", name: "alice" },
        },
      },
    });
    children.leave([]);
  });
});
