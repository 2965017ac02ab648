/**
 * Driver `claude` over a real guard with a stand-in that does what Claude Code was seen to do, and what it must never do.
 */

import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { classify } from "../../src/core/classify.ts";
import type { FailureClass, FaultEvidence } from "../../src/core/failure.ts";
import { PERMISSIONS, type Spec } from "../../src/core/task.ts";
import { createClaudeDriver } from "../../src/drivers/claude/claude-driver.ts";
import { createClaudeEnd } from "../../src/drivers/claude/claude-end.ts";
import { sessionIdOf } from "../../src/drivers/claude/claude-program.ts";
import { createGuardClock } from "../../src/guard/guard-clock.ts";
import type { AttemptOrder, DriverAnswer, DriverEvent, DriverQuestion } from "../../src/ports/driver.ts";
import {
  contents,
  createRecordedLog,
  createTestChildren,
  createTestFolder,
  eventually,
  type TestChildren,
  type TestFolder,
} from "../support/processes.ts";
import { createStepClock } from "../support/step-clock.ts";
import { createOrder, createScratch, describeDriver, type RecordedRun, recordRun } from "./driver-promises.ts";

const driver = createClaudeDriver();
const clock = createGuardClock();
const log = createRecordedLog();
const AGENT = fileURLToPath(new URL("../support/claude-agent.ts", import.meta.url));

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
  const env = { PATH: process.env["PATH"] ?? "", CLAUDE_AGENT: JSON.stringify(setting), ...fields.env };
  return createOrder(
    { command: [process.execPath, AGENT], prompt: "do it", ...fields, env },
    { cwd: folder.path, ...spec },
  );
}

/** An agent whose first message has these steps. */
function steps(...list: readonly object[]): Setting {
  return { turns: [list] };
}

function start(order: AttemptOrder, ask?: Ask): RecordedRun {
  return recordRun({ driver, tools: { children, clock, log, ...(ask === undefined ? {} : { ask }) } }, order);
}

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

function sessionsOf(run: RecordedRun): readonly (string | null)[] {
  return run.events.flatMap((event) => (event.kind === "bound" ? [event.nativeSessionId] : []));
}

/** What a stand-in was told: its arguments and the texts of its messages. */
function told(file: string): { readonly starts: readonly string[]; readonly messages: readonly string[] } {
  const lines = contents(file)
    .split("\n")
    .filter((line) => line !== "")
    .map((line) => JSON.parse(line));
  return {
    starts: lines.flatMap((line) => (line.arguments === undefined ? [] : [line.arguments.join(" ")])),
    messages: lines.flatMap((line) => (line.type === "user" ? [line.message.content[0].text] : [])),
  };
}

describeDriver("claude", () => ({
  driver,
  tools: { children, clock, log },
  order: (kind) =>
    orderOf(
      {
        success: steps({ tool: { id: "1", name: "Read" } }, { toolResult: { tool_use_id: "1" } }, { say: "hello" }),
        fault: steps({ result: { is_error: true, terminal_reason: "api_error", api_error_status: 500 } }),
        hang: steps({ hang: true }),
      }[kind],
    ),
}));

describe("a turn", () => {
  it("succeeds with the text of its result, told apart from a failure; what was said before is told as it came (P13, W3)", async () => {
    const { run, ...end } = await runToEnd(
      orderOf(
        steps(
          { say: "I begin" },
          { tool: { id: "1", name: "Bash", input: { command: "ls" } } },
          { toolResult: { tool_use_id: "1", content: [{ type: "text", text: "a.txt" }] } },
          { tool: { id: "2", name: "Edit", input: { file_path: "/x" } } },
          { toolResult: { tool_use_id: "2", is_error: true, content: "no such file" } },
          { toolResult: { tool_use_id: "of no call", content: "x" } },
          { say: "a helper's words", parent: "2" },
          { say: "the answer" },
        ),
      ),
    );
    expect(end).toMatchObject({ end: "success", evidence: "explicit", text: "the answer", sideEffects: true });
    expect(pieces(run, "child")).toEqual(["I begin", "the answer"]);
    expect(pieces(run, "tool")).toEqual(["Bash (completed)\nls\na.txt", "Edit (failed)\n/x\nno such file"]);
    const counted = run.events.flatMap((event) => (event.kind === "progress" ? [event.steps] : []));
    expect(counted.reduce((sum, more) => sum + more, 0)).toBe(2);
  });

  it("is given a task of 200 kB with quotes, line ends of all kinds, a leading dash and CJK as it is (S3, S4)", async () => {
    const prompt = `${`-n "quotes" 'and' $VARIABLES\n\\back\`ticks\`\r\n日本語 \u{1f680}\u2028\u0085\t`.repeat(3_500)}.`;
    expect(await runToEnd(orderOf({}, { prompt }))).toMatchObject({ end: "success", text: prompt });
  });

  it("that is too long keeps head and tail with a marked gap (P15)", async () => {
    const order = orderOf({}, { prompt: "x".repeat(300_000), resultBytesMax: 10_000 });
    expect((await runToEnd(order)).text).toMatch(/^x+\n… 290000 bytes left out …\nx+$/);
  });

  it.each([[""], [" \n"]])("that ends well with %j alone has no result (P13, W2, F15)", async (result) => {
    const end = await runToEnd(orderOf(steps({ say: "so far" }, { result: { result } })));
    expect(faultOf(end)).toEqual({ empty: true });
    expect(end.text).toBe("so far");
  });

  it("that only read has changed nothing, where it may not write", async () => {
    const read = steps({ tool: { id: "1", name: "Read" } }, { toolResult: { tool_use_id: "1" } }, { say: "x" });
    expect((await runToEnd(orderOf(read, {}, { access: "read" }))).sideEffects).toBe(false);
    const ran = steps({ tool: { id: "1", name: "Bash" } }, { toolResult: { tool_use_id: "1" } }, { say: "x" });
    expect((await runToEnd(orderOf(ran, {}, { access: "read" }))).sideEffects).toBe(true);
  });

  it("tells what it spent itself, all models and results together, without what the session had spent before", async () => {
    const used = (inputTokens: number, costUSD: number) => ({
      inputTokens,
      cacheReadInputTokens: 10,
      outputTokens: 2,
      costUSD,
    });
    const end = await runToEnd(
      orderOf(
        steps(
          { tasks: 1 },
          { say: "x" },
          { result: { total_cost_usd: 9, model_usage_since_last_result: { a: used(1, 0.5), b: used(2, 0.25) } } },
          { tasks: 0 },
          { init: {} },
          { result: { total_cost_usd: 10, model_usage_since_last_result: { a: used(3, 1) } } },
        ),
      ),
    );
    expect(end.usage).toEqual({ inputTokens: 36, outputTokens: 6, costUsd: 1.75 });
  });

  it("says that a tool is running, and that it is not any more (W8)", async () => {
    const go = folder.file("go-on");
    const running = start(
      orderOf(
        steps(
          { tool: { id: "1", name: "Bash" } },
          { waitFile: go },
          { toolResult: { tool_use_id: "1" } },
          { hang: true },
        ),
      ),
    );
    const lastSaid = (): boolean | null => {
      const said = running.events.findLast((event) => event.kind === "progress");
      return said?.kind === "progress" ? said.toolRunning : null;
    };
    expect(await eventually("the tool runs", () => lastSaid() === true)).toBe(true);
    await runToEnd(orderOf(steps({ append: go, text: "" }, { say: "x" })));
    expect(await eventually("the tool has ended", () => lastSaid() === false)).toBe(true);
    running.abort();
    await running.done;
  });

  it("notes its own retries and tool servers that are not there, as signs of life", async () => {
    const retry = { attempt: 1, max_retries: 2, retry_delay_ms: 612, error_status: 529, error: "overloaded" };
    const { run } = await runToEnd(
      orderOf(steps({ init: { mcp_servers: [{ name: "delegate", status: "failed" }] } }, { retry }, { say: "x" })),
    );
    expect(pieces(run, "note")).toEqual([
      "Tool servers that Claude Code has no connection to: delegate (failed).",
      "A request to the model failed (529 overloaded). Claude Code tries again in 0.6 s: 1 of 2.",
    ]);
  });
});

describe("the end of the work", () => {
  it("is the last result, when nothing goes on in the background (W3)", async () => {
    const turns = [
      { tasks: 1 },
      { say: "I wait" },
      { result: {} },
      { tasks: 0 },
      { init: {} },
      { say: "it has ended" },
    ];
    const end = await runToEnd(orderOf(steps(...turns, { result: {} })));
    expect(end).toMatchObject({ end: "success", text: "it has ended" });
  });

  it("is a failure after a good result, if the turn about the background fails", async () => {
    const end = await runToEnd(
      orderOf(
        steps(
          { tasks: 1 },
          { say: "I wait" },
          { result: {} },
          { tasks: 0 },
          { result: { is_error: true, terminal_reason: "api_error", api_error_status: 529 } },
        ),
      ),
    );
    expect(classify(faultOf(end)).class).toBe("provider_transient");
  });

  it.each([
    ["goes on for good", { tasks: [{}] }, 600_000],
    ["ends without a turn about it", { tasks: [] }, 5_000],
  ])("comes in the end also if what goes on in the background %s", async (_, after, ms) => {
    const stepped = createStepClock();
    const work = createClaudeEnd(stepped);
    let isSettled = false;
    void work.settled().then(() => {
      isSettled = true;
    });
    work.backgroundChanged({ tasks: [{}] });
    work.turnEnded({ is_error: false });
    work.backgroundChanged(after);
    await stepped.advanceAndSettle(ms - 1);
    expect(isSettled).toBe(false);
    await stepped.advanceAndSettle(1);
    expect(isSettled).toBe(true);
  });

  it("stands if the process ended by itself while something went on", async () => {
    const end = await runToEnd(orderOf(steps({ tasks: 1 }, { say: "done" }, { result: {} }, { exit: 0 })));
    expect(end).toMatchObject({ end: "success", text: "done" });
  });

  it("is lost with the process that was killed while something went on (P6, P14)", async () => {
    const end = await runToEnd(orderOf(steps({ tasks: 1 }, { say: "done" }, { result: {} }, { die: "SIGKILL" })));
    expect(end).toMatchObject({ end: "lost" });
  });

  it("stands although the process is killed after it", async () => {
    const end = await runToEnd(orderOf(steps({ say: "done" }, { result: {} }, { die: "SIGKILL" })));
    expect(end).toMatchObject({ end: "success", text: "done" });
  });

  it("is good although the process does not end with its input", async () => {
    expect(await runToEnd(orderOf({ ...steps({ say: "done" }), lingers: true }))).toMatchObject({
      end: "success",
      text: "done",
    });
  });
});

describe("a failure", () => {
  const page = "Failed to authenticate. API Error: 403 Attention Required! | Cloudflare";
  const inAnHour = Math.round(Date.now() / 1_000) + 3_600;
  const rows: readonly (readonly [string, object, object, FailureClass])[] = [
    [
      "an edge page",
      { text: page, error: "authentication_failed" },
      { api_error_status: 403, result: page },
      "edge_block",
    ],
    [
      "a refused permission",
      { text: "x", error: "authentication_failed" },
      { api_error_status: 403, result: "no" },
      "auth",
    ],
    [
      "a 529 called a server error",
      { text: "x", error: "server_error" },
      { api_error_status: 529 },
      "provider_transient",
    ],
    ["a broken connection", { text: "x", error: "server_error" }, { api_error: "connection_failed" }, "transport"],
    ["a failure of no known kind", { text: "x", error: "unknown" }, { api_error_status: null }, "transport"],
    ["money without a status", { text: "x", error: "billing_error" }, { api_error_status: null }, "billing"],
    ["a model that is not there", { text: "x", error: "model_not_found" }, { api_error_status: 404 }, "config"],
    [
      "a usage limit with its end",
      { text: "x", error: "rate_limit", api_error: "usage_limit_reached" },
      { api_error_status: 429, api_error_params: { rate_limit_info: { resetsAt: inAnHour } } },
      "quota",
    ],
    ["a short pause", { text: "x", error: "rate_limit" }, { api_error_status: 429 }, "provider_transient"],
    ["a prompt that is too long", { text: "x" }, { terminal_reason: "prompt_too_long" }, "bad_request"],
    ["a limit of turns", { text: "x" }, { terminal_reason: "max_turns", errors: ["Reached maximum"] }, "max_turns"],
    ["a refusal", { text: "x" }, { is_error: false, stop_reason: "refusal", result: "I will not" }, "refused"],
    ["an interrupt that nobody asked for", { text: "x" }, { terminal_reason: "aborted_tools" }, "unknown"],
    ["a result without a verdict", { text: "x" }, { is_error: null, terminal_reason: null }, "unknown"],
  ];

  it.each(rows)(
    "that is %s is told by its data, whatever its subtype says (P13, F11, F13)",
    async (_, error, result, expected) => {
      const line = { is_error: true, terminal_reason: "api_error", subtype: "success", ...result };
      const end = await runToEnd(orderOf(steps({ say: "so far" }, { apiError: error }, { result: line })));
      expect(classify(faultOf(end)).class, JSON.stringify(end)).toBe(expected);
      expect(end.text).toBe("so far");
    },
  );

  it("names when a usage limit ends", async () => {
    const result = {
      is_error: true,
      terminal_reason: "api_error",
      api_error: "usage_limit_reached",
      api_error_status: 429,
      api_error_params: { rate_limit_info: { resetsAt: inAnHour } },
    };
    const { retryAfterMs } = faultOf(await runToEnd(orderOf(steps({ result }))));
    expect(retryAfterMs).toBeGreaterThan(3_000_000);
    expect(retryAfterMs).toBeLessThanOrEqual(3_601_000);
  });

  it.each([[{ die: "SIGKILL" }], [{ exit: 143 }], [{ exit: 137 }]])(
    "by %j is a loss: its session is kept (P6, P14)",
    async (step) => {
      expect(await runToEnd(orderOf(steps({ say: "so far" }, step)))).toMatchObject({ end: "lost", text: "so far" });
    },
  );

  it("by an exit without a result shows the end of what it complained of", async () => {
    const end = await runToEnd(orderOf(steps({ stderr: "no such setting\n" }, { exit: 1 })));
    expect(faultOf(end)).toEqual({ exit: { code: 1, signal: null }, text: "no such setting" });
    expect(pieces(end.run, "note")).toEqual(["no such setting"]);
  });

  it("by an exit in a turn that followed a good result is none the less a failure", async () => {
    const end = await runToEnd(
      orderOf(steps({ tasks: 1 }, { say: "x" }, { result: {} }, { tasks: 0 }, { init: {} }, { exit: 1 })),
    );
    expect(faultOf(end)).toEqual({ exit: { code: 1, signal: null } });
  });

  it("to start names the system's code", async () => {
    const end = await runToEnd(orderOf({}, { command: ["/no/such/claude"] }));
    expect(faultOf(end)).toMatchObject({ spawnCode: "ENOENT" });
  });

  it.each([
    ["a line past the limit", { bytes: 7_000_000 }],
    ["an output that was closed", { closeOutput: true }],
  ])("by %s is one of the connection (P15)", async (_, step) => {
    const end = await runToEnd(orderOf(steps(step, { hang: true })));
    expect(classify(faultOf(end)).class).toBe("transport");
  });

  it("is not made by lines that are no messages: they are left out and noted once (P15)", async () => {
    const { run, ...end } = await runToEnd(
      orderOf(
        steps(
          { raw: "a warning" },
          { raw: "[1]" },
          { raw: "null" },
          { line: { type: "of a later version" } },
          { say: "x" },
        ),
      ),
    );
    expect(end).toMatchObject({ end: "success", text: "x" });
    expect(pieces(run, "note")).toHaveLength(1);
  });
});

describe("a session", () => {
  const goOn = /Do not repeat steps that are finished/;

  it("has an id of ours that is reported before the message is sent, and is taken up in later attempts without the task (P6)", async () => {
    const setting = { state: folder.file("state"), log: folder.file("log") };
    const first = orderOf(setting);
    const { run } = await runToEnd(first);
    const id = sessionIdOf(first.mark);
    expect(id).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-5[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
    expect(sessionsOf(run)).toEqual([id]);
    expect(run.events.findIndex((event) => event.kind === "bound")).toBe(0);
    for (const cause of ["healing", "recovering"] as const) {
      const again = await runToEnd(orderOf(setting, { nativeSessionId: id, cause }));
      expect(sessionsOf(again.run)).toEqual([id]);
    }
    await runToEnd(orderOf(setting, { nativeSessionId: id, prompt: "and now this" }));
    const { starts, messages } = told(setting.log);
    expect(starts.map((line) => / --(session-id|resume)=(\S+)/.exec(` ${line}`)?.slice(1, 3))).toEqual([
      ["session-id", id],
      ["resume", id],
      ["resume", id],
      ["resume", id],
    ]);
    expect(messages).toEqual(["do it", expect.stringMatching(goOn), expect.stringMatching(goOn), "and now this"]);
    expect(messages.slice(1, 3).join("\n")).not.toContain("do it");
  });

  it("that is there already is taken up, not made a second time: its child is told to go on (P2, P6)", async () => {
    const setting = { state: folder.file("twice"), log: folder.file("twice-log") };
    const order = orderOf(setting);
    await start(order).done;
    const { run, ...end } = await runToEnd(order);
    expect(end.end).toBe("success");
    expect(sessionsOf(run)).toEqual([sessionIdOf(order.mark), sessionIdOf(order.mark)]);
    expect(told(setting.log).messages).toEqual(["do it", expect.stringMatching(goOn)]);
  });

  it("that was never written down is made under its id, and its child told to look first (P6, P14)", async () => {
    const setting = { state: folder.file("early"), log: folder.file("early-log") };
    const nativeSessionId = "0d0b41e6-7a4a-4f7e-8a52-3b0f54c1a111";
    const { run, ...end } = await runToEnd(orderOf(setting, { nativeSessionId, cause: "recovering" }));
    expect(end.end).toBe("success");
    expect(sessionsOf(run)).toEqual([nativeSessionId, nativeSessionId]);
    expect(told(setting.log).messages).toEqual([
      expect.stringMatching(goOn),
      expect.stringMatching(/look before.*do it$/s),
    ]);
  });

  it("that is gone with earlier turns in it is a lost context (P6)", async () => {
    const order = orderOf(
      { state: folder.file("gone") },
      { nativeSessionId: "0d0b41e6-7a4a-4f7e-8a52-3b0f54c1a111", history: [{ message: "one", result: "1" }] },
    );
    expect(classify(faultOf(await runToEnd(order))).class).toBe("context_lost");
  });

  it("that another agent had is told as history", async () => {
    const order = orderOf({}, { prompt: "now", history: [{ message: "one", result: "1" }] });
    expect((await runToEnd(order)).text).toMatch(/no memory.*one.*1.*now$/s);
  });
});

describe("the program", () => {
  async function argumentsFor(fields: Partial<AttemptOrder>, spec: Partial<Spec>): Promise<readonly string[]> {
    const end = await runToEnd(orderOf(steps({ echo: "arguments" }), fields, spec));
    return JSON.parse(end.text ?? "[]");
  }

  it("is held to the task's level, and asks over its pipes (P18)", async () => {
    const modes = await Promise.all(PERMISSIONS.map((permissions) => argumentsFor({}, { permissions })));
    expect(modes.map((list) => list.find((argument) => argument.startsWith("--permission-mode")))).toEqual([
      "--permission-mode=plan",
      "--permission-mode=default",
      "--permission-mode=acceptEdits",
      "--permission-mode=bypassPermissions",
    ]);
    for (const list of modes) expect(list).toContain("--permission-prompt-tool=stdio");
  });

  it("takes a model and options as values alone, never as options of their own (P18)", async () => {
    const list = await argumentsFor({}, { model: "--dangerously-skip-permissions", options: { effort: "--bare" } });
    expect(list).toContain("--model=--dangerously-skip-permissions");
    expect(list).toContain("--effort=--bare");
    expect(list).not.toContain("--dangerously-skip-permissions");
  });

  it("refuses an option that it has not, by name, before anything runs", async () => {
    const { run, ...end } = await runToEnd(orderOf({}, {}, { options: { temperature: "1" } }));
    expect(faultOf(end)).toMatchObject({
      providerKind: "option_not_found",
      text: expect.stringContaining("temperature"),
    });
    expect(run.events).toHaveLength(1);
  });

  it("has our tools alone, by a file that is the owner's, and no token in its arguments (P18)", async () => {
    using scratch = createScratch();
    const delegation = { url: "http://127.0.0.1:1/mcp", token: "secret-of-the-child" };
    const fields = { delegation, scratchDir: scratch.path };
    const mcp = (await runToEnd(orderOf(steps({ echo: "mcp" }), fields))).text ?? "";
    expect(mcp.slice(0, 4)).toBe("600 ");
    expect(JSON.parse(mcp.slice(4))).toEqual({
      mcpServers: {
        delegate: { type: "http", url: delegation.url, headers: { Authorization: `Bearer ${delegation.token}` } },
      },
    });
    const list = await argumentsFor(fields, {});
    expect(list).toContain("--strict-mcp-config");
    expect(list).toContain("--allowedTools=mcp__delegate");
    expect(list.join(" ")).not.toContain(delegation.token);
    const alone = await argumentsFor({}, {});
    expect(alone).toContain("--strict-mcp-config");
    expect(alone.join(" ")).not.toContain("mcp-config=");
  });

  it("leaves retries to the engine, unless the operator has set them otherwise", async () => {
    const retries = async (env: Record<string, string>) =>
      (await runToEnd(orderOf(steps({ echo: "env:CLAUDE_CODE_MAX_RETRIES" }), { env }))).text;
    expect(await retries({})).toBe("2");
    expect(await retries({ CLAUDE_CODE_MAX_RETRIES: "7" })).toBe("7");
  });
});

describe("a request for a tool", () => {
  const bash = { tool_name: "Bash", input: { command: "rm x" }, description: "clean up", blocked_path: "/x" };
  const asking = (request: object): Setting => steps({ ask: request }, { answers: true });
  const answered = async (request: object, spec: Partial<Spec>, ask?: Ask) => {
    const { run, ...end } = await runToEnd(orderOf(asking(request), {}, spec), ask);
    return { answer: JSON.parse(end.text ?? "null"), questions: run.questions };
  };

  it.each(["plan", "ask", "accept_edits"] as const)(
    "is put to whoever may answer, with what it is about; the answer holds once (level %s, G4, P18)",
    async (permissions) => {
      const given = { ...bash, permission_suggestions: [{ type: "addRules", behavior: "allow" }] };
      const { answer, questions } = await answered(given, { permissions }, async () => ({
        kind: "option",
        optionId: "allow_once",
      }));
      expect(questions).toEqual([
        {
          ask: "permission",
          optionIds: ["allow_once", "reject"],
          labels: { allow_once: "Allow this once", reject: "Reject" },
          action: { tool: "Bash", command: "rm x", paths: "/x" },
          prompt: "Bash\nclean up\nrm x",
        },
      ]);
      expect(answer).toEqual({ behavior: "allow", updatedInput: { command: "rm x" } });
    },
  );

  it("that is rejected is denied with a word on how to go on (G4)", async () => {
    const { answer } = await answered(bash, { permissions: "ask" }, async () => ({
      kind: "option",
      optionId: "reject",
    }));
    expect(answer).toEqual({ behavior: "deny", message: expect.stringContaining("go on without it") });
  });

  it("that nobody answers is denied and ends the turn (G4)", async () => {
    const { answer } = await answered(bash, { permissions: "ask" });
    expect(answer).toMatchObject({ behavior: "deny", interrupt: true });
  });

  it("is allowed without a question where everything is", async () => {
    const { answer, questions } = await answered(bash, { permissions: "full" });
    expect(answer).toMatchObject({ behavior: "allow" });
    expect(questions).toEqual([]);
  });

  it("of our own server is allowed at every level, of one with a like name not (P18)", async () => {
    const ours = { tool_name: "mcp__delegate__delegate_task", input: { task: "x" } };
    expect((await answered(ours, { permissions: "plan" })).answer).toMatchObject({ behavior: "allow" });
    const other = { tool_name: "mcp__delegates__delegate_task", input: { task: "x" } };
    expect((await answered(other, { permissions: "plan" })).answer).toMatchObject({ behavior: "deny" });
  });

  it("that leaves the plan mode is refused where the plan is the work, and allowed elsewhere (P18)", async () => {
    const leave = { tool_name: "ExitPlanMode", input: {} };
    const allow: Ask = async () => ({ kind: "option", optionId: "allow_once" });
    expect((await answered(leave, { permissions: "plan" }, allow)).answer).toMatchObject({ behavior: "deny" });
    expect((await answered(leave, { permissions: "ask" })).answer).toMatchObject({ behavior: "allow" });
  });

  it("that holds the child's own questions puts each, and hands the answers on as they were given (G4, F16)", async () => {
    const questions = [
      { question: "Which?", options: [{ label: "red" }, { label: "blue" }] },
      { question: "Why?", multiSelect: true, options: [] },
    ];
    const replies: DriverAnswer[] = [
      { kind: "option", optionId: "option_2" },
      { kind: "text", text: "because" },
    ];
    const request = { tool_name: "AskUserQuestion", input: { questions } };
    const seen = await answered(request, { permissions: "full" }, async () => replies.shift() ?? null);
    expect(seen.questions).toMatchObject([
      { ask: "question", optionIds: ["option_1", "option_2"], labels: { option_1: "red", option_2: "blue" } },
      { ask: "question", optionIds: [] },
    ]);
    expect(seen.answer).toEqual({
      behavior: "allow",
      updatedInput: { questions, answers: { "Which?": "blue", "Why?": "because" } },
    });
  });

  it("of another kind is told that it is not offered", async () => {
    const end = await runToEnd(orderOf(asking({ subtype: "hook_callback" }), {}, { permissions: "full" }));
    expect(JSON.parse(end.text ?? "")).toMatchObject({ subtype: "error", error: "not offered here" });
  });

  it("stops nothing else: what the agent says meanwhile is read, and an attempt that is over tells it to give up (P12)", async () => {
    const file = folder.file("give-up");
    const run = start(
      orderOf({ log: file, ...asking(bash) }, {}, { permissions: "ask" }),
      () => new Promise(() => undefined),
    );
    await run.reported("asked");
    run.abort();
    await run.done;
    await eventually("the agent is told to give up", () => contents(file).includes('"subtype":"interrupt"'));
    expect(run.events.some(({ kind }) => kind === "end")).toBe(false);
  });
});
