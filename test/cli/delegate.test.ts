/**
 * `delegate` and `continue`: the key, lost answers, and who is told of a result.
 */

import { describe, expect, it } from "vitest";
import { CODES } from "../../src/core/rejection.ts";
import { createCliWorld, refusal, settled, task, taskId, until } from "./cli-world.ts";

const accepted = (fields: Readonly<Record<string, unknown>> = {}) =>
  task({ created: "new", say: 'ACCEPTED: "Review".', ...fields });

describe("delegate", () => {
  it("sends the call with a key of its own, and tells a person the handle, the key and the next command (P1, P2)", async () => {
    await using world = await createCliWorld();
    world.answer(() => ({ json: accepted() }));
    const { code, stdout, stderr } = await world.run(["delegate", "Review the diff"], {
      terminal: true,
      env: { NO_COLOR: "1" },
    });
    expect(code).toBe(0);
    const [{ body } = expect.unreachable("nothing was sent")] = world.asked;
    expect(body).toEqual({
      task: "Review the diff",
      cwd: world.dir,
      mode: "async",
      clientRequestId: expect.stringMatching(/^cli-[0-9a-z]{16}$/),
    });
    expect(stdout).toBe(`${taskId()} · ${taskId().replace("dt_", "th_")} · node:delegated-task:${taskId()}\n`);
    expect(stderr).toBe(
      `ACCEPTED: "Review".\nkey ${String(body["clientRequestId"])}\nWait for it: delegate-mcp wait ${taskId()}\n`,
    );
  });

  it("prints the id alone for a program", async () => {
    await using world = await createCliWorld();
    world.answer(() => ({ json: accepted() }));
    expect((await world.run(["delegate", "x"])).stdout).toBe(`${taskId()}\n`);
  });

  it("sends what its options say, paths from where it was started", async () => {
    await using world = await createCliWorld();
    world.answer(() => ({ json: accepted() }));
    const options = [
      "--key",
      "review-7f3k9q",
      "--agent",
      "mine",
      "--model",
      "m",
      "--cwd",
      "sub",
      "--access",
      "read",
      "--title",
      "T",
    ];
    await world.run(["delegate", "-", ...options], { stdin: 'line 1\n"quoted" 漢字\n' });
    expect(world.asked[0]?.body).toEqual({
      task: 'line 1\n"quoted" 漢字\n',
      clientRequestId: "review-7f3k9q",
      agent: "mine",
      model: "m",
      cwd: `${world.dir}/sub`,
      access: "read",
      title: "T",
      mode: "async",
    });
  });

  it("repeats a call whose answer was lost with the same key and no other (P3, H2)", async () => {
    await using world = await createCliWorld();
    world.answer((_asked, count) => (count === 0 ? "cut" : { json: accepted({ created: "replayed" }) }));
    const { code } = await world.run(["delegate", "x"]);
    expect(code).toBe(0);
    expect(world.asked).toHaveLength(2);
    expect(world.asked[0]?.body).toEqual(world.asked[1]?.body);
  });

  it("says the key to ask again with when it cannot tell what became of the call (P1)", async () => {
    await using world = await createCliWorld();
    world.answer(() => "cut");
    const { code, stderr } = await world.run(["delegate", "x"]);
    const keys = new Set(world.asked.map(({ body }) => body["clientRequestId"]));
    expect([code, world.asked.length, keys.size]).toEqual([5, 4, 1]);
    expect(stderr).toContain(`send the same command with --key ${String([...keys][0])}`);
  });

  it("says it also when it was interrupted", async () => {
    await using world = await createCliWorld();
    world.answer(() => "hold");
    const running = world.start(["delegate", "x", "--key", "review-7f3k9q", "--json"]);
    await until(() => world.asked.length === 1, "the call is held");
    running.signal("SIGINT");
    const { code, stdout } = await running.ended;
    expect(code).toBe(130);
    expect(JSON.parse(stdout)).toMatchObject({
      error: { code: "interrupted", exitCode: 130, fix: expect.stringContaining("--key review-7f3k9q") },
    });
  });

  it("sends nothing for an empty or too long text (P15)", async () => {
    await using world = await createCliWorld();
    expect((await world.run(["delegate", " \n"])).code).toBe(2);
    expect((await world.run(["delegate", "-"], { stdin: "" })).code).toBe(2);
    const { code, stderr } = await world.run(["delegate", "-"], { stdin: "é".repeat(300_000) });
    expect(code).toBe(2);
    expect(stderr).toContain("The text has 600000 bytes; at most 524288 are taken.");
    expect(world.asked).toEqual([]);
  });

  it.each(CODES)("ends with the exit code of the refusal %s, and prints no id", async (code) => {
    const expected: Record<string, number> = {
      missing_client_request_id: 2,
      invalid_arguments: 2,
      idempotency_conflict: 7,
      expired_receipt: 7,
      duplicate_work: 7,
      workspace_busy: 7,
      workspace_not_allowed: 4,
      workspace_failed: 1,
      unknown_task: 3,
      unknown_thread: 3,
      unknown_agent: 3,
      agent_unavailable: 75,
      permission_limit: 4,
      not_allowed: 4,
      not_pending: 7,
      depth_limit: 4,
      tree_limit: 75,
      capacity_full: 75,
      rate_limit: 75,
      storage_unavailable: 5,
      stopping: 5,
      internal: 5,
    };
    await using world = await createCliWorld();
    world.answer(() => ({ json: refusal(code) }));
    const ran = await world.run(["delegate", "x"]);
    expect([ran.code, ran.stdout]).toEqual([expected[code], ""]);
    expect(ran.stderr).toContain(`error: NOT STARTED (${code}).`);
  });

  it("names the other task where the work or its directory is taken (P10, P11)", async () => {
    await using world = await createCliWorld();
    const next = { kind: "wait", tool: "task_wait", arguments: { taskIds: [taskId(5)], after: "1" } };
    world.answer(() => ({ json: { ...refusal("workspace_busy"), next } }));
    const { stderr } = await world.run(["delegate", "x"]);
    expect(stderr).toContain(`do:    Wait for the other task: delegate-mcp wait ${taskId(5)}`);
  });

  it("says which argument does not fit and what is expected, and names the task of a key (P1, P3)", async () => {
    await using world = await createCliWorld();
    const change = { model: "nothing: agent x takes no model" };
    world.answer(() => ({ json: { ...refusal("invalid_arguments"), next: { kind: "fix", change } } }));
    expect((await world.run(["delegate", "x", "--model", "y"])).stderr).toContain(
      "do:    Put right: model (expected nothing: agent x takes no model).\n",
    );
    world.answer(() => ({ json: { ...refusal("idempotency_conflict"), related: { taskId: taskId(5) } } }));
    expect((await world.run(["delegate", "x", "--key", "used-before"])).stderr).toContain(
      `do:    For the work that it names: delegate-mcp wait ${taskId(5)}. For new work, leave out --key or choose another.\n`,
    );
    world.answer(() => ({ json: refusal("missing_client_request_id") }));
    expect((await world.run(["delegate", "x", "--key", "short"])).stderr).toContain("do:    Give --key 8 to 256");
  });
});

describe("delegate --wait", () => {
  it("prints the result and then confirms it: here the command is the caller (P9)", async () => {
    await using world = await createCliWorld();
    world.answer(({ url }) => ({ json: url === "/api/tasks" ? accepted() : settled("completed", { settlement: 3 }) }));
    const { code, stdout } = await world.run(["delegate", "x", "--wait"]);
    expect([code, stdout]).toEqual([0, "All good.\nNo findings.\n"]);
    expect(world.asked.map(({ url }) => url)).toEqual(["/api/tasks", "/api/wait", `/api/tasks/${taskId()}/ack`]);
    expect(world.asked[2]?.body).toEqual({ settlement: 3 });
  });

  it("confirms nothing of a task that it joined: its own caller is still to be told (P9, P11)", async () => {
    await using world = await createCliWorld();
    world.answer(({ url }) => ({
      json: url === "/api/tasks" ? accepted({ created: "joined" }) : settled("completed"),
    }));
    expect((await world.run(["delegate", "x", "--wait"])).code).toBe(0);
    expect(world.asked.map(({ url }) => url)).toEqual(["/api/tasks", "/api/wait"]);
  });

  it("confirms nothing that has not ended, and leaves it running (P7)", async () => {
    await using world = await createCliWorld();
    world.answer(({ url }) => ({ json: url === "/api/tasks" ? accepted() : task({ waitEnded: "slice" }) }));
    const { code, stderr } = await world.run(["delegate", "x", "--wait", "--timeout", "0"]);
    expect(code).toBe(6);
    expect(stderr).toContain(`Wait again: delegate-mcp wait ${taskId()}`);
    expect(world.asked.map(({ url }) => url)).toEqual(["/api/tasks", "/api/wait"]);
  });

  it("prints one object with --json, and maps the end to the exit code", async () => {
    await using world = await createCliWorld();
    world.answer(({ url }) => ({ json: url === "/api/tasks" ? accepted() : settled("failed") }));
    const { code, stdout, stderr } = await world.run(["delegate", "x", "--wait", "--json"]);
    expect([code, JSON.parse(stdout), stderr]).toEqual([1, settled("failed"), ""]);
  });
});

describe("continue", () => {
  it("sends the message to the named task with a key of its own", async () => {
    await using world = await createCliWorld();
    world.answer(() => ({ json: task({ created: "new" }) }));
    const { code } = await world.run(["continue", "dt_01M8", "Go on.", "--after-settlement", "2"]);
    expect(code).toBe(0);
    expect(world.asked[1]).toMatchObject({
      method: "POST",
      url: `/api/tasks/${taskId()}/continue`,
      body: { message: "Go on.", afterSettlement: 2, mode: "async", clientRequestId: expect.stringMatching(/^cli-/) },
    });
  });
});
