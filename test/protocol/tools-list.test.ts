/**
 * What a model reads before its first call: the list of tools and the instructions, the same in both eras, and what they have
 * to hold to.
 */

import { describe, expect, it } from "vitest";
import { DESCRIPTIONS } from "../../src/mcp/descriptions.ts";
import { at, listAt, textAt } from "../support/json.ts";
import { initialize, jsonObject, modernHeaders, modernMeta, post } from "../support/raw-mcp.ts";
import { startTestDaemon, type TestDaemon } from "../support/test-daemon.ts";

const TOKEN = "token-of-alice";

async function listed(daemon: TestDaemon, era: "legacy" | "modern"): Promise<Record<string, unknown>> {
  const params = era === "legacy" ? {} : { _meta: modernMeta() };
  const body = { jsonrpc: "2.0", id: 1, method: "tools/list", params };
  const headers = era === "legacy" ? {} : modernHeaders("tools/list");
  const session = era === "legacy" ? { session: await initialize(daemon, { name: "raw", version: "1" }, TOKEN) } : {};
  const response = await post(daemon, body, { token: TOKEN, headers, ...session });
  return jsonObject(await response.text());
}

const namesIn = (schema: unknown): readonly string[] =>
  typeof schema !== "object" || schema === null
    ? []
    : Object.entries(schema).flatMap(([name, value]) => [name, ...namesIn(value)]);

describe("the list of tools", () => {
  it("is the golden one, and the same in both eras", async () => {
    await using daemon = await startTestDaemon();
    const legacy = listAt(await listed(daemon, "legacy"), "result", "tools");
    const modern = listAt(await listed(daemon, "modern"), "result", "tools");
    expect(modern).toEqual(legacy);
    await expect(`${JSON.stringify(legacy, null, 2)}\n`).toMatchFileSnapshot("golden/tools.json");
    expect(legacy.map((tool) => textAt(tool, "name")).join("\n")).toBe(
      [
        "delegate_task",
        "task_wait",
        "task_status",
        "task_list",
        "task_continue",
        "task_answer",
        "task_cancel",
        "task_ack",
        "thread_read",
        "list_agents",
      ].join("\n"),
    );
  });

  it("is listed alike by every client", async () => {
    await using daemon = await startTestDaemon();
    await using old = await daemon.client("1.x");
    await using modern = await daemon.client("2.x modern");
    expect(await modern.listTools()).toEqual(await old.listTools());
  });

  it("has flat schemas that take no unknown field", async () => {
    await using daemon = await startTestDaemon();
    for (const tool of listAt(await listed(daemon, "legacy"), "result", "tools")) {
      const input = at(tool, "inputSchema");
      const names = namesIn(input);
      for (const banned of ["$ref", "$defs", "oneOf", "anyOf", "allOf", "not"]) expect(names).not.toContain(banned);
      expect(at(input, "additionalProperties"), textAt(tool, "name")).toBe(false);
      expect(at(input, "type")).toBe("object");
      // Every kind of answer, errors included, has to conform: nothing but say and next is in all of them.
      expect(at(tool, "outputSchema", "required")).toEqual(["say", "next"]);
    }
  });

  it("describes every tool in under 900 characters and says which one to use instead", async () => {
    for (const [name, text] of Object.entries(DESCRIPTIONS)) expect(text.length, name).toBeLessThan(900);
    expect(DESCRIPTIONS.delegate_task).toMatch(
      /Not for a task that failed or needs more \(task_continue\), nor for news \(task_wait\)/,
    );
    expect(DESCRIPTIONS.task_status).toContain("use task_wait, not this in a loop");
  });

  it("says that a wait's time bounds the wait alone, that the child goes on, and what to call next (U1, U3)", async () => {
    const text = DESCRIPTIONS.task_wait;
    expect(text).toContain("The time only bounds this wait: the child goes on.");
    expect(text).toContain("says nothing against the child: call again with next.arguments");
    expect(text).toContain("stops nothing");
    expect(text).not.toMatch(/time[ds]? ?out/i);
    expect(DESCRIPTIONS.delegate_task).toContain("the child works on whatever happens to this call");
    expect(DESCRIPTIONS.task_cancel).toContain("a slow, healing, queued or silent task is not a reason");
  });

  it("is loaded at once where a client would else search for tools, for those that always matter", async () => {
    await using daemon = await startTestDaemon();
    const tools = listAt(await listed(daemon, "legacy"), "result", "tools");
    const always = tools.filter((tool) => at(tool, "_meta", "anthropic/alwaysLoad") === true);
    expect(always.map((tool) => textAt(tool, "name"))).toEqual(["delegate_task", "task_wait", "task_status"]);
  });

  it("marks what only reads, what may be repeated and what destroys", async () => {
    await using daemon = await startTestDaemon();
    const tools = listAt(await listed(daemon, "legacy"), "result", "tools");
    const marked = (hint: string): readonly string[] =>
      tools.filter((tool) => at(tool, "annotations", hint) === true).map((tool) => textAt(tool, "name"));
    expect(marked("readOnlyHint")).toEqual(["task_wait", "task_status", "task_list", "thread_read", "list_agents"]);
    expect(marked("destructiveHint")).toEqual(["task_answer", "task_cancel"]);
    expect(marked("idempotentHint")).toEqual(expect.arrayContaining(["delegate_task", "task_cancel", "task_ack"]));
  });
});

describe("the instructions", () => {
  it("are the golden ones, under 2,000 characters, with the key rule within the first 500 (U1)", async () => {
    await using daemon = await startTestDaemon();
    await using client = await daemon.client("1.x");
    await using modern = await daemon.client("2.x modern");
    const text = client.instructions() ?? "";
    await expect(`${text}\n`).toMatchFileSnapshot("golden/instructions.txt");
    expect(text.length).toBeLessThan(2_000);
    const head = text.slice(0, 500);
    expect(head).toContain("KEY RULE: a lost connection or an unclear answer never stops a child.");
    expect(head).toContain("send delegate_task again with the same clientRequestId");
    expect(modern.instructions()).toBe(text);
  });

  it("name no tool that is not listed", async () => {
    await using daemon = await startTestDaemon();
    await using client = await daemon.client();
    const tools = new Set(await client.listTools());
    const texts = [client.instructions() ?? "", ...Object.values(DESCRIPTIONS)];
    const named = texts.flatMap((text) => text.match(/\b(?:task|thread|delegate|list)_[a-z]+\b/g) ?? []);
    expect(named.filter((name) => !tools.has(name))).toEqual([]);
  });
});

describe("the handshake", () => {
  it("answers in under 100 ms while a child is being started and another cannot be (PE5)", async () => {
    await using daemon = await startTestDaemon();
    await using client = await daemon.client();
    await client.listTools();
    const work = { task: '[{"hang":true}]', role: "review" };
    await client.call("delegate_task", { ...work, clientRequestId: "review-auth-1", agent: "program" });
    await client.call("delegate_task", { ...work, clientRequestId: "review-auth-2", agent: "missing" });
    const times: number[] = [];
    for (let time = 0; time < 5; time += 1) {
      const before = performance.now();
      await initialize(daemon, { name: "claude-code", version: "2.1.332" }, TOKEN);
      await listed(daemon, "legacy");
      times.push((performance.now() - before) / 3);
    }
    expect(Math.min(...times)).toBeLessThan(100);
  });
});
