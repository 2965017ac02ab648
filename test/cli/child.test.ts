/**
 * The command line inside a delegated child: the tools over `/mcp` with the child's credential, and nothing else.
 */

import { chmodSync } from "node:fs";
import path from "node:path";
import { describe, expect, it } from "vitest";
import type { Tool } from "../../src/mcp/tool.ts";
import { textAt } from "../support/json.ts";
import { type PeopleServer, startPeopleServer } from "../support/people-server.ts";
import { createCliWorld, refusal, settled, task, taskId, TOKEN, until } from "./cli-world.ts";

type Called = {
  readonly tool: string;
  readonly args: unknown;
  readonly client: string;
  readonly limitMs: number | null;
};

const TOOLS = [
  "delegate_task",
  "task_wait",
  "task_status",
  "task_list",
  "task_continue",
  "task_cancel",
  "task_ack",
  "thread_read",
  "list_agents",
] as const;

/** A server whose tools answer what the test says. */
async function startTools(answer: (called: Called) => Readonly<Record<string, unknown>>) {
  const calls: Called[] = [];
  const tools = TOOLS.map(
    (name): Tool => ({
      name,
      title: name,
      description: name,
      inputSchema: { type: "object" },
      annotations: { readOnlyHint: true },
      mayHold: () => name === "task_wait",
      async call(args, { client, requestTimeoutMs }) {
        const called = { tool: name, args, client: client?.name ?? "", limitMs: requestTimeoutMs };
        calls.push(called);
        return { content: [{ type: "text", text: "x" }], structuredContent: answer(called) };
      },
    }),
  );
  const server = await startPeopleServer({ tools });
  return { server, calls, [Symbol.asyncDispose]: server[Symbol.asyncDispose] };
}

const childOf = (server: PeopleServer, token = "token-of-kid") => ({
  DELEGATE_CHILD_URL: `${server.origin}/mcp`,
  DELEGATE_CHILD_TOKEN: token,
  DELEGATE_CHILD_MARK: "dm_1.dt_1.a1",
  DELEGATE_CHILD_TASK_ID: taskId(9),
});

describe("a delegated child", () => {
  it("delegates, waits and acknowledges by the tools, with its own credential alone (P18)", async () => {
    await using tools = await startTools(({ tool }) =>
      tool === "delegate_task" ? task({ created: "new" }) : settled("completed", { settlement: 2 }),
    );
    await using world = await createCliWorld();
    // Neither a token file that is open nor the person's variables matter: they are not looked at.
    chmodSync(path.join(world.dataDir, "token"), 0o644);
    const env = { ...childOf(tools.server), DELEGATE_MCP_URL: world.url, DELEGATE_MCP_TOKEN: TOKEN };
    const { code, stdout } = await world.run(["delegate", "Part", "--key", "part-7f3k9q", "--wait"], { env });
    expect([code, stdout]).toEqual([0, "All good.\nNo findings.\n"]);
    expect(tools.calls.map(({ tool, args }) => [tool, args])).toEqual([
      ["delegate_task", { task: "Part", cwd: world.dir, clientRequestId: "part-7f3k9q", mode: "async" }],
      ["task_wait", { taskIds: [taskId()], until: "any", waitMs: 240_000 }],
      ["task_ack", { taskId: taskId(), settlement: 2 }],
    ]);
    expect(tools.calls.map(({ client, limitMs }) => [client, limitMs])).toContainEqual(["delegate-mcp-cli", 300_000]);
    expect(world.asked).toEqual([]);
  });

  it.each([
    [["list", "--open", "--limit", "5"], "task_list", { open: true, limit: "5" }],
    [["show", taskId()], "task_status", { taskId: taskId() }],
    [["cancel", taskId(), "--reason", "r"], "task_cancel", { taskId: taskId(), reason: "r" }],
    [["logs", taskId(), "--find", "x"], "thread_read", { taskId: taskId(), view: "messages", find: "x" }],
    [["agents"], "list_agents", {}],
  ])("%j is the tool %s", async (args, tool, sent) => {
    await using tools = await startTools(() => settled("completed", { tasks: [], agents: [] }));
    await using world = await createCliWorld();
    expect((await world.run(args, { env: childOf(tools.server) })).code).toBe(0);
    expect(tools.calls).toMatchObject([{ tool, args: sent }]);
  });

  it("continues what is its own, by the beginning of an id found in its own list, page after page", async () => {
    await using tools = await startTools(({ tool, args }) => {
      if (tool !== "task_list") return task({ created: "new" }, 3);
      const isFirst = textAt(args, "cursor") === "";
      return {
        say: "x",
        next: { kind: "wait" },
        tasks: [task({}, isFirst ? 1 : 3)],
        ...(isFirst ? { nextCursor: taskId(1) } : {}),
      };
    });
    await using world = await createCliWorld();
    const prefix = taskId(3).toLowerCase();
    const { code } = await world.run(["continue", prefix, "Go on."], { env: childOf(tools.server) });
    expect(code).toBe(0);
    expect(tools.calls.at(-1)).toMatchObject({ tool: "task_continue", args: { taskId: taskId(3), message: "Go on." } });
  });

  it("ends with 7 for the beginning of several ids, and with 3 for one of none (P16)", async () => {
    await using tools = await startTools(({ tool }) =>
      tool === "task_list"
        ? { say: "x", next: { kind: "wait" }, tasks: [task({}, 1), task({}, 2)] }
        : refusal("unknown_task"),
    );
    await using world = await createCliWorld();
    const several = await world.run(["show", "01M8"], { env: childOf(tools.server) });
    expect([several.code, several.stderr]).toEqual([7, expect.stringContaining(taskId(2))]);
    expect((await world.run(["show", "0X"], { env: childOf(tools.server) })).code).toBe(3);
  });

  it("shows refusals with the exit codes of everybody", async () => {
    await using tools = await startTools(() => refusal("depth_limit"));
    await using world = await createCliWorld();
    expect((await world.run(["delegate", "x"], { env: childOf(tools.server) })).code).toBe(4);
  });

  it.each([
    [["answer", "a", "q_1", "yes"], "answer"],
    [["export", "a"], "export"],
    [["prune", "--yes"], "prune"],
    [["host"], "host"],
    [["host", "forget", "x"], "host"],
    [["token", "list"], "token"],
    [["doctor"], "doctor"],
    [["cancel", "a", "--abandon"], "cancel --abandon"],
  ])("cannot use %j, which is told by name (P18)", async (args, verb) => {
    await using tools = await startTools(() => task());
    await using world = await createCliWorld();
    const { code, stderr } = await world.run(args, { env: childOf(tools.server) });
    expect([code, tools.calls, tools.server.called, world.asked]).toEqual([4, [], [], []]);
    expect(stderr).toContain(`error: This is a delegated child: \`${verb}\` is not for it.`);
    const { stdout } = await world.run([...args, "--json"], { env: childOf(tools.server) });
    expect(JSON.parse(stdout)).toMatchObject({ error: { code: "child", exitCode: 4 } });
  });

  it("talks to its own daemon only, also where the address is named (P18)", async () => {
    await using tools = await startTools(() => ({ say: "x", tasks: [] }));
    await using world = await createCliWorld();
    const env = childOf(tools.server);
    expect((await world.run(["list", "--url", world.url], { env })).code).toBe(4);
    expect((await world.run(["list", "--url", tools.server.origin], { env })).code).toBe(0);
    expect([tools.calls.length, world.asked]).toEqual([1, []]);
  });

  it("is told when its credential does not hold, and when nobody answers", async () => {
    await using tools = await startTools(() => task());
    await using world = await createCliWorld();
    tools.server.revoke("kid");
    const revoked = await world.run(["list"], { env: childOf(tools.server) });
    expect([revoked.code, revoked.stderr]).toEqual([4, expect.stringContaining("This token was revoked.")]);
    await tools.server.stop();
    const gone = await world.run(["list"], { env: childOf(tools.server, "token-of-other") });
    expect([gone.code, gone.stderr]).toEqual([5, expect.stringContaining("Nothing listens there.")]);
  });

  it("waits with Ctrl-C as everybody (P7)", async () => {
    await using server = await startPeopleServer({ tools: [holding()] });
    await using world = await createCliWorld();
    const running = world.start(["wait", taskId()], { env: childOf(server) });
    await until(() => held > 0, "the wait is held");
    running.signal("SIGINT");
    expect((await running.ended).code).toBe(130);
  });
});

let held = 0;

/** `task_status` answers, and so does the wait, which is held until its caller has gone. */
function holding(): Tool {
  return {
    name: "task_status",
    title: "x",
    description: "x",
    inputSchema: { type: "object" },
    annotations: { readOnlyHint: true },
    mayHold: () => true,
    async call(_args, { signal }) {
      held += 1;
      await new Promise((resolve) => signal.addEventListener("abort", resolve, { once: true }));
      return { content: [{ type: "text", text: "x" }], structuredContent: task() };
    },
  };
}
