/**
 * Codex CLI 0.171 as a child of driver `codex`, the real binary, against a scripted model. It is installed on demand.
 */

import { existsSync, readFileSync } from "node:fs";
import path from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { classify } from "../../src/core/classify.ts";
import type { FailureClass } from "../../src/core/failure.ts";
import type { Spec } from "../../src/core/task.ts";
import { createCodexDriver } from "../../src/drivers/codex/codex-driver.ts";
import { createGuardClock } from "../../src/guard/guard-clock.ts";
import type { AttemptOrder, DriverAnswer, DriverEvent, DriverQuestion } from "../../src/ports/driver.ts";
import { createOrder, type RecordedRun, recordRun } from "../contract/driver-promises.ts";
import { INSTALL_TEST_MS, installHarness } from "../support/harness/install.ts";
import { type Harness, makeHarness } from "../support/harness.ts";
import { type Models, startModels } from "../support/models.ts";
import type { Plan } from "../support/models/plan.ts";
import {
  contents,
  createRecordedLog,
  createTestChildren,
  eventually,
  processesMarked,
  type TestChildren,
} from "../support/processes.ts";

const TEST_MAX_MS = 120_000;

const driver = createCodexDriver();
const clock = createGuardClock();
const log = createRecordedLog();
let models: Models;
let children: TestChildren;

beforeAll(async () => {
  models = await startModels();
  children = createTestChildren({ groups: "off" });
  await installHarness("codex");
}, INSTALL_TEST_MS);
afterAll(async () => {
  await children[Symbol.asyncDispose]();
  await models[Symbol.asyncDispose]();
});

type Ended = Extract<DriverEvent, { readonly kind: "end" }>;

function orderFor(harness: Harness, fields: Partial<AttemptOrder>, spec: Partial<Spec> = {}): AttemptOrder {
  const [program = "", ...args] = harness.executable().command;
  return createOrder({ command: [program, ...args], ...fields }, { cwd: harness.dir, permissions: "full", ...spec });
}

function start(order: AttemptOrder, answer?: (question: DriverQuestion) => DriverAnswer): RecordedRun {
  const ask = async (question: DriverQuestion): Promise<DriverAnswer | null> => answer?.(question) ?? null;
  return recordRun({ driver, tools: { children, clock, log, ask } }, order);
}

/** The end, and the proof that nothing is left. */
async function finish(run: RecordedRun, order: AttemptOrder): Promise<Ended> {
  const last = await run.done;
  await stop(order);
  return last?.kind === "end" ? last : expect.fail(`ended with ${last?.kind}`);
}

async function stop(order: AttemptOrder): Promise<void> {
  await children.stop({ mark: order.mark, process: null, background: "reap" });
  expect(processesMarked(order.mark)).toEqual([]);
}

function threadOf(run: RecordedRun): string | null {
  const bound = run.events.findLast((event) => event.kind === "bound");
  return bound?.kind === "bound" ? bound.nativeSessionId : null;
}

function pidOf(run: RecordedRun): number {
  const [bound] = run.events;
  return bound?.kind === "bound" ? (bound.process?.pid ?? 0) : 0;
}

function pieces(run: RecordedRun, role: string): readonly string[] {
  return run.events.flatMap((event) => (event.kind === "message" && event.role === role ? [event.text] : []));
}

/** A harness of its own and a task for it. */
async function scene(plan: Plan, ask = false): Promise<{ readonly harness: Harness; readonly prompt: string }> {
  return { harness: await makeHarness("codex", { models: models.url, ask }), prompt: `Do it. ${models.add(plan)}` };
}

const DONE = { text: "all done 日本" };

describe("codex as a child", () => {
  it(
    "works with a tool and answers with its last message, told as explicit; nothing is left (P13, W3)",
    async () => {
      const harness = await makeHarness("codex", { models: models.url });
      const made = path.join(harness.dir, "made.txt");
      const prompt = models.add({ id: "codex-tool", steps: [{ shell: `echo 日本 > ${made}; echo seen` }, DONE] });
      const order = orderFor(harness, { prompt });
      const run = start(order);
      const end = await finish(run, order);
      expect(end, JSON.stringify(run.events)).toMatchObject({
        end: "success",
        evidence: "explicit",
        text: DONE.text,
        sideEffects: true,
        usage: { inputTokens: 200, outputTokens: 14, costUsd: null },
      });
      expect(readFileSync(made, "utf8")).toBe("日本\n");
      expect(pieces(run, "tool")).toEqual([expect.stringMatching(/echo seen.*\(commandExecution, completed\)/)]);
      expect(pieces(run, "child")).toEqual([DONE.text]);
    },
    TEST_MAX_MS,
  );

  it(
    "is continued in its thread with the new message alone, and counts only what that used (P6)",
    async () => {
      const { harness, prompt } = await scene({ id: "codex-one", steps: [{ text: "first answer" }] });
      const order = orderFor(harness, { prompt });
      const first = start(order);
      expect(await finish(first, order)).toMatchObject({ end: "success", text: "first answer" });
      const next = models.add({ id: "codex-two", steps: [{ text: "second answer" }] });
      const again = orderFor(harness, {
        prompt: next,
        nativeSessionId: threadOf(first),
        history: [{ message: prompt, result: "first answer" }],
      });
      const second = start(again);
      expect(await finish(second, again), JSON.stringify(second.events)).toMatchObject({
        end: "success",
        text: "second answer",
        usage: { inputTokens: 100, outputTokens: 7 },
      });
      expect(threadOf(second)).toBe(threadOf(first));
      const texts = models.seen("codex-two").userTexts;
      expect(texts.filter((text) => text.includes("codex-one"))).toHaveLength(1);
      expect(texts.at(-1)).toBe(next);
    },
    TEST_MAX_MS,
  );

  it(
    "rides out a single edge page by itself, and that is shown (W1, F11)",
    async () => {
      const { harness, prompt } = await scene({ id: "codex-once", steps: [DONE], faults: [{ kind: "cf403" }] });
      const order = orderFor(harness, { prompt });
      const run = start(order);
      expect(await finish(run, order)).toMatchObject({ end: "success", text: DONE.text });
      expect(pieces(run, "note").join("\n")).toMatch(/Reconnecting.*Cloudflare/);
    },
    TEST_MAX_MS,
  );

  it(
    "blocked by an edge page until it gives up is healed in the same thread, without being given its task again (W1, P6, F11)",
    async () => {
      const { harness, prompt } = await scene({
        id: "codex-cf",
        steps: [DONE],
        faults: [{ kind: "cf403", first: 6 }],
      });
      const order = orderFor(harness, { prompt });
      const refused = start(order);
      const fault = await finish(refused, order);
      if (fault.end !== "fault") expect.fail(JSON.stringify(fault));
      expect(classify(fault.fault), JSON.stringify(fault)).toMatchObject({
        class: "edge_block",
        nature: "passing",
        httpStatus: 403,
      });
      const again = orderFor(harness, { prompt, nativeSessionId: threadOf(refused), cause: "healing" });
      const healed = start(again);
      expect(await finish(healed, again), JSON.stringify(healed.events)).toMatchObject({
        end: "success",
        text: DONE.text,
      });
      expect(threadOf(healed)).toBe(threadOf(refused));
      expect(models.seen("codex-cf").userTexts.filter((text) => text.includes(prompt))).toHaveLength(1);
    },
    TEST_MAX_MS,
  );

  it(
    "blocked after a tool that wrote a file goes on, and the file is written once (P6, W1)",
    async () => {
      const harness = await makeHarness("codex", { models: models.url });
      const made = path.join(harness.dir, "once.txt");
      const prompt = models.add({
        id: "codex-after",
        steps: [{ shell: `echo once >> ${made}` }, DONE],
        faults: [{ kind: "cf403", step: 1, first: 6 }],
      });
      const order = orderFor(harness, { prompt });
      const refused = start(order);
      expect(await finish(refused, order)).toMatchObject({ end: "fault", sideEffects: true });
      const again = orderFor(harness, { prompt, nativeSessionId: threadOf(refused), cause: "healing" });
      const healed = start(again);
      expect(await finish(healed, again), JSON.stringify(healed.events)).toMatchObject({
        end: "success",
        text: DONE.text,
      });
      expect(readFileSync(made, "utf8")).toBe("once\n");
    },
    TEST_MAX_MS,
  );

  const refusals: readonly (readonly ["529" | "401" | "402" | "404" | "429", FailureClass])[] = [
    ["529", "provider_transient"],
    ["401", "auth"],
    ["429", "provider_transient"],
  ];
  it.each(refusals)(
    "refused with %s every time is %s, by the status that Codex tells (F12, F13)",
    async (kind, expected) => {
      const { harness, prompt } = await scene({ id: `codex-${kind}`, steps: [DONE], faults: [{ kind, always: true }] });
      const order = orderFor(harness, { prompt });
      const run = start(order);
      const end = await finish(run, order);
      if (end.end !== "fault") expect.fail(JSON.stringify(end));
      expect(classify(end.fault), JSON.stringify(end)).toMatchObject({ class: expected, httpStatus: Number(kind) });
      expect(pieces(run, "note").join("\n")).toContain("Reconnecting");
    },
    TEST_MAX_MS,
  );

  it.each(["SIGKILL", "SIGTERM"])(
    "ended by %s with a tool at work is lost, and goes on in its thread without repeating what is finished (P6, P14)",
    async (signal) => {
      const harness = await makeHarness("codex", { models: models.url });
      const made = path.join(harness.dir, "kill.txt");
      const id = `codex-${signal}`;
      const prompt = models.add({ id, steps: [{ shell: `echo once >> ${made}; sleep 60` }, DONE] });
      const order = orderFor(harness, { prompt });
      const killed = start(order);
      await eventually("the tool works", () => contents(made) !== "", 60_000);
      process.kill(pidOf(killed), signal);
      expect(await finish(killed, order)).toMatchObject({ end: "lost", sideEffects: true });
      const again = orderFor(harness, { prompt, nativeSessionId: threadOf(killed), cause: "recovering" });
      const resumed = start(again);
      expect(await finish(resumed, again), JSON.stringify(resumed.events)).toMatchObject({
        end: "success",
        text: DONE.text,
      });
      expect(threadOf(resumed)).toBe(threadOf(killed));
      expect(readFileSync(made, "utf8")).toBe("once\n");
      expect(models.seen(id).userTexts.filter((text) => text.includes(prompt))).toHaveLength(1);
    },
    TEST_MAX_MS,
  );

  it(
    "killed after its thread was told and before its turn is given the task in that thread (P6)",
    async () => {
      const { harness, prompt } = await scene({ id: "codex-early", steps: [DONE] });
      const order = orderFor(harness, { prompt });
      const told = recordRun({ driver, tools: { children, clock, log } }, order, async (event) => {
        if (event.kind === "bound" && event.nativeSessionId !== null) process.kill(event.process?.pid ?? 0, "SIGKILL");
      });
      expect(await finish(told, order)).toMatchObject({ end: "lost" });
      const again = orderFor(harness, { prompt, nativeSessionId: threadOf(told), cause: "recovering" });
      const resumed = start(again);
      expect(await finish(resumed, again), JSON.stringify(resumed.events)).toMatchObject({
        end: "success",
        text: DONE.text,
      });
      expect(threadOf(resumed)).toBe(threadOf(told));
    },
    TEST_MAX_MS,
  );

  it(
    "killed before its record holds a new message is given that message, not told to go on (P6)",
    async () => {
      const { harness, prompt } = await scene({ id: "codex-before", steps: [{ text: "first" }] });
      const order = orderFor(harness, { prompt });
      const first = start(order);
      expect(await finish(first, order)).toMatchObject({ end: "success" });
      const message = models.add({ id: "codex-message", steps: [DONE] });
      const history = [{ message: prompt, result: "first" }];
      const next = orderFor(harness, { prompt: message, history, nativeSessionId: threadOf(first) });
      let bounds = 0;
      const killed = recordRun({ driver, tools: { children, clock, log } }, next, async (event) => {
        if (event.kind === "bound" && ++bounds === 2) process.kill(event.process?.pid ?? 0, "SIGKILL");
      });
      expect(await finish(killed, next)).toMatchObject({ end: "lost" });
      const again = orderFor(harness, { ...next, mark: orderFor(harness, {}).mark, cause: "recovering" });
      const resumed = start(again);
      expect(await finish(resumed, again), JSON.stringify(resumed.events)).toMatchObject({
        end: "success",
        text: DONE.text,
      });
    },
    TEST_MAX_MS,
  );

  it(
    "cancelled with a tool at work leaves nothing (P12)",
    async () => {
      const harness = await makeHarness("codex", { models: models.url });
      const made = path.join(harness.dir, "cancel.txt");
      const prompt = models.add({ id: "codex-cancel", steps: [{ shell: `echo x >> ${made}; sleep 60` }, DONE] });
      const order = orderFor(harness, { prompt });
      const run = start(order);
      await eventually("the tool works", () => contents(made) !== "", 60_000);
      run.abort();
      const last = await run.done;
      expect(last?.kind).not.toBe("end");
      await stop(order);
    },
    TEST_MAX_MS,
  );

  it(
    "asks before a command leaves its sandbox, and goes on with the answer (G4, P18, F16)",
    async () => {
      const harness = await makeHarness("codex", { models: models.url, ask: true });
      const made = path.join(harness.dir, "asked.txt");
      const steps = [{ shell: `echo 1 > ${made}`, escalate: true }, { text: "all done" }];
      const order = orderFor(harness, { prompt: models.add({ id: "codex-ask", steps }) }, { permissions: "ask" });
      let early = true;
      const run = start(order, () => {
        early = existsSync(made);
        return { kind: "option", optionId: "allow_once" };
      });
      const end = await finish(run, order);
      expect(end, JSON.stringify(run.events)).toMatchObject({ end: "success", text: "all done" });
      expect(run.questions).toHaveLength(1);
      expect(run.questions[0]).toMatchObject({
        ask: "permission",
        optionIds: ["allow_once", "reject"],
        action: { tool: "command", command: expect.stringContaining("asked.txt"), cwd: harness.dir },
      });
      expect(early).toBe(false);
      expect(existsSync(made)).toBe(true);
    },
    TEST_MAX_MS,
  );

  it(
    "asks before it changes a file of a read-only task, naming the file; a refusal is told to it and nothing is written (P18, F16)",
    async () => {
      const harness = await makeHarness("codex", { models: models.url, ask: true });
      const made = path.join(harness.dir, "n.txt");
      const patch = "apply_patch <<'EOP'\n*** Begin Patch\n*** Add File: n.txt\n+hello\n*** End Patch\nEOP";
      const prompt = models.add({ id: "codex-patch", steps: [{ shell: patch }, { text: "all done" }] });
      const order = orderFor(harness, { prompt }, { permissions: "ask", access: "read" });
      const run = start(order, () => ({ kind: "option", optionId: "reject" }));
      const end = await finish(run, order);
      expect(end, JSON.stringify(run.events)).toMatchObject({ end: "success", text: "all done", sideEffects: false });
      expect(run.questions[0]).toMatchObject({
        optionIds: ["allow_once", "allow_for_session", "reject"],
        action: { tool: "file change", paths: made },
      });
      expect(existsSync(made)).toBe(false);
    },
    TEST_MAX_MS,
  );

  it(
    "plans without writing: its sandbox refuses, and nobody is asked (P18)",
    async () => {
      const harness = await makeHarness("codex", { models: models.url });
      const made = path.join(harness.dir, "plan.txt");
      const prompt = models.add({ id: "codex-plan", steps: [{ shell: `echo 1 > ${made}` }, { text: "planned" }] });
      const order = orderFor(harness, { prompt }, { permissions: "plan", access: "read" });
      const run = start(order);
      expect(await finish(run, order), JSON.stringify(run.events)).toMatchObject({ end: "success", text: "planned" });
      expect(run.questions).toEqual([]);
      expect(existsSync(made)).toBe(false);
    },
    TEST_MAX_MS,
  );

  it(
    "accepting edits writes in its folder without asking, and its sandbox keeps the rest of the machine from it (P18)",
    async () => {
      const harness = await makeHarness("codex", { models: models.url });
      const made = path.join(harness.dir, "edit.txt");
      const outside = `/var/tmp/${path.basename(harness.dir)}`;
      const steps = [{ shell: `echo 1 > ${made}; echo 2 > ${outside}` }, { text: "edited" }];
      const order = orderFor(
        harness,
        { prompt: models.add({ id: "codex-edit", steps }) },
        { permissions: "accept_edits" },
      );
      const run = start(order);
      expect(await finish(run, order), JSON.stringify(run.events)).toMatchObject({ end: "success", text: "edited" });
      expect(run.questions).toEqual([]);
      expect(contents(made)).toBe("1\n");
      expect(existsSync(outside)).toBe(false);
    },
    TEST_MAX_MS,
  );

  it(
    "whose thread is not there has lost its context; one that another process holds is a passing trouble (P13)",
    async () => {
      const { harness, prompt } = await scene({ id: "codex-held", steps: [{ shell: "sleep 60" }, DONE] });
      const held = orderFor(harness, { prompt });
      const holder = start(held);
      await eventually("it works", () => models.of("codex-held").length > 0, 60_000);
      const classes: FailureClass[] = [];
      for (const nativeSessionId of [threadOf(holder), "0199a213-81c0-7800-8aa1-bbab2a035a53", "nonsense"]) {
        const order = orderFor(harness, { prompt, nativeSessionId, cause: "recovering" });
        const end = await finish(start(order), order);
        classes.push(end.end === "fault" ? classify(end.fault).class : expect.fail(end.end));
      }
      expect(classes).toEqual(["transport", "context_lost", "context_lost"]);
      holder.abort();
      await holder.done;
      await stop(held);
    },
    TEST_MAX_MS,
  );
});
