/**
 * One real call of every tool and its answer, brought about as the golden texts are: the real engine and the real tools, a
 * scripted child, a clock that stands still. So the ids are the same in every run.
 *
 * Invariant: what is shown was answered; nothing here is written by hand but the calls and what the child does.
 */

import type { AgentSettings } from "../src/ports/settings.ts";
import { ALL_LEVELS } from "../test/support/engine-parts.ts";
import { ALICE, startTestEngine, type TestAnswer, type TestEngine } from "../test/support/test-engine.ts";

export type ToolExample = {
  readonly call: Readonly<Record<string, unknown>>;
  readonly answer: Pick<TestAnswer, "text" | "structured">;
};

const MINUTE_MS = 60_000;
const KEY = "review-auth-7f3k9q";
const WORK = {
  clientRequestId: KEY,
  title: "Review the auth diff",
  task: "Review the changes of the last commit in src/auth for security faults. Report each with file and line.",
  role: "review",
};

const agentOf = (change: Partial<AgentSettings>): AgentSettings => ({
  driver: "fake",
  command: ["fake"],
  promptBy: "stdin",
  onLoss: "resume",
  model: null,
  trusted: true,
  requireEvidence: "assumed",
  env: {},
  levels: ALL_LEVELS,
  writes: true,
  ...change,
});

const AGENTS = new Map([
  ["codex", agentOf({})],
  ["gemini", agentOf({ driver: "acp", trusted: false, levels: ["full"] })],
]);

/** What the child does; the calls that are shown leave the script out. */
const REPORT = [
  { do: "progress", steps: 9 },
  { do: "sleep", ms: 3 * MINUTE_MS },
  { do: "say", text: "No faults found. One remark: login.ts:41 logs the user name." },
  { do: "end", evidence: "assumed" },
];

async function started(test: TestEngine, steps: readonly object[] = REPORT): Promise<TestAnswer> {
  const answer = await test.call("delegate_task", { ...WORK, options: { script: JSON.stringify({ steps }) } });
  await test.settle();
  return answer;
}

/** The same, until it has ended. */
async function ended(test: TestEngine, steps: readonly object[] = REPORT): Promise<string> {
  const { taskId } = await started(test, steps);
  await test.clock.advanceAndSettle(6 * MINUTE_MS);
  return taskId;
}

/** Pages and lists have no outcome of a task, which the check of the test engine would ask for; so these go past it. */
async function shown(test: TestEngine, name: string, call: ToolExample["call"]): Promise<ToolExample> {
  const tool = test.tools.find((known) => known.name === name);
  if (tool === undefined) throw new Error(`no tool ${name}`);
  const { content, structuredContent } = await tool.call(call, {
    caller: ALICE,
    client: null,
    era: "legacy",
    streaming: false,
    requestTimeoutMs: null,
    cwd: null,
    progress: null,
    sliceMaxMs: 0,
    resumed: false,
    signal: new AbortController().signal,
    endReason: () => null,
  });
  return { call, answer: { text: content[0].text, structured: structuredContent } };
}

async function called(test: TestEngine, tool: string, call: ToolExample["call"]): Promise<ToolExample> {
  return { call, answer: await test.call(tool, call) };
}

const EXAMPLES: Readonly<Record<string, (test: TestEngine) => Promise<ToolExample>>> = {
  delegate_task: async (test) => ({ call: WORK, answer: await started(test) }),
  async task_wait(test) {
    const { taskId } = await started(test);
    const call = { taskIds: [taskId] };
    const waiting = test.call("task_wait", call, { sliceMaxMs: 240_000 });
    await test.clock.advanceAndSettle(4 * MINUTE_MS);
    return { call, answer: await waiting };
  },
  async task_status(test) {
    await started(test, [{ do: "fault", times: 9, fault: { httpStatus: 529 } }, ...REPORT]);
    await test.clock.advanceAndSettle(MINUTE_MS);
    return called(test, "task_status", { clientRequestId: KEY });
  },
  async task_list(test) {
    await ended(test);
    await test.delegate("fix-login-4kq81z", REPORT, { title: "Fix the login", role: "implementation" });
    await test.settle();
    return called(test, "task_list", { limit: 2 });
  },
  async task_continue(test) {
    const taskId = await ended(test, [
      { do: "say", text: "Half" },
      { do: "end", fault: { stopReason: "max_turns" } },
    ]);
    return called(test, "task_continue", {
      taskId,
      message: "Continue where you stopped.",
      clientRequestId: `continue-${taskId.slice(-8)}-1`,
      afterSettlement: 1,
    });
  },
  async task_answer(test) {
    const ask = { do: "ask", ask: "permission", prompt: "May I run the tests?", optionIds: ["allow_once", "reject"] };
    const action = { tool: "shell", command: "npm test" };
    const { taskId } = await started(test, [{ ...ask, action, labels: { allow_once: "Yes, this time" } }, ...REPORT]);
    return called(test, "task_answer", { taskId, questionId: "q_1", optionId: "allow_once" });
  },
  async task_cancel(test) {
    const { taskId } = await started(test);
    const call = { taskId, reason: "The commit was taken back." };
    const cancelling = test.call("task_cancel", call);
    await test.clock.advanceAndSettle(1_000);
    return { call, answer: await cancelling };
  },
  task_ack: async (test) => called(test, "task_ack", { taskId: await ended(test), settlement: 1 }),
  thread_read: async (test) => shown(test, "thread_read", { taskId: await ended(test), view: "result" }),
  async list_agents(test) {
    await started(test);
    return shown(test, "list_agents", {});
  },
};

/** A question as a wait reports it, for the section on questions. */
export async function questionExample(): Promise<string> {
  await using test = await startTestEngine({ settings: { agents: AGENTS } });
  const ask = { do: "ask", ask: "permission", prompt: "May I run the tests?", optionIds: ["allow_once", "reject"] };
  const action = { tool: "shell", command: "npm test" };
  const labels = { allow_once: "Yes, this time", reject: "No" };
  const { taskId } = await started(test, [{ ...ask, action, labels }, ...REPORT]);
  const { text } = await test.status(taskId);
  return text;
}

/** Throws for a tool without an example, so that a new one does not go undocumented. */
export async function exampleOf(tool: string): Promise<ToolExample> {
  const bring = EXAMPLES[tool];
  if (bring === undefined) throw new Error(`no example for ${tool} in tool-examples.ts`);
  await using test = await startTestEngine({ settings: { agents: AGENTS } });
  const example = await bring(test);
  return example;
}
