/**
 * A real daemon whose child is a real process that speaks the Agent Client Protocol: a provider that refuses once, a daemon
 * that is killed in mid-turn, a question.
 */

import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";
import { callShown, record, type Shown, waitUntilEnded } from "../support/answers.ts";
import { type DaemonProcess, startDaemonProcess } from "../support/daemon-process.ts";
import { contents, createTestFolder, eventually } from "../support/processes.ts";

const AGENT = fileURLToPath(new URL("../support/acp-agent.ts", import.meta.url));

function startWithAgent(setting: object): Promise<DaemonProcess> {
  return startDaemonProcess({
    agents: {
      scripted: { driver: "acp", command: [process.execPath, AGENT], env: ["ACP_AGENT"], trusted: true, default: true },
    },
    env: { ACP_AGENT: JSON.stringify(setting) },
  });
}

/** What the agent was told, session by session. */
function promptsIn(log: string): readonly { readonly session: string; readonly text: string }[] {
  const messages = contents(log)
    .split("\n")
    .filter((line) => line.includes('"session/prompt"'));
  return messages.map((line) => {
    const { params } = JSON.parse(line);
    return { session: params.sessionId, text: params.prompt[0].text };
  });
}

describe("a child that speaks ACP", () => {
  it("whose provider shows an edge page once goes on in its own session and completes under its ids (W1, P2, P6, F11)", async () => {
    using folder = createTestFolder();
    const log = folder.file("log");
    const edge = { error: { code: -32000, message: "Authentication required" } };
    const page = { say: "Failed to authenticate. API Error: 403 Attention Required! | Cloudflare" };
    const made = folder.file("made");
    await using daemon = await startWithAgent({
      log,
      state: folder.file("state"),
      resume: true,
      prompts: [[{ append: made, text: "once\n" }, page, edge], [{ say: "all done" }]],
    });
    const client = await daemon.client();
    const accepted = await callShown(client, "delegate_task", {
      clientRequestId: "acp-edge-1",
      task: "Do the work.",
      access: "read",
    });
    const ended = await waitUntilEnded(client, accepted.taskId);
    expect(ended).toMatchObject({
      status: "completed",
      childThreadId: accepted.childThreadId,
      nodeId: accepted.nodeId,
      text: "all done",
    });
    const [first, second, ...more] = promptsIn(log);
    expect(first).toEqual({ session: "session-1", text: "Do the work." });
    expect(second?.session).toBe("session-1");
    expect(second?.text).not.toContain("Do the work.");
    expect(more).toEqual([]);
    expect(contents(made)).toBe("once\n");
  });

  it("goes on in its own session after the daemon was killed in mid-turn, and repeats nothing (P6, P14, R1, F18)", async () => {
    using folder = createTestFolder();
    const log = folder.file("log");
    const made = folder.file("made");
    const first = await startWithAgent({
      log,
      state: folder.file("state"),
      resume: true,
      prompts: [[{ append: made, text: "once\n" }, { hang: true }], [{ say: "all done" }]],
    });
    const client = await first.client();
    const accepted = await callShown(client, "delegate_task", {
      clientRequestId: "acp-kill-1",
      task: "Do the work.",
      access: "read",
    });
    await eventually("the child is at work", () => contents(made) !== "", 10_000);
    await first.kill();
    await using second = await first.restart();
    const again = await second.client();
    expect(await waitUntilEnded(again, accepted.taskId)).toMatchObject({
      status: "completed",
      nodeId: accepted.nodeId,
      text: "all done",
    });
    expect(promptsIn(log).map(({ session }) => session)).toEqual(["session-1", "session-1"]);
    expect(contents(made)).toBe("once\n");
  });

  it("that is continued gets the new message alone, in the session that it had (P2, P6, F14)", async () => {
    using folder = createTestFolder();
    const log = folder.file("log");
    await using daemon = await startWithAgent({ log, state: folder.file("state"), load: true, close: true });
    const client = await daemon.client();
    const accepted = await callShown(client, "delegate_task", {
      clientRequestId: "acp-continue-1",
      task: "one",
      access: "read",
    });
    expect(await waitUntilEnded(client, accepted.taskId)).toMatchObject({ status: "completed", text: "one" });
    await callShown(client, "task_continue", {
      clientRequestId: "acp-continue-2",
      taskId: accepted.taskId,
      message: "two",
    });
    expect(await waitUntilEnded(client, accepted.taskId)).toMatchObject({ status: "completed", text: "two" });
    expect(promptsIn(log)).toEqual([
      { session: "session-1", text: "one" },
      { session: "session-1", text: "two" },
    ]);
  });

  it("that asks two things at once waits for both answers, with the process that asked, and goes on with them (G4, F16)", async () => {
    using folder = createTestFolder();
    const log = folder.file("log");
    const options = [
      { optionId: "no", name: "No", kind: "reject_once" },
      { optionId: "yes", name: "Yes", kind: "allow_once" },
    ];
    const question = (id: string): object => ({ toolCall: { toolCallId: id, title: id, kind: "execute" }, options });
    const ask = { ask: [question("first"), question("second")] };
    await using daemon = await startWithAgent({ log, prompts: [[ask, { answers: true }]] });
    const client = await daemon.client();
    const { taskId } = await callShown(client, "delegate_task", {
      clientRequestId: "acp-ask-1",
      task: "Do the work.",
      access: "read",
    });
    const seen: string[] = [];
    for (const [at, optionId] of ["yes", "no"].entries()) {
      const asked = await eventually(
        "a question is open",
        async () => {
          const now = await callShown(client, "task_status", { taskId });
          return now.status === "input_required" && questionIdOf(now) !== seen[at - 1] ? now : null;
        },
        20_000,
      );
      seen.push(questionIdOf(asked));
      await callShown(client, "task_answer", { taskId, questionId: questionIdOf(asked), optionId });
    }
    const ended = await waitUntilEnded(client, taskId);
    expect(ended.status).toBe("completed");
    expect(JSON.parse(ended.text)).toEqual(
      ["yes", "no"].map((optionId) => ({ outcome: { outcome: "selected", optionId } })),
    );
    expect(promptsIn(log)).toHaveLength(1);
  });
});

function questionIdOf(answer: Shown): string {
  return String(record(answer.raw["question"])["questionId"]);
}
