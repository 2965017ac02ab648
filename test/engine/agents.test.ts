/**
 * `list_agents`, the agent of calls that name none, and what an agent cannot be held to (contract §5).
 */

import { describe, expect, it } from "vitest";
import { PERMISSIONS } from "../../src/core/task.ts";
import type { AgentHealth } from "../../src/ports/engine.ts";
import type { AgentSettings, EngineSettings } from "../../src/ports/settings.ts";
import { createProgramProbe } from "../../src/drivers/program-probe.ts";
import { chmod, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { at, listAt, textAt } from "../support/json.ts";
import { createStepClock } from "../support/step-clock.ts";
import { startTestEngine, type TestAnswer, type TestEngine, type TestEngineOptions } from "../support/test-engine.ts";
import { createTempDirectory } from "../support/test-store.ts";

const KEY = "review-auth-1";
const say = (text: string): object => ({ do: "say", text });

function agent(change: Partial<AgentSettings> = {}): AgentSettings {
  return {
    driver: "fake",
    command: ["fake"],
    promptBy: "stdin",
    onLoss: "resume",
    model: null,
    trusted: false,
    requireEvidence: "assumed",
    env: {},
    levels: PERMISSIONS,
    writes: true,
    ...change,
  };
}

type Agents = Readonly<Record<string, AgentSettings>>;
type More = { readonly settings?: Partial<EngineSettings>; readonly limits?: Partial<EngineSettings["limits"]> };

function withAgents(agents: Agents, health: Readonly<Record<string, AgentHealth>> = {}, more: More = {}) {
  return startTestEngine({
    parts: { probe: { health: (name) => health[name] ?? "ready" } },
    limits: more.limits ?? {},
    settings: { agents: new Map(Object.entries(agents)), defaultAgent: null, ...more.settings },
  } satisfies TestEngineOptions);
}

const list = (test: TestEngine): Promise<TestAnswer> => test.call("list_agents", {});
const named = ({ structured }: TestAnswer, name: string): unknown =>
  listAt(structured, "agents").find((line) => textAt(line, "name") === name);
const defaultOf = ({ structured }: TestAnswer): string =>
  textAt(
    listAt(structured, "agents").find((line) => at(line, "isDefault") === true),
    "name",
  );

const TEAM: Agents = {
  codex: agent({ driver: "codex", model: "large", levels: ["plan", "ask", "accept_edits", "full"] }),
  pi: agent({ driver: "pi", levels: [] }),
  mine: agent({ driver: "command", trusted: true, levels: [] }),
};

describe("the list of agents", () => {
  it("reads as it always has", async () => {
    const test = await withAgents(TEAM, { pi: "missing", mine: "unknown" });
    await using _test = test;
    const { text, structured } = await list(test);
    expect(text).toBe(
      [
        "3 agents can be children here. The program of 1 of them was not found.",
        "codex (codex): default; ready; model large; permissions plan, ask, accept_edits",
        "pi (pi): missing; no permission level (not trusted)",
        "mine (command): unknown; permissions plan, ask, accept_edits",
        "Limits: 0 of 4 children at work, 0 queued of at most 1000; children may delegate nothing; permissions up to accept_edits; approvals by caller.",
        "NEXT: delegate_task, with or without one of these agents.",
      ].join("\n"),
    );
    expect(structured).toEqual({
      say: "3 agents can be children here. The program of 1 of them was not found.",
      next: { kind: "use_result" },
      agents: [
        {
          name: "codex",
          driver: "codex",
          isDefault: true,
          model: "large",
          permissions: ["plan", "ask", "accept_edits"],
          trusted: false,
          health: "ready",
        },
        { name: "pi", driver: "pi", isDefault: false, permissions: [], trusted: false, health: "missing" },
        {
          name: "mine",
          driver: "command",
          isDefault: false,
          permissions: ["plan", "ask", "accept_edits"],
          trusted: true,
          health: "unknown",
        },
      ],
      limits: {
        concurrentChildren: 4,
        running: 0,
        queued: 0,
        queueMax: 1_000,
        depthMax: 1,
        tasksPerTreeMax: 50,
        permissionsMax: "accept_edits",
        approvalsBy: "caller",
      },
      meta: { contractVersion: 1 },
    });
  });

  it("says that there are none, and what the user can do about it, and so does a delegation (P1)", async () => {
    await using test = await withAgents({});
    const answer = await list(test);
    expect(answer.say).toBe("NO AGENTS are configured here. Ask the user to configure one (agents.<name>).");
    expect(answer.structured).toMatchObject({ agents: [], meta: { contractVersion: 1 } });
    expect(answer.text).toContain("NEXT: ask your user.");
    const refused = await test.delegate(KEY, [say("x")]);
    expect(refused.structured).toMatchObject({ created: "none", error: { code: "unknown_agent" } });
  });

  it("counts who runs, who waits, and who heals a provider's trouble (P15)", async () => {
    const agents = { one: agent(), other: agent() };
    await using test = await withAgents(agents, {}, { limits: { concurrentChildren: 1 } });
    await test.delegate("review-auth-1", [{ do: "fault", times: 99, fault: { httpStatus: 503 } }], { agent: "other" });
    await test.settle();
    await test.delegate("review-auth-2", [{ do: "waitFor", name: "go" }], { agent: "one" });
    await test.settle();
    await test.delegate("review-auth-3", [say("x")], { agent: "one" });
    await test.settle();
    const answer = await list(test);
    expect(answer.structured["limits"]).toMatchObject({ running: 1, queued: 1 });
    expect([at(named(answer, "one"), "healing"), at(named(answer, "other"), "healing")]).toEqual([undefined, 1]);
    expect(answer.say).toContain("waiting for a provider that has trouble: they heal by themselves");
    expect(answer.text).toContain("other (fake): ready; permissions plan, ask, accept_edits; 1 healing");
  });

  it("stays within an answer however many agents there are (P15)", async () => {
    const many = Object.fromEntries(Array.from({ length: 200 }, (_, n) => [`agent-with-a-long-name-${n}`, agent()]));
    await using test = await withAgents(many);
    const answer = await list(test);
    expect(listAt(answer.structured, "agents").length).toBeGreaterThan(20);
    expect(answer.say).toContain("200 agents");
  });
});

describe("the agent of a call that names none", () => {
  it.each([
    ["the operator's, whether or not its program is there", "second", { second: "missing" }, "second"],
    ["the first whose program is there", null, { first: "missing", second: "unknown" }, "third"],
    [
      "else the first of which that is not known",
      null,
      { first: "missing", second: "unknown", third: "missing" },
      "second",
    ],
    ["else the first", null, { first: "missing", second: "missing", third: "missing" }, "first"],
  ] as const)("is %s", async (_what, defaultAgent, health, expected) => {
    const agents = { first: agent(), second: agent(), third: agent() };
    await using test = await withAgents(agents, health, { settings: { defaultAgent } });
    expect(defaultOf(await list(test))).toBe(expected);
    const { taskId } = await test.delegate(KEY, [say("x")]);
    await test.settle();
    expect((await test.status(taskId)).structured["agent"]).toBe(expected);
  });
});

describe("an agent that cannot be held to a level", () => {
  const agents = {
    pi: agent({ levels: [] }),
    half: agent({ levels: ["plan"] }),
    mine: agent({ levels: [], trusted: true }),
  };

  it("is given no task at it, and the answer names the setting (P18)", async () => {
    await using test = await withAgents(agents);
    for (const [name, asked] of [
      ["pi", "plan"],
      ["pi", "accept_edits"],
      ["half", "accept_edits"],
    ] as const) {
      const refused = await test.delegate(`${KEY}-${name}-${asked}`, [say("x")], { agent: name, permissions: asked });
      expect(refused.structured).toMatchObject({ created: "none", error: { code: "permission_limit" } });
      expect(refused.structured["next"]).toMatchObject({ kind: "ask_user" });
      expect(refused.say).toContain(`agents.${name}.trusted`);
      expect(refused.say).toContain(asked);
    }
    const fine = await test.delegate(`${KEY}-half-plan`, [say("x")], { agent: "half", permissions: "plan" });
    expect(fine.structured["created"]).toBe("new");
  });

  it("is given one where the operator trusts it, but never above the operator's own limit (P18)", async () => {
    await using test = await withAgents(agents);
    expect((await test.delegate(`${KEY}-1`, [say("x")], { agent: "mine" })).structured["created"]).toBe("new");
    const above = await test.delegate(`${KEY}-2`, [say("x")], { agent: "mine", permissions: "full" });
    expect(above.structured).toMatchObject({ created: "none", error: { code: "permission_limit" } });
    expect(above.say).toContain("permissions.max");
    expect(at(named(await list(test), "mine"), "permissions")).toEqual(["plan", "ask", "accept_edits"]);
  });

  it("is not handed a task by a continuation either (P18)", async () => {
    await using test = await withAgents(agents);
    const { taskId } = await test.delegate(KEY, [say("x")], { agent: "half", permissions: "plan" });
    await test.settle();
    const sent = { taskId, clientRequestId: "continue-1", message: "Go on.", agent: "pi" };
    const refused = await test.call("task_continue", sent);
    expect(refused.structured).toMatchObject({ created: "none", taskId, error: { code: "permission_limit" } });
    expect(refused.say).toContain("agents.pi.trusted");
  });

  it("goes on only within what the operator allows by then, also with the same agent (P18)", async () => {
    const settings = { agents: new Map(Object.entries(agents)), defaultAgent: null };
    const first = await withAgents(agents);
    const { taskId } = await first.delegate(KEY, [say("x")], { agent: "mine", permissions: "ask" });
    await first.settle();
    await using second = await first.restart({ settings: { ...settings, permissionsMax: "plan" } });
    const message = JSON.stringify([say("more")]);
    const refused = await second.call("task_continue", { taskId, clientRequestId: "continue-1", message });
    expect(refused.structured).toMatchObject({ created: "none", taskId, error: { code: "permission_limit" } });
    expect(refused.say).toContain("permissions.max");
    await using third = await second.restart({ settings });
    const sent = await third.call("task_continue", { taskId, clientRequestId: "continue-1", message });
    expect(sent.structured["created"]).toBe("new");
  });
});

describe("an agent without tools", () => {
  const agents = { bare: agent({ writes: false }), other: agent() };

  it("is given no task that writes, said by name with the way out, and one that reads (P18)", async () => {
    await using test = await withAgents(agents);
    const order = (asked: object) => ({
      clientRequestId: `${KEY}-${JSON.stringify(asked)}`,
      task: "x",
      agent: "bare",
      ...asked,
    });
    for (const asked of [{ access: "write" }, {}, { role: "implementation" }]) {
      const refused = await test.call("delegate_task", order(asked));
      expect(refused.structured).toMatchObject({ created: "none", error: { code: "permission_limit" } });
      expect(JSON.stringify(refused.structured["next"])).toContain(`"access":"read"`);
      expect(refused.say).toContain("asked for access write, allowed is read");
      expect(refused.say).toContain("agent bare, which has no tools");
    }
    for (const asked of [{ access: "read" }, { role: "review" }]) {
      const fine = await test.call("delegate_task", order(asked));
      expect(fine.structured["created"]).toBe("new");
    }
  });

  it("is not handed a task that writes by a continuation either; the one that has it stays (P18)", async () => {
    await using test = await withAgents(agents);
    const { taskId } = await test.delegate(KEY, [say("x")], { agent: "other", access: "write" });
    await test.settle();
    const sent = { taskId, clientRequestId: "continue-1", message: "Go on.", agent: "bare" };
    const refused = await test.call("task_continue", sent);
    expect(refused.structured).toMatchObject({ created: "none", taskId, error: { code: "permission_limit" } });
    expect(JSON.stringify(refused.structured["next"])).toContain('"agent":"other"');
  });

  it("is not chosen for whoever names none while there is another", async () => {
    await using test = await withAgents(agents);
    expect(defaultOf(await list(test))).toBe("other");
    await using alone = await withAgents({ bare: agent({ writes: false }) });
    expect(defaultOf(await list(alone))).toBe("bare");
  });

  it("takes a model's name of the caller but no options", async () => {
    await using test = await withAgents({ bare: agent({ driver: "model", writes: false }) });
    const order = { clientRequestId: `${KEY}-o`, task: "x", agent: "bare", access: "read", options: { speed: "1" } };
    const refused = await test.call("delegate_task", order);
    expect(refused.structured).toMatchObject({ created: "none", error: { code: "invalid_arguments" } });
    expect(JSON.stringify(refused.structured)).toContain("agent bare has no options");
  });
});

describe("the probe of programs", () => {
  it("calls a model ready: it is asked by the daemon itself", () => {
    const probe = createProgramProbe(new Map([["bare", agent({ driver: "model" })]]), createStepClock());
    expect(probe.health("bare")).toBe("ready");
  });

  it("finds programs on the agent's own path, sees them come and go within half a minute, and never waits", async () => {
    using directory = createTempDirectory();
    const clock = createStepClock();
    const env = { PATH: `${directory.path}:/nowhere` };
    const probe = createProgramProbe(
      new Map([
        ["here", agent({ driver: "command", command: ["tell-me"], env })],
        ["absolute", agent({ driver: "command", command: [join(directory.path, "tell-me")] })],
        ["folder", agent({ driver: "command", command: [directory.path] })],
        ["played", agent()],
      ]),
      clock,
    );
    const healths = (): readonly AgentHealth[] => ["here", "absolute", "folder", "played", "nobody"].map(probe.health);
    expect(healths()).toEqual(["unknown", "unknown", "unknown", "ready", "missing"]);
    const looked = async (expected: readonly AgentHealth[]): Promise<void> => {
      for (let turn = 0; turn < 500 && healths().join() !== expected.join(); turn += 1) await clock.advanceAndSettle(0);
      expect(healths()).toEqual(expected);
    };
    await looked(["missing", "missing", "missing", "ready", "missing"]);
    await writeFile(join(directory.path, "tell-me"), "#!/bin/sh\n");
    clock.advance(31_000);
    await looked(["missing", "missing", "missing", "ready", "missing"]);
    await chmod(join(directory.path, "tell-me"), 0o755);
    clock.advance(31_000);
    await looked(["ready", "ready", "missing", "ready", "missing"]);
  });
});
