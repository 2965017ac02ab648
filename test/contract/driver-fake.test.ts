/**
 * Driver `fake`: a scripted agent without a process, moved by a step clock.
 */

import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { createFakeDriver } from "../../src/drivers/fake/fake-driver.ts";
import type { Children } from "../../src/ports/children.ts";
import type { AttemptOrder, DriverAnswer, DriverEvent } from "../../src/ports/driver.ts";
import { createRecordedLog, createTestFolder } from "../support/processes.ts";
import { createStepClock } from "../support/step-clock.ts";
import { createOrder, describeDriver, recordRun } from "./driver-promises.ts";

/** There is nothing to spawn and nothing to stop. */
const children: Children = {
  spawn: async () => ({ kind: "failed", code: "ENOENT", message: "the fake driver starts nothing" }),
  stop: async () => ({ kind: "proven", stop: { proof: "none_started", survivors: [], kept: [], by: null } }),
  heartbeat: () => undefined,
  release: async () => undefined,
  [Symbol.asyncDispose]: async () => undefined,
};

function create() {
  const clock = createStepClock();
  const driver = createFakeDriver();
  return { driver, clock, tools: { children, clock, log: createRecordedLog() } };
}

function script(...steps: readonly object[]): string {
  return JSON.stringify({ steps });
}

function endOf(event: DriverEvent | undefined): DriverEvent {
  return event ?? expect.fail("nothing was reported");
}

describeDriver("fake", () => ({
  ...create(),
  order: (kind) =>
    createOrder({
      prompt: {
        success: script({ do: "progress" }, { do: "say", text: "hello" }),
        fault: script({ do: "end", fault: { httpStatus: 400 } }),
        hang: script({ do: "hang" }),
      }[kind],
    }),
}));

describe("a script", () => {
  it("says its text, with evidence, usage and progress", async () => {
    const usage = { inputTokens: 1, outputTokens: 2, costUsd: null };
    const prompt = script(
      { do: "say", text: "a" },
      { do: "progress", steps: 3, toolRunning: true },
      { do: "say", text: "b" },
      { do: "end", evidence: "assumed", usage: { inputTokens: 1, outputTokens: 2 } },
    );
    const run = recordRun(create(), createOrder({ prompt: `Please do this:\n${prompt}\nThank you.` }));
    expect(await run.done).toEqual({
      kind: "end",
      end: "success",
      evidence: "assumed",
      text: "ab",
      sideEffects: false,
      usage,
    });
    expect(run.events[1]).toEqual({ kind: "progress", steps: 3, toolRunning: true });
  });

  it("is taken from the options first; a prompt without one is answered with itself", async () => {
    const options = { script: script({ do: "say", text: "from options" }) };
    const both = createOrder({ prompt: script({ do: "say", text: "from prompt" }) }, { options });
    expect(await recordRun(create(), both).done).toMatchObject({ text: "from options" });
    expect(await recordRun(create(), createOrder({ prompt: "plain" })).done).toMatchObject({
      end: "success",
      text: "plain",
    });
  });

  it("that nobody can read is a definitive fault with its reason", async () => {
    for (const prompt of [
      '{"steps": [{"do": "dance"}]}',
      '{"steps": [}',
      '{"steps": 1}',
      '{"steps": [{"do": "say"}]}',
    ]) {
      const end = await recordRun(create(), createOrder({ prompt })).done;
      expect(end).toMatchObject({
        end: "fault",
        fault: { httpStatus: 400, text: expect.stringContaining("fake script") },
      });
    }
  });

  it("that says nothing ends empty, never well (P13)", async () => {
    expect(await recordRun(create(), createOrder({ prompt: script() })).done).toMatchObject({
      end: "fault",
      fault: { empty: true },
    });
    const max = script({ do: "say", text: "so far" }, { do: "end", fault: { stopReason: "max_turns" } });
    expect(await recordRun(create(), createOrder({ prompt: max })).done).toMatchObject({
      end: "fault",
      fault: { stopReason: "max_turns" },
      text: "so far",
    });
  });

  it("can be lost, and can break the driver's own contract", async () => {
    const lost = script({ do: "say", text: "half" }, { do: "lost" });
    expect(await recordRun(create(), createOrder({ prompt: lost })).done).toMatchObject({ end: "lost", text: "half" });
    await expect(recordRun(create(), createOrder({ prompt: script({ do: "throw" }) })).done).rejects.toThrow();
  });

  it("fails its first attempts and then goes on in the same session, where it was (P6)", async () => {
    using folder = createTestFolder();
    const file = folder.file("steps");
    const fault = { httpStatus: 403, text: "<html>Attention Required!" };
    const prompt = script(
      { do: "write", path: file, text: "once\n", append: true },
      { do: "say", text: "kept " },
      { do: "fault", times: 2, fault },
      { do: "say", text: "done" },
    );
    const subject = create();
    const first = recordRun(subject, createOrder({ prompt }));
    expect(endOf(await first.done)).toMatchObject({ end: "fault", fault, sideEffects: true });
    const nativeSessionId = sessionOf(first.events);
    const again: Partial<AttemptOrder> = { prompt, nativeSessionId, cause: "healing" };
    expect(await recordRun(subject, createOrder(again)).done).toMatchObject({ end: "fault", fault });
    const third = recordRun(subject, createOrder(again));
    expect(await third.done).toMatchObject({ end: "success", text: "kept done" });
    expect(sessionOf(third.events)).toBe(nativeSessionId);
    expect(readFileSync(file, "utf8")).toBe("once\n");
  });

  it("goes on where it was after a restart of the daemon, if it has a state file (P14)", async () => {
    using folder = createTestFolder();
    const steps = [
      { do: "say", text: "before " },
      { do: "fault", fault: { transport: true } },
      { do: "say", text: "after" },
    ];
    const prompt = JSON.stringify({ steps, stateFile: folder.file("state") });
    expect(await recordRun(create(), createOrder({ prompt })).done).toMatchObject({ end: "fault" });
    const resumed = createOrder({ prompt, cause: "recovering", nativeSessionId: "s" });
    expect(await recordRun(create(), resumed).done).toMatchObject({ end: "success", text: "before after" });
    expect(await recordRun(create(), createOrder({ prompt })).done).toMatchObject({ end: "fault" });
  });

  const question = {
    ask: "permission",
    prompt: "may I?",
    optionIds: ["yes", "no"],
    labels: { yes: "Yes" },
    action: { tool: "rm" },
  };
  const asking = script({ do: "ask", ...question }, { do: "sayAnswer" });

  it("asks, and goes on with the answer in the same attempt (G4)", async () => {
    const { tools, ...rest } = create();
    const ask = async (): Promise<DriverAnswer> => ({ kind: "option", optionId: "yes" });
    const run = recordRun({ ...rest, tools: { ...tools, ask } }, createOrder({ prompt: asking }));
    expect(await run.done).toMatchObject({ end: "success", text: "yes" });
    expect(run.questions).toEqual([question]);
  });

  it("takes a text for an answer, too", async () => {
    const { tools, ...rest } = create();
    const ask = async (): Promise<DriverAnswer> => ({ kind: "text", text: "blue" });
    const run = recordRun({ ...rest, tools: { ...tools, ask } }, createOrder({ prompt: asking }));
    expect(await run.done).toMatchObject({ end: "success", text: "blue" });
  });

  it("says nothing more where nobody will answer, and asks again in the next attempt (G4, P14)", async () => {
    const { tools, ...rest } = create();
    const never = { ...rest, tools: { ...tools, ask: () => new Promise<null>(() => undefined) } };
    const open = recordRun(never, createOrder({ prompt: asking }));
    await open.reported("asked");
    open.abort();
    expect((await open.done)?.kind).toBe("bound");
    const unanswered = recordRun({ ...rest, tools }, createOrder({ prompt: asking }));
    expect((await unanswered.done)?.kind).toBe("bound");
    const nativeSessionId = sessionOf(unanswered.events);
    const ask = async (): Promise<DriverAnswer> => ({ kind: "option", optionId: "no" });
    const again = recordRun(
      { ...rest, tools: { ...tools, ask } },
      createOrder({ prompt: asking, nativeSessionId, cause: "recovering" }),
    );
    expect(await again.done).toMatchObject({ end: "success", text: "no" });
  });

  it("waits by the daemon's clock, for a file, and for a name", async () => {
    using folder = createTestFolder();
    const subject = create();
    const prompt = script(
      { do: "sleep", ms: 60_000 },
      { do: "progress" },
      { do: "waitFile", path: "flag" },
      { do: "waitFor", name: "go" },
      { do: "end", text: "all came" },
    );
    const run = recordRun(subject, createOrder({ prompt }, { cwd: folder.path }));
    await subject.clock.advanceAndSettle(59_999);
    expect(run.events).toHaveLength(1);
    await subject.clock.advanceAndSettle(100);
    expect(run.events).toHaveLength(2);
    const other = createOrder(
      { prompt: script({ do: "write", path: "flag", text: "" }, { do: "end", text: "x" }) },
      { cwd: folder.path },
    );
    await recordRun(subject, other).done;
    await subject.clock.advanceAndSettle(100);
    subject.driver.release("go");
    expect(await run.done).toMatchObject({ end: "success", text: "all came" });
    expect(readFileSync(join(folder.path, "flag"), "utf8")).toBe("");
  });
});

function sessionOf(events: readonly DriverEvent[]): string {
  const [bound] = events;
  return (bound?.kind === "bound" ? bound.nativeSessionId : null) ?? expect.fail("not bound to a session");
}
