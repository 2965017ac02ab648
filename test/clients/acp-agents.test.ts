/**
 * Real agents as children of driver `acp`, against a scripted model: a turn with a tool, a question, a provider that refuses
 * once, and a process that is killed in mid-turn. They are installed on demand.
 */

import { existsSync, readFileSync } from "node:fs";
import path from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { classify } from "../../src/core/classify.ts";
import type { Spec } from "../../src/core/task.ts";
import { createAcpDriver } from "../../src/drivers/acp/acp-driver.ts";
import { createGuardClock } from "../../src/guard/guard-clock.ts";
import type { AttemptOrder, DriverAnswer, DriverEvent, DriverQuestion } from "../../src/ports/driver.ts";
import { createOrder, type RecordedRun, recordRun } from "../contract/driver-promises.ts";
import { type HarnessName, INSTALL_TEST_MS, installHarness } from "../support/harness/install.ts";
import { type Harness, makeHarness } from "../support/harness.ts";
import { type Models, startModels } from "../support/models.ts";
import {
  createRecordedLog,
  createTestChildren,
  eventually,
  processesMarked,
  type TestChildren,
} from "../support/processes.ts";

/** Whether an unfinished first turn is still in the agent's session after its process has gone. */
const HARNESSES: readonly (readonly [HarnessName, boolean])[] = [
  ["opencode", true],
  ["gemini", false],
];
const TEST_MAX_MS = 180_000;

const driver = createAcpDriver();
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
  await children.stop({ mark: order.mark, process: null, background: "reap" });
  expect(processesMarked(order.mark)).toEqual([]);
  return last?.kind === "end" ? last : expect.fail(`ended with ${last?.kind}`);
}

function sessionOf(run: RecordedRun): string | null {
  const bound = run.events.findLast((event) => event.kind === "bound");
  return bound?.kind === "bound" ? bound.nativeSessionId : null;
}

function pieces(run: RecordedRun, role: string): readonly string[] {
  return run.events.flatMap((event) => (event.kind === "message" && event.role === role ? [event.text] : []));
}

describe.each(HARNESSES)("%s as a child", (name, keepsUnfinished) => {
  beforeAll(() => installHarness(name), INSTALL_TEST_MS);

  it(
    "works with a tool and answers with its last message (P13, W3)",
    async () => {
      const harness = await makeHarness(name, { models: models.url });
      const made = path.join(harness.dir, "made.txt");
      const plan = { id: `acp-${name}`, steps: [{ shell: `echo 日本 > ${made}` }, { text: "all done 日本" }] };
      const order = orderFor(harness, { prompt: `Do it. ${models.add(plan)}` });
      const run = start(order);
      const end = await finish(run, order);
      expect(end, JSON.stringify(run.events)).toMatchObject({
        end: "success",
        evidence: "assumed",
        text: "all done 日本",
      });
      expect(readFileSync(made, "utf8")).toBe("日本\n");
      expect(pieces(run, "tool").length).toBeGreaterThan(0);
    },
    TEST_MAX_MS,
  );

  it(
    "asks before it runs a command, and goes on with the answer (G4, P18)",
    async () => {
      const harness = await makeHarness(name, { models: models.url, ask: true });
      const made = path.join(harness.dir, "asked.txt");
      const plan = { id: `acp-ask-${name}`, steps: [{ shell: `echo 1 > ${made}` }, { text: "all done" }] };
      const order = orderFor(harness, { prompt: `Do it. ${models.add(plan)}` }, { permissions: "accept_edits" });
      let early = true;
      const run = start(order, ({ optionIds, labels }) => {
        early = existsSync(made);
        const once = optionIds.find((id) => /once/i.test(`${id} ${labels[id]}`)) ?? optionIds[0] ?? "";
        return { kind: "option", optionId: once };
      });
      const end = await finish(run, order);
      expect(end, JSON.stringify(run.events)).toMatchObject({ end: "success", text: "all done" });
      expect(run.questions.length).toBeGreaterThan(0);
      expect(early).toBe(false);
      expect(existsSync(made)).toBe(true);
    },
    TEST_MAX_MS,
  );

  it(
    "whose provider refuses once with an edge page is healed, in its own session if it keeps one (W1, P6, F11)",
    async () => {
      const harness = await makeHarness(name, { models: models.url });
      const plan = {
        id: `acp-403-${name}`,
        steps: [{ text: "all done" }],
        faults: [{ kind: "cf403" as const, first: 1 }],
      };
      const prompt = `Do it. ${models.add(plan)}`;
      const order = orderFor(harness, { prompt });
      const refused = start(order);
      const fault = await finish(refused, order);
      expect(fault, JSON.stringify(refused.events)).toMatchObject({ end: "fault" });
      if (fault.end === "fault")
        expect(classify(fault.fault), JSON.stringify(fault)).toMatchObject({ nature: "passing" });
      const again = orderFor(harness, { prompt, nativeSessionId: sessionOf(refused), cause: "healing" });
      const healed = start(again);
      expect(await finish(healed, again), JSON.stringify(healed.events)).toMatchObject({
        end: "success",
        text: "all done",
      });
      expect(sessionOf(healed) === sessionOf(refused)).toBe(keepsUnfinished);
    },
    TEST_MAX_MS,
  );

  it(
    "killed in mid-turn goes on and, if it keeps its session, repeats nothing that is finished (P6, P14)",
    async () => {
      const harness = await makeHarness(name, { models: models.url });
      const made = path.join(harness.dir, "once.txt");
      const plan = {
        id: `acp-kill-${name}`,
        steps: [{ shell: `echo once >> ${made}` }, { text: "all done", delayMs: 3_000 }],
      };
      const prompt = `Do it. ${models.add(plan)}`;
      const order = orderFor(harness, { prompt });
      const killed = start(order);
      await eventually("the first step is told as done", () => pieces(killed, "tool").length > 0, 60_000);
      killed.abort();
      await killed.done;
      await children.stop({ mark: order.mark, process: null, background: "reap" });
      expect(processesMarked(order.mark)).toEqual([]);
      const again = orderFor(harness, { prompt, nativeSessionId: sessionOf(killed), cause: "recovering" });
      const resumed = start(again);
      expect(await finish(resumed, again), JSON.stringify(resumed.events)).toMatchObject({
        end: "success",
        text: "all done",
      });
      // A scripted model does not look first, as one is told to that has lost its session.
      expect(readFileSync(made, "utf8")).toBe(keepsUnfinished ? "once\n" : "once\nonce\n");
      if (!keepsUnfinished) expect(models.seen(plan.id).userTexts.join("\n")).toContain("look before you do anything");
    },
    TEST_MAX_MS,
  );
});
