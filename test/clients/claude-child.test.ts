/**
 * The real Claude Code as a child of driver `claude`, against a scripted model: what it does with a provider that refuses, with
 * being killed, with questions, and that all of it is one session. It is installed on demand.
 */

import { existsSync, mkdirSync, readFileSync, rmSync } from "node:fs";
import path from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { classify } from "../../src/core/classify.ts";
import type { Spec } from "../../src/core/task.ts";
import { createClaudeDriver } from "../../src/drivers/claude/claude-driver.ts";
import { createGuardClock } from "../../src/guard/guard-clock.ts";
import type { AttemptOrder, DriverAnswer, DriverEvent, DriverQuestion } from "../../src/ports/driver.ts";
import { createOrder, type RecordedRun, recordRun } from "../contract/driver-promises.ts";
import { callShown, record, waitUntilEnded } from "../support/answers.ts";
import { startDaemonProcess } from "../support/daemon-process.ts";
import { INSTALL_TEST_MS, installHarness } from "../support/harness/install.ts";
import { type Harness, makeHarness } from "../support/harness.ts";
import { type Models, startModels } from "../support/models.ts";
import {
  createRecordedLog,
  createTestChildren,
  eventually,
  processesMarked,
  type TestChildren,
} from "../support/processes.ts";

const TEST_MAX_MS = 120_000;
const SLEEP = "python3 -c 'import time; time.sleep(600)'";

const driver = createClaudeDriver();
const clock = createGuardClock();
const log = createRecordedLog();
let models: Models;
let children: TestChildren;

beforeAll(async () => {
  models = await startModels();
  children = createTestChildren({ groups: "off" });
  await installHarness("claude");
}, INSTALL_TEST_MS);
afterAll(async () => {
  await children[Symbol.asyncDispose]();
  await models[Symbol.asyncDispose]();
});

type Ended = Extract<DriverEvent, { readonly kind: "end" }>;
type Answer = (question: DriverQuestion) => DriverAnswer;

function newHarness(): Promise<Harness> {
  return makeHarness("claude", { models: models.url });
}

function orderFor(harness: Harness, fields: Partial<AttemptOrder>, spec: Partial<Spec> = {}): AttemptOrder {
  const [program = "", ...args] = harness.executable().command;
  const scratchDir = path.join(harness.dir, "scratch");
  mkdirSync(scratchDir, { recursive: true });
  return createOrder(
    { command: [program, ...args], scratchDir, ...fields },
    { cwd: harness.dir, permissions: "full", model: "claude-sonnet-4-5", ...spec },
  );
}

function start(order: AttemptOrder, answer?: Answer): RecordedRun {
  const ask = async (question: DriverQuestion): Promise<DriverAnswer | null> => answer?.(question) ?? null;
  return recordRun({ driver, tools: { children, clock, log, ask } }, order);
}

/** The end, and the proof that nothing is left. */
async function finish(run: RecordedRun, order: AttemptOrder): Promise<Ended> {
  const last = await run.done;
  await children.stop({ mark: order.mark, process: null, background: "reap" });
  expect(processesMarked(order.mark)).toEqual([]);
  return last?.kind === "end" ? last : expect.fail(`ended with ${last?.kind}`);
}

async function runToEnd(order: AttemptOrder, answer?: Answer): Promise<Ended & { readonly run: RecordedRun }> {
  const run = start(order, answer);
  return { ...(await finish(run, order)), run };
}

function sessionOf(run: RecordedRun): string {
  const bound = run.events.findLast((event) => event.kind === "bound");
  return bound?.kind === "bound" && bound.nativeSessionId !== null ? bound.nativeSessionId : expect.fail("no session");
}

function pieces(run: RecordedRun, role: string): readonly string[] {
  return run.events.flatMap((event) => (event.kind === "message" && event.role === role ? [event.text] : []));
}

function classOf(end: Ended): string {
  return end.end === "fault" ? classify(end.fault).class : end.end;
}

/** The faults that the model's requests met, in order. */
function faultsOf(plan: string): readonly (string | null)[] {
  return models.of(plan).map(({ fault }) => fault);
}

describe("Claude Code as a child", () => {
  it(
    "works with a tool and answers with its last message, told apart from a failure, in the session that was named to it (P13, W3)",
    async () => {
      const harness = await newHarness();
      const made = path.join(harness.dir, "made.txt");
      const plan = { id: "claude-works", steps: [{ shell: `echo 日本 > ${made}` }, { text: "all done 日本" }] };
      const { run, ...end } = await runToEnd(orderFor(harness, { prompt: `Do it. ${models.add(plan)}` }));
      expect(end, JSON.stringify(run.events)).toMatchObject({
        end: "success",
        evidence: "explicit",
        text: "all done 日本",
        sideEffects: true,
        usage: { inputTokens: 200, outputTokens: 14 },
      });
      expect(end.usage?.costUsd).toBeGreaterThan(0);
      expect(readFileSync(made, "utf8")).toBe("日本\n");
      expect(pieces(run, "tool")).toEqual([`Bash (completed)\necho 日本 > ${made}\n(Bash completed with no output)`]);
      expect(models.sessions(plan.id)).toEqual([sessionOf(run)]);
      expect(faultsOf(plan.id)).toEqual([null, null]);
      const { tools } = models.seen(plan.id);
      expect(tools).toContain("Bash");
      for (const unfit of ["CronCreate", "ScheduleWakeup", "EnterWorktree"]) expect(tools).not.toContain(unfit);
    },
    TEST_MAX_MS,
  );

  it(
    "that met an edge page once is healed in its own session, and not told its task again (W1, P6, F11)",
    async () => {
      const harness = await newHarness();
      const plan = { id: "claude-403", steps: [{ text: "all done" }], faults: [{ kind: "cf403" as const }] };
      const prompt = `Do it. ${models.add(plan)}`;
      const refused = await runToEnd(orderFor(harness, { prompt }));
      expect(classOf(refused)).toBe("edge_block");
      const again = { prompt, nativeSessionId: sessionOf(refused.run), cause: "healing" as const };
      expect(await runToEnd(orderFor(harness, again))).toMatchObject({ end: "success", text: "all done" });
      expect(models.sessions(plan.id)).toEqual([sessionOf(refused.run)]);
      expect(faultsOf(plan.id)).toEqual(["cf403", null]);
      expect(models.seen(plan.id).userTexts.join("\n").split("Do it.")).toHaveLength(2);
    },
    TEST_MAX_MS,
  );

  it(
    "that met an edge page after a tool had written goes on from there: it is written once (P6, F11)",
    async () => {
      const harness = await newHarness();
      const made = path.join(harness.dir, "once.txt");
      const plan = {
        id: "claude-403-later",
        steps: [{ shell: `echo once >> ${made}` }, { text: "all done" }],
        faults: [{ kind: "cf403" as const, step: 1 }],
      };
      const prompt = `Do it. ${models.add(plan)}`;
      const refused = await runToEnd(orderFor(harness, { prompt }));
      expect(classOf(refused)).toBe("edge_block");
      const again = { prompt, nativeSessionId: sessionOf(refused.run), cause: "healing" as const };
      expect(await runToEnd(orderFor(harness, again))).toMatchObject({ end: "success", text: "all done" });
      expect(readFileSync(made, "utf8")).toBe("once\n");
      expect(models.sessions(plan.id)).toEqual([sessionOf(refused.run)]);
      expect(faultsOf(plan.id)).toEqual([null, "cf403", null]);
    },
    TEST_MAX_MS,
  );

  it.each([
    ["529", "provider_transient", 3],
    ["401", "auth", 3],
    ["402", "billing", 1],
    ["429", "provider_transient", 3],
    ["reset", "transport", 3],
  ] as const)(
    "whose provider answers %s again and again says so as data, after few retries of its own (P13, F11, F13)",
    async (kind, expected, requests) => {
      const harness = await newHarness();
      const plan = { id: `claude-${kind}`, steps: [{ text: "never" }], faults: [{ kind, always: true }] };
      const { run, ...end } = await runToEnd(orderFor(harness, { prompt: `Do it. ${models.add(plan)}` }));
      expect(classOf(end), JSON.stringify(end)).toBe(expected);
      expect(end.text).toBeNull();
      expect(faultsOf(plan.id)).toEqual(Array.from({ length: requests }, () => kind));
      expect(models.sessions(plan.id)).toEqual([sessionOf(run)]);
      const retries = pieces(run, "note").filter((text) => text.includes("tries again"));
      expect(retries).toHaveLength(requests - 1);
    },
    TEST_MAX_MS,
  );

  it(
    "killed in mid-turn is lost, goes on in its session and repeats nothing that is finished (P6, P14)",
    async () => {
      const harness = await newHarness();
      const made = path.join(harness.dir, "once.txt");
      const plan = {
        id: "claude-kill",
        steps: [{ shell: `echo once >> ${made}` }, { text: "all done", delayMs: 2_000 }],
      };
      const prompt = `Do it. ${models.add(plan)}`;
      const order = orderFor(harness, { prompt });
      const killed = start(order);
      await eventually("the first step is told as done", () => pieces(killed, "tool").length > 0, 60_000);
      const bound = killed.events.find((event) => event.kind === "bound");
      if (bound?.kind === "bound" && bound.process !== null) process.kill(bound.process.pid, "SIGKILL");
      expect(await finish(killed, order)).toMatchObject({ end: "lost" });
      const again = { prompt, nativeSessionId: sessionOf(killed), cause: "recovering" as const };
      expect(await runToEnd(orderFor(harness, again))).toMatchObject({ end: "success", text: "all done" });
      expect(readFileSync(made, "utf8")).toBe("once\n");
      expect(models.sessions(plan.id)).toEqual([sessionOf(killed)]);
    },
    TEST_MAX_MS,
  );

  it(
    "killed before it had written down its task is told it under the same session, to look first (P6, P14)",
    async () => {
      const harness = await newHarness();
      const plan = { id: "claude-early", steps: [{ text: "all done" }] };
      const prompt = `Do it. ${models.add(plan)}`;
      const order = orderFor(harness, { prompt });
      const killed = start(order);
      await killed.reported("bound");
      const bound = killed.events.find((event) => event.kind === "bound");
      if (bound?.kind === "bound" && bound.process !== null) process.kill(bound.process.pid, "SIGKILL");
      expect(await finish(killed, order)).toMatchObject({ end: "lost" });
      const again = { prompt, nativeSessionId: sessionOf(killed), cause: "recovering" as const };
      expect(await runToEnd(orderFor(harness, again))).toMatchObject({ end: "success", text: "all done" });
      expect(models.sessions(plan.id)).toEqual([sessionOf(killed)]);
      expect(models.seen(plan.id).userTexts.join("\n")).toContain("look before you do anything");
    },
    TEST_MAX_MS,
  );

  it(
    "whose session is gone with earlier turns in it has lost its context; nothing is asked of the model (P6)",
    async () => {
      const harness = await newHarness();
      const plan = { id: "claude-gone", steps: [{ text: "never" }] };
      const nativeSessionId = "0d0b41e6-7a4a-4f7e-8a52-3b0f54c1a111";
      const order = orderFor(harness, {
        prompt: models.add(plan),
        nativeSessionId,
        history: [{ message: "one", result: "1" }],
      });
      expect(classOf(await runToEnd(order))).toBe("context_lost");
      expect(models.of(plan.id)).toEqual([]);
    },
    TEST_MAX_MS,
  );

  it(
    "that is started a second time for one attempt takes up the session that is there (P2, P6)",
    async () => {
      const harness = await newHarness();
      const plan = { id: "claude-twice", steps: [{ text: "all done" }, { text: "twice done" }] };
      const order = orderFor(harness, { prompt: `Do it. ${models.add(plan)}` });
      const first = start(order);
      expect(await first.done).toMatchObject({ end: "success" });
      const second = start(order);
      expect(await finish(second, order), JSON.stringify(second.events)).toMatchObject({ end: "success" });
      expect(sessionOf(second)).toBe(sessionOf(first));
      expect(models.sessions(plan.id)).toEqual([sessionOf(first)]);
      expect(models.seen(plan.id).userTexts.join("\n").split("Do it.")).toHaveLength(2);
    },
    TEST_MAX_MS,
  );

  it(
    "that is stopped with a tool running leaves no process (P12)",
    async () => {
      const harness = await newHarness();
      const begun = path.join(harness.dir, "begun.txt");
      const plan = { id: "claude-cancel", steps: [{ shell: `echo 1 > ${begun}; ${SLEEP}` }, { text: "never" }] };
      const order = orderFor(harness, { prompt: models.add(plan) });
      const run = start(order);
      await eventually("the tool runs", () => existsSync(begun), 60_000);
      run.abort();
      await run.done;
      await children.stop({ mark: order.mark, process: null, background: "reap" });
      expect(processesMarked(order.mark)).toEqual([]);
      expect(run.events.some(({ kind }) => kind === "end")).toBe(false);
      expect(models.of(plan.id)).toHaveLength(1);
    },
    TEST_MAX_MS,
  );

  it.each([
    ["allow_once", true],
    ["reject", false],
  ] as const)(
    "asks before it writes where it may not, and goes on with the answer %s (G4, P18)",
    async (optionId, written) => {
      const harness = await newHarness();
      const made = path.join(harness.dir, "asked.txt");
      const command = `echo 1 > ${made}`;
      const plan = { id: `claude-ask-${optionId}`, steps: [{ shell: command }, { text: "all done" }] };
      let early = true;
      const order = orderFor(harness, { prompt: models.add(plan) }, { permissions: "ask" });
      const end = await runToEnd(order, () => {
        early = existsSync(made);
        return { kind: "option", optionId };
      });
      expect(end).toMatchObject({ end: "success", text: "all done" });
      expect(end.run.questions).toMatchObject([
        { ask: "permission", optionIds: ["allow_once", "reject"], action: { tool: "Bash", command, paths: made } },
      ]);
      expect(early).toBe(false);
      expect(existsSync(made)).toBe(written);
      expect(models.sessions(plan.id)).toEqual([sessionOf(end.run)]);
    },
    TEST_MAX_MS,
  );

  it(
    "edits inside its directory without a question where edits are accepted, and asks outside (P18)",
    async () => {
      const harness = await newHarness();
      const inside = path.join(harness.dir, "in.txt");
      const outside = path.join(path.dirname(harness.dir), `${path.basename(harness.dir)}-out.txt`);
      const write = (file: string) => ({ tool: "Write", input: { file_path: file, content: "x" } });
      const plan = { id: "claude-edit", steps: [write(inside), write(outside), { text: "all done" }] };
      const order = orderFor(harness, { prompt: models.add(plan) }, { permissions: "accept_edits" });
      const end = await runToEnd(order, () => ({ kind: "option", optionId: "reject" }));
      expect(end).toMatchObject({ end: "success", text: "all done" });
      expect(end.run.questions.map(({ action }) => action)).toEqual([{ tool: "Write", paths: outside }]);
      expect(existsSync(inside)).toBe(true);
      expect(existsSync(outside)).toBe(false);
      rmSync(outside, { force: true });
    },
    TEST_MAX_MS,
  );

  it(
    "that plans ends with its plan: leaving the plan mode is refused (P18)",
    async () => {
      const harness = await newHarness();
      const plan = {
        id: "claude-plan",
        steps: [{ tool: "ExitPlanMode", input: {} }, { text: "the plan" }],
      };
      const end = await runToEnd(orderFor(harness, { prompt: models.add(plan) }, { permissions: "plan" }));
      expect(end).toMatchObject({ end: "success", text: "the plan" });
      expect(models.seen(plan.id).shown.join("\n")).toContain("This task ends with the plan");
      expect(end.run.questions).toEqual([]);
    },
    TEST_MAX_MS,
  );

  it(
    "asks its own question, and goes on with the answer (G4, F16)",
    async () => {
      const harness = await newHarness();
      const options = [
        { label: "red", description: "a" },
        { label: "blue", description: "b" },
      ];
      const input = { questions: [{ question: "Which?", header: "Colour", multiSelect: false, options }] };
      const plan = { id: "claude-question", steps: [{ tool: "AskUserQuestion", input }, { text: "all done" }] };
      const end = await runToEnd(orderFor(harness, { prompt: models.add(plan) }), () => ({
        kind: "option",
        optionId: "option_2",
      }));
      expect(end).toMatchObject({ end: "success", text: "all done" });
      expect(end.run.questions).toMatchObject([{ ask: "question", labels: { option_1: "red", option_2: "blue" } }]);
      expect(models.seen(plan.id).shown.join("\n")).toContain('"Which?"="blue"');
    },
    TEST_MAX_MS,
  );

  it(
    "that leaves a command in the background is at its end when that has ended and was spoken about (W3)",
    async () => {
      const harness = await newHarness();
      const input = { command: "python3 -c 'import time; time.sleep(2)'", description: "d", run_in_background: true };
      const plan = {
        id: "claude-background",
        steps: [{ tool: "Bash", input }, { text: "I wait for it" }, { text: "it has ended" }],
      };
      const end = await runToEnd(orderFor(harness, { prompt: models.add(plan) }));
      expect(end).toMatchObject({ end: "success", text: "it has ended" });
      expect(pieces(end.run, "child")).toEqual(["I wait for it", "it has ended"]);
      expect(models.sessions(plan.id)).toEqual([sessionOf(end.run)]);
    },
    TEST_MAX_MS,
  );

  it(
    "that stops at a limit of turns has not succeeded (W4)",
    async () => {
      const harness = await newHarness();
      const plan = { id: "claude-turns", steps: [{ shell: "true" }, { text: "never" }] };
      const order = orderFor(harness, { prompt: models.add(plan) }, { options: { maxTurns: "1" } });
      expect(classOf(await runToEnd(order))).toBe("max_turns");
    },
    TEST_MAX_MS,
  );
});

describe("Claude Code as a child of a daemon", () => {
  it(
    "is healed, completed and continued in one session under one handle (W1, P2, P6, F11, F14)",
    async () => {
      const harness = await newHarness();
      const first = { id: "daemon-one", steps: [{ text: "one done" }], faults: [{ kind: "cf403" as const }] };
      const second = { id: "daemon-two", steps: [{ text: "two done" }] };
      const executable = harness.executable();
      await using daemon = await startDaemonProcess({
        agents: { claude: { driver: "claude", command: executable.command, default: true } },
      });
      const client = await daemon.client();
      const accepted = await callShown(client, "delegate_task", {
        clientRequestId: "claude-daemon-1",
        task: `Do it. ${models.add(first)}`,
        access: "read",
        model: "claude-sonnet-4-5",
      });
      const ended = await waitUntilEnded(client, accepted.taskId);
      expect(ended).toMatchObject({ status: "completed", nodeId: accepted.nodeId, text: "one done" });
      await callShown(client, "task_continue", {
        clientRequestId: "claude-daemon-2",
        taskId: accepted.taskId,
        message: `Go on. ${models.add(second)}`,
      });
      const again = await waitUntilEnded(client, accepted.taskId);
      expect(again).toMatchObject({ status: "completed", nodeId: accepted.nodeId, text: "two done" });
      const sessions = [...models.sessions(first.id), ...models.sessions(second.id)];
      expect(new Set(sessions).size).toBe(1);
      expect(executable.starts()).toHaveLength(3);
      expect(again.childThreadId).toBe(accepted.childThreadId);
      for (const { args } of executable.starts()) expect(args).not.toMatch(/Bearer|Do it|dlg_/);
    },
    TEST_MAX_MS,
  );

  it(
    "asks through its task, and, killed after the answer, goes on in its session (G4, P6, P14)",
    async () => {
      const harness = await newHarness();
      const made = path.join(harness.dir, "once.txt");
      const plan = {
        id: "daemon-ask",
        steps: [{ shell: `echo once >> ${made}` }, { text: "all done", delayMs: 3_000 }],
      };
      const executable = harness.executable();
      await using daemon = await startDaemonProcess({
        agents: {
          claude: { driver: "claude", command: executable.command, default: true, model: "claude-sonnet-4-5" },
        },
      });
      const client = await daemon.client();
      const { taskId } = await callShown(client, "delegate_task", {
        clientRequestId: "claude-daemon-ask-1",
        task: `Do it. ${models.add(plan)}`,
        permissions: "ask",
        access: "write",
      });
      const open = await eventually(
        "a question is open",
        async () => {
          const now = await callShown(client, "task_status", { taskId });
          return now.status === "input_required" ? now : null;
        },
        30_000,
      );
      expect(existsSync(made)).toBe(false);
      const { questionId } = record(open.raw["question"]);
      await callShown(client, "task_answer", { taskId, questionId, optionId: "allow_once" });
      await eventually(
        "the tool has written and the model is asked again",
        () => models.of(plan.id).length === 2,
        30_000,
      );
      const [first] = executable.starts();
      process.kill(first?.pid ?? 0, "SIGKILL");
      expect(await waitUntilEnded(client, taskId)).toMatchObject({ status: "completed", text: "all done" });
      expect(readFileSync(made, "utf8")).toBe("once\n");
      expect(models.sessions(plan.id)).toHaveLength(1);
      expect(executable.starts()).toHaveLength(2);
    },
    TEST_MAX_MS,
  );

  it(
    "delegates by the tools that it is given in its own turn, without being asked whether it may (P18)",
    async () => {
      const harness = await newHarness();
      const plan = {
        id: "daemon-delegates",
        steps: [
          {
            mcp: "delegate_task",
            args: { clientRequestId: "claude-inner-1", task: "say hello", agent: "echo", access: "read" },
          },
          { mcp: "task_wait", args: { taskIds: ["$taskId"] }, follow: true, until: "settled", gapMs: 200 },
          { text: "it said {{last}}" },
        ],
      };
      const executable = harness.executable();
      await using daemon = await startDaemonProcess({
        agents: {
          claude: { driver: "claude", command: executable.command, default: true, model: "claude-sonnet-4-5" },
          echo: { driver: "command", command: ["/bin/sh", "-c", "cat >/dev/null; echo hello from below"] },
        },
        settings: { DELEGATE_MCP_LIMITS_DEPTH_MAX: "2" },
      });
      const client = await daemon.client();
      const { taskId } = await callShown(client, "delegate_task", {
        clientRequestId: "claude-daemon-delegates-1",
        task: `Do it. ${models.add(plan)}`,
        access: "read",
      });
      const ended = await waitUntilEnded(client, taskId);
      expect(ended.status, JSON.stringify(ended.raw)).toBe("completed");
      expect(models.seen(plan.id).shown.join("\n")).toContain("hello from below");
      for (const { args } of executable.starts()) expect(args).not.toContain("Bearer");
    },
    TEST_MAX_MS,
  );
});
