/**
 * Driver `pi` over a real guard with a program that speaks as Pi was seen to speak.
 */

import { readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { classify } from "../../src/core/classify.ts";
import type { FaultEvidence } from "../../src/core/failure.ts";
import type { Spec } from "../../src/core/task.ts";
import { createPiDriver } from "../../src/drivers/pi/pi-driver.ts";
import { createGuardClock } from "../../src/guard/guard-clock.ts";
import type { AttemptOrder, DriverAnswer, DriverEvent, DriverQuestion } from "../../src/ports/driver.ts";
import {
  contents,
  createRecordedLog,
  createTestChildren,
  createTestFolder,
  eventually,
  processesMarked,
  type TestChildren,
  type TestFolder,
} from "../support/processes.ts";
import { createScriptedChild } from "../support/scripted-child.ts";
import { createOrder, createScratch, describeDriver, type RecordedRun, recordRun } from "./driver-promises.ts";

const driver = createPiDriver();
const clock = createGuardClock();
const log = createRecordedLog();
const AGENT = fileURLToPath(new URL("../support/pi-agent.ts", import.meta.url));

let children: TestChildren;
let folder: TestFolder;

beforeAll(() => {
  children = createTestChildren({ groups: "off" });
  folder = createTestFolder();
});
afterAll(async () => {
  folder[Symbol.dispose]();
  await children[Symbol.asyncDispose]();
});

type Setting = Readonly<Record<string, unknown>>;
type Ask = (question: DriverQuestion) => Promise<DriverAnswer | null>;
type Ended = Extract<DriverEvent, { readonly kind: "end" }>;

function orderOf(setting: Setting, fields: Partial<AttemptOrder> = {}, spec: Partial<Spec> = {}): AttemptOrder {
  const env = { PATH: process.env["PATH"] ?? "", PI_AGENT: JSON.stringify(setting) };
  return createOrder(
    { command: [process.execPath, AGENT], env, prompt: "do it", ...fields },
    { cwd: folder.path, ...spec },
  );
}

/** A Pi whose first prompt has these steps. */
function steps(...list: readonly object[]): Setting {
  return { prompts: [list] };
}

function start(order: AttemptOrder, ask?: Ask): RecordedRun {
  return recordRun({ driver, tools: { children, clock, log, ...(ask === undefined ? {} : { ask }) } }, order);
}

async function endOf(run: RecordedRun): Promise<Ended> {
  const last = await run.done;
  return last?.kind === "end" ? last : expect.fail(`ended with ${last?.kind}`);
}

/** Runs to the end and proves that nothing of it is left. */
async function runToEnd(order: AttemptOrder, ask?: Ask): Promise<Ended & { readonly run: RecordedRun }> {
  const run = start(order, ask);
  const end = await endOf(run);
  await children.stop({ mark: order.mark, process: null, background: "reap" });
  expect(processesMarked(order.mark)).toEqual([]);
  return { ...end, run };
}

function faultOf(end: Ended): FaultEvidence {
  return end.end === "fault" ? end.fault : expect.fail(`no fault but ${end.end}`);
}

function pieces(run: RecordedRun, role: string): readonly string[] {
  return run.events.flatMap((event) => (event.kind === "message" && event.role === role ? [event.text] : []));
}

function sessionOf(run: RecordedRun): string | null {
  const bound = run.events.findLast((event) => event.kind === "bound");
  return bound?.kind === "bound" ? bound.nativeSessionId : null;
}

type Entry = Readonly<Record<string, unknown>>;

function recordsIn(file: string): readonly Entry[] {
  return contents(file)
    .split("\n")
    .filter((line) => line !== "")
    .map((line): Entry => JSON.parse(line));
}

const promptsIn = (file: string): readonly unknown[] =>
  recordsIn(file).flatMap(({ type, message }) => (type === "prompt" ? [message] : []));
const argsIn = (file: string): readonly unknown[] => {
  const args = recordsIn(file).findLast((entry) => "args" in entry)?.["args"];
  return Array.isArray(args) ? args : [];
};

let files = 0;
const fresh = (name: string): string => join(folder.path, `${name}-${++files}`);

describeDriver("pi", () => ({
  driver,
  tools: { children, clock, log },
  order: (kind) =>
    orderOf(
      {
        success: steps({ tool: "bash" }, { say: "hello" }),
        fault: steps({ error: "403 <!DOCTYPE html>" }),
        hang: steps({ hang: true }),
      }[kind],
    ),
}));

describe("a run", () => {
  it("answers with its last message alone, which is explicit; the others and the tools are told as they ended (W3)", async () => {
    const { run, ...end } = await runToEnd(
      orderOf(
        steps(
          { say: "I look" },
          { tool: "bash", args: { command: "ls" }, output: "a.txt\n" },
          { tool: "read", args: { path: "a.txt" }, output: "no", failed: true },
          { say: "the answer" },
        ),
      ),
    );
    expect(end).toMatchObject({ end: "success", evidence: "explicit", text: "the answer", sideEffects: true });
    expect(end.usage).toEqual({ inputTokens: 300, outputTokens: 21, costUsd: 0.75 });
    expect(pieces(run, "child")).toEqual(["I look", "the answer"]);
    expect(pieces(run, "tool")).toEqual(["bash (completed)\nls\na.txt", "read (failed)\na.txt\nno"]);
    expect(run.events.reduce((sum, event) => sum + (event.kind === "progress" ? event.steps : 0), 0)).toBe(2);
  });

  const nasty = '{"k": "日本語 \u{1f469}‍\u{1f680}"}\u2028\u0085\r\n';

  it.each([
    ["one byte at a time", [{ slowly: true }, { say: nasty }]],
    ["at once", [{ say: nasty }]],
  ])("written %s is equal (S3)", async (_, list) => {
    expect(await runToEnd(orderOf(steps(...list)))).toMatchObject({ end: "success", text: nasty });
  });

  it("is given a task of 200 kB with quotes, line ends of all kinds, a leading dash and CJK as it is (S4)", async () => {
    const prompt = `${`-n "quotes" 'and' $VARIABLES\n\\back\`ticks\`\r\n日本語 \u{1f680}\u2028\t`.repeat(3_500)}.`;
    expect(await runToEnd(orderOf({}, { prompt }))).toMatchObject({ end: "success", text: prompt });
  });

  it("is given a task that begins with a slash as a task, not as a command of Pi", async () => {
    const file = fresh("log");
    await runToEnd(orderOf({ log: file }, { prompt: "/quit now" }));
    expect(promptsIn(file)).toEqual(["\n/quit now"]);
  });

  it("that is too long keeps head and tail with a marked gap (P15)", async () => {
    const order = orderOf({}, { prompt: "x".repeat(300_000), resultBytesMax: 10_000 });
    expect((await runToEnd(order)).text).toMatch(/^x+\n… 290000 bytes left out …\nx+$/);
  });

  it("is not troubled by a record past the limit for lines, or by lines that are no records (P15)", async () => {
    const { run, ...end } = await runToEnd(
      orderOf(steps({ raw: "Update available!" }, { raw: "[1]" }, { bytes: 7_000_000 }, { say: "done" })),
    );
    expect(end).toMatchObject({ end: "success", text: "done" });
    expect(pieces(run, "note")).toEqual([expect.stringContaining("Update available!")]);
  });

  it.each([
    ["without a word", []],
    ["with white space alone", [{ say: " \n" }]],
    ["without a word after its last tool", [{ say: "I begin" }, { tool: "bash" }]],
  ])("that ends well %s has no result (P13, W2)", async (_, list) => {
    const end = await runToEnd(orderOf(steps(...list, { stop: "stop" })));
    expect(end).toMatchObject({ end: "fault", fault: { empty: true } });
  });

  it.each([
    [{ stop: "length" }, "max_tokens"],
    [{ stop: "stop", raw: "refusal" }, "refused"],
    [{ stop: "toolUse" }, "unknown"],
    [{ stop: "something_new" }, "unknown"],
    [{ aborted: true }, "unknown"],
  ])("that stops with %j is %s, with what there was of the text (W4, P13)", async (last, expected) => {
    const end = await runToEnd(orderOf(steps({ say: "so far" }, last)));
    expect(end.text).toBe("so far");
    expect(classify(faultOf(end)).class).toBe(expected);
  });

  it.each([
    [
      '403 <!DOCTYPE html>\n<html lang="en-US"><title>Attention Required! | Cloudflare</title>',
      "edge_block",
      "passing",
    ],
    ['401: {"code":"invalid_api_key","message":"Incorrect API key provided"}', "auth", "definitive"],
    ['402: {"type":"insufficient_quota"}', "billing", "definitive"],
    ['404: {"type":"not_found_error","message":"model: no such model"}', "config", "definitive"],
    ['429: {"type":"rate_limit_error"}', "provider_transient", "passing"],
    ['429: {"type":"insufficient_quota"}', "billing", "definitive"],
    ['529: {"type":"overloaded_error","message":"Overloaded"}', "provider_transient", "passing"],
    ["Overloaded", "provider_transient", "passing"],
    ["Connection error.: read ECONNRESET", "transport", "passing"],
    ["terminated: read ECONNRESET", "transport", "passing"],
    ["terminated", "transport", "passing"],
    ["something new", "unknown", "unknown"],
  ])(
    "whose last message is the error %j is %s, whatever the process ends with (W1, P3)",
    async (error, expected, nature) => {
      const end = await runToEnd(orderOf(steps({ error, said: "half an ans" })));
      expect(classify(faultOf(end))).toMatchObject({ class: expected, nature });
      expect(end.text).toBe("half an ans");
    },
  );

  it("that Pi tries again goes on, is told as a note, and answers without the text of the failed try (W1)", async () => {
    const { run, ...end } = await runToEnd(orderOf(steps({ retry: "529: overloaded" }, { say: "fine" })));
    expect(end).toMatchObject({ end: "success", text: "fine" });
    expect(pieces(run, "note")).toEqual(["Pi tries again (1 of 3): 529: overloaded"]);
  });

  it("that fails has its error and what Pi complained of in the conversation, but not that a session is new", async () => {
    const stderr = "Warning: No project session found with id 'd1'; creating a new session with that id.\nno disk\n";
    const { run } = await runToEnd(orderOf(steps({ stderr }, { error: "500: broken" })));
    expect(pieces(run, "note")).toEqual(["500: broken\nno disk"]);
  });

  it("says at once that a tool runs, and that it ended (W8)", async () => {
    const { run } = await runToEnd(orderOf(steps({ tool: "bash" }, { say: "done" })));
    const running = run.events.flatMap((event) => (event.kind === "progress" ? [event.toolRunning] : []));
    expect(running.filter((now, at) => now !== running[at - 1])).toEqual([false, true, false]);
  });

  it("that an extension takes for itself is no run", async () => {
    const end = await runToEnd(orderOf({ on: { prompt: [{ answer: { disposition: "handled" } }] } }));
    expect(classify(faultOf(end)).class).toBe("unknown");
  });

  it.each([
    ["No API key found for anthropic. Use /login", "auth"],
    ["No model selected", "config"],
    ["Cannot submit a prompt while compaction is in progress", "unknown"],
  ])("that is refused with %j is %s", async (refuse, expected) => {
    expect(classify(faultOf(await runToEnd(orderOf({ on: { prompt: [{ refuse }] } })))).class).toBe(expected);
  });
});

describe("a session", () => {
  it("has an id that is ours and known before the task is told, and starts where the task works (P6, S2)", async () => {
    const file = fresh("log");
    const order = orderOf({ log: file }, {}, { model: "fake/model", options: { thinking: "high" } });
    const { run } = await runToEnd(order);
    const id = sessionOf(run) ?? "";
    expect(id).toMatch(/^[A-Za-z0-9][A-Za-z0-9._-]+[A-Za-z0-9]$/);
    const asked = ["--mode", "rpc", "--session-id", id, "--model", "fake/model", "--thinking", "high"];
    expect(argsIn(file)).toEqual(asked);
    expect(recordsIn(file).flatMap(({ type }) => (type === undefined ? [] : [type]))).toEqual(["get_state", "prompt"]);
    const bound = run.events.findLastIndex((event) => event.kind === "bound");
    expect(run.events.findIndex((event) => event.kind === "message")).toBeGreaterThan(bound);
  });

  it("is taken up to go on, and is not given its task again (P6)", async () => {
    const [state, file] = [fresh("state"), fresh("log")];
    const first = await runToEnd(orderOf({ state, ...steps({ error: "529: overloaded" }) }));
    const again = orderOf(
      { state, log: file, prompts: [[], [{ say: "done" }]] },
      { nativeSessionId: sessionOf(first.run), cause: "healing" },
    );
    const { run, ...end } = await runToEnd(again);
    expect(end).toMatchObject({ end: "success", text: "done" });
    expect(sessionOf(run)).toBe(sessionOf(first.run));
    expect(promptsIn(file)).toEqual([expect.stringMatching(/^Your last turn .* was interrupted/)]);
  });

  it("that a message never reached is given it when it goes on (P6)", async () => {
    const [state, file] = [fresh("state"), fresh("log")];
    const first = await runToEnd(orderOf({ state }));
    const history = [{ message: "do it", result: "do it" }];
    const fields = { nativeSessionId: sessionOf(first.run), history, prompt: "and this", cause: "recovering" } as const;
    await runToEnd(orderOf({ state, log: file }, fields));
    expect(promptsIn(file)).toEqual(["and this"]);
  });

  it("that is too long to be told goes on without its task", async () => {
    const [state, file] = [fresh("state"), fresh("log")];
    const first = await runToEnd(orderOf({ state }));
    const fields = { nativeSessionId: sessionOf(first.run), cause: "recovering" } as const;
    const setting = { state, log: file, on: { get_fork_messages: [{ cutAnswer: 7_000_000 }] } };
    expect(await runToEnd(orderOf(setting, fields))).toMatchObject({ end: "success" });
    expect(promptsIn(file)).toEqual([expect.stringMatching(/^Your last turn/)]);
  });

  it("of which Pi kept nothing begins anew, with the task and a warning, if that was its first (P6, W7)", async () => {
    const file = fresh("log");
    const { run, ...end } = await runToEnd(orderOf({ log: file }, { nativeSessionId: "gone", cause: "recovering" }));
    expect(end).toMatchObject({ end: "success" });
    expect(promptsIn(file)).toEqual([expect.stringMatching(/^An earlier attempt .*\n\ndo it$/s)]);
    expect(pieces(run, "note")).toHaveLength(1);
  });

  it("that should hold earlier turns and holds none has lost its context (W7)", async () => {
    const file = fresh("log");
    const history = [{ message: "m", result: "r" }];
    const end = await runToEnd(orderOf({ log: file }, { nativeSessionId: "gone", history, prompt: "go on" }));
    expect(classify(faultOf(end)).class).toBe("context_lost");
    expect(promptsIn(file)).toEqual([]);
  });

  it("of another agent is told what was said before (P6)", async () => {
    const file = fresh("log");
    await runToEnd(orderOf({ log: file }, { history: [{ message: "first", result: "second" }], prompt: "third" }));
    expect(promptsIn(file)).toEqual([expect.stringMatching(/first.*second.*third$/s)]);
  });

  it("without the thinking that was asked for is refused by name, before the task is told", async () => {
    const file = fresh("log");
    const order = orderOf({ log: file, thinking: "low" }, {}, { options: { thinking: "high" } });
    const fault = faultOf(await runToEnd(order));
    expect(fault).toMatchObject({ providerKind: "option_not_found", text: expect.stringContaining("low") });
    expect(promptsIn(file)).toEqual([]);
  });

  it("with an option that Pi does not have is never started", async () => {
    const run = start(orderOf({}, {}, { options: { speed: "high" } }));
    expect(faultOf(await endOf(run))).toMatchObject({ providerKind: "option_not_found" });
    expect(run.events).toHaveLength(1);
  });

  it("can delegate by an extension of ours, which holds no secret (X2)", async () => {
    using scratch = createScratch();
    const file = fresh("log");
    const delegation = { url: "http://127.0.0.1:9/mcp", token: "dct_secret-token" };
    await runToEnd(orderOf({ log: file }, { delegation, scratchDir: scratch.path }));
    const path = join(scratch.path, "delegate.ts");
    expect(argsIn(file)).toEqual(expect.arrayContaining(["--extension", path]));
    expect(readFileSync(path, "utf8")).toContain("DELEGATE_CHILD_TOKEN");
    expect(`${readFileSync(path, "utf8")}${argsIn(file).join(" ")}`).not.toContain(delegation.token);
  });
});

describe("a dialog of an extension", () => {
  const confirm = { method: "confirm", title: "Allow this command?", message: "rm -rf build" };
  const select = { method: "select", title: "Which?", options: ["one", "two"] };
  const input = { method: "input", title: "Name?" };

  it.each([
    [confirm, { kind: "option", optionId: "yes" }, { confirmed: true }],
    [confirm, { kind: "option", optionId: "no" }, { confirmed: false }],
    [select, { kind: "option", optionId: "1" }, { value: "two" }],
    [input, { kind: "text", text: "日本" }, { value: "日本" }],
    [input, null, { cancelled: true }],
  ] as const)("%j is put to whoever may answer, and answered with %j (G4)", async (dialog, answer, expected) => {
    const { run, ...end } = await runToEnd(orderOf(steps({ ask: dialog, say: true })), async () => answer);
    expect(JSON.parse(end.text ?? "")).toEqual(expected);
    expect(run.questions).toEqual([
      expect.objectContaining({
        prompt: expect.stringContaining(dialog.title),
        ask: dialog === input ? "question" : "permission",
      }),
    ]);
  });

  it("does not keep what Pi tells meanwhile from being heard", async () => {
    const order = orderOf(
      steps(
        { event: { type: "extension_ui_request", id: "x", ...confirm } },
        { say: "a" },
        { tool: "bash" },
        { say: "b" },
      ),
    );
    const { run } = await runToEnd(order, () => new Promise(() => undefined));
    expect(pieces(run, "child")).toEqual(["a", "b"]);
  });

  it("that only tells something asks nobody", async () => {
    const notify = { type: "extension_ui_request", id: "n", method: "notify", message: "hello" };
    const { run } = await runToEnd(orderOf(steps({ event: notify }, { say: "done" })));
    expect(run.questions).toEqual([]);
  });
});

describe("a Pi that goes", () => {
  it.each([
    ["ends in its run", [{ stderr: "it broke" }, { exit: 3 }], "exit_error"],
    ["closes its output", [{ closeOutput: true }], "transport"],
  ])("and %s is %s, with what it had streamed", async (_, list, expected) => {
    const end = await runToEnd(orderOf(steps({ stream: "so far" }, ...list)));
    expect(classify(faultOf(end)).class).toBe(expected);
    expect(end.text).toBe("so far");
  });

  it("because it was killed is lost, not failed (P14)", async () => {
    expect(await runToEnd(orderOf(steps({ stream: "so" }, { die: "SIGKILL" })))).toMatchObject({
      end: "lost",
      text: "so",
    });
  });

  it("before it was asked anything, because it does not know the model, is a fault of the configuration", async () => {
    const stderr = 'Error: Model "nope" not found. Use --list-models to see available models.\n';
    const end = await runToEnd(orderOf({ on: { get_state: [{ stderr }, { exit: 1 }] } }));
    expect(classify(faultOf(end))).toMatchObject({ class: "config", nature: "definitive" });
    expect(end.sideEffects).toBe(false);
  });

  it("is told to give up when the attempt is over (P12)", async () => {
    const file = fresh("log");
    const order = orderOf({ log: file, ...steps({ tool: "bash", open: true }, { hang: true }) });
    const run = start(order);
    await eventually("a tool runs", () => run.events.some((event) => event.kind === "progress" && event.toolRunning));
    run.abort();
    await run.done;
    await eventually("it was told", () => recordsIn(file).some(({ type }) => type === "abort"));
    const stopped = await children.stop({ mark: order.mark, process: null, background: "reap" });
    expect(stopped.kind).toBe("proven");
  });

  it("nowhere after a good run is not waited for, nor a process that holds its output", async () => {
    const end = await runToEnd(orderOf({ lingers: true, ...steps({ start: "holding" }, { say: "done" }) }));
    expect(end).toMatchObject({ end: "success", text: "done" });
  });

  it("with the guard is lost: nobody can tell how it ended", async () => {
    const scripted = createScriptedChild();
    const run = recordRun({ driver, tools: { children: scripted.children, clock, log } }, orderOf({}));
    await run.reported("bound");
    scripted.end({ kind: "guard_gone" });
    expect(await run.done).toMatchObject({ end: "lost" });
  });

  it("nowhere because its program is not there says so", async () => {
    const end = await endOf(start(orderOf({}, { command: [join(folder.path, "none")] })));
    expect(classify(faultOf(end)).class).toBe("spawn_error");
  });
});
