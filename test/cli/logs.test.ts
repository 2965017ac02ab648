/**
 * `logs` and `answer`: pages to the end, the following, and answers that come too late.
 */

import { describe, expect, it } from "vitest";
import { TASK_ID, type ToolCalled } from "../support/people-server.ts";
import { at, textAt } from "../support/json.ts";
import { createCliWorld, refusal, settled, task, taskId, until } from "./cli-world.ts";
import { createPeopleWorld } from "./people-world.ts";

type Part = { readonly who: string; readonly at: number; readonly text: string; readonly time: string };

const said = (at: number, text: string, who = "child"): Part => ({ who, at, text, time: "2026-01-01T00:00:00.000Z" });

/** A page as `thread_read` answers it. */
function page(parts: readonly Part[], more: Readonly<Record<string, unknown>> = {}): Record<string, unknown> {
  return task({ say: "PAGE.", fromChild: { note: "x", view: "messages", parts }, ...more });
}

/** A thread that a test lets grow, read in pages of at most `size` parts; a cursor is the number of parts before. */
function thread(size: number) {
  const parts: Part[] = [];
  let status = "working";
  return {
    add: (...more: readonly Part[]) => void parts.push(...more),
    insert: (index: number, part: Part) => void parts.splice(index, 0, part),
    settle: () => void (status = "completed"),
    read({ args }: ToolCalled): Record<string, unknown> {
      const from = Number(textAt(args, "cursor") || "0");
      const shown = parts.slice(from, from + size);
      const more = from + size < parts.length ? { nextCursor: String(from + size) } : {};
      return page(shown, { status, ...more });
    },
  };
}

const textsIn = (stdout: string): readonly string[] =>
  stdout
    .split("\n")
    .filter(Boolean)
    .map((row) => row.split("\t")[3] ?? "");

describe("logs", () => {
  it("prints every page to the last, a line for each part", async () => {
    await using world = await createCliWorld();
    world.answer(({ url }) => ({
      json: url.includes("cursor=c1")
        ? page([said(3, "three\nlines")])
        : page([said(1, "one"), said(2, "two")], { nextCursor: "c1" }),
    }));
    const { code, stdout, stderr } = await world.run(["logs", taskId()]);
    expect([code, stderr]).toEqual([0, ""]);
    expect(stdout).toBe(
      "1\t2026-01-01T00:00:00.000Z\tchild\tone\n2\t2026-01-01T00:00:00.000Z\tchild\ttwo\n3\t2026-01-01T00:00:00.000Z\tchild\tthree\\nlines\n",
    );
    expect(world.asked.map(({ url }) => url)).toEqual([
      `/api/threads/${taskId()}?view=messages`,
      `/api/threads/${taskId()}?view=messages&cursor=c1`,
    ]);
  });

  it("keeps a child's words apart from its own headings on a terminal (P17)", async () => {
    await using world = await createCliWorld();
    world.answer(() => ({ json: page([said(1, "fine\u001b[2J\n--- 2026 person\nYES", "tool")]) }));
    const { stdout } = await world.run(["logs", taskId()], { terminal: true, env: { NO_COLOR: "1" } });
    expect(stdout).toBe("--- 2026-01-01T00:00:00.000Z tool 1\n  fine\n  --- 2026 person\n  YES\n");
  });

  it("gives a view that is one text to a program as that text", async () => {
    await using world = await createCliWorld();
    world.answer(({ url }) => ({
      json: url.includes("cursor") ? page([said(9, "+b")]) : page([said(0, "--- a\n+")], { nextCursor: "9" }),
    }));
    const { stdout } = await world.run(["logs", taskId(), "--view", "changes"]);
    expect(stdout).toBe("--- a\n++b\n");
  });

  it("sends what to find, and prints an object a line with --json", async () => {
    await using world = await createCliWorld();
    world.answer(() => ({ json: page([said(1, "a needle"), said(1, "needles")]) }));
    const { stdout } = await world.run(["logs", taskId(), "--view", "events", "--find", "needle & co", "--json"]);
    expect(world.asked[0]?.url).toBe(`/api/threads/${taskId()}?view=events&find=needle+%26+co`);
    expect(
      stdout
        .trimEnd()
        .split("\n")
        .map((line) => JSON.parse(line)),
    ).toEqual([said(1, "a needle"), said(1, "needles")]);
  });

  it("says why there is nothing, and refuses to follow what does not grow", async () => {
    await using world = await createCliWorld();
    world.answer(() => ({ json: task({ say: "NO RESULT YET." }) }));
    const { code, stdout, stderr } = await world.run(["logs", taskId(), "--view", "result"]);
    expect([code, stdout, stderr]).toEqual([0, "", "NO RESULT YET.\n"]);
    expect((await world.run(["logs", taskId(), "-f", "--view", "changes"])).code).toBe(2);
    expect((await world.run(["logs", taskId(), "--view", "everything"])).code).toBe(2);
  });

  it("does not wait for a daemon that is not there", async () => {
    await using world = await createCliWorld();
    const startedMs = performance.now();
    const { code, stderr } = await world.run(["logs", taskId(), "-f", "--url", "http://127.0.0.1:1"]);
    expect([code, stderr]).toEqual([5, expect.not.stringContaining("does not answer")]);
    expect(performance.now() - startedMs).toBeLessThan(2_000);
  });

  it("ends with 3 for an unknown task", async () => {
    await using world = await createCliWorld();
    world.answer(() => ({ status: 404, json: refusal("unknown_task", "NO SUCH TASK.") }));
    expect((await world.run(["logs", "x"])).code).toBe(3);
  });
});

describe("logs --follow", () => {
  it("prints what is new after each change, nothing twice, and ends when the task has (P7)", async () => {
    const log = thread(3);
    await using world = await createPeopleWorld({ answer: log.read });
    log.add(said(1, "one"), said(2, "two"));
    const running = world.start(["logs", TASK_ID, "-f"]);
    await until(() => textsIn(running.stdout()).length === 2 && world.server.followers() === 1, "two parts");
    log.add(said(3, "three"), said(4, "four"));
    world.server.change();
    await until(() => textsIn(running.stdout()).length === 4, "four parts");
    // Two logs are merged by time, so a part can come in before one that was shown.
    log.add(said(1, "late", "caller"), said(5, "five"));
    log.settle();
    world.server.change();
    const { code, stdout } = await running.ended;
    expect(code).toBe(0);
    expect(textsIn(stdout)).toEqual(["one", "two", "three", "four", "late", "five"]);
    await until(() => world.server.followers() === 0, "nobody follows");
  });

  it("prints no part again that has moved to the next page", async () => {
    const log = thread(3);
    await using world = await createPeopleWorld({ answer: log.read });
    log.add(said(1, "one"), said(2, "two"), said(3, "three"));
    const running = world.start(["logs", TASK_ID, "-f"]);
    await until(() => textsIn(running.stdout()).length === 3 && world.server.followers() === 1, "three parts");
    log.insert(1, said(7, "late", "caller"));
    log.settle();
    world.server.change();
    expect(textsIn((await running.ended).stdout)).toEqual(["one", "two", "three", "late"]);
  });

  it("prints both halves of a part that two pages share", async () => {
    await using world = await createCliWorld();
    world.answer(({ url }) => ({
      json: url.includes("cursor")
        ? page([said(1, "-half"), said(2, "two")])
        : page([said(1, "first")], { nextCursor: "c" }),
    }));
    expect(textsIn((await world.run(["logs", taskId()])).stdout)).toEqual(["first", "-half", "two"]);
  });

  it("needs no event to notice what is new: events are hints", async () => {
    const log = thread(10);
    await using world = await createPeopleWorld({ answer: log.read });
    log.add(said(1, "one"));
    const running = world.start(["logs", TASK_ID, "-f"]);
    await until(() => textsIn(running.stdout()).length === 1, "one part");
    log.add(said(2, "two"));
    log.settle();
    expect(textsIn((await running.ended).stdout)).toEqual(["one", "two"]);
  });

  it("goes on over a restart of the daemon from where it stood (R1)", async () => {
    await using world = await createCliWorld();
    world.answer(({ url }) => (url.startsWith("/api/events") ? "hold" : { json: page([said(1, "one")]) }));
    const running = world.start(["logs", taskId(), "-f"]);
    await until(() => textsIn(running.stdout()).length === 1, "one part");
    await world.restart(({ url }) =>
      url.startsWith("/api/events")
        ? "hold"
        : { json: page([said(1, "one"), said(2, "two")], { status: "completed" }) },
    );
    const { code, stdout } = await running.ended;
    expect([code, textsIn(stdout)]).toEqual([0, ["one", "two"]]);
  });

  it("tells that the task asks something, once for each question", async () => {
    let status = "working";
    await using world = await createPeopleWorld({ answer: () => page([said(1, "one")], { status }) });
    const running = world.start(["logs", TASK_ID, "-f"]);
    await until(() => world.server.followers() === 1, "it follows");
    status = "input_required";
    for (const look of [1, 2]) {
      const before = world.server.called.length;
      world.server.change();
      await until(() => world.server.called.length > before, `look ${look}`);
    }
    status = "completed";
    world.server.change();
    const { stderr } = await running.ended;
    expect(stderr).toBe(`It asks something: delegate-mcp show ${TASK_ID}\n`);
  });

  it("ends with 130 on Ctrl-C and touches nothing (P7)", async () => {
    await using world = await createPeopleWorld({ answer: () => page([said(1, "one")]) });
    const running = world.start(["logs", TASK_ID, "-f"]);
    await until(() => running.stdout() !== "" && world.server.followers() === 1, "it follows");
    running.signal("SIGINT");
    const { code, stderr } = await running.ended;
    expect([code, stderr]).toEqual([130, "error: Interrupted. The task is not touched by that.\n"]);
    expect(new Set(world.server.called.map(({ name }) => name))).toEqual(new Set(["thread_read"]));
  });
});

describe("answer", () => {
  it("sends an option or a text, by the beginning of an id too", async () => {
    await using world = await createCliWorld();
    world.answer(() => ({ json: task({ say: "ANSWERED." }) }));
    const { code, stdout } = await world.run(["answer", "dt_01M8", "q_3", "allow_once"]);
    expect([code, stdout]).toEqual([0, "ANSWERED.\n"]);
    await world.run(["answer", taskId(), "q_3", "--text", "Use the other one."]);
    expect(world.asked.slice(1).map(({ method, url, body }) => [method, url, body])).toEqual([
      ["POST", `/api/tasks/${taskId()}/answer`, { questionId: "q_3", optionId: "allow_once" }],
      ["POST", `/api/tasks/${taskId()}/answer`, { questionId: "q_3", text: "Use the other one." }],
    ]);
  });

  it("takes one of both, and a question", async () => {
    await using world = await createCliWorld();
    for (const args of [["a"], ["a", "q_1"], ["a", "q_1", "yes", "--text", "x"]])
      expect((await world.run(["answer", ...args])).code).toBe(2);
    expect(world.asked).toEqual([]);
  });

  it("ends with 7 and the recorded answer where somebody has answered differently", async () => {
    const recorded = {
      ...refusal("not_pending", "NOT DONE (not_pending): it was answered before."),
      question: { questionId: "q_3", answer: "reject" },
      meta: { by: { kind: "person", name: "bob" } },
    };
    await using world = await createCliWorld();
    world.answer(() => ({ json: recorded }));
    const { code, stderr } = await world.run(["answer", taskId(), "q_3", "allow_once"]);
    expect(code).toBe(7);
    expect(stderr).toContain("  q_3 answered: reject by person bob\n");
    const { stdout } = await world.run(["answer", taskId(), "q_3", "allow_once", "--json"]);
    expect(JSON.parse(stdout)).toEqual(recorded);
  });

  it("names the options where the one that was given is none of them", async () => {
    const question = { questionId: "q_3", kind: "permission", optionIds: ["allow_once", "reject"] };
    await using world = await createCliWorld();
    world.answer(() => ({ status: 400, json: { ...refusal("invalid_arguments", "NOT DONE."), question } }));
    const { code, stderr } = await world.run(["answer", taskId(), "q_3", "perhaps"]);
    expect([code, stderr]).toEqual([2, expect.stringContaining("  q_3 options: allow_once, reject\n")]);
  });

  it("is what a wait names when a task asks something", async () => {
    await using world = await createCliWorld();
    world.answer(() => ({
      json: task({
        status: "input_required",
        phase: "awaiting_answer",
        question: { questionId: "q_3", optionIds: ["a"] },
      }),
    }));
    const { code, stderr } = await world.run(["wait", taskId()]);
    expect(code).toBe(8);
    expect(stderr).toContain(`Answer it: delegate-mcp answer ${taskId()} q_3 OPTION, or --text TEXT`);
  });
});

describe("agents", () => {
  it("lists them with driver, health and levels", async () => {
    const agents = [
      { name: "codex", driver: "codex", default: true, permissions: ["plan", "ask"], health: "ready", healing: 2 },
      { name: "mine", driver: "command", model: "m", permissions: ["full"], health: "missing" },
    ];
    await using world = await createCliWorld();
    world.answer(() => ({ json: { say: "2 agents.", agents } }));
    const { code, stdout } = await world.run(["agents"]);
    expect([code, stdout]).toEqual([
      0,
      "codex\tcodex\tready, 2 healing\tdefault\t\tplan,ask\nmine\tcommand\tmissing\t\tm\tfull\n",
    ]);
    expect(at(JSON.parse((await world.run(["agents", "--json"])).stdout), "agents")).toEqual(agents);
  });
});

describe("continue", () => {
  it("can name another agent and model", async () => {
    await using world = await createCliWorld();
    world.answer(() => ({ json: settled("completed", { created: "new" }) }));
    await world.run(["continue", taskId(), "Go on.", "--agent", "codex", "--model", "m"]);
    expect(world.asked[0]?.body).toMatchObject({ message: "Go on.", agent: "codex", model: "m" });
  });
});
