/**
 * The real Pi as a child of driver `pi`, against a scripted model: turns with tools, providers that refuse, a process that is
 * killed, a run that is given up, a conversation that goes on, an extension that asks, and work that it delegates in its turn.
 * It is installed on demand.
 */

import { existsSync, readFileSync, writeFileSync } from "node:fs";
import path from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { classify } from "../../src/core/classify.ts";
import { createPiDriver } from "../../src/drivers/pi/pi-driver.ts";
import { createGuardClock } from "../../src/guard/guard-clock.ts";
import type { AttemptOrder, DriverAnswer, DriverEvent } from "../../src/ports/driver.ts";
import { createOrder, createScratch, type RecordedRun, recordRun } from "../contract/driver-promises.ts";
import { callShown, waitUntilEnded } from "../support/answers.ts";
import { startDaemonProcess } from "../support/daemon-process.ts";
import { INSTALL_TEST_MS, installHarness } from "../support/harness/install.ts";
import { type Harness, makeHarness } from "../support/harness.ts";
import { type Models, startModels } from "../support/models.ts";
import type { Plan } from "../support/models/plan.ts";
import {
  createRecordedLog,
  createTestChildren,
  eventually,
  processesMarked,
  type TestChildren,
} from "../support/processes.ts";
import { startTestDaemon } from "../support/test-daemon.ts";

const TEST_MAX_MS = 120_000;
const START_MAX_MS = 60_000;

const driver = createPiDriver();
const clock = createGuardClock();
const log = createRecordedLog();
let models: Models;
let children: TestChildren;

beforeAll(async () => {
  models = await startModels();
  children = createTestChildren({ groups: "off" });
});
afterAll(async () => {
  await children[Symbol.asyncDispose]();
  await models[Symbol.asyncDispose]();
});

type Ended = Extract<DriverEvent, { readonly kind: "end" }>;

const makePi = (ask = false): Promise<Harness> => makeHarness("pi", { models: models.url, ask });
const prompting = (plan: Plan): string => `Do it. ${models.add(plan)}`;

function orderFor(harness: Harness, fields: Partial<AttemptOrder>): AttemptOrder {
  const [program = "", ...args] = harness.executable().command;
  return createOrder({ command: [program, ...args], ...fields }, { cwd: harness.dir, permissions: "full" });
}

const ownEnv = (): Record<string, string> => ({ PATH: process.env["PATH"] ?? "" });

function start(order: AttemptOrder, answer: DriverAnswer | null = null): RecordedRun {
  return recordRun({ driver, tools: { children, clock, log, ask: async () => answer } }, order);
}

/** The end, and the proof that nothing is left. */
async function finish(run: RecordedRun, order: AttemptOrder): Promise<Ended> {
  const last = await run.done;
  await stopped(order);
  return last?.kind === "end" ? last : expect.fail(`ended with ${last?.kind}`);
}

async function stopped(order: AttemptOrder): Promise<void> {
  const report = await children.stop({ mark: order.mark, process: null, background: "reap" });
  expect(report.kind).toBe("proven");
  expect(processesMarked(order.mark)).toEqual([]);
}

function sessionOf(run: RecordedRun): string | null {
  const bound = run.events.findLast((event) => event.kind === "bound");
  return bound?.kind === "bound" ? bound.nativeSessionId : null;
}

function pieces(run: RecordedRun, role: string): readonly string[] {
  return run.events.flatMap((event) => (event.kind === "message" && event.role === role ? [event.text] : []));
}

describe("Pi as a child", () => {
  beforeAll(() => installHarness("pi"), INSTALL_TEST_MS);

  it(
    "works with a tool, and goes on in the same conversation from a new process (P13, P6, W3)",
    async () => {
      const harness = await makePi();
      const made = path.join(harness.dir, "made.txt");
      const plan = {
        id: "pi-go",
        steps: [{ shell: `echo 日本 > ${made}; cat ${made}` }, { text: "all done 日本" }, { text: "and more" }],
      };
      const prompt = prompting(plan);
      const order = orderFor(harness, { prompt });
      const run = start(order);
      const end = await finish(run, order);
      expect(end, JSON.stringify(run.events)).toMatchObject({
        end: "success",
        evidence: "explicit",
        text: "all done 日本",
      });
      expect(end.usage).toMatchObject({ inputTokens: 200, outputTokens: 14 });
      expect(readFileSync(made, "utf8")).toBe("日本\n");
      expect(pieces(run, "tool")).toEqual([expect.stringMatching(/^bash \(completed\)\necho .*\n日本$/)]);
      const history = [{ message: prompt, result: "all done 日本" }];
      const again = orderFor(harness, { prompt: "And now?", nativeSessionId: sessionOf(run), history });
      const next = start(again);
      expect(await finish(next, again), JSON.stringify(next.events)).toMatchObject({
        end: "success",
        text: "and more",
      });
      expect(models.seen("pi-go").userTexts).toEqual([prompt, "And now?"]);
    },
    TEST_MAX_MS,
  );

  it(
    "whose provider refuses once with an edge page is healed in its own session (W1, P6, F11)",
    async () => {
      const harness = await makePi();
      const prompt = prompting({ id: "pi-403", steps: [{ text: "all done" }], faults: [{ kind: "cf403", first: 1 }] });
      const order = orderFor(harness, { prompt });
      const refused = start(order);
      const fault = await finish(refused, order);
      expect(fault.end === "fault" && classify(fault.fault)).toMatchObject({ class: "edge_block", nature: "passing" });
      const again = orderFor(harness, { prompt, nativeSessionId: sessionOf(refused), cause: "healing" });
      const healed = start(again);
      expect(await finish(healed, again)).toMatchObject({ end: "success", text: "all done" });
      expect(sessionOf(healed)).toBe(sessionOf(refused));
      expect(models.of("pi-403")).toHaveLength(2);
      expect(models.seen("pi-403").userTexts[0]).toBe(prompt);
      expect(models.seen("pi-403").userTexts.filter((text) => text.includes(prompt))).toHaveLength(1);
    },
    TEST_MAX_MS,
  );

  it(
    "whose provider is overloaded tries again by itself and tells it, then it is ours to heal (W1)",
    async () => {
      const harness = await makePi();
      const plan = { id: "pi-529", steps: [{ text: "fine" }], faults: [{ kind: "529" as const, always: true }] };
      const order = orderFor(harness, { prompt: prompting(plan) });
      const run = start(order);
      const end = await finish(run, order);
      expect(end.end === "fault" && classify(end.fault)).toMatchObject({
        class: "provider_transient",
        httpStatus: 529,
      });
      const tries = pieces(run, "note").filter((note) => note.startsWith("Pi tries again"));
      expect(tries.length).toBeGreaterThan(0);
      expect(models.of("pi-529")).toHaveLength(tries.length + 1);
    },
    TEST_MAX_MS,
  );

  it(
    "whose key is not accepted is not tried again (W5)",
    async () => {
      const harness = await makePi();
      const plan = { id: "pi-401", steps: [{ text: "fine" }], faults: [{ kind: "401" as const, always: true }] };
      const order = orderFor(harness, { prompt: prompting(plan) });
      const end = await finish(start(order), order);
      expect(end.end === "fault" && classify(end.fault)).toMatchObject({ class: "auth", nature: "definitive" });
      expect(models.of("pi-401")).toHaveLength(1);
    },
    TEST_MAX_MS,
  );

  it(
    "killed in mid-turn goes on and repeats nothing that is finished (P6, P14)",
    async () => {
      const harness = await makePi();
      const [counted, waiting] = [path.join(harness.dir, "counted"), path.join(harness.dir, "waiting")];
      const steps = [
        { shell: `echo 1 >> ${counted}` },
        { shell: `echo 1 > ${waiting}; sleep 600` },
        { text: "all done" },
      ];
      const prompt = prompting({ id: "pi-kill", steps });
      const order = orderFor(harness, { prompt });
      const run = start(order);
      await eventually("the second tool runs", () => existsSync(waiting), START_MAX_MS);
      const bound = run.events[0];
      if (bound?.kind !== "bound" || bound.process === null) expect.fail("no process is bound");
      process.kill(bound.process.pid, "SIGKILL");
      expect(await finish(run, order)).toMatchObject({ end: "lost" });
      const again = orderFor(harness, { prompt, nativeSessionId: sessionOf(run), cause: "recovering" });
      const resumed = start(again);
      const end = await finish(resumed, again);
      expect(end, JSON.stringify(resumed.events)).toMatchObject({ end: "success", text: "all done" });
      expect(readFileSync(counted, "utf8")).toBe("1\n");
      expect(sessionOf(resumed)).toBe(sessionOf(run));
    },
    TEST_MAX_MS,
  );

  it(
    "killed before its first answer goes on in its session, which has the task already (P6, P14)",
    async () => {
      const harness = await makePi();
      const plan = { id: "pi-early", steps: [{ text: "all done" }], faults: [{ kind: "hang" as const, first: 1 }] };
      const prompt = prompting(plan);
      const order = orderFor(harness, { prompt });
      const run = start(order);
      await eventually("the model is asked", () => models.of("pi-early").length > 0, START_MAX_MS);
      const bound = run.events[0];
      if (bound?.kind !== "bound" || bound.process === null) expect.fail("no process is bound");
      process.kill(bound.process.pid, "SIGKILL");
      expect(await finish(run, order)).toMatchObject({ end: "lost" });
      const again = orderFor(harness, { prompt, nativeSessionId: sessionOf(run), cause: "recovering" });
      const resumed = start(again);
      expect(await finish(resumed, again)).toMatchObject({ end: "success", text: "all done" });
      expect(sessionOf(resumed)).toBe(sessionOf(run));
      expect(models.seen("pi-early").userTexts.filter((text) => text.includes(prompt))).toHaveLength(1);
    },
    TEST_MAX_MS,
  );

  it(
    "given up while a tool runs leaves nothing behind (P4, P12)",
    async () => {
      const harness = await makePi();
      const waiting = path.join(harness.dir, "waiting");
      const steps = [{ shell: `echo 1 > ${waiting}; sleep 600` }, { text: "all done" }];
      const order = orderFor(harness, { prompt: prompting({ id: "pi-cancel", steps }) });
      const run = start(order);
      await eventually("the tool runs", () => existsSync(waiting), START_MAX_MS);
      await eventually("it is told", () => run.events.some((event) => event.kind === "progress" && event.toolRunning));
      run.abort();
      expect((await run.done)?.kind).not.toBe("end");
      await stopped(order);
    },
    TEST_MAX_MS,
  );

  it(
    "whose session is gone begins anew under the same id, with the task (P6)",
    async () => {
      const harness = await makePi();
      const prompt = prompting({ id: "pi-gone", steps: [{ text: "all done" }] });
      const order = orderFor(harness, { prompt, nativeSessionId: "d-gone-1", cause: "recovering" });
      const run = start(order);
      expect(await finish(run, order)).toMatchObject({ end: "success", text: "all done" });
      expect(sessionOf(run)).toBe("d-gone-1");
      expect(models.seen("pi-gone").userTexts[0]).toMatch(/^An earlier attempt/);
      expect(pieces(run, "note")).toHaveLength(1);
    },
    TEST_MAX_MS,
  );

  it.each(["yes", "no"])(
    "whose extension asks is answered with %s (G4, P18)",
    async (optionId) => {
      const harness = await makePi(true);
      const made = path.join(harness.dir, "asked.txt");
      const steps = [{ shell: `echo 1 > ${made}` }, { text: "all done" }];
      const order = orderFor(harness, { prompt: prompting({ id: `pi-ask-${optionId}`, steps }) });
      const run = start(order, { kind: "option", optionId });
      expect(await finish(run, order)).toMatchObject({ end: "success", text: "all done" });
      expect(run.questions).toEqual([expect.objectContaining({ prompt: expect.stringContaining(`echo 1 > ${made}`) })]);
      expect(existsSync(made)).toBe(optionId === "yes");
    },
    TEST_MAX_MS,
  );

  it(
    "delegates in its turn by our tools, without a word in its own settings (C1)",
    async () => {
      await using daemon = await startTestDaemon();
      const harness = await makePi();
      using scratch = createScratch();
      const prompt = prompting({ id: "pi-mcp", steps: [{ mcp: "list_agents", args: {} }, { text: "I saw {{last}}" }] });
      const delegation = { url: daemon.mcpUrl, token: "token-of-pi" };
      const env = { ...ownEnv(), DELEGATE_CHILD_URL: delegation.url, DELEGATE_CHILD_TOKEN: delegation.token };
      const order = orderFor(harness, { prompt, delegation, env, scratchDir: scratch.path });
      const run = start(order);
      const end = await finish(run, order);
      expect(end, JSON.stringify(run.events)).toMatchObject({ end: "success" });
      expect(end.text).toContain("fake");
      expect(pieces(run, "tool")).toEqual([expect.stringMatching(/^mcp__delegate__list_agents \(completed\)/)]);
    },
    TEST_MAX_MS,
  );

  it(
    "of a daemon that is killed is stopped, then goes on in its session in the same task (P2, P6, P14, F38)",
    async () => {
      const harness = await makePi();
      const [counted, go] = [path.join(harness.dir, "counted"), path.join(harness.dir, "go")];
      const wait = `echo 1 >> ${counted}; while [ ! -e ${go} ]; do sleep 0.1; done`;
      const faults = [{ kind: "cf403" as const, first: 1 }];
      const prompt = prompting({ id: "pi-daemon", steps: [{ shell: wait }, { text: "all done" }], faults });
      const { command } = harness.executable();
      await using first = await startDaemonProcess({ agents: { pi: { driver: "pi", command, trusted: true } } });
      const before = await first.client();
      const { taskId } = await callShown(before, "delegate_task", { clientRequestId: "pi-daemon-1", task: prompt });
      await eventually("the tool runs", () => existsSync(counted), START_MAX_MS);
      await first.kill();
      await using second = await first.restart();
      writeFileSync(go, "");
      const ended = await waitUntilEnded(await second.client(), taskId);
      expect(ended.raw).toMatchObject({ status: "completed", outcome: { evidence: "explicit" } });
      expect(ended.text).toContain("all done");
      expect(readFileSync(counted, "utf8")).toBe("1\n");
      expect(models.seen("pi-daemon").userTexts.filter((text) => text.includes(prompt))).toHaveLength(1);
    },
    TEST_MAX_MS,
  );

  it(
    "that does not know its model is a fault of the configuration, before anything was done",
    async () => {
      const harness = await makePi();
      const fields = orderFor(harness, { prompt: "Do it." });
      const order = { ...fields, spec: { ...fields.spec, model: "none/such" } };
      const end = await finish(start(order), order);
      expect(end.end === "fault" && classify(end.fault)).toMatchObject({ class: "config", nature: "definitive" });
      expect(end.sideEffects).toBe(false);
    },
    TEST_MAX_MS,
  );
});
