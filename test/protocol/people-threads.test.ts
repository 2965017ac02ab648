/**
 * `/api` for questions, threads and agents: one tool call each, with the id as people write it.
 */

import { describe, expect, it } from "vitest";
import { OTHER_ID, startPeopleServer, TASK_ID } from "../support/people-server.ts";

describe("the routes of a thread", () => {
  it("answer a question as a person, with the fields as sent", async () => {
    await using server = await startPeopleServer();
    const answered = await server.post(`/api/tasks/${TASK_ID}/answer`, { questionId: "q_1", optionId: "allow_once" });
    expect(answered.status).toBe(200);
    expect(server.called).toEqual([
      {
        name: "task_answer",
        args: { taskId: TASK_ID, questionId: "q_1", optionId: "allow_once" },
        by: "person alice",
      },
    ]);
  });

  it("give the answer that somebody else has given as an answer, not as an error of HTTP", async () => {
    const body = {
      say: "NOT DONE (not_pending).",
      next: { kind: "wait" },
      question: { questionId: "q_1", answer: "reject" },
      meta: { by: { kind: "person", name: "bob" } },
      error: { code: "not_pending", retryable: false },
    };
    await using server = await startPeopleServer({ answer: () => body });
    const answered = await server.post(`/api/tasks/${TASK_ID}/answer`, { questionId: "q_1", text: "yes" });
    expect([answered.status, await answered.json()]).toEqual([200, body]);
  });

  it.each([
    ["a task", TASK_ID, { taskId: TASK_ID }],
    ["a thread", TASK_ID.replace("dt_", "th_"), { childThreadId: TASK_ID.replace("dt_", "th_") }],
    ["a node", encodeURIComponent(`node:delegated-task:${TASK_ID}`), { taskId: `node:delegated-task:${TASK_ID}` }],
    ["the beginning of an id, in any case", "01m8rb6a55jak79a8n9me45mj0", { taskId: TASK_ID }],
    ["what is no id", "no-such-task", { taskId: "no-such-task" }],
  ])("read a thread by %s", async (_what, named, id) => {
    await using server = await startPeopleServer();
    await server.get(`/api/threads/${named}?view=events&find=a%20b&cursor=c1&limit=100&taskId=dt_x&childThreadId=th_x`);
    expect(server.called).toEqual([
      {
        name: "thread_read",
        args: { view: "events", find: "a b", cursor: "c1", limit: "100", ...id },
        by: "person alice",
      },
    ]);
  });

  it("name the tasks that a beginning could mean, and ask no tool", async () => {
    await using server = await startPeopleServer();
    const read = await server.get("/api/threads/01M8");
    expect([read.status, await read.json()]).toMatchObject([409, { tasks: [TASK_ID, OTHER_ID] }]);
    expect(server.called).toEqual([]);
  });

  it("list the agents", async () => {
    await using server = await startPeopleServer();
    expect(await (await server.get("/api/agents")).json()).toMatchObject({ say: "list_agents" });
  });
});
