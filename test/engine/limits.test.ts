/**
 * Every limit of a delegation is a named answer that leaves nothing behind (P15, F34), and a directory has one writer (P10).
 */

import { describe, expect, it } from "vitest";
import type { ResolvedWorkspace } from "../../src/ports/workspace.ts";
import { at, textAt } from "../support/json.ts";
import { ALICE, BOB, callerOf, startTestEngine, type TestAnswer, type TestEngine } from "../support/test-engine.ts";
import { NO_GIT } from "../support/engine-parts.ts";

const OPEN = [
  { do: "waitFor", name: "go" },
  { do: "say", text: "fine" },
];
const WRITE = { role: "implementation" };

const codeOf = ({ structured }: TestAnswer): string => textAt(structured, "error", "code");

async function writer(test: TestEngine, key: string, cwd: string, more: object = {}): Promise<TestAnswer> {
  const answer = await test.delegate(
    key,
    [
      { do: "waitFor", name: key },
      { do: "say", text: "fine" },
    ],
    { ...WRITE, cwd, ...more },
  );
  await test.settle();
  return answer;
}

/** A refusal that leaves nothing behind: no task, no receipt. */
async function refused(test: TestEngine, key: string, args: Readonly<Record<string, unknown>>): Promise<TestAnswer> {
  const answer = await test.delegate(key, OPEN, args);
  expect(answer.structured["created"]).toBe("none");
  expect(answer.isError ? "" : answer.say).toMatch(/^(NOT STARTED \(\w+\): |$)/);
  const status = await test.call("task_status", { clientRequestId: key });
  expect(codeOf(status)).toBe("unknown_task");
  return answer;
}

describe("a limit", () => {
  it("on open tasks refuses the next one until one has ended (P15)", async () => {
    await using test = await startTestEngine({ limits: { queueMax: 1, concurrentChildren: 1 } });
    await test.delegate("review-auth-1", OPEN);
    await test.delegate("review-auth-2", OPEN);
    const full = await refused(test, "review-auth-3", {});
    expect(codeOf(full)).toBe("capacity_full");
    expect(full.structured["error"]).toEqual({ code: "capacity_full", retryable: true });
    expect(at(full.structured, "next")).toEqual({ kind: "repeat_same_call", tool: "delegate_task" });
    test.driver.release("go");
    await test.settle();
    expect((await test.delegate("review-auth-3", OPEN)).structured["created"]).toBe("new");
  });

  it("on open tasks holds for one that is to go on, too (P15)", async () => {
    await using test = await startTestEngine({ limits: { queueMax: 1, concurrentChildren: 1 } });
    const { taskId } = await test.delegate("review-auth-0", [{ do: "say", text: "fine" }]);
    await test.settle();
    await test.delegate("review-auth-1", OPEN);
    await test.delegate("review-auth-2", OPEN);
    const further = { taskId, message: "more", clientRequestId: "continue-auth-0" };
    const full = await test.call("task_continue", further);
    expect(codeOf(full)).toBe("capacity_full");
    expect(full.structured).toMatchObject({ created: "none", taskId, next: { kind: "repeat_same_call" } });
    test.driver.release("go");
    await test.settle();
    expect((await test.call("task_continue", further)).structured["created"]).toBe("new");
  });

  it("on delegations a minute is the caller's own, passes with the minute, and a repeat does not count (P15)", async () => {
    await using test = await startTestEngine({ limits: { delegationsPerMinute: 2 } });
    await test.delegate("review-auth-1", OPEN);
    await test.clock.advanceAndSettle(30_000);
    for (const key of ["review-auth-2", "review-auth-1", "review-auth-2"]) await test.delegate(key, OPEN);
    expect(codeOf(await refused(test, "review-auth-3", {}))).toBe("rate_limit");
    expect((await test.delegate("review-auth-3", OPEN, {}, { caller: BOB })).structured["created"]).toBe("new");
    await test.clock.advanceAndSettle(30_001);
    expect((await test.delegate("review-auth-3", OPEN)).structured["created"]).toBe("new");
  });

  it("of depth 0 says that delegation is off and who does the work (P15)", async () => {
    await using test = await startTestEngine({ limits: { depthMax: 0 } });
    const off = await refused(test, "review-auth-1", {});
    expect(codeOf(off)).toBe("depth_limit");
    expect(off.say).toBe(
      "NOT STARTED (depth_limit): delegation is switched off here (limits.depthMax is 0). Do this work yourself.",
    );
    expect(at(off.structured, "next")).toEqual({ kind: "do_it_yourself" });
  });

  it("on permissions names what was asked, what is allowed and the setting", async () => {
    await using test = await startTestEngine({ settings: { permissionsMax: "ask" } });
    const answer = await refused(test, "review-auth-1", { permissions: "full" });
    expect(answer.say).toBe(
      "NOT STARTED (permission_limit): asked for permissions full, allowed is ask (setting permissions.max).",
    );
    expect(at(answer.structured, "next")).toEqual({
      kind: "fix",
      tool: "delegate_task",
      change: { permissions: "ask" },
    });
    // The default for a writer is cut to the maximum, not refused.
    expect((await writer(test, "write-auth-2", "/shop")).structured["created"]).toBe("new");
  });

  it("on messages that wait for one task is told with its handle", async () => {
    await using test = await startTestEngine();
    const { taskId } = await test.delegate("review-auth-1", OPEN);
    for (let number = 1; number <= 20; number += 1) {
      await test.call("task_continue", { taskId, message: "more", clientRequestId: `continue-${number}` });
    }
    const full = await test.call("task_continue", { taskId, message: "more", clientRequestId: "continue-21" });
    expect([codeOf(full), full.structured["created"], full.taskId]).toEqual(["capacity_full", "none", taskId]);
    expect(at(full.structured, "next")).toMatchObject({ kind: "wait", arguments: { taskIds: [taskId] } });
  });
});

describe("what cannot be done is refused by name and never done otherwise", () => {
  const CASES: readonly (readonly [string, Readonly<Record<string, unknown>>, string])[] = [
    ["an unknown agent", { agent: "gpt" }, "unknown_agent"],
    ["a worktree", { isolation: "worktree" }, "workspace_failed"],
    ["a model of a program that takes none", { agent: "plain", model: "opus" }, "invalid_arguments"],
    ["options of a program that has none", { agent: "plain", options: { effort: "high" } }, "invalid_arguments"],
    ["a result schema", { resultSchema: "{}" }, "invalid_arguments"],
    ["a directory outside of the roots", { cwd: "/etc" }, "workspace_not_allowed"],
  ];

  it.each(CASES)("%s (F34)", async (_what, args, code) => {
    await using test = await startTestEngine();
    const answer = await refused(test, "review-auth-1", args);
    expect(codeOf(answer)).toBe(code);
    expect(at(answer.structured, "next", "kind")).toBe("fix");
  });

  it.each([
    ["model", { agent: "plain", model: "opus" }],
    ["options", { agent: "plain", options: { effort: "high" } }],
    ["agent", { agent: "nobody" }],
  ])("also for a message: %s, with the handle of its task (P1)", async (field, args) => {
    await using test = await startTestEngine();
    const { taskId } = await test.delegate("review-auth-1", OPEN);
    const call = { taskId, message: "more", clientRequestId: "continue-1-auth", ...args };
    const answer = await test.call("task_continue", call);
    expect([answer.taskId, answer.structured["created"], answer.isError]).toEqual([taskId, "none", true]);
    expect(Object.keys(Object(at(answer.structured, "next", "change")))).toEqual([field]);
  });

  it("a directory that has to be named where there are several roots (F34)", async () => {
    const resolve = async (): Promise<ResolvedWorkspace> => {
      return { kind: "refused", code: "workspace_not_allowed", reason: "choose_one" };
    };
    await using test = await startTestEngine({ workspace: { ...NO_GIT, roots: ["/shop", "/pay"], resolve } });
    const answer = await refused(test, "review-auth-1", {});
    expect(answer.say).toBe(
      "NOT STARTED (workspace_not_allowed): there are several roots, so cwd has to name the directory: /shop, /pay.",
    );
    expect(at(answer.structured, "next", "change", "cwd")).toBe("/shop");
  });

  it("with no agent at all the user is asked", async () => {
    await using test = await startTestEngine({ settings: { agents: new Map(), defaultAgent: null } });
    const answer = await refused(test, "review-auth-1", {});
    expect(at(answer.structured, "next")).toEqual({ kind: "ask_user" });
  });

  it("a call without the scope, with the scope's name", async () => {
    await using test = await startTestEngine();
    const { taskId } = await test.delegate("review-auth-1", OPEN);
    const reader = { caller: callerOf("alice", { scopes: ["read"] }) };
    const calls = [
      await test.delegate("review-auth-2", OPEN, {}, reader),
      await test.call("task_continue", { taskId, message: "more", clientRequestId: "continue-1-auth" }, reader),
      await test.call("task_cancel", { taskId }, reader),
    ];
    for (const answer of calls) {
      expect([codeOf(answer), at(answer.structured, "next")]).toEqual(["not_allowed", { kind: "ask_user" }]);
      expect(answer.say).toContain("your token lacks the scope delegate");
    }
    expect(textAt((await test.status(taskId, reader)).structured, "status")).toBe("working");
    const nobody = { caller: callerOf("alice", { scopes: [] }) };
    for (const tool of ["task_status", "task_wait", "task_list", "task_ack"]) {
      expect((await test.call(tool, { taskId, settlement: 1 }, nobody)).say).toContain(
        "your token lacks the scope read",
      );
    }
  });
});

describe("a second writer", () => {
  it.each([
    ["in the same directory", "/shop/a"],
    ["above it", "/shop"],
    ["below it", "/shop/a/b/c"],
  ])("%s is refused with the first one's handle (P10, F26)", async (_where, cwd) => {
    await using test = await startTestEngine();
    const first = await writer(test, "write-auth-1", "/shop/a");
    await test.clock.advanceAndSettle(60_000);
    const second = await refused(test, "write-auth-2", { ...WRITE, cwd });
    expect(codeOf(second)).toBe("workspace_busy");
    expect(second.structured["related"]).toEqual({
      taskId: first.taskId,
      childThreadId: first.structured["childThreadId"],
      nodeId: first.structured["nodeId"],
      status: "working",
      ageMs: 60_000,
      mine: true,
    });
    expect(second.text).toContain(
      `related: task ${first.taskId} · thread ${String(first.structured["childThreadId"])}`,
    );
    expect(at(second.structured, "next")).toEqual({ kind: "fix", tool: "delegate_task", change: { onBusy: "queue" } });
  });

  it.each([
    ["beside it", "/shop/ab", WRITE],
    ["that only reads", "/shop/a", { role: "review" }],
  ])("%s is accepted (P10)", async (_where, cwd, role) => {
    await using test = await startTestEngine();
    await writer(test, "write-auth-1", "/shop/a");
    expect((await test.delegate("write-auth-2", OPEN, { ...role, cwd })).structured["created"]).toBe("new");
  });

  it("of another caller learns since when, and nothing else of the first (P10, P16)", async () => {
    await using test = await startTestEngine();
    const first = await writer(test, "write-auth-1", "/shop/a/secret-project");
    const second = await test.delegate("write-auth-2", OPEN, { ...WRITE, cwd: "/shop/a" }, { caller: BOB });
    expect(second.structured["related"]).toEqual({ mine: false, since: "2026-01-01T00:00:00.000Z" });
    const all = JSON.stringify(second.structured) + second.text;
    for (const secret of [first.taskId, String(first.structured["childThreadId"]), "secret-project", "alice"]) {
      expect(all).not.toContain(secret);
    }
  });

  it("that queues is told so, starts when the first has ended, and gives its turn to the next (P10, G3)", async () => {
    await using test = await startTestEngine();
    await writer(test, "write-auth-1", "/shop/a");
    const second = await writer(test, "write-auth-2", "/shop/a", { onBusy: "queue" });
    const third = await writer(test, "write-auth-3", "/shop/a", { onBusy: "queue" });
    expect(second.structured["queue"]).toMatchObject({ reason: "workspace" });
    expect(second.say).toMatch(/^ACCEPTED, queued: /);
    const waiting = test.call("task_wait", { taskIds: [second.taskId] });
    await test.clock.advanceAndSettle(25_000);
    expect((await waiting).structured).toMatchObject({ phase: "queued", queue: { reason: "workspace" } });
    const phases = async (): Promise<readonly unknown[]> =>
      Promise.all([second, third].map(async ({ taskId }) => (await test.status(taskId)).structured["phase"]));
    expect(await phases()).toEqual(["queued", "queued"]);
    test.driver.release("write-auth-1");
    await test.settle();
    expect(await phases()).toEqual(["starting", "queued"]);
    test.driver.release("write-auth-2");
    await test.settle();
    expect(await phases()).toEqual(["settled", "starting"]);
  });

  it("that queues holds up nobody else, also where there is one place only (F32)", async () => {
    await using test = await startTestEngine({ limits: { concurrentChildren: 2 } });
    await writer(test, "write-auth-1", "/shop/a");
    // Both come at once: the one that cannot start gives the place that it tried for to the other.
    const [, third] = await Promise.all([
      test.delegate("write-auth-2", OPEN, { ...WRITE, cwd: "/shop/a", onBusy: "queue" }),
      test.delegate("write-auth-3", OPEN, { ...WRITE, cwd: "/shop/b" }),
    ]);
    await test.settle();
    expect((await test.status(third.taskId)).structured["phase"]).toBe("starting");
  });

  it("that was cancelled while it queued leaves nothing behind (P10)", async () => {
    await using test = await startTestEngine();
    await writer(test, "write-auth-1", "/shop/a");
    const second = await writer(test, "write-auth-2", "/shop/a", { onBusy: "queue" });
    const cancelled = await test.call("task_cancel", { taskId: second.taskId });
    expect(cancelled.structured).toMatchObject({ status: "cancelled", stop: { proof: "none_started" } });
    test.driver.release("write-auth-1");
    await test.settle();
    expect((await writer(test, "write-auth-3", "/shop/a")).structured["created"]).toBe("new");
  });

  it("is named to the first caller as other work in the same place (P11)", async () => {
    await using test = await startTestEngine();
    const first = await writer(test, "write-auth-1", "/shop/a");
    const second = await test.delegate("review-auth-2", OPEN, { cwd: "/shop" });
    expect(second.structured["otherLive"]).toEqual([
      { taskId: first.taskId, title: "Review the auth diff", access: "write", cwd: "/shop/a" },
    ]);
    const foreign = await test.delegate("review-auth-2", OPEN, { cwd: "/shop" }, { caller: BOB });
    expect(foreign.structured["otherLive"]).toBeUndefined();
  });

  it("may not be its own task continued while somebody else writes there (P10)", async () => {
    await using test = await startTestEngine();
    const first = await writer(test, "write-auth-1", "/shop/a");
    test.driver.release("write-auth-1");
    await test.settle();
    const second = await writer(test, "write-auth-2", "/shop/a");
    const call = { taskId: first.taskId, message: "more", clientRequestId: "continue-1-auth" };
    const busy = await test.call("task_continue", call, { caller: ALICE });
    expect([codeOf(busy), busy.taskId, busy.structured["created"]]).toEqual(["workspace_busy", first.taskId, "none"]);
    expect(at(busy.structured, "related", "taskId")).toBe(second.taskId);
    expect(busy.say).toContain(second.taskId);
    test.driver.release("write-auth-2");
    await test.settle();
    expect((await test.call("task_continue", call)).structured["created"]).toBe("new");
  });
});
