/**
 * Whatever a child, its tools, its files or its provider writes, in whatever field it comes, stays where a child's words
 * belong, in every answer of every tool (P17). `FUZZ_RUNS` asks for more than the few runs of a check.
 */

import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { Caller } from "../../src/core/caller.ts";
import { parseId } from "../../src/core/ids.ts";
import type { Survivor } from "../../src/core/task.ts";
import type { Workspace } from "../../src/ports/workspace.ts";
import { outsideFences } from "../support/answer-check.ts";
import {
  checkUntrusted,
  createHostileDriver,
  type HostileAct,
  hostileAct,
  hostileSurvivors,
  hostileText,
} from "../support/hostile.ts";
import { at, listAt, textAt } from "../support/json.ts";
import { ALICE, callerOf, startTestEngine, type TestAnswer, type TestEngine } from "../support/test-engine.ts";

const RUNS = Number(process.env["FUZZ_RUNS"] ?? 6);
const WITHIN_MS = 10_000 + RUNS * 400;
const [ONE, OTHER] = ["Zq7one", "Zq7other"] as const;
const STEMS = [ONE, OTHER];
const PERSON: Caller = { ...ALICE, kind: "person" };

type Life = {
  readonly one: HostileAct;
  readonly other: HostileAct;
  readonly left: readonly Survivor[];
  readonly stays: boolean;
  readonly patch: string;
  readonly files: readonly string[];
};

const life: fc.Arbitrary<Life> = fc.record({
  one: hostileAct(ONE),
  other: hostileAct(OTHER),
  left: hostileSurvivors(ONE),
  stays: fc.boolean(),
  patch: hostileText(ONE),
  files: fc.array(hostileText(ONE, 3), { minLength: 1, maxLength: 4 }),
});

/** A checkout whose files a child has named and filled. */
function hostileWorkspace({ patch, files }: Life): Workspace {
  return {
    roots: ["/shop"],
    resolve: async (wanted) => ({ kind: "resolved", path: wanted ?? "/shop" }),
    head: async () => "0123456789abcdef0123456789abcdef01234567",
    changes: async (cwd) => ({ kind: "changes", patch, files: cwd === "/shop/one" ? files : [], truncated: false }),
  };
}

type Judge = { readonly judged: (answer: TestAnswer) => TestAnswer; readonly own: Map<string, string> };

function createJudge(): Judge {
  const own = new Map<string, string>();
  let before = new Set<string>();
  return {
    own,
    judged(answer) {
      // A mark is short, so in thousands of answers some come again; in one answer and the next they never do.
      const marks = new Set<string>();
      checkUntrusted(answer, STEMS, own, marks);
      for (const mark of marks) expect(before.has(mark), "the mark of the answer before").toBe(false);
      before = marks;
      return answer;
    },
  };
}

const VIEWS = ["messages", "result", "changes", "events"] as const;

describe("whatever a child writes", () => {
  it(
    "stays under fromChild, between lines whose mark is new, or in the few named fields, in every answer of every tool (P17)",
    async () => {
      await fc.assert(fc.asyncProperty(life, live), { numRuns: RUNS, endOnFailure: true });
    },
    WITHIN_MS,
  );

  async function live(what: Life): Promise<void> {
    const driver = createHostileDriver("command");
    const progress: string[] = [];
    await using test = await startTestEngine({
      drivers: [driver],
      workspace: hostileWorkspace(what),
      limits: { concurrentChildren: 10 },
    });
    const { judged, own } = createJudge();
    driver.teach("play one", what.one);
    driver.teach("play other", what.other);
    const call = async (tool: string, args: Record<string, unknown>, caller: Caller = ALICE): Promise<TestAnswer> =>
      judged(await test.call(tool, args, { caller, sliceMaxMs: 0, progress: (message) => progress.push(message) }));
    const work = { agent: "plain", access: "read", title: "Review it" };
    const start = async (name: string, stem: string): Promise<string> => {
      const sent = { clientRequestId: `hostile-${name}-1`, task: `play ${name}`, ...work, cwd: `/shop/${name}` };
      const { taskId } = await test.call("delegate_task", sent);
      own.set(taskId, stem);
      return taskId;
    };
    const one = await start("one", ONE);
    if (what.stays) test.children.leave(what.left, one);
    const other = await start("other", OTHER);
    await test.settle();

    const lookAround = async (): Promise<void> => {
      for (const taskId of [one, other]) {
        await call("task_status", { taskId });
        await call("task_status", { taskId }, PERSON);
        await call("task_wait", { taskIds: [taskId], waitMs: 0 });
        for (const view of VIEWS) {
          await call("thread_read", { taskId, view });
          await call("thread_read", { taskId, view, find: "Zq7", limit: 500 });
        }
      }
      await call("task_wait", { taskIds: [one, other], waitMs: 0 });
      await call("task_wait", { taskIds: [one, "dt_unknown", other], until: "all", waitMs: 0 });
      await call("task_wait", { waitMs: 0 });
      await call("task_list", {});
      await call("task_list", { parentTaskId: one });
      await call("list_agents", {});
      // A replay, a conflict, another delegation beside these, and ids that name nothing.
      await call("delegate_task", { clientRequestId: "hostile-one-1", task: "play one", ...work, cwd: "/shop/one" });
      await call("delegate_task", { clientRequestId: "hostile-one-1", task: "something else", ...work });
      await call("task_status", { taskId: "dt_00000000000000000000000000" });
    };
    await lookAround();
    await call("delegate_task", { clientRequestId: "beside-them-1", task: "nothing", ...work });
    for (const taskId of [one, other]) await answered(test, call, taskId, driver);
    await test.settle();
    await lookAround();
    await call("task_ack", { taskId: one, settlement: 1 });
    await call("task_continue", { taskId: one, message: "go on", clientRequestId: "continue-one-1" });
    await test.settle();
    for (const taskId of [one, other]) {
      const cancelled = test.call("task_cancel", { taskId, reason: "enough" });
      await test.clock.advanceAndSettle(60_000);
      judged(await cancelled);
    }
    await lookAround();
    test.children.leave([]);

    const told = JSON.stringify([progress, test.log.entries.filter(({ level }) => level !== "debug")]);
    for (const stem of STEMS) expect(told, "progress and log").not.toContain(stem);
  }

  /** What is shown of a question can be answered as it is shown, and the child gets its own word for it. */
  async function answered(
    test: TestEngine,
    call: (tool: string, args: Record<string, unknown>, caller?: Caller) => Promise<TestAnswer>,
    taskId: string,
    driver: ReturnType<typeof createHostileDriver>,
  ): Promise<void> {
    const asked = await call("task_status", { taskId });
    const questionId = textAt(asked.structured, "question", "questionId");
    if (questionId === "") return;
    const options = listAt(asked.structured, "question", "optionIds").map(String);
    expect(new Set(options).size, "options can be told apart").toBe(options.length);
    await call("task_answer", { taskId, questionId, optionId: "none of these" });
    const before = driver.answers.length;
    const answer = await call("task_answer", { taskId, questionId, optionId: options.at(-1) });
    expect(at(answer.structured, "error")).toBeUndefined();
    await test.settle();
    const got = driver.answers.slice(before);
    expect(got).toHaveLength(1);
    // A second answer is told what was chosen.
    await call("task_answer", { taskId, questionId, optionId: "another one" });
  }
});

describe("a child that delegates", () => {
  it(
    "puts no words of its own into what those above it read of its children (P17, P18)",
    async () => {
      await fc.assert(
        fc.asyncProperty(hostileText(ONE, 4), async (words) => {
          await using test = await startTestEngine({ limits: { depthMax: 3, concurrentChildren: 10 } });
          const top = await test.delegate("top-level-1", [{ do: "waitFor", name: "never" }]);
          await test.settle();
          const parsed = parseId(top.taskId);
          if (parsed.kind !== "task") throw new Error("no task id");
          const lineage = { taskId: parsed.taskId, epoch: 1, ancestors: [] };
          const child: Caller = {
            kind: "child",
            name: "alice",
            scopes: ["read", "delegate"],
            conversation: null,
            lineage,
          };
          const title = `${ONE} ${words}`.slice(0, 120);
          const clientRequestId = `${ONE}-${words}`.slice(0, 250);
          const below = await test.delegate(
            clientRequestId,
            [{ do: "say", text: "fine" }],
            { title },
            { caller: child },
          );
          expect(at(below.structured, "error"), below.say).toBeUndefined();
          await test.settle();
          const reader = { caller: callerOf("alice") };
          const answers = [
            await test.status(below.taskId, reader),
            await test.call("task_list", {}, reader),
            await test.call("task_list", { parentTaskId: top.taskId }, reader),
            await test.call("task_wait", { taskIds: [top.taskId, below.taskId], waitMs: 0 }, reader),
            await test.call("task_status", { taskId: "dt_00000000000000000000000000" }, reader),
            await test.call("delegate_task", { clientRequestId: "beside-it-1", task: "nothing" }, reader),
            await test.call("task_cancel", { taskId: below.taskId }, reader),
            await test.call("thread_read", { taskId: below.taskId, view: "result" }, reader),
          ];
          for (const { structured, text } of answers) {
            const said = JSON.stringify(structured, (name, value: unknown) =>
              name === "fromChild" ? undefined : value,
            );
            expect(said).not.toContain(ONE);
            expect(outsideFences(text)).not.toContain(ONE);
          }
          // Whoever chose the words reads them.
          expect((await test.status(below.taskId, { caller: child })).structured["title"]).toContain(ONE);
        }),
        { numRuns: RUNS },
      );
    },
    10_000 + RUNS * 200,
  );
});
