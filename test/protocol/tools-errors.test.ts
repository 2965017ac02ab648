/**
 * Every refusal of every tool is an answer: it fits the declared schema, has a next step, keeps the handle where there is a
 * task, and is called an error only where the contract says so (PE3, P1).
 */

import { describe, expect, it } from "vitest";
import type { TaskView } from "../../src/core/describe.ts";
import { CODES, type Code, type Rejection } from "../../src/core/rejection.ts";
import { toReply } from "../../src/mcp/reply.ts";
import { at, textAt } from "../support/json.ts";
import { createAnswerCheck } from "../support/answer-check.ts";
import { ALICE, startTestEngine, type TestAnswer, type TestEngine } from "../support/test-engine.ts";
import { NO_GIT } from "../support/engine-parts.ts";

const KEY = "review-auth-1";
const say = (text: string): object => ({ do: "say", text });
const OPEN = [{ do: "waitFor", name: "go" }, say("fine")];

const IS_ERROR: ReadonlySet<Code> = new Set([
  "invalid_arguments",
  "missing_client_request_id",
  "unknown_task",
  "unknown_thread",
  "unknown_agent",
  "storage_unavailable",
  "internal",
]);

describe("a refusal", () => {
  it("with any code from any tool, with and without a task, keeps the shape of an answer (PE3)", async () => {
    await using test = await startTestEngine();
    const check = createAnswerCheck(test.tools);
    const { taskId } = await test.delegate(KEY, OPEN);
    const view = await viewOf(test, taskId);
    for (const code of CODES) {
      for (const { name } of test.tools) {
        const starts = name === "delegate_task" || name === "task_continue";
        for (const about of [null, view]) {
          const reply = toReply(
            {
              kind: "refusal",
              rejection: rejectionOf(code),
              created: starts ? "none" : null,
              clientRequestId: KEY,
              about,
              newest: [view],
              recorded: null,
              pending: { completions: [], count: 2 },
            },
            { caller: ALICE, tool: name, starts, nonce: (length) => "x".repeat(length) },
          );
          const structured: Readonly<Record<string, unknown>> = JSON.parse(JSON.stringify(reply.structuredContent));
          const { text } = reply.content[0];
          check(name, { text, structured, isError: reply.isError === true });
          expect(reply.isError === true, code).toBe(IS_ERROR.has(code));
          expect(textAt(structured, "say")).toMatch(headOf(code, starts));
          expect(structured["taskId"]).toBe(about === null ? undefined : taskId);
          expect(textAt(structured, "say")).not.toMatch(/undefined|null|\bNaN\b|\(\)|  /);
        }
      }
    }
  });

  const BROUGHT: Readonly<Record<string, (test: TestEngine) => Promise<TestAnswer>>> = {
    missing_client_request_id: (test) => test.call("delegate_task", { task: "x" }),
    invalid_arguments: (test) => test.call("delegate_task", { clientRequestId: KEY }),
    idempotency_conflict: async (test) => {
      await test.delegate(KEY, OPEN);
      return test.delegate(KEY, [say("other")]);
    },
    expired_receipt: async (test) => {
      const { taskId } = await test.delegate(KEY, [say("fine")]);
      await test.settle();
      const [task] = await test.store.tasks([(await viewOf(test, taskId)).handle.taskId], {
        caller: null,
        below: null,
      });
      await test.store.write(async (tx) => (task === undefined ? undefined : tx.purge(task.handle.taskId)));
      return test.delegate(KEY, [say("fine")]);
    },
    workspace_busy: async (test) => {
      await test.delegate("write-auth-1", OPEN, { role: "implementation" });
      return test.delegate(KEY, OPEN, { role: "implementation" });
    },
    workspace_not_allowed: (test) => test.delegate(KEY, OPEN, { cwd: "/etc" }),
    workspace_failed: (test) => test.delegate(KEY, OPEN, { isolation: "worktree" }),
    unknown_task: (test) => test.status("4711"),
    unknown_thread: (test) => test.status("th_01M8RDENWBWY0DFWYS2QHAG06Y"),
    unknown_agent: (test) => test.delegate(KEY, OPEN, { agent: "gpt" }),
    permission_limit: (test) => test.delegate(KEY, OPEN, { permissions: "full" }),
    not_allowed: (test) => test.delegate(KEY, OPEN, {}, { caller: { ...ALICE, scopes: ["read"] } }),
    depth_limit: async () => {
      await using off = await startTestEngine({ limits: { depthMax: 0 } });
      return await off.delegate(KEY, OPEN);
    },
    capacity_full: async () => {
      await using full = await startTestEngine({ limits: { queueMax: 0, concurrentChildren: 0 } });
      return await full.delegate(KEY, OPEN);
    },
    rate_limit: async () => {
      await using slow = await startTestEngine({ limits: { delegationsPerMinute: 0 } });
      return await slow.delegate(KEY, OPEN);
    },
    storage_unavailable: (test) => {
      test.trouble.begin();
      return test.delegate(KEY, OPEN);
    },
    stopping: async (test) => {
      await test.engine.drain("stop");
      return test.delegate(KEY, OPEN);
    },
    internal: async () => {
      const resolve = async (): Promise<never> => Promise.reject(new Error("secret path /home/me/.ssh"));
      await using broken = await startTestEngine({ workspace: { ...NO_GIT, roots: ["/shop"], resolve } });
      const answer = await broken.delegate(KEY, OPEN);
      expect(answer.text + JSON.stringify(answer.structured)).not.toContain("secret");
      return answer;
    },
  };

  it.each(Object.entries(BROUGHT))(
    "%s comes from the engine with a next step and nothing created (PE3, F34)",
    async (code, bring) => {
      await using test = await startTestEngine();
      const answer = await bring(test);
      expect(textAt(answer.structured, "error", "code")).toBe(code);
      expect(textAt(answer.structured, "next", "kind")).not.toBe("");
      expect(answer.structured["taskId"]).toBeUndefined();
    },
  );

  it("is never made for these codes by this version: what they are for is not offered yet", () => {
    const missing = CODES.filter((code) => !(code in BROUGHT));
    // not_pending is a person's; see the tests of /api.
    expect(missing).toEqual(["duplicate_work", "agent_unavailable", "not_pending", "tree_limit"]);
  });
});

describe("an error of the server", () => {
  it.each([
    ["task_status", { taskId: "4711" }],
    ["task_wait", {}],
    ["task_list", {}],
    ["task_cancel", { taskId: "4711" }],
  ])("in %s is an answer too, says nothing of the inside and names the same call (P1)", async (tool, args) => {
    await using test = await startTestEngine();
    const broken = test.store.list;
    Object.assign(test.store, { list: async () => Promise.reject(new Error("secret table")) });
    const answer = await test.call(tool, args);
    Object.assign(test.store, { list: broken });
    expect([answer.isError, textAt(answer.structured, "error", "code")]).toEqual([true, "internal"]);
    expect(at(answer.structured, "next")).toEqual({ kind: "repeat_same_call", tool });
    expect(answer.text).not.toContain("secret");
  });
});

function headOf(code: Code, starts: boolean): RegExp {
  if (code === "unknown_task" || code === "unknown_thread") return /^NO SUCH TASK among yours: /;
  return starts ? /^NOT STARTED \(\w+\): / : /^NOT DONE \(\w+\): /;
}

function rejectionOf(code: Code): Rejection {
  const detail = {
    asked: "4711",
    known: ["codex"],
    limit: 4,
    cwd: "/shop",
    roots: ["/shop"],
    fields: ["access"],
    reason: "missing",
    allowed: "ask",
    setting: "permissions.max",
    may: "person",
    taskId: "dt_1",
    sinceMs: 0,
    mine: "no",
  };
  return { kind: "rejection", code, next: { kind: "repeat_same_call" }, detail, differing: ["task"] };
}

/** The task as the engine itself shows it. */
async function viewOf(test: TestEngine, taskId: string): Promise<TaskView> {
  const answer = await test.engine.status({ taskId, clientRequestId: null }, ALICE);
  if (answer.kind !== "task") throw new Error("there is a task");
  return answer.item.view;
}
