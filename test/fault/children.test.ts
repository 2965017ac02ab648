/**
 * The real daemon with real children that delegate in their turn, and that try to be more than they are (P12, P16, P18, X2).
 */

import { writeFileSync } from "node:fs";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";

import { callShown, record, type Shown, waitUntilEnded } from "../support/answers.ts";
import { type DaemonProcess, startDaemonProcess } from "../support/daemon-process.ts";
import { at, listAt, textAt } from "../support/json.ts";
import type { TestClient } from "../support/mcp-clients.ts";
import { AGENT_COMMAND, contents, eventually, isAlive } from "../support/processes.ts";
import { callBody, jsonObject, post } from "../support/raw-mcp.ts";

const BOSS = [process.execPath, fileURLToPath(new URL("../support/delegating-agent.ts", import.meta.url))];
const AGENTS = {
  boss: { driver: "command", command: BOSS, onLoss: "rerun", default: true },
  worker: { driver: "command", command: AGENT_COMMAND, onLoss: "rerun" },
  asker: { driver: "fake" },
};
const FOREVER = [{ hang: true }];

type Step = Readonly<Record<string, unknown>>;

/** A daemon whose children may delegate, two levels below their own. */
function startDaemon(settings: Readonly<Record<string, string>> = {}): Promise<DaemonProcess> {
  return startDaemonProcess({ agents: AGENTS, settings: { DELEGATE_MCP_LIMITS_DEPTH_MAX: "3", ...settings } });
}

/** Arguments of a delegation that only reads: several may work in the one folder of the test. */
function work(clientRequestId: string, steps: readonly Step[], more: Step = {}): Record<string, unknown> {
  return { clientRequestId, task: JSON.stringify(steps), access: "read", ...more };
}

/** As a step of an agent that delegates. */
const delegates = (key: string, steps: readonly Step[], more: Step = {}): Step => {
  return { delegate: { clientRequestId: key, access: "read", ...more }, steps };
};

const called = (tool: string, args: Step = {}, show = "own"): Step => ({ call: tool, args, show });

/** What a child was told, step by step. */
async function reportOf(client: TestClient, taskId: string): Promise<readonly unknown[]> {
  const ended = await waitUntilEnded(client, taskId);
  expect(ended.status, ended.say).toBe("completed");
  return parsedReport(ended.text);
}

function parsedReport(text: string): readonly unknown[] {
  const report: unknown = JSON.parse(text);
  if (!Array.isArray(report)) throw new Error(`no report: ${text}`);
  return report;
}

/** A report that was saved while its child goes on. */
async function savedReport(file: string): Promise<readonly unknown[]> {
  return parsedReport(await eventually(`a report in ${file}`, () => contents(file) || null, 20_000));
}

async function delegate(client: TestClient, key: string, steps: readonly Step[], more: Step = {}): Promise<Shown> {
  const answer = await callShown(client, "delegate_task", work(key, steps, more));
  expect(answer.created, answer.say).toBe("new");
  return answer;
}

const tokenFileOf = (daemon: DaemonProcess): string => path.join(daemon.dataDir, "token");
/** Names of our variables in an environment. */
const ours = (environment: unknown): readonly string[] =>
  Object.keys(record(environment))
    .filter((name) => name.startsWith("DELEGATE_"))
    .toSorted();
const idsIn = (answer: unknown): readonly string[] => listAt(answer, "tasks").map((task) => textAt(task, "taskId"));

async function statusOf(client: TestClient, taskId: string): Promise<string> {
  return (await callShown(client, "task_status", { taskId })).status;
}

describe("a child that delegates", () => {
  it("waits for its own child and hands its result on, and whoever asked sees the line (P1, P2, P12, P16)", async () => {
    await using daemon = await startDaemon();
    const client = await daemon.client();
    const a = await delegate(client, "task-a-of-root", [
      delegates("task-b-below-a", [{ print: "the result" }], { agent: "worker" }),
      { waitEnded: "$0.answer.taskId" },
      called("task_list"),
    ]);
    const [accepted, ended, list] = await reportOf(client, a.taskId);
    const taskId = textAt(accepted, "answer", "taskId");
    expect(at(accepted, "answer")).toMatchObject({ created: "new", nodeId: `node:delegated-task:${taskId}` });
    expect(at(ended, "answer")).toMatchObject({ taskId, status: "completed" });
    expect(textAt(ended, "answer", "fromChild", "result", "text")).toBe("the result");
    expect(idsIn(at(list, "answer"))).toEqual([taskId]);
    const below = await callShown(client, "task_list", { parentTaskId: a.taskId });
    expect(idsIn(below.raw)).toEqual([taskId]);
    // Its end was its delegator's to hear.
    expect(listAt(below.raw, "pendingCompletions").map((told) => textAt(told, "taskId"))).not.toContain(taskId);
  });

  it("has its own credential and no other secret in its environment, at the limit none at all (X2, P18, E1)", async () => {
    await using daemon = await startDaemon({ DELEGATE_MCP_LIMITS_DEPTH_MAX: "2" });
    const client = await daemon.client();
    const [fileA, fileB] = [path.join(daemon.work, "a"), path.join(daemon.work, "b")];
    const a = await delegate(client, "task-a-of-root", [
      { env: true },
      { save: fileA },
      delegates("task-b-below-a", [{ env: true }, { save: fileB }]),
      { waitEnded: "$2.answer.taskId" },
    ]);
    const told = await reportOf(client, a.taskId);
    const [above] = await savedReport(fileA);
    const [below] = await savedReport(fileB);
    expect(ours(above)).toEqual([
      "DELEGATE_CHILD_MARK",
      "DELEGATE_CHILD_TASK_ID",
      "DELEGATE_CHILD_TOKEN",
      "DELEGATE_CHILD_URL",
    ]);
    expect(record(above)).toMatchObject({ DELEGATE_CHILD_URL: daemon.mcpUrl, DELEGATE_CHILD_TASK_ID: a.taskId });
    expect(textAt(above, "DELEGATE_CHILD_MARK")).toMatch(new RegExp(`\\.${a.taskId}\\.a1$`));
    expect(ours(below)).toEqual(["DELEGATE_CHILD_MARK"]);
    const b = textAt(told[2], "answer", "taskId");
    expect(textAt(below, "DELEGATE_CHILD_MARK")).toMatch(new RegExp(`\\.${b}\\.a1$`));
    const own = textAt(above, "DELEGATE_CHILD_TOKEN");
    expect(own).toMatch(/^dct_dt_/);
    for (const environment of [above, below].map((env) => JSON.stringify(env).replace(own, ""))) {
      expect(environment).not.toMatch(/dct_|DELEGATE_MCP/);
      expect(environment).not.toContain(daemon.token);
    }
    // What it printed of its credential is kept nowhere.
    const pages = await callShown(client, "thread_read", { taskId: a.taskId, view: "result" });
    const shown = JSON.stringify([pages.raw, (await callShown(client, "task_status", { taskId: a.taskId })).raw]);
    expect(shown).toContain("DELEGATE_CHILD_TASK_ID");
    expect(shown).not.toContain(own);
    expect(daemon.stderr()).not.toContain(own);
  });

  it("at the limit finds no way on with an admin's token either: the work is its own (P18, E1, X2)", async () => {
    await using daemon = await startDaemon({ DELEGATE_MCP_LIMITS_DEPTH_MAX: "1" });
    const client = await daemon.client();
    const admin = `file:${tokenFileOf(daemon)}`;
    const helper = [{ ...delegates("task-b-below-a", [{ env: true }]), show: admin }, called("task_list", {}, admin)];
    const a = await delegate(client, "task-a-of-root", [
      { env: true },
      // It was given no address, but can find that, too.
      { helper, how: "session", mcpUrl: daemon.mcpUrl },
    ]);
    const [environment, helped] = await reportOf(client, a.taskId);
    expect(ours(environment)).toEqual(["DELEGATE_CHILD_MARK"]);
    expect(at(helped, 0, "answer")).toMatchObject({ created: "none", error: { code: "depth_limit" } });
    expect(idsIn(at(helped, 1, "answer"))).toEqual([]);
  });

  it("leaves nothing at work when what is above it is cancelled (C1, C2, P12, F24)", async () => {
    await using daemon = await startDaemon();
    const client = await daemon.client();
    const [deep, orphan] = [path.join(daemon.work, "deep"), path.join(daemon.work, "orphan")];
    const tools = [
      { start: "orphan", run: [{ ignore: "SIGTERM" }, { write: orphan }, { hang: true }] },
      { write: deep },
      { hang: true },
    ];
    const a = await delegate(client, "task-a-of-root", [
      delegates("task-b-below-a", [
        delegates("task-c-below-b", tools, { agent: "worker" }),
        { waitEnded: "$$0.answer.taskId" },
      ]),
      { waitEnded: "$0.answer.taskId" },
    ]);
    const files = [deep, orphan];
    await eventually("both run", () => files.every((file) => contents(file) !== ""), 20_000);
    const pids = files.map((file) => Number(contents(file)));
    expect(pids.map(isAlive)).toEqual([true, true]);
    await callShown(client, "task_cancel", { taskId: a.taskId });
    expect(await waitUntilEnded(client, a.taskId)).toMatchObject({ status: "cancelled" });
    // Its own last word comes after everybody's end.
    expect(pids.map(isAlive)).toEqual([false, false]);
    const all = await callShown(client, "task_list", {});
    expect(listAt(all.raw, "tasks").map((task) => textAt(task, "status"))).toEqual(Array(3).fill("cancelled"));
  });
});

describe("a child that found an admin's token", () => {
  type Scene = { readonly client: TestClient; readonly other: string; readonly asking: string; readonly admin: string };

  /** Other work of the same name: a task at work, and one that asks. */
  async function scene(daemon: DaemonProcess): Promise<Scene> {
    const client = await daemon.client();
    const other = await delegate(client, "other-work-1", FOREVER, { agent: "worker" });
    const question = { do: "ask", ask: "permission", prompt: "may I?", optionIds: ["yes", "no"] };
    const task = JSON.stringify({ steps: [question, { do: "sayAnswer" }] });
    const asking = await delegate(client, "asking-work-1", [], { agent: "asker", task });
    await eventually("it asks", async () => (await statusOf(client, asking.taskId)) === "input_required");
    return { client, other: other.taskId, asking: asking.taskId, admin: `file:${tokenFileOf(daemon)}` };
  }

  /** All that one would try with the token of an admin. `above`: the task above. */
  function tries({ other, asking, admin }: Scene, above: string): readonly Step[] {
    const answer = { questionId: "q_1", optionId: "yes" };
    return [
      called("task_list", {}, admin),
      ...[other, asking, above].flatMap((taskId) => [
        called("task_status", { taskId }, admin),
        called("task_cancel", { taskId }, admin),
        called("thread_read", { taskId }, admin),
      ]),
      called("task_answer", { taskId: asking, ...answer }, admin),
      { http: "GET", path: "/api/tasks", show: admin },
      { http: "GET", path: "/api/events", show: admin },
      { http: "GET", path: "/metrics", show: admin },
      { http: "POST", path: `/api/tasks/${other}/cancel`, body: {}, show: admin },
      { http: "POST", path: `/api/tasks/${asking}/answer`, body: answer, show: admin },
    ];
  }

  function expectNothingGained(report: readonly unknown[]): void {
    const [list, ...rest] = report;
    expect(at(list, "answer"), JSON.stringify(list)).toBeDefined();
    expect(idsIn(at(list, "answer"))).toEqual([]);
    const tools = rest.filter((told) => at(told, "answer") !== undefined);
    const routes = rest.filter((told) => at(told, "body") !== undefined);
    expect([tools.length, routes.length], JSON.stringify(rest)).toEqual([10, 5]);
    for (const told of tools) expect(at(told, "answer", "error", "code"), JSON.stringify(told)).toBe("unknown_task");
    for (const told of routes) expect(at(told, "status"), JSON.stringify(told)).toBe(403);
  }

  it("is its own task's child all the same, also by helpers that it has cleaned of its mark (P16, P18, X2)", async () => {
    await using daemon = await startDaemon();
    const given = await scene(daemon);
    const file = path.join(daemon.work, "report");
    const steps = tries(given, "$0.DELEGATE_CHILD_TASK_ID");
    const a = await delegate(given.client, "task-a-of-root", [
      { env: true },
      delegates("task-b-below-a", [
        ...steps,
        { helper: steps, how: "child" },
        { helper: steps, how: "session" },
        { save: file },
        { waitFile: "never" },
      ]),
      { waitFile: "never" },
    ]);
    const report = await savedReport(file);
    const size = steps.length;
    expectNothingGained(report.slice(0, size));
    for (const helped of report.slice(size)) expectNothingGained(parsedReport(JSON.stringify(helped)));
    expect(report).toHaveLength(size + 2);
    // It hears no ids but those that it named, and of no other name.
    const named = new Set(JSON.stringify(report).match(/dt_[0-9A-Z]{26}/g));
    expect([...named].toSorted()).toEqual([given.other, given.asking, a.taskId].toSorted());
    expect(await statusOf(given.client, given.other)).toBe("working");
    expect(await statusOf(given.client, given.asking)).toBe("input_required");
    expect(await statusOf(given.client, a.taskId)).toBe("working");
  });

  it("is nobody once its run is over, whatever it left behind (P18, X2)", async () => {
    await using daemon = await startDaemon();
    const client = await daemon.client();
    const [gate, file] = [path.join(daemon.work, "gate"), path.join(daemon.work, "report")];
    const admin = `file:${tokenFileOf(daemon)}`;
    const steps = [
      { waitFile: gate },
      called("task_list", {}, admin),
      { http: "GET", path: "/api/tasks", show: admin },
      called("task_list"),
      { save: file },
    ];
    const a = await delegate(client, "task-a-of-root", [{ leave: steps }, called("task_list")], { background: "keep" });
    await reportOf(client, a.taskId);
    writeFileSync(gate, "");
    const [, ...told] = await savedReport(file);
    expect(told.map((answer) => at(answer, "status"))).toEqual([401, 401, 401]);
    expect(textAt(told[0], "refused", "data", "code")).toBe("child_ended");
  });
});

describe("a child's credential", () => {
  /** A child at work with its credential written into a file: the credential, as somebody else has it. */
  async function stolen(daemon: DaemonProcess, client: TestClient) {
    const file = path.join(daemon.work, "environment");
    const gate = path.join(daemon.work, "gate");
    const a = await delegate(client, "task-a-of-root", [
      { env: true },
      delegates("task-b-below-a", FOREVER, { agent: "worker" }),
      { save: file },
      { waitFile: gate },
    ]);
    const [environment, accepted] = await savedReport(file);
    const token = textAt(environment, "DELEGATE_CHILD_TOKEN");
    return { a: a.taskId, b: textAt(accepted, "answer", "taskId"), token, gate };
  }

  async function asked(daemon: DaemonProcess, token: string, tool: string, args: Record<string, unknown>) {
    const response = await post(daemon, callBody(1, tool, args), { token, headers: { accept: "application/json" } });
    const body = jsonObject(await response.text());
    return { status: response.status, body, answer: at(body, "result", "structuredContent") };
  }

  it("in other hands is that child's and no more, and ends with its run (P16, P18, X2)", async () => {
    await using daemon = await startDaemon();
    const client = await daemon.client();
    const other = await delegate(client, "other-work-1", FOREVER, { agent: "worker" });
    const { a, b, token, gate } = await stolen(daemon, client);
    expect(idsIn((await asked(daemon, token, "task_list", {})).answer)).toEqual([b]);
    for (const taskId of [a, other.taskId]) {
      const { answer } = await asked(daemon, token, "task_cancel", { taskId });
      expect(textAt(answer, "error", "code")).toBe("unknown_task");
    }
    const own = await asked(daemon, token, "task_status", { taskId: a });
    expect(at(own.answer, "status")).toBe("working");
    const route = await fetch(`${daemon.origin}/api/tasks`, { headers: { authorization: `Bearer ${token}` } });
    expect(route.status).toBe(403);
    // A credential is made for one attempt, and not to be made up from another.
    const forged = await asked(daemon, token.replace(".a1.", ".a2."), "task_list", {});
    expect([forged.status, textAt(forged.body, "error", "data", "code")]).toEqual([401, "token_unknown"]);
    writeFileSync(gate, "");
    await waitUntilEnded(client, a);
    const late = await asked(daemon, token, "task_list", {});
    expect([late.status, textAt(late.body, "error", "data", "code")]).toEqual([401, "child_ended"]);
    expect(await statusOf(client, b)).toBe("working");
  });

  it("ends with the daemon that gave it, and the next attempt has one of its own (P14, P18)", async () => {
    const first = await startDaemon();
    const { a, b, token } = await stolen(first, await first.client());
    expect((await asked(first, token, "task_list", {})).status).toBe(200);
    await first.kill();
    await using daemon = await first.restart();
    const client = await daemon.client();
    await eventually(
      "the old credential is dead",
      async () => (await asked(daemon, token, "task_list", {})).status === 401,
    );
    const fresh = await eventually(
      "a new child has written its own",
      async () => {
        const [environment] = await savedReport(path.join(daemon.work, "environment"));
        const found = textAt(environment, "DELEGATE_CHILD_TOKEN");
        return found === token ? null : found;
      },
      20_000,
    );
    expect(idsIn((await asked(daemon, fresh, "task_list", {})).answer)).toEqual([b]);
    expect(textAt((await asked(daemon, token, "task_list", {})).body, "error", "data", "code")).toBe("child_ended");
    await callShown(client, "task_cancel", { taskId: a });
    expect(await waitUntilEnded(client, a)).toMatchObject({ status: "cancelled" });
    expect(await statusOf(client, b)).toBe("cancelled");
  });
});

describe("a daemon that is killed while a child waits for its own", () => {
  it("goes on with both under their ids, and nothing is done twice at a time or twice over (P2, P3, P14, R1, F18)", async () => {
    const first = await startDaemon();
    const [log, gate] = [path.join(first.work, "log"), path.join(first.work, "gate")];
    const client = await first.client();
    const a = await delegate(client, "task-a-of-root", [
      delegates("task-b-below-a", [{ append: log, everyMs: 10 }, { waitFile: gate }, { print: "the result" }], {
        agent: "worker",
      }),
      { waitEnded: "$0.answer.taskId" },
    ]);
    const pidsIn = (): readonly string[] =>
      contents(log)
        .split("\n")
        .flatMap((line) => (line.includes(" ") ? [line.slice(0, line.indexOf(" "))] : []));
    await eventually("the grandchild is at work", () => pidsIn().length > 3, 20_000);
    const before = await callShown(client, "task_list", {});
    await first.kill();

    await using daemon = await first.restart();
    const again = await daemon.client();
    await eventually("a second one is at work", () => new Set(pidsIn()).size === 2, 30_000);
    writeFileSync(gate, "");
    const [accepted, ended] = await reportOf(again, a.taskId);
    const b = textAt(accepted, "answer", "taskId");
    expect(at(accepted, "answer")).toMatchObject({ created: "replayed" });
    expect(at(ended, "answer")).toMatchObject({ taskId: b, status: "completed", settlement: 1 });
    expect(textAt(ended, "answer", "fromChild", "result", "text")).toBe("the result");
    const after = await callShown(again, "task_list", {});
    expect(idsIn(after.raw)).toEqual(idsIn(before.raw));
    expect(idsIn(after.raw).toSorted()).toEqual([a.taskId, b].toSorted());
    // Each process wrote in one stretch: never two at a time.
    const stretches = pidsIn().filter((pid, index, all) => pid !== all[index - 1]);
    expect(stretches).toHaveLength(2);
  });
});
