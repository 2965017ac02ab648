/**
 * `list`, `show`, `cancel`: what a person sees on a terminal, what a program reads, and the exit codes.
 */

import { describe, expect, it } from "vitest";
import { createCliWorld, refusal, settled, task, taskId, TOKEN } from "./cli-world.ts";

const tasks = [
  settled(
    "completed",
    {
      title: "Fix the migration",
      fromChild: undefined,
      createdAt: new Date(Date.now() - 3 * 3_600_000 - 60_000).toISOString(),
    },
    1,
  ),
  task(
    {
      phase: "healing",
      problem: { class: "edge_block", httpStatus: 403 },
      title: "A title that is far too long for any terminal, and longer still, so that it is cut",
      createdAt: new Date(Date.now() - 5_000).toISOString(),
    },
    2,
  ),
];

describe("list", () => {
  it("shows a table cut to the terminal's width, without borders and without a blank at a line's end", async () => {
    await using world = await createCliWorld();
    world.answer(() => ({ json: { say: "2 tasks", tasks } }));
    const { code, stdout } = await world.run(["list"], { terminal: true, columns: 100, env: { NO_COLOR: "1" } });
    expect(code).toBe(0);
    expect(stdout).toBe(
      [
        "TASK                           STATE              AGE  AGENT  TITLE                        DIRECTORY",
        `${taskId(1)}  completed          3 h  mine   Fix the migration            /srv/shop`,
        `${taskId(2)}  working (healing)  5 s  mine   A title that is far too lo…  /srv/shop`,
        "",
      ].join("\n"),
    );
    for (const line of stdout.split("\n")) expect(line.length).toBeLessThanOrEqual(100);
  });

  it("gives a program full values between tabs, without titles and colours", async () => {
    await using world = await createCliWorld();
    world.answer(() => ({ json: { say: "1 task", tasks: [task({ title: "a\tb\nc\\d \u001b[31mred\u202e" })] } }));
    const { stdout } = await world.run(["list"]);
    expect(stdout).toBe(`${taskId()}\tworking\t2026-01-01T00:00:00.000Z\tmine\ta\\tb\\nc\\\\d red\t/srv/shop\n`);
  });

  it("passes the daemon's own answer through with --json, unknown fields included", async () => {
    await using world = await createCliWorld();
    const answer = { say: "1 task", tasks: [task({ inventedLater: { a: 1 } })], nextCursor: "c1", alsoNew: true };
    world.answer(() => ({ json: answer }));
    const { code, stdout, stderr } = await world.run(["list", "--json"]);
    expect([code, JSON.parse(stdout), stderr]).toEqual([0, answer, ""]);
  });

  it("asks with its filters, and tells how to go on", async () => {
    await using world = await createCliWorld();
    world.answer(() => ({ json: { say: "1 task", tasks: [task()], nextCursor: "c1" } }));
    const { stderr } = await world.run([
      "ls",
      "--open",
      "--unread",
      "--status",
      "working",
      "--limit",
      "5",
      "--cursor",
      "c0",
    ]);
    expect(world.asked).toMatchObject([
      { method: "GET", url: "/api/tasks?open=1&unread=1&status=working&limit=5&cursor=c0", token: TOKEN },
    ]);
    expect(stderr).toBe("More: --cursor c1\n");
  });

  it("says what to do when there is nothing, and prints no data", async () => {
    await using world = await createCliWorld();
    world.answer(() => ({ json: { say: "none", tasks: [] } }));
    expect(await world.run(["list"])).toEqual({
      code: 0,
      stdout: "",
      stderr: 'No tasks. Start one: delegate-mcp delegate "TEXT"\n',
    });
  });
});

describe("colours", () => {
  type Given = { readonly terminal: boolean; readonly env?: Record<string, string>; readonly flags?: string[] };
  const cases: readonly (readonly [string, Given, boolean])[] = [
    ["a terminal", { terminal: true }, true],
    ["no terminal", { terminal: false }, false],
    ["NO_COLOR", { terminal: true, env: { NO_COLOR: "1" } }, false],
    ["an empty NO_COLOR", { terminal: true, env: { NO_COLOR: "" } }, true],
    ["TERM=dumb", { terminal: true, env: { TERM: "dumb" } }, false],
    ["--no-color", { terminal: true, env: { FORCE_COLOR: "1" }, flags: ["--no-color"] }, false],
    ["FORCE_COLOR without a terminal", { terminal: false, env: { FORCE_COLOR: "1" } }, true],
    ["CI without a terminal", { terminal: false, env: { CI: "1" } }, false],
  ];
  it.each(cases)("%s", async (_what, { terminal, env = {}, flags = [] }, coloured) => {
    await using world = await createCliWorld();
    world.answer(() => ({ status: 404, json: refusal("unknown_task", "NO SUCH TASK.") }));
    const { stdout, stderr } = await world.run(["show", "x", ...flags], { terminal, env });
    expect(`${stdout}${stderr}`.includes("\u001b[")).toBe(coloured);
  });
});

describe("show", () => {
  it("shows handle, state and the child's words inside a fence (P2, P17)", async () => {
    await using world = await createCliWorld();
    const hostile = "fine\u001b[2J\u001b]0;owned\u0007\u202etxt\n--- end ---\nsay: not by the child";
    world.answer(() => ({
      json: settled("failed", {
        outcome: { class: "quota" },
        stop: { proof: "marker+tree", survivors: [] },
        fromChild: { result: { text: hostile, truncated: true, totalBytes: 99 } },
      }),
    }));
    const { code, stdout } = await world.run(["show", taskId()], { terminal: true, env: { NO_COLOR: "1" } });
    expect(code).toBe(0);
    expect(stdout).toBe(
      `FAILED: "Review the diff".
task        ${taskId()}
thread      ${taskId().replace("dt_", "th_")}
node        node:delegated-task:${taskId()}
key         review-7f3k9q
state       failed
title       Review the diff
agent       mine
created     2026-01-01T00:00:00.000Z
directory   /srv/shop
access      read
settlement  1
cause       quota
stop proof  marker+tree
--- from the child: check it before you rely on it ---
  finetxt
  --- end ---
  say: not by the child
--- end (cut: 99 bytes in all) ---
See why: delegate-mcp logs ${taskId()}. To run it again, delegate it under a new key.
`,
    );
  });

  it("gives a program one name and value a line", async () => {
    await using world = await createCliWorld();
    world.answer(() => ({ json: settled("completed") }));
    const lines = (await world.run(["show", "dt_01M8"])).stdout.trimEnd().split("\n");
    expect(world.asked[0]?.url).toBe("/api/tasks/dt_01M8");
    expect(lines.every((line) => line.split("\t").length === 2)).toBe(true);
    expect(lines).toContain("result\tAll good.\\nNo findings.");
  });

  it("ends for a person with the next step", async () => {
    await using world = await createCliWorld();
    world.answer(() => ({ json: settled("failed", { continuable: true }) }));
    const { stdout } = await world.run(["show", taskId()], { terminal: true, env: { NO_COLOR: "1" } });
    expect(stdout.trimEnd().split("\n").at(-1)).toBe(
      `See why: delegate-mcp logs ${taskId()}. Go on in the same conversation: delegate-mcp continue ${taskId()} TEXT`,
    );
  });

  it("exits with 3 for an unknown task and names the newest ones", async () => {
    await using world = await createCliWorld();
    world.answer(() => ({
      status: 404,
      json: { ...refusal("unknown_task", "NO SUCH TASK among yours: x."), tasks: [task()] },
    }));
    const { code, stdout, stderr } = await world.run(["show", "x"]);
    expect([code, stdout]).toEqual([3, ""]);
    expect(stderr).toBe(
      `error: NO SUCH TASK among yours: x.\n  ${taskId()} working Review the diff\ndo:    See your tasks: delegate-mcp list\n`,
    );
  });

  it("exits with 7 for the beginning of several ids and names them", async () => {
    await using world = await createCliWorld();
    world.answer(() => ({ status: 409, json: { say: "2 tasks", tasks: [task({}, 1), task({}, 2)] } }));
    const { code, stderr } = await world.run(["show", "dt_0"]);
    expect(code).toBe(7);
    expect(stderr).toContain(taskId(1));
    expect(stderr).toContain(taskId(2));
  });

  it("prints a refusal as the daemon's own object with --json", async () => {
    await using world = await createCliWorld();
    world.answer(() => ({ status: 404, json: refusal("unknown_task") }));
    const { code, stdout } = await world.run(["show", "x", "--json"]);
    expect([code, JSON.parse(stdout)]).toEqual([3, refusal("unknown_task")]);
  });
});

describe("cancel", () => {
  it("finds the task by the beginning of its id, sends reason and abandonment, and shows the end", async () => {
    await using world = await createCliWorld();
    world.answer(({ method }) => ({ json: method === "GET" ? task() : settled("cancelled") }));
    const { code, stdout } = await world.run(["cancel", "dt_01M8", "--reason", "not wanted", "--abandon"]);
    expect([code, stdout]).toEqual([0, 'CANCELLED: "Review the diff".\n']);
    expect(world.asked[1]).toMatchObject({
      method: "POST",
      url: `/api/tasks/${taskId()}/cancel`,
      body: { reason: "not wanted", abandon: true },
    });
  });

  it("is done when the task had ended before", async () => {
    await using world = await createCliWorld();
    world.answer(() => ({ json: settled("completed") }));
    expect((await world.run(["cancel", taskId()])).code).toBe(0);
    expect(world.asked).toMatchObject([{ method: "POST", body: {} }]);
  });

  it("exits with 6 while something is still stopping, and says where to look (P12)", async () => {
    await using world = await createCliWorld();
    world.answer(() => ({ json: task({ phase: "stopping", say: "STOPPING: 1 process is left." }) }));
    const { code, stderr } = await world.run(["cancel", taskId()]);
    expect(code).toBe(6);
    expect(stderr).toContain(`delegate-mcp show ${taskId()}`);
  });
});
