/**
 * `wait`: slices, ends, exit codes, and what it must never do to a task.
 */

import { describe, expect, it } from "vitest";
import { createCliWorld, refusal, type Script, type Scripted, settled, task, taskId, until } from "./cli-world.ts";

/** An answer of `task_wait` about several tasks. */
function waited(tasks: readonly unknown[], after: string): Scripted {
  const next = { kind: "wait", tool: "task_wait", arguments: { taskIds: [taskId(1), taskId(2)], after } };
  return { json: { say: "2 tasks", next, waitEnded: "news", tasks } };
}

describe("slices", () => {
  it("asks again with what the last answer told, until the task has ended (P7, P8)", async () => {
    await using world = await createCliWorld();
    const slice = (after: string) => ({
      json: task({ waitEnded: "slice", next: { kind: "wait", arguments: { taskIds: [taskId()], after } } }),
    });
    world.answer(
      (_asked, count) => [{ json: task() }, slice("a1"), slice("a2")][count] ?? { json: settled("completed") },
    );
    const { code, stdout, stderr } = await world.run(["wait", taskId()]);
    expect([code, stdout]).toEqual([0, "All good.\nNo findings.\n"]);
    expect(stderr).toContain('COMPLETED: "Review the diff".');
    expect(world.asked.map(({ method, url }) => `${method} ${url}`)).toEqual([
      `GET /api/tasks/${taskId()}`,
      "POST /api/wait",
      "POST /api/wait",
      "POST /api/wait",
    ]);
    expect(
      world.asked.slice(1).map(({ body }) => [body["taskIds"], body["until"], body["waitMs"], body["after"]]),
    ).toEqual([
      [[taskId()], "any", 240_000, undefined],
      [[taskId()], "any", 240_000, "a1"],
      [[taskId()], "any", 240_000, "a2"],
    ]);
  });

  it("answers at once for a task that has ended, and acknowledges nothing: its caller is still to be told (P9)", async () => {
    await using world = await createCliWorld();
    world.answer(() => ({ json: settled("completed") }));
    expect((await world.run(["wait", taskId()])).code).toBe(0);
    expect(world.asked.map(({ method }) => method)).toEqual(["GET"]);
  });

  it("goes on over a stall, a restart of the daemon and an answer that was cut (P7, R1)", async () => {
    await using world = await createCliWorld();
    world.answer(
      (_asked, count) => [{ json: task() }, { json: task({ phase: "stalled" }) }, "cut" as const][count] ?? "hold",
    );
    const running = world.start(["wait", taskId()]);
    await until(() => world.asked.length === 4, "the fourth request is held");
    await world.restart((_asked, count) =>
      count === 0 ? { json: task({ waitEnded: "shutdown" }) } : { json: settled("completed") },
    );
    const { code, stderr } = await running.ended;
    expect(code).toBe(0);
    expect(stderr).toContain(`${taskId()}: working (stalled)`);
    expect(stderr).toContain("The daemon does not answer; the wait goes on when it is back.");
  });

  it("waits on while a daemon says that it is stopping", async () => {
    await using world = await createCliWorld();
    world.answer(
      (_asked, count) =>
        [{ json: task() }, { status: 503, json: refusal("stopping", "RESTARTING.") }][count] ?? {
          json: settled("completed"),
        },
    );
    expect((await world.run(["wait", taskId()])).code).toBe(0);
  });

  it("does not spin when answers without news come at once (U3)", async () => {
    await using world = await createCliWorld();
    world.answer(() => ({ json: task({ waitEnded: "slice" }) }));
    const startedMs = performance.now();
    expect((await world.run(["wait", taskId(), "--timeout", "1.2"])).code).toBe(6);
    expect(performance.now() - startedMs).toBeGreaterThan(1_150);
    expect(world.asked.length).toBeLessThan(7);
  });
});

describe("exit codes", () => {
  it.each([
    ["completed", settled("completed"), 0],
    ["failed", settled("failed"), 1],
    ["cancelled", settled("cancelled"), 1],
    ["input_required", task({ status: "input_required", phase: "awaiting_answer", say: "NEEDS AN ANSWER." }), 8],
  ])("%s", async (_status, answer, code) => {
    await using world = await createCliWorld();
    world.answer(({ method }) => ({ json: method === "GET" ? task() : answer }));
    expect((await world.run(["wait", taskId()])).code).toBe(code);
  });

  it("8 says what the child asks for, also where nobody reads a terminal (G4, F16)", async () => {
    await using world = await createCliWorld();
    const question = { questionId: "q_1", optionIds: ["yes", "no"], action: { command: "npm run db:reset" } };
    const fromChild = { question: { prompt: "May I\nreset it?", labels: { yes: "Allow\nonce", no: "Reject" } } };
    const asks = { status: "input_required", phase: "awaiting_answer", say: "NEEDS AN ANSWER.", question, fromChild };
    world.answer(({ method }) => ({ json: method === "GET" ? task() : task(asks) }));
    const { code, stderr } = await world.run(["wait", taskId()]);
    expect(code).toBe(8);
    expect(stderr).toContain("asks command: npm run db:reset\n");
    expect(stderr).toContain("asks: May I reset it?\noption yes: Allow once\noption no: Reject\n");
  });

  it("6 when the time is over, with the command to go on (P1, P7)", async () => {
    await using world = await createCliWorld();
    world.answer(() => ({ json: task({ waitEnded: "slice" }) }));
    const { code, stdout, stderr } = await world.run(["wait", taskId(), "--timeout", "0"]);
    expect([code, stdout]).toEqual([6, ""]);
    expect(stderr).toContain(`Wait again: delegate-mcp wait ${taskId()}`);
    expect(world.asked[1]?.body["waitMs"]).toBe(0);
  });

  it("5 when the daemon stays away until the time is over, with the word that nothing is lost (P1)", async () => {
    await using world = await createCliWorld();
    world.answer(({ method }) => (method === "GET" ? { json: task() } : "cut"));
    const { code, stderr } = await world.run(["wait", taskId(), "--timeout", "0.6"]);
    expect(code).toBe(5);
    expect(stderr).toContain("Tasks are not lost by that.");
  });

  it("130 on Ctrl-C, which frees the connection and leaves the task alone (P7)", async () => {
    await using world = await createCliWorld();
    world.answer(({ method }) => (method === "GET" ? { json: task() } : "hold"));
    const running = world.start(["wait", taskId()]);
    await until(() => world.asked.length === 2, "the wait is held");
    running.signal("SIGINT");
    const { code, stdout, stderr } = await running.ended;
    expect([code, stdout]).toEqual([130, ""]);
    expect(stderr).toBe(
      `error: The wait was interrupted. The task goes on.\ndo:    Wait again: delegate-mcp wait ${taskId()}\n`,
    );
    expect(world.asked).toHaveLength(2);
  });

  it("3 for an unknown task, before anything is waited for", async () => {
    await using world = await createCliWorld();
    world.answer(() => ({ status: 404, json: refusal("unknown_task") }));
    expect((await world.run(["wait", taskId(1), taskId(2)])).code).toBe(3);
    expect(world.asked).toHaveLength(1);
  });
});

describe("several tasks", () => {
  /** Answers the first look at each of two tasks. */
  const two =
    (first: unknown, second: unknown, waits: (count: number) => Scripted = () => "hold"): Script =>
    (asked, count) => {
      if (asked.method !== "GET") return waits(count);
      return { json: asked.url.endsWith(taskId(1)) ? first : second };
    };

  it("--any ends with the first, and counts only that one", async () => {
    await using world = await createCliWorld();
    const first = waited(
      [settled("completed", {}, 1), { taskId: taskId(2), status: "working", phase: "running" }],
      "a",
    );
    world.answer(two(task({}, 1), task({}, 2), () => first));
    const { code, stdout } = await world.run(["wait", taskId(1), taskId(2)]);
    expect(code).toBe(0);
    expect(stdout.split("\n").map((row) => row.split("\t").slice(0, 2))).toEqual([
      [taskId(1), "completed"],
      [taskId(2), "working"],
      [""],
    ]);
  });

  it("--all waits for the rest alone once one has ended, and fails if any failed", async () => {
    await using world = await createCliWorld();
    const first = waited([settled("failed", {}, 1), task({}, 2)], "a1");
    const second: Scripted = { json: settled("completed", {}, 2) };
    world.answer(two(task({}, 1), task({}, 2), (count) => (count === 2 ? first : second)));
    const { code, stdout } = await world.run(["wait", taskId(1), taskId(2), "--all", "--json"]);
    expect(code).toBe(1);
    expect(JSON.parse(stdout)).toMatchObject({
      tasks: [
        { taskId: taskId(1), status: "failed" },
        { taskId: taskId(2), status: "completed" },
      ],
    });
    expect(world.asked.slice(2).map(({ body }) => [body["taskIds"], body["until"], body["after"]])).toEqual([
      [[taskId(1), taskId(2)], "all", undefined],
      [[taskId(2)], "all", "a1"],
    ]);
  });

  it("--all ends early with 8 when one asks something", async () => {
    await using world = await createCliWorld();
    world.answer(two(task({}, 1), task({ status: "input_required", phase: "awaiting_answer" }, 2)));
    expect((await world.run(["wait", taskId(1), taskId(2), "--all"])).code).toBe(8);
  });

  it("3 when one of them has become unknown meanwhile", async () => {
    await using world = await createCliWorld();
    const gone = waited([{ taskId: taskId(1), error: { code: "unknown_task", retryable: false } }, task({}, 2)], "a");
    world.answer(two(task({}, 1), task({}, 2), () => gone));
    expect((await world.run(["wait", taskId(1), taskId(2), "--all"])).code).toBe(3);
  });

  it("takes at most 50 at a time, and not --any with --all (P15)", async () => {
    await using world = await createCliWorld();
    const many = Array.from({ length: 51 }, (_, index) => `dt_${index}`);
    expect((await world.run(["wait", ...many])).code).toBe(2);
    expect((await world.run(["wait", "a", "--any", "--all"])).code).toBe(2);
    expect(world.asked).toEqual([]);
  });
});

describe("what is printed", () => {
  it("keeps the child's text inside a fence on a terminal, and names branch, cut and how to go on", async () => {
    await using world = await createCliWorld();
    const fromChild = { result: { text: "done\n--- end ---", truncated: true, totalBytes: 70_000 } };
    world.answer(() => ({
      json: settled("failed", { continuable: true, workspace: { branch: "delegate/x" }, fromChild }),
    }));
    const { stdout, stderr } = await world.run(["wait", taskId()], { terminal: true, env: { NO_COLOR: "1" } });
    expect(stdout).toBe(
      "--- from the child: check it before you rely on it ---\n  done\n  --- end ---\n--- end (cut: 70000 bytes in all) ---\n",
    );
    expect(stderr.split("\n").slice(2)).toEqual([
      "Changes are on branch delegate/x.",
      "The result is cut here; it has 70000 bytes in all.",
      `See why: delegate-mcp logs ${taskId()}. Go on in the same conversation: delegate-mcp continue ${taskId()} TEXT`,
      "",
    ]);
  });

  it("says of a task that cannot be continued where the reason stands and how to run it again", async () => {
    await using world = await createCliWorld();
    world.answer(() => ({ json: settled("failed", { continuable: false }) }));
    const { stderr } = await world.run(["wait", taskId()]);
    expect(stderr).toContain(`See why: delegate-mcp logs ${taskId()}. To run it again, delegate it under a new key.\n`);
  });
});
