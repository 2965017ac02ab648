/**
 * Driver `codex` over a real guard with real processes that do what the real app server was seen to do.
 */

import { chmodSync, mkdirSync, symlinkSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { classify } from "../../src/core/classify.ts";
import type { FailureClass, FaultEvidence } from "../../src/core/failure.ts";
import type { Permission, Spec } from "../../src/core/task.ts";
import { createCodexDriver } from "../../src/drivers/codex/codex-driver.ts";
import { createGuardClock } from "../../src/guard/guard-clock.ts";
import type { AttemptOrder, DriverAnswer, DriverEvent, DriverQuestion } from "../../src/ports/driver.ts";
import {
  contents,
  createRecordedLog,
  createTestChildren,
  createTestFolder,
  eventually,
  isAlive,
  processesMarked,
  type TestChildren,
  type TestFolder,
} from "../support/processes.ts";
import { createScriptedChild } from "../support/scripted-child.ts";
import { createStepClock } from "../support/step-clock.ts";
import { createOrder, describeDriver, type RecordedRun, recordRun } from "./driver-promises.ts";

const driver = createCodexDriver();
const clock = createGuardClock();
const log = createRecordedLog();
const AGENT = fileURLToPath(new URL("../support/codex-agent.ts", import.meta.url));
const FUZZ_RUNS = Number(process.env["FUZZ_RUNS"] ?? 100);

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
  const env = { PATH: process.env["PATH"] ?? "", CODEX_AGENT: JSON.stringify(setting) };
  return createOrder(
    { command: [process.execPath, AGENT], env, prompt: "do it", ...fields },
    { cwd: folder.path, ...spec },
  );
}

/** An agent whose first turn has these steps. */
function steps(...list: readonly object[]): Setting {
  return { turns: [list] };
}

function start(order: AttemptOrder, ask?: Ask): RecordedRun {
  return recordRun({ driver, tools: { children, clock, log, ...(ask === undefined ? {} : { ask }) } }, order);
}

/** Runs to the end and proves that nothing of the agent is left. */
async function runToEnd(order: AttemptOrder, ask?: Ask): Promise<Ended & { readonly run: RecordedRun }> {
  const run = start(order, ask);
  const last = await run.done;
  await children.stop({ mark: order.mark, process: null, background: "reap" });
  return last?.kind === "end" ? { ...last, run } : expect.fail(`ended with ${last?.kind}`);
}

function faultOf(end: Ended): FaultEvidence {
  return end.end === "fault" ? end.fault : expect.fail(`no fault but ${end.end}`);
}

function pieces(run: RecordedRun, role: string): readonly string[] {
  return run.events.flatMap((event) => (event.kind === "message" && event.role === role ? [event.text] : []));
}

function threadOf(run: RecordedRun): string | null {
  const bound = run.events.findLast((event) => event.kind === "bound");
  return bound?.kind === "bound" ? bound.nativeSessionId : null;
}

function messagesIn(file: string): readonly Readonly<Record<string, unknown>>[] {
  return contents(file)
    .split("\n")
    .filter((line) => line !== "")
    .map((line) => JSON.parse(line));
}

function methodsIn(file: string): readonly string[] {
  return messagesIn(file).flatMap(({ method }) => (method === undefined ? [] : [String(method)]));
}

function command(id: string, status: string, fields: object = {}): object {
  return {
    type: "commandExecution",
    id,
    command: `run ${id}`,
    status,
    commandActions: [{ type: "unknown" }],
    ...fields,
  };
}

describeDriver("codex", () => ({
  driver,
  tools: { children, clock, log },
  order: (kind) =>
    orderOf(
      {
        success: steps(
          { started: command("1", "inProgress") },
          { completed: command("1", "completed") },
          { say: "hello" },
        ),
        fault: steps({ fail: { message: "x", codexErrorInfo: "other" } }),
        hang: steps({ hang: true }),
      }[kind],
    ),
}));

describe("a turn", () => {
  it("answers with its last message alone; what was said before a tool is told as it ended (W3)", async () => {
    const { run, ...end } = await runToEnd(
      orderOf(
        steps(
          { say: "I look first" },
          { started: command("1", "inProgress") },
          { completed: command("1", "failed", { aggregatedOutput: "no such file\n", exitCode: 2 }) },
          { say: "the answer", every: 3 },
        ),
      ),
    );
    expect(end).toMatchObject({ end: "success", evidence: "explicit", text: "the answer", sideEffects: true });
    expect(pieces(run, "child")).toEqual(["I look first", "the answer"]);
    expect(pieces(run, "tool")).toEqual(["run 1 (commandExecution, failed, exit code 2)\nno such file\n"]);
    const counted = run.events.flatMap((event) => (event.kind === "progress" ? [event.steps] : []));
    expect(counted.reduce((sum, more) => sum + more, 0)).toBe(1);
  });

  const nasty = '{"k": "日本語 \u{1f469}\u200d\u{1f680}"}\u2028\r\n';

  it.each([
    ["one byte at a time", [{ slowly: true }, { say: nasty }]],
    ["in deltas that split characters", [{ say: nasty, every: 1 }]],
  ])("written %s is equal (S3)", async (_, list) => {
    expect(await runToEnd(orderOf(steps(...list)))).toMatchObject({ end: "success", text: nasty });
  });

  it("is given a task of 200 kB with quotes, line ends of all kinds, a leading dash and CJK as it is (S4, G2)", async () => {
    const prompt = `${`-n "quotes" 'and' $VARIABLES\n\\back\`ticks\`\r\n日本語 \u{1f680}\u2028\t`.repeat(3_500)}.`;
    expect(await runToEnd(orderOf({}, { prompt }))).toMatchObject({ end: "success", text: prompt });
  });

  it("that is too long keeps head and tail with a marked gap (P15)", async () => {
    const order = orderOf({}, { prompt: "x".repeat(300_000), resultBytesMax: 10_000 });
    expect((await runToEnd(order)).text).toMatch(/^x+\n… 290000 bytes left out …\nx+$/);
  });

  it.each([
    ["without a word", [], null],
    ["with white space alone", [{ say: " \n" }], null],
    ["without a word after its last tool", [{ say: "I begin" }, { completed: command("1", "completed") }], "I begin"],
    ["with a message that a retry broke off", [{ say: "whole" }, { delta: "half an ans" }], "half an ans"],
  ])("that is completed %s has no result (P13, W2, F15)", async (_, list, partial) => {
    expect(await runToEnd(orderOf(steps(...list)))).toMatchObject({
      end: "fault",
      fault: { empty: true },
      text: partial,
    });
  });

  it.each([["interrupted"], ["inProgress"], [null], [7]])(
    "that ends as %j without our doing is unknown, never success (P13)",
    async (status) => {
      const end = await runToEnd(orderOf(steps({ say: "so far" }, { end: status })));
      expect(end.text).toBe("so far");
      expect(classify(faultOf(end)).class).toBe("unknown");
    },
  );

  it("tells what it used, without what the thread had used before", async () => {
    const state = folder.file("usage");
    const setting = {
      state,
      turns: [
        [{ used: 100 }, { used: 50 }, { say: "x" }],
        [{ used: 30 }, { say: "y" }],
      ],
    };
    const first = await runToEnd(orderOf(setting));
    expect(first.usage).toEqual({ inputTokens: 150, outputTokens: 15, costUsd: null });
    const second = await runToEnd(orderOf(setting, { nativeSessionId: threadOf(first.run) }));
    expect(second.usage).toEqual({ inputTokens: 30, outputTokens: 3, costUsd: null });
  });

  it("shows Codex's own retries and warnings as notes, each once", async () => {
    const retry = (n: number): object => ({
      notify: "error",
      params: { willRetry: true, error: { message: `Reconnecting... ${n}/5`, additionalDetails: "status 503" } },
    });
    const warning = { notify: "warning", params: { message: "old model" } };
    const failed = {
      notify: "mcpServer/startupStatus/updated",
      params: { name: "m", status: "failed", error: "gone" },
    };
    const { run, ...end } = await runToEnd(
      orderOf(steps(warning, retry(1), retry(2), warning, failed, { notify: "later/version" }, { say: "fine" })),
    );
    expect(end).toMatchObject({ end: "success", text: "fine" });
    expect(pieces(run, "note")).toEqual([
      "old model",
      "Reconnecting... 1/5 status 503",
      "Reconnecting... 2/5 status 503",
      "MCP server m did not start: gone",
    ]);
  });

  it("is not mistaken for that of another thread of the agent", async () => {
    const other = { threadId: "other" };
    const item = { type: "agentMessage", id: "o", text: "not ours" };
    const { run, text } = await runToEnd(
      orderOf(
        steps(
          { say: "ours" },
          { notify: "item/started", params: { ...other, item: command("9", "inProgress") } },
          { notify: "item/completed", params: { ...other, item } },
          { notify: "turn/completed", params: { ...other, turn: { status: "failed" } } },
        ),
      ),
    );
    expect(text).toBe("ours");
    expect(pieces(run, "child")).toEqual(["ours"]);
  });

  it("with a long silent tool says that the tool is running (W8)", async () => {
    const running = start(orderOf(steps({ started: command("1", "inProgress") }, { hang: true })));
    expect(
      await eventually("the tool runs", () =>
        running.events.some((event) => event.kind === "progress" && event.toolRunning),
      ),
    ).toBe(true);
    running.abort();
    await running.done;
  });

  it.each([
    ["only read", command("1", "completed", { commandActions: [{ type: "read" }, { type: "search" }] }), false],
    ["declined", command("1", "declined"), false],
    ["run", command("1", "completed"), true],
    [
      "a tool that says it only reads",
      { type: "mcpToolCall", id: "1", readOnlyHint: true, status: "completed" },
      false,
    ],
  ])("of a reading task whose command was %s may have changed something: %j → %s (P13)", async (_, item, expected) => {
    const list = [{ completed: item }, { say: "x" }];
    expect((await runToEnd(orderOf(steps(...list), {}, { access: "read" }))).sideEffects).toBe(expected);
  });
});

describe("a failed turn", () => {
  const status = (kind: string, httpStatusCode: number | null): object => ({ [kind]: { httpStatusCode } });
  const rows: readonly (readonly [string, object, FailureClass])[] = [
    [
      "an edge page",
      {
        message: "Access blocked by Cloudflare. (status 403 Forbidden), url: http://x, cf-ray: 8f1e",
        codexErrorInfo: status("httpConnectionFailed", 403),
      },
      "edge_block",
    ],
    [
      "a refused key",
      { message: "unexpected status 401", codexErrorInfo: status("httpConnectionFailed", 401) },
      "auth",
    ],
    ["403 in JSON", { message: "no permission", codexErrorInfo: status("httpConnectionFailed", 403) }, "auth"],
    [
      "too many attempts",
      { message: "exceeded retry limit", codexErrorInfo: status("responseTooManyFailedAttempts", 429) },
      "provider_transient",
    ],
    ["529", { message: "x", codexErrorInfo: status("responseStreamDisconnected", 529) }, "provider_transient"],
    ["a cut stream", { message: "x", codexErrorInfo: status("responseStreamDisconnected", null) }, "transport"],
    ["an overloaded provider", { message: "x", codexErrorInfo: "serverOverloaded" }, "provider_transient"],
    ["an unknown model", { message: "x", codexErrorInfo: "modelNotFound" }, "config"],
    ["a context that is full", { message: "x", codexErrorInfo: "contextWindowExceeded" }, "bad_request"],
    ["a policy", { message: "x", codexErrorInfo: "cyberPolicy" }, "refused"],
    ["a used-up limit without a time", { message: "x", codexErrorInfo: "usageLimitExceeded" }, "quota"],
    [
      "a status in the text alone",
      { message: "unexpected status 503: x", codexErrorInfo: "other" },
      "provider_transient",
    ],
    ["a kind of a later version", { message: "x", codexErrorInfo: "brandNew" }, "unknown"],
    ["nothing at all", {}, "unknown"],
  ];

  it.each(rows)("with %s is read for what it is (P6, W1, F11, F12, F13)", async (_, error, expected) => {
    const end = await runToEnd(orderOf(steps({ say: "so far" }, { fail: error })));
    expect(classify(faultOf(end)).class).toBe(expected);
    expect(end.text).toBe("so far");
  });

  it("with a used-up limit tells when that begins anew", async () => {
    const resetsAt = Math.round(clock.wallMs() / 1_000) + 3_600;
    const limits = { primary: { usedPercent: 100, resetsAt }, secondary: { usedPercent: 40, resetsAt: resetsAt * 2 } };
    const end = await runToEnd(
      orderOf(
        steps(
          { notify: "account/rateLimits/updated", params: { rateLimits: limits, threadId: undefined } },
          { fail: { message: "You've hit your usage limit", codexErrorInfo: "usageLimitExceeded" } },
        ),
      ),
    );
    const { retryAfterMs = 0 } = faultOf(end);
    expect(retryAfterMs).toBeGreaterThan(3_500_000);
    expect(retryAfterMs).toBeLessThanOrEqual(3_601_000);
    expect(classify(faultOf(end))).toMatchObject({ class: "quota", nature: "passing" });
  });
});

describe("an agent", () => {
  it("that cannot be started is a fault with the system's code (G5)", async () => {
    const end = await runToEnd(orderOf({}, { command: ["/nowhere/codex"] }));
    expect(end).toMatchObject({ fault: { spawnCode: "ENOENT" }, sideEffects: false });
  });

  it.each([
    [
      "exits in mid-turn",
      [{ stderr: "out of memory" }, { exit: 3 }],
      { exit: { code: 3, signal: null }, text: "out of memory" },
    ],
    ["closes its output and runs on", [{ closeOutput: true }, { hang: true }], { transport: true }],
    ["writes a line past the limit", [{ bytes: 7_000_000 }, { hang: true }], { transport: true }],
  ])("that %s has ended without success (G6, P13, P15)", async (_, list, fault) => {
    expect(await runToEnd(orderOf(steps(...list)))).toMatchObject({ end: "fault", fault });
  });

  it.each([
    ["is killed", [{ die: "SIGKILL" }]],
    ["ends well in mid-turn, as one that was told to end", [{ say: "more to do" }, { exit: 0 }]],
    ["is killed while a process of it holds its output", [{ start: "holding" }, { die: "SIGKILL" }]],
  ])("that %s is lost, so that it goes on in its thread (P6, P14)", async (_, list) => {
    expect(await runToEnd(orderOf(steps(...list)))).toMatchObject({ end: "lost" });
  });

  it.each([
    ["is no app server", { initialize: [{ error: { code: -32601, message: "no" } }] }, "config"],
    ["answers nonsense", { initialize: [{ result: "hello" }] }, "config"],
    [
      "cannot read its settings",
      { "thread/start": [{ error: { code: -32600, message: "failed to load config: bad" } }] },
      "config",
    ],
    ["makes a thread without an id", { "thread/start": [{ result: { sandbox: { type: "readOnly" } } }] }, "unknown"],
    ["ends at once, as if all were well", { initialize: [{ exit: 0 }] }, "exit_error"],
    ["exits at once", { initialize: [{ stderr: "no\n" }, { exit: 1 }] }, "exit_error"],
  ])("that %s is never prompted: %j → %s", async (name, on, expected) => {
    const file = folder.file(`never-${name}`);
    const end = await runToEnd(orderOf({ on, log: file }));
    expect(classify(faultOf(end)).class).toBe(expected);
    expect(end.sideEffects).toBe(false);
    expect(methodsIn(file)).not.toContain("turn/start");
  });

  it("that never answers at its start is given up after 30 s, as a passing trouble (P13)", async () => {
    const stepped = createStepClock();
    const child = createScriptedChild();
    const run = recordRun({ driver, tools: { children: child.children, clock: stepped, log } }, createOrder());
    await run.reported("bound");
    await eventually("it is asked", () => stepped.nextInMs() !== null);
    await stepped.advanceAndSettle(29_000);
    expect(run.events.at(-1)?.kind).not.toBe("end");
    await stepped.advanceAndSettle(2_500);
    const last = await run.done;
    expect(last).toMatchObject({ kind: "end", end: "fault", fault: { transport: true }, sideEffects: false });
  });

  it("that writes what is no message is heard on, and that is noted once", async () => {
    const { run, ...end } = await runToEnd(
      orderOf(
        steps({ raw: "DEBUG: x" }, { raw: "" }, { raw: "[1]" }, { raw: '{"id": 99, "result": {}}' }, { say: "fine" }),
      ),
    );
    expect(end).toMatchObject({ end: "success", text: "fine" });
    expect(pieces(run, "note")).toEqual([expect.stringContaining("DEBUG: x")]);
  });

  it("that asks for what is not offered is told so, and goes on", async () => {
    const { text } = await runToEnd(orderOf(steps({ ask: "attestation/generate" }, { answers: true })));
    expect(JSON.parse(text ?? "")).toMatchObject({ error: { code: -32601 } });
  });

  it("that sends more requests than anybody answers does not fill memory, and the turn ends (P15)", async () => {
    const request = { raw: '{"id":"r","method":"item/tool/call","params":{}}' };
    const list = [...Array.from({ length: 500 }, () => request), { say: "fine" }];
    expect(await runToEnd(orderOf(steps(...list)))).toMatchObject({ end: "success", text: "fine" });
  });

  it("leaves by itself after its turn: its process is gone when the end is told; one that lingers is not waited for", async () => {
    const { run } = await runToEnd(orderOf(steps({ say: "x" })));
    const [bound] = run.events;
    expect(bound?.kind === "bound" && isAlive(bound.process?.pid ?? 0)).toBe(false);
    const startedMs = performance.now();
    expect(await runToEnd(orderOf({ ...steps({ say: "x" }), lingers: true }))).toMatchObject({ end: "success" });
    expect(performance.now() - startedMs).toBeLessThan(10_000);
  });

  it("is told to give up its turn when the attempt is over, and nothing else", async () => {
    const file = folder.file("give-up");
    const run = start(orderOf({ ...steps({ started: command("1", "inProgress") }, { hang: true }), log: file }));
    await eventually("the tool runs", () => run.events.some((event) => event.kind === "progress" && event.toolRunning));
    run.abort();
    await run.done;
    await eventually("told", () => methodsIn(file).includes("turn/interrupt"));
    expect(messagesIn(file).at(-1)).toMatchObject({ params: { threadId: "thread-1", turnId: "turn-1" } });
    expect(methodsIn(file).filter((method) => method === "turn/start")).toHaveLength(1);
  });
});

describe("the program", () => {
  /** The npm package's layout: a link on PATH to a script, the binary in a package beside it. */
  function installed(name: string, binaries: number): { readonly path: string; readonly root: string } {
    const root = `${folder.path}/${name}`;
    mkdirSync(`${root}/bin`, { recursive: true });
    mkdirSync(`${root}/node_modules/@openai/codex/bin`, { recursive: true });
    const script = `${root}/node_modules/@openai/codex/bin/codex.js`;
    writeProgram(script, "launcher");
    symlinkSync(script, `${root}/bin/codex`);
    for (let at = 0; at < binaries; at++) {
      const bin = `${root}/node_modules/@openai/codex-linux-${at}/vendor/triple/bin`;
      mkdirSync(bin, { recursive: true });
      writeProgram(`${bin}/codex`, "native");
    }
    return { root, path: `${root}/bin:${process.env["PATH"] ?? ""}` };
  }

  function writeProgram(file: string, name: string): void {
    writeFileSync(file, `#!/bin/sh\necho ${name} >&2\nexec '${process.execPath}' '${AGENT}' "$@"\n`);
    chmodSync(file, 0o755);
  }

  it.each([
    ["the binary beside it, where there is one", 1, "native"],
    ["the launcher, where there is none", 0, "launcher"],
    ["the launcher, where there are several and nobody knows which fits", 2, "launcher"],
  ])("behind the package's launcher is %s (G6)", async (_, binaries, expected) => {
    const { path } = installed(`install-${binaries}`, binaries);
    const setting = { on: { initialize: [{ exit: 1 }] } };
    const env = { PATH: path, CODEX_AGENT: JSON.stringify(setting) };
    expect(faultOf(await runToEnd(orderOf({}, { command: ["codex"], env })))).toMatchObject({ text: expected });
  });

  it("gets the operator's arguments before the subcommand, and no others", async () => {
    const order = orderOf(steps({ echo: "arguments" }));
    const [node, agent = ""] = order.command;
    const delegation = { url: "http://127.0.0.1:1/mcp", token: "secret-token" };
    const { text } = await runToEnd({ ...order, command: [node, agent, "-c", "x=1"], delegation });
    expect(JSON.parse(text ?? "")).toEqual(["-c", "x=1", "app-server"]);
  });
});

describe("a thread", () => {
  it("is kept and reported before its turn is started, after the process (P6)", async () => {
    const file = folder.file("before");
    const seen: (readonly string[])[] = [];
    const order = orderOf({ ...steps({ say: "x" }), log: file }, {}, { title: "Tidy up" });
    const run = recordRun({ driver, tools: { children, clock, log } }, order, async (event) => {
      if (event.kind === "bound") seen.push(methodsIn(file));
    });
    await run.done;
    const bound = run.events.filter((event) => event.kind === "bound");
    expect(bound.map(({ nativeSessionId }) => nativeSessionId)).toEqual([null, "thread-1"]);
    expect(seen[1]).toEqual(["initialize", "initialized", "config/read", "thread/start", "thread/name/set"]);
    expect(messagesIn(file)[4]).toMatchObject({ params: { name: "Tidy up" } });
  });

  it("whose agent was killed in mid-turn goes on in a new process, without its task and without repeating (P6, P14, W1)", async () => {
    const done = folder.file("done");
    const setting = {
      state: folder.file("state"),
      turns: [[{ append: done, text: "once\n" }, { hang: true }], [{ echo: "turns" }]],
    };
    const order = orderOf(setting, { prompt: "the whole task" });
    const first = start(order);
    await eventually("the first step is done", () => contents(done) !== "");
    first.abort();
    await first.done;
    await children.stop({ mark: order.mark, process: null, background: "reap" });
    expect(processesMarked(order.mark)).toEqual([]);
    const again = { prompt: "the whole task", nativeSessionId: threadOf(first), cause: "recovering" } as const;
    const { run, ...end } = await runToEnd(orderOf(setting, again));
    const [task, goOn] = JSON.parse(end.text ?? "");
    expect(task).toBe("the whole task");
    expect(goOn).not.toContain("the whole task");
    expect(goOn).toMatch(/may have run in part.*Do not repeat/s);
    expect(threadOf(run)).toBe(threadOf(first));
    expect(run.events[0]).toMatchObject({ kind: "bound", nativeSessionId: threadOf(first) });
    expect(contents(done)).toBe("once\n");
  });

  it("that holds other turns but not this one's message is given the message (P6)", async () => {
    const setting = { state: folder.file("message") };
    const first = await runToEnd(orderOf(setting, { prompt: "one" }));
    const next = {
      prompt: "two",
      nativeSessionId: threadOf(first.run),
      history: [{ message: "one", result: "one" }],
      cause: "recovering",
    } as const;
    expect(await runToEnd(orderOf(setting, next))).toMatchObject({ end: "success", text: "two" });
  });

  it("that never was, in a task with turns before, begins with what was said", async () => {
    const history = [{ message: "one", result: "first answer" }];
    const { text } = await runToEnd(orderOf({}, { prompt: "two", history, cause: "healing" }));
    expect(text).toMatch(/no memory.*one.*first answer.*two$/s);
  });

  it.each([
    ["is not known", [], "context_lost"],
    [
      "has a name that is none",
      [{ error: { code: -32600, message: "invalid session id: found `n`" } }],
      "context_lost",
    ],
    [
      "another process writes to",
      [{ error: { code: -32600, message: "thread x already has an active writer" } }],
      "transport",
    ],
    ["cannot be read now", [{ error: { code: -32603, message: "status 503" } }], "provider_transient"],
  ])("that %s is told as that, and no turn is started (P13)", async (what, list, expected) => {
    const file = folder.file(`unknown-${what}`);
    const on = list.length === 0 ? {} : { "thread/resume": list };
    const end = await runToEnd(orderOf({ on, log: file }, { nativeSessionId: "gone", cause: "recovering" }));
    expect(classify(faultOf(end)).class).toBe(expected);
    expect(methodsIn(file)).not.toContain("turn/start");
  });
});

describe("what is asked of the thread", () => {
  async function echoed(what: string, fields: Partial<AttemptOrder>, spec: Partial<Spec>, setting: Setting = {}) {
    const end = await runToEnd(orderOf({ ...setting, ...steps({ echo: what }) }, fields, spec));
    return end.end === "success" ? JSON.parse(end.text ?? "") : faultOf(end);
  }

  const levels: readonly (readonly [Permission, string, string])[] = [
    ["plan", "read-only", "never"],
    ["ask", "read-only", "on-request"],
    ["accept_edits", "workspace-write", "on-request"],
    ["full", "danger-full-access", "never"],
  ];
  it.each(levels)(
    "permissions %s are sandbox %s and questions %s (P18)",
    async (permissions, sandbox, approvalPolicy) => {
      expect(await echoed("opened", {}, { permissions })).toMatchObject({
        cwd: folder.path,
        sandbox,
        approvalPolicy,
        approvalsReviewer: "user",
      });
    },
  );

  it("a thread that may do more than the level is not used (P18)", async () => {
    for (const thread of [
      { sandbox: { type: "dangerFullAccess" } },
      { approvalsReviewer: "auto_review" },
      { sandbox: null },
    ])
      expect(await echoed("opened", {}, { permissions: "accept_edits" }, { thread })).toMatchObject({
        providerKind: "option_not_found",
      });
  });

  it("the model and the effort are Codex's; an option that is not is refused by name", async () => {
    expect(await echoed("opened", {}, { model: "large" })).toMatchObject({ model: "large" });
    expect(await echoed("turn", {}, { options: { effort: "high" } })).toMatchObject({ effort: "high" });
    const fault = await echoed("turn", {}, { options: { colour: "red" } });
    expect(classify(fault)).toMatchObject({ class: "config", nature: "definitive" });
    expect(fault.text).toMatch(/no option "colour".*effort/);
  });

  it("the daemon's tools are given for this thread alone, the token by its variable; the user's own way to them is closed (X2)", async () => {
    const delegation = { url: "http://127.0.0.1:1/mcp", token: "secret-token" };
    const servers = { delegate: { command: "x" }, mine: { url: delegation.url }, other: { command: "y" } };
    const file = folder.file("servers");
    const opened = await echoed("opened", { delegation }, {}, { servers, log: file });
    expect(opened.config).toEqual({
      "mcp_servers.delegate.enabled": false,
      "mcp_servers.mine.enabled": false,
      "mcp_servers.delegate_child": {
        url: delegation.url,
        bearer_token_env_var: "DELEGATE_CHILD_TOKEN",
        default_tools_approval_mode: "approve",
      },
    });
    expect(contents(file)).not.toContain(delegation.token);
    expect((await echoed("opened", {}, {}, { servers })).config).toEqual({ "mcp_servers.delegate.enabled": false });
  });
});

describe("a request for leave", () => {
  const run = { command: "rm -r x", cwd: "/w", reason: "to tidy up" };
  const commandAsked = (params: object): object => ({ ask: "item/commandExecution/requestApproval", params });

  async function asking(list: readonly object[], optionId: string | null, permissions: Permission = "accept_edits") {
    const ask: Ask = async () => (optionId === null ? null : { kind: "option", optionId });
    const end = await runToEnd(orderOf(steps(...list, { answers: true }), {}, { permissions }), ask);
    return { questions: end.run.questions, answer: JSON.parse(end.text ?? "") };
  }

  it("for a command is put with the command, its folder and its reason, and the answer goes back (G4, F16)", async () => {
    const { questions, answer } = await asking([commandAsked(run)], "reject");
    expect(questions).toEqual([
      {
        ask: "permission",
        optionIds: ["allow_once", "reject"],
        labels: { allow_once: "Allow once", reject: "Reject; the agent goes on without it" },
        action: { tool: "command", command: "rm -r x", cwd: "/w" },
        prompt: "to tidy up\nrm -r x",
      },
    ]);
    expect(answer).toEqual({ decision: "decline" });
  });

  it.each([
    ["allow_once", "accept"],
    ["allow_for_session", "acceptForSession"],
    ["reject", "decline"],
    [null, "cancel"],
  ])("answered %s is decided %s (P18)", async (option, expected) => {
    const offered = { ...run, availableDecisions: ["accept", "acceptForSession", "cancel"] };
    const { questions, answer } = await asking([commandAsked(offered)], option);
    expect(questions[0]?.optionIds).toEqual(["allow_once", "allow_for_session", "reject"]);
    expect(answer).toEqual({ decision: expected });
  });

  it("for a change of files names the files of the item", async () => {
    const changes = [{ path: "/w/a", kind: { type: "update", move_path: "/w/b" }, diff: "+x" }];
    const item = { type: "fileChange", id: "f", status: "inProgress", changes };
    const { questions } = await asking(
      [{ started: item }, { ask: "item/fileChange/requestApproval", params: { itemId: "f" } }],
      "allow_once",
    );
    expect(questions[0]).toMatchObject({ action: { tool: "file change", paths: "/w/a, /w/b" }, prompt: "/w/a\n+x" });
  });

  it("for more rights grants what was asked for, and nothing when it is refused", async () => {
    const asked = {
      ask: "item/permissions/requestApproval",
      params: { permissions: { network: { enabled: true }, fileSystem: null } },
    };
    expect((await asking([asked], "allow_for_session")).answer).toEqual({
      permissions: { network: { enabled: true } },
      scope: "session",
    });
    expect((await asking([asked], "reject")).answer).toEqual({ permissions: {}, scope: "turn" });
  });

  it("for a tool of an MCP server is asked; a form for a person is cancelled and noted", async () => {
    const tool = {
      mode: "form",
      serverName: "m",
      message: "Call t?",
      requestedSchema: { properties: {} },
      _meta: { codex_approval_kind: "mcp_tool_call", tool_params: { a: 1 } },
    };
    const asked = { ask: "mcpServer/elicitation/request", params: tool };
    const given = await asking([asked], "allow_once");
    expect(given.answer).toMatchObject({ action: "accept" });
    expect(given.questions[0]).toMatchObject({
      action: { tool: "MCP server m", arguments: '{"a":1}' },
      prompt: "Call t?",
    });
    const install = { ...tool, _meta: { codex_approval_kind: "tool_suggestion" } };
    expect((await asking([{ ...asked, params: install }], null, "full")).answer).toMatchObject({ action: "cancel" });
    const form = { ...tool, requestedSchema: { properties: { name: { type: "string" } } } };
    const { questions, answer } = await asking([{ ...asked, params: form }], "allow_once");
    expect(questions).toEqual([]);
    expect(answer).toMatchObject({ action: "cancel" });
  });

  it("under full is given without asking (P18)", async () => {
    const { questions, answer } = await asking([commandAsked(run)], null, "full");
    expect(questions).toEqual([]);
    expect(answer).toEqual({ decision: "accept" });
  });

  it("that is a question is put with its choices, and may be answered in words", async () => {
    const questions = [
      { id: "a", header: "Colour", question: "Which?", options: [{ label: "Red" }, { label: "Blue" }] },
      { id: "b", header: "Why", question: "Why?", options: null },
    ];
    const ask: Ask = async ({ optionIds }) =>
      optionIds.length > 0 ? { kind: "option", optionId: "option_2" } : { kind: "text", text: "because" };
    const list = [{ ask: "item/tool/requestUserInput", params: { questions } }, { answers: true }];
    const end = await runToEnd(orderOf(steps(...list)), ask);
    expect(end.run.questions[0]).toMatchObject({
      ask: "question",
      labels: { option_1: "Red", option_2: "Blue" },
      prompt: "Colour\nWhich?",
    });
    expect(JSON.parse(end.text ?? "")).toEqual({ answers: { a: { answers: ["Blue"] }, b: { answers: ["because"] } } });
  });
});

describe("whatever an agent writes", () => {
  it("never throws, and ends once (P13, P15)", async () => {
    const message = fc.record(
      {
        id: fc.oneof(fc.integer({ min: 1, max: 8 }), fc.string(), fc.constant(null)),
        method: fc.oneof(
          fc.constantFrom("item/started", "item/completed", "item/agentMessage/delta", "turn/completed", "error"),
          fc.constantFrom("thread/tokenUsage/updated", "item/tool/requestUserInput", "item/fileChange/requestApproval"),
          fc.string(),
        ),
        params: fc.oneof(fc.jsonValue(), fc.record({ threadId: fc.constant("t"), item: fc.jsonValue() })),
        result: fc.oneof(
          fc.jsonValue(),
          fc.constant({ userAgent: "x", thread: { id: "t" }, sandbox: { type: "readOnly" } }),
        ),
        error: fc.jsonValue(),
      },
      { requiredKeys: [] },
    );
    const line = fc.oneof(
      message.map((value) => JSON.stringify(value)),
      fc.string(),
    );
    await fc.assert(
      fc.asyncProperty(fc.array(line, { maxLength: 20 }), fc.integer({ min: 0, max: 5 }), async (lines, after) => {
        const events = await talk(lines, after);
        expect(events.filter(({ kind }) => kind === "end")).toHaveLength(1);
        expect(events.at(-1)?.kind).toBe("end");
      }),
      { numRuns: FUZZ_RUNS },
    );
  });

  /** Answers `after` calls as it should, then writes the lines and ends. */
  async function talk(lines: readonly string[], after: number): Promise<readonly DriverEvent[]> {
    let calls = 0;
    const child = createScriptedChild((written) => {
      const { id, method } = JSON.parse(written);
      if (method === undefined || id === undefined) return;
      calls += 1;
      if (calls > after) return finish();
      const result = { userAgent: "x", thread: { id: "t" }, sandbox: { type: "workspaceWrite" } };
      child.stdout.push(`${JSON.stringify({ id, result })}\n`);
      if (method === "turn/start") finish();
    });
    const finish = (): void => {
      for (const each of lines) child.stdout.push(`${each}\n`);
      child.end({ kind: "exited", code: 0, signal: null });
    };
    const run = recordRun({ driver, tools: { children: child.children, clock, log } }, createOrder({ prompt: "p" }));
    await run.done;
    return run.events;
  }
});
