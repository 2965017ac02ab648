/**
 * Golden texts of every kind of answer: the words that models read, held to the letter. Each case is brought about, never
 * made up: the real engine with the fake agent and a clock that stands still.
 *
 * Ids, nonces and fence marks are made readable; everything else is as it leaves.
 */

import { describe, expect, it } from "vitest";
import type { Caller } from "../../src/core/caller.ts";
import { parseId } from "../../src/core/ids.ts";
import { at } from "../support/json.ts";
import { callerOf, startTestEngine, type TestAnswer, type TestEngine } from "../support/test-engine.ts";

const MINUTE_MS = 60_000;
const KEY = "review-auth-7f3k9q";
const say = (text: string): object => ({ do: "say", text });
const gate = (name: string): object => ({ do: "waitFor", name });
const OPEN = [{ do: "progress", steps: 9 }, gate("go"), say("The diff is fine.")];

type Case = readonly [name: string, bring: (test: TestEngine) => Promise<TestAnswer>];

async function running(
  test: TestEngine,
  key = KEY,
  steps: readonly object[] = OPEN,
  more: object = {},
): Promise<string> {
  const { taskId } = await test.delegate(key, steps, { ...more });
  await test.settle();
  return taskId;
}

async function ended(test: TestEngine, steps: readonly object[], more: object = {}): Promise<string> {
  const taskId = await running(test, KEY, steps, more);
  await test.clock.advanceAndSettle(6 * MINUTE_MS);
  return taskId;
}

async function slice(test: TestEngine, args: object): Promise<TestAnswer> {
  const waiting = test.call("task_wait", { ...args });
  await test.clock.advanceAndSettle(25_000);
  return waiting;
}

/** Follows `next` for that many waits, as a model does. */
async function slices(test: TestEngine, count: number, args: object): Promise<TestAnswer> {
  let answer = await slice(test, args);
  for (let further = 1; further < count; further += 1)
    answer = await slice(test, Object(at(answer.structured, "next", "arguments")));
  return answer;
}

/** The child of this task, as its own credential tells. */
function childOf(taskId: string): Caller {
  const parsed = parseId(taskId);
  if (parsed.kind !== "task") throw new Error("no task id");
  const lineage = { taskId: parsed.taskId, epoch: 1, ancestors: [] };
  return { name: "alice", scopes: ["read", "delegate"], conversation: null, kind: "child", lineage };
}

const fault = (evidence: object): object => ({ do: "fault", times: 999, fault: evidence });

const WORK: readonly Case[] = [
  ["accepted, reading", (test) => test.delegate(KEY, OPEN)],
  ["accepted, writing", (test) => test.delegate(KEY, OPEN, { role: "implementation", cwd: "/shop/web" })],
  [
    "accepted, queued for a place",
    async (test) => {
      for (const key of ["one", "two", "three", "four"]) await running(test, `review-auth-${key}`);
      return test.delegate(KEY, OPEN);
    },
  ],
  [
    "accepted, queued for a directory",
    async (test) => {
      await running(test, "write-auth-1", OPEN, { role: "implementation" });
      return test.delegate(KEY, OPEN, { role: "implementation", onBusy: "queue" });
    },
  ],
  [
    "accepted beside other work",
    async (test) => {
      await running(test, "write-auth-1", OPEN, { role: "implementation", title: "Fix the login" });
      return test.delegate(KEY, OPEN);
    },
  ],
  ["working, healthy", async (test) => slice(test, { taskIds: [await running(test)] })],
  [
    "working, a command running",
    async (test) =>
      slice(test, { taskIds: [await running(test, KEY, [{ do: "progress", toolRunning: true }, gate("go")])] }),
  ],
  ["working, the fourth wait without news", async (test) => slices(test, 4, { taskIds: [await running(test)] })],
  ["working, the fifth wait without news", async (test) => slices(test, 5, { taskIds: [await running(test)] })],
  ["working, starting", async (test) => slice(test, { taskIds: [await running(test, KEY, [gate("go")])] })],
  [
    "working, healing",
    async (test) => test.status(await running(test, KEY, [fault({ httpStatus: 403, text: "<html>" })])),
  ],
  [
    "working, paused",
    async (test) => test.status(await running(test, KEY, [fault({ httpStatus: 429, retryAfterMs: 3_600_000 })])),
  ],
  [
    "working, healing, the fifth wait without news",
    async (test) =>
      slices(test, 5, { taskIds: [await running(test, KEY, [fault({ httpStatus: 403, text: "<html>" })])] }),
  ],
  [
    "working, recovering",
    async (killed) => {
      const taskId = await running(killed);
      await using test = await killed.restart({ started: false });
      test.children.holdStops();
      await test.engine.start();
      await test.settle();
      return await test.status(taskId);
    },
  ],
  [
    "working, quiet",
    async (test) => {
      const taskId = await running(test);
      await test.clock.advanceAndSettle(7 * MINUTE_MS);
      return test.status(taskId);
    },
  ],
  [
    "working, stopping",
    async (test) => {
      const taskId = await running(test);
      test.children.holdStops();
      test.driver.release("go");
      await test.settle();
      return test.status(taskId);
    },
  ],
  [
    "working, survivors",
    async (test) => {
      const taskId = await running(test);
      test.children.leave([{ pid: 4711, command: "node server.js --port 3000" }]);
      test.driver.release("go");
      await test.clock.advanceAndSettle(40_000);
      return test.status(taskId);
    },
  ],
  [
    "needs an answer, permission",
    async (test) => {
      const ask = {
        do: "ask",
        ask: "permission",
        prompt: "May I reset the database?",
        optionIds: ["allow_once", "reject"],
      };
      const labels = { allow_once: "Yes, this time", reject: "No" };
      return test.status(
        await running(test, KEY, [{ ...ask, labels, action: { tool: "bash", command: "npm run db:reset" } }]),
      );
    },
  ],
  [
    "needs an answer, question",
    async (test) =>
      test.status(await running(test, KEY, [{ do: "ask", ask: "question", prompt: "Which database?", optionIds: [] }])),
  ],
  [
    "restarting",
    async (test) => {
      const waiting = test.call("task_wait", { taskIds: [await running(test)] });
      await test.settle();
      await test.engine.drain("stop");
      return waiting;
    },
  ],
];

const ENDS: readonly Case[] = [
  ["completed", async (test) => test.status(await ended(test, [say("The diff is fine.\nTwo remarks.")]))],
  [
    "completed, assumed",
    async (test) => test.status(await ended(test, [say("Done."), { do: "end", evidence: "assumed" }])),
  ],
  [
    "failed, to be continued",
    async (test) => test.status(await ended(test, [say("Half"), { do: "end", fault: { stopReason: "max_turns" } }])),
  ],
  [
    "failed, the provider was down for too long",
    async (test) => {
      const taskId = await running(test, KEY, [fault({ httpStatus: 503 })]);
      await test.clock.advanceAndSettle(5 * 60 * MINUTE_MS);
      return test.status(taskId);
    },
  ],
  [
    "failed, to be put right",
    async (test) => test.status(await ended(test, [{ do: "end", fault: { httpStatus: 401 } }])),
  ],
  ["failed, lost", async (test) => test.status(await ended(test, [{ do: "lost" }], { agent: "fragile" }))],
  [
    "cancelled",
    async (test) => {
      const cancelling = test.call("task_cancel", { taskId: await running(test) });
      await test.clock.advanceAndSettle(1_000);
      return cancelling;
    },
  ],
  ["cancelled too late", async (test) => test.call("task_cancel", { taskId: await ended(test, [say("Fine.")]) })],
  ["acknowledged", async (test) => test.call("task_ack", { taskId: await ended(test, [say("Fine.")]), settlement: 1 })],
];

const REPEATS: readonly Case[] = [
  [
    "replayed",
    async (test) => {
      await running(test);
      await test.clock.advanceAndSettle(4 * MINUTE_MS);
      return test.delegate(KEY, OPEN);
    },
  ],
  [
    "not a new run",
    async (test) => {
      await test.call("task_ack", { taskId: await ended(test, [say("Fine.")]), settlement: 1 });
      await test.clock.advanceAndSettle(24 * 60 * MINUTE_MS);
      return test.delegate(KEY, [say("Fine.")]);
    },
  ],
  [
    "conflict",
    async (test) => {
      await running(test);
      await test.clock.advanceAndSettle(20 * MINUTE_MS);
      return test.delegate(KEY, [say("Review billing.")], { cwd: "/shop/pay" });
    },
  ],
  [
    "message started",
    async (test) => {
      const taskId = await ended(test, [say("Fine.")]);
      return test.call("task_continue", { taskId, message: "And the tests?", clientRequestId: "continue-1" });
    },
  ],
  [
    "message queued",
    async (test) => {
      const taskId = await running(test);
      return test.call("task_continue", { taskId, message: "And the tests?", clientRequestId: "continue-1" });
    },
  ],
  [
    "message not sent",
    async (test) => {
      const call = {
        taskId: await ended(test, [say("Fine.")]),
        message: `{"steps":[{"do":"hang"}]}`,
        afterSettlement: 1,
      };
      const person = callerOf("alice", { kind: "person" });
      await test.call("task_continue", { ...call, clientRequestId: "by-a-person" }, { caller: person });
      await test.settle();
      await test.clock.advanceAndSettle(12_000);
      return test.call("task_continue", { ...call, clientRequestId: "continue-1" });
    },
  ],
  [
    "message not sent, ended again",
    async (test) => {
      const taskId = await ended(test, [say("Fine.")]);
      const call = { taskId, message: "And the tests?", afterSettlement: 1 };
      await test.call("task_continue", { ...call, clientRequestId: "continue-2" });
      await test.clock.advanceAndSettle(4 * MINUTE_MS);
      return test.call("task_continue", { ...call, clientRequestId: "continue-1" });
    },
  ],
];

async function severalAtRestart(test: TestEngine): Promise<TestAnswer> {
  const waiting = test.call("task_wait", { taskIds: [await running(test), await running(test, "review-auth-2")] });
  await test.settle();
  await test.engine.drain("stop");
  return waiting;
}

const LISTS: readonly Case[] = [
  [
    "wait for several, news",
    async (test) => {
      const done = await ended(test, [say("The diff is fine.")]);
      const open = await running(test, "review-auth-2", OPEN, { title: "Review the billing diff" });
      return test.call("task_wait", { taskIds: [done, open, "4711"] });
    },
  ],
  [
    "wait for several, no news",
    async (test) => slice(test, { taskIds: [await running(test), await running(test, "review-auth-2")], until: "all" }),
  ],
  [
    "wait for several, the fifth without news",
    async (test) => slices(test, 5, { taskIds: [await running(test), await running(test, "review-auth-2")] }),
  ],
  ["restarting, several", severalAtRestart],
  ["wait for nothing", (test) => test.call("task_wait", {})],
  [
    "list",
    async (test) => {
      await ended(test, [say("Fine.")]);
      await running(test, "write-auth-2", OPEN, { title: "Fix the login", role: "implementation", cwd: "/shop/web" });
      return test.call("task_list", { limit: 1 });
    },
  ],
  ["empty list", (test) => test.call("task_list", { open: true })],
  [
    "unread results",
    async (test) => {
      await ended(test, [say("Fine.")]);
      return test.status(await running(test, "review-auth-2", OPEN, { title: "Review the billing diff" }));
    },
  ],
];

const REFUSALS: readonly Case[] = [
  ["no key", (test) => test.call("delegate_task", { title: "Review the auth diff", task: "x" })],
  [
    "invalid arguments",
    (test) => test.call("delegate_task", { clientRequestId: KEY, task: "x", acess: "read", agent: "-x" }),
  ],
  ["invalid arguments of a read", (test) => test.call("task_wait", { taskId: "dt_1" })],
  [
    "unknown task",
    async (test) => {
      await running(test);
      await test.clock.advanceAndSettle(4 * MINUTE_MS);
      return test.status("4711");
    },
  ],
  ["nothing under this key", (test) => test.call("task_status", { clientRequestId: KEY })],
  ["unknown agent", (test) => test.delegate(KEY, OPEN, { agent: "gpt" })],
  ["permission limit", (test) => test.delegate(KEY, OPEN, { permissions: "full" })],
  ["outside of the roots", (test) => test.delegate(KEY, OPEN, { cwd: "/etc" })],
  ["no worktrees", (test) => test.delegate(KEY, OPEN, { isolation: "worktree" })],
  [
    "busy, own",
    async (test) => {
      await running(test, "write-auth-1", OPEN, { role: "implementation", title: "Fix the login" });
      return test.delegate(KEY, OPEN, { role: "implementation" });
    },
  ],
  [
    "busy, another caller's",
    async (test) => {
      await running(test, "write-auth-1", OPEN, { role: "implementation" });
      return test.delegate(KEY, OPEN, { role: "implementation" }, { caller: callerOf("bob") });
    },
  ],
  [
    "depth, a delegated child",
    async (test) => test.delegate(KEY, OPEN, {}, { caller: childOf(await running(test, "review-auth-1")) }),
  ],
  ["scope missing", (test) => test.delegate(KEY, OPEN, {}, { caller: callerOf("alice", { scopes: ["read"] }) })],
  [
    "storage",
    async (test) => {
      test.trouble.begin("disk_full");
      return test.delegate(KEY, OPEN);
    },
  ],
  [
    "storage, about a task",
    async (test) => {
      const taskId = await running(test);
      test.trouble.begin("disk_full");
      return test.call("task_cancel", { taskId });
    },
  ],
  [
    "stopping",
    async (test) => {
      await test.engine.drain("stop");
      return test.delegate(KEY, OPEN);
    },
  ],
];

describe("the words of an answer", () => {
  it.each([
    ["work", WORK],
    ["ends", ENDS],
    ["repeats", REPEATS],
    ["lists", LISTS],
    ["refusals", REFUSALS],
  ])("about %s are the golden ones (P1, P17)", async (name, cases) => {
    const sections: string[] = [];
    for (const [title, bring] of cases) {
      await using test = await startTestEngine();
      const { text } = await bring(test);
      sections.push(`## ${title}\n${readable(text)}\n`);
    }
    await expect(sections.join("\n")).toMatchFileSnapshot(`golden/${name}.txt`);
  });

  it.each([
    ["at depth 0", { depthMax: 0 }],
    ["with every wait taken", { waitsMax: 0 }],
    ["with the queue full", { queueMax: 0, concurrentChildren: 1 }],
    ["after too many delegations", { delegationsPerMinute: 1 }],
  ])("%s are the golden ones (P15)", async (title, limits) => {
    await using test = await startTestEngine({ limits });
    const first = await test.delegate("review-auth-1", OPEN);
    const answer =
      title === "with every wait taken" ? await test.call("task_wait", { taskIds: [first.taskId] }) : first;
    const { text } = answer === first && first.taskId !== "" ? await test.delegate(KEY, OPEN) : answer;
    await expect(`${readable(text)}\n`).toMatchFileSnapshot(`golden/limit-${title.replaceAll(" ", "-")}.txt`);
  });
});

/** Ids by their order, nonces and marks as words. */
function readable(text: string): string {
  const seen = new Map<string, string>();
  const name = (id: string, prefix: string): string => {
    const known =
      seen.get(id) ?? `${prefix}${[...seen.values()].filter((value) => value.startsWith(prefix)).length + 1}`;
    seen.set(id, known);
    return known;
  };
  const ids = text.replaceAll(/\b(dt|th)_([0-9A-Z]{26})/g, (id, kind: string) => name(id, kind === "dt" ? "T" : "TH"));
  return ids
    .replaceAll(/"after":"[0-9a-z]{5}((?:-\d+)?):([^"]*)"/g, (_all, quiet: string, told: string) => {
      return `"after":"NONCE${quiet}:${told.replaceAll(/[0-9A-Z]{8}\./g, "SHORT.")}"`;
    })
    .replaceAll(/^--- (from the child|end) [0-9a-z]{4}/gm, "--- $1 MARK")
    .replaceAll(/("clientRequestId":"[^"]*)-[0-9a-z]{6}"/g, '$1-NONCE"')
    .replaceAll(/continue-[0-9A-Z]{8}-/g, "continue-SHORT-");
}
