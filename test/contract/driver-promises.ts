/**
 * What every driver promises its engine (`ports/driver.ts`), and what is needed to ask it: orders, tools, a recorded run.
 */

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import type { Spec } from "../../src/core/task.ts";
import type {
  AttemptOrder,
  Driver,
  DriverAnswer,
  DriverEvent,
  DriverQuestion,
  DriverTools,
} from "../../src/ports/driver.ts";
import { freshMark } from "../support/processes.ts";

export type Subject = {
  readonly driver: Driver;
  /** Without `ask`, nobody answers: every question is met with null. */
  readonly tools: Omit<DriverTools, "signal" | "ask"> & Partial<Pick<DriverTools, "ask">>;
  /** An order of each kind; `hang`: an agent that never comes to an end. */
  order(kind: "success" | "fault" | "hang"): AttemptOrder;
};

export type RecordedRun = {
  readonly events: readonly DriverEvent[];
  readonly questions: readonly DriverQuestion[];
  readonly abort: () => void;
  /** Resolves with the last event. */
  readonly done: Promise<DriverEvent | undefined>;
  /** Resolves when an event of this kind was reported, or a question was asked. */
  reported(kind: DriverEvent["kind"] | "asked"): Promise<void>;
};

const SPEC: Spec = {
  title: "t",
  role: "general",
  agent: "a",
  driver: "d",
  model: null,
  options: {},
  cwd: tmpdir(),
  access: "write",
  isolation: "auto",
  permissions: "accept_edits",
  background: "reap",
  resultSchema: null,
  labels: [],
  onLoss: "resume",
  requireEvidence: "assumed",
  policy: {
    maxActiveMs: 86_400_000,
    patienceMs: 14_400_000,
    backoffMaxMs: 60_000,
    unknownAttemptsMax: 2,
    lossesMax: 5,
    pauseMaxMs: 21_600_000,
    stallAfterMs: 300_000,
    questionDeadlineMs: 86_400_000,
  },
};

export function createOrder(fields: Partial<AttemptOrder> = {}, spec: Partial<Spec> = {}): AttemptOrder {
  return {
    mark: freshMark(),
    spec: { ...SPEC, ...spec },
    command: ["/bin/false"],
    promptBy: "stdin",
    prompt: "",
    history: [],
    nativeSessionId: null,
    cause: "first",
    env: { PATH: process.env["PATH"] ?? "" },
    delegation: null,
    scratchDir: tmpdir(),
    resultBytesMax: 1024 * 1024,
    ...fields,
  };
}

export type Scratch = Disposable & { readonly path: string };

export function createScratch(): Scratch {
  const path = mkdtempSync(join(tmpdir(), "delegate-scratch-"));
  return { path, [Symbol.dispose]: () => rmSync(path, { recursive: true, force: true }) };
}

/** Runs a driver and records what it reports. `onReport` may make the store slow, or fail. */
export function recordRun(
  { driver, tools }: Pick<Subject, "driver" | "tools">,
  order: AttemptOrder,
  onReport: (event: DriverEvent) => Promise<void> = async () => undefined,
): RecordedRun {
  const events: DriverEvent[] = [];
  const waiting = new Map<string, PromiseWithResolvers<void>>();
  const gateOf = (kind: string): PromiseWithResolvers<void> => {
    const gate = waiting.get(kind) ?? Promise.withResolvers<void>();
    waiting.set(kind, gate);
    return gate;
  };
  const controller = new AbortController();
  const report = async (event: DriverEvent): Promise<void> => {
    events.push(event);
    gateOf(event.kind).resolve();
    await onReport(event);
  };
  const questions: DriverQuestion[] = [];
  const ask = async (question: DriverQuestion): Promise<DriverAnswer | null> => {
    questions.push(question);
    gateOf("asked").resolve();
    return tools.ask === undefined ? null : tools.ask(question);
  };
  const running = driver.run(order, report, { ...tools, ask, signal: controller.signal });
  return {
    events,
    questions,
    abort: () => controller.abort(),
    done: running.then(() => events.at(-1)),
    reported: (kind) => gateOf(kind).promise,
  };
}

/** The promises; `create` is called once, in the first test that needs it. */
export function describeDriver(name: string, create: () => Subject): void {
  describe(`driver ${name}, as every driver,`, () => {
    it.each(["success", "fault"] as const)("binds first and says one end, last: %s (P13)", async (kind) => {
      const subject = create();
      const run = recordRun(subject, subject.order(kind));
      expect(await run.done).toMatchObject({ kind: "end", end: kind });
      expect(run.events[0]?.kind).toBe("bound");
      expect(run.events.filter((event) => event.kind === "end")).toHaveLength(1);
    });

    it("waits for each report before it makes the next, so a slow store slows the child down (P15)", async () => {
      const subject = create();
      let open = 0;
      let most = 0;
      const run = recordRun(subject, subject.order("success"), async () => {
        most = Math.max(most, ++open);
        await new Promise<void>((resolve) => {
          setImmediate(resolve);
        });
        open--;
      });
      await run.done;
      expect(most).toBe(1);
    });

    it("stops and says nothing more when the attempt is over for the engine (P12)", async () => {
      const subject = create();
      const order = subject.order("hang");
      const run = recordRun(subject, order);
      await run.reported("bound");
      run.abort();
      const last = await run.done;
      expect(last?.kind).not.toBe("end");
      await subject.tools.children.stop({ mark: order.mark, process: null, background: "reap" });
    });

    it("says nothing at all when the attempt was over before it began", async () => {
      const subject = create();
      const order = subject.order("success");
      const run = recordRun(subject, order);
      run.abort();
      await run.done;
      expect(run.events.filter((event) => event.kind === "end")).toEqual([]);
      await subject.tools.children.stop({ mark: order.mark, process: null, background: "reap" });
    });
  });
}
