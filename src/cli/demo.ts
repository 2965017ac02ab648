/**
 * `delegate-mcp demo`: one delegation that survives everything, told step by step. No key, no network.
 *
 * A real daemon process, a real MCP client over HTTP, a real child process that commits to a real git repository, all in a
 * temporary folder. The wire is cut in the middle of a call, the call is repeated, the daemon is killed and started again.
 * Invariant: every claim that is printed is checked against what the processes left behind; a claim that does not hold
 * ends the demo with exit code 1.
 * Invariant: only processes that the demo started are ended, by pid; the folder is removed at the end.
 */

import { mkdtempSync, realpathSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";

import { type ClosingStack, createClosingStack } from "../core/closing-stack.ts";
import type { Io } from "./io.ts";
import { askChildren, type DemoChild, makeRepository } from "./demo-child.ts";
import { startDemoDaemon } from "./demo-daemon.ts";
import { type Answer, connect } from "./demo-client.ts";
import { openCuttableWire } from "./demo-wire.ts";

type Teller = { step(title: string): void; say(text: string): void; check(claim: string, holds: boolean): void };

const KEY = "demo-write-greeting-7f3k9q";
/** Far above what it takes; a demo that hangs says so instead of waiting. */
const WAITS_MAX = 60;

export async function demo(io: Io): Promise<number> {
  const folder = realpathSync(mkdtempSync(path.join(tmpdir(), "delegate-demo-")));
  const claims = { failed: 0 };
  try {
    await using stack = createClosingStack();
    await play(folder, stack, teller(io, claims), io);
  } finally {
    rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
  }
  return claims.failed === 0 ? 0 : 1;
}

async function play(folder: string, stack: ClosingStack, tell: Teller, io: Io): Promise<void> {
  const child = await makeRepository(folder);

  tell.step("Start the daemon");
  let daemon = stack.use(await startDemoDaemon({ folder, child, port: 0, env: io.env }));
  tell.say(
    `It listens on ${daemon.mcpUrl} (process ${daemon.pid}). Its only agent is a small program that takes about 4 s.`,
  );

  tell.step("Delegate a task, and cut the wire while the call is being held");
  const wire = stack.use(await openCuttableWire(daemon.port));
  const first = stack.use(await connect(`http://127.0.0.1:${wire.port}/mcp`, daemon.token));
  const request = { clientRequestId: KEY, task: child.task, title: "Write a greeting", cwd: child.repository };
  let handle = "";
  const lost = await first.call("delegate_task", { ...request, mode: "wait" }, (message) => {
    handle = message;
    wire.cut();
  });
  tell.say(`The first progress message named the task: ${handle || "(none)"}`);
  tell.say(`Then the connection broke. The caller sees: ${lost.kind === "failed" ? lost.message : "an answer"}`);
  tell.check("the call really failed for its caller", lost.kind === "failed");

  tell.step("Repeat the very same call, with the same key");
  const second = await connect(daemon.mcpUrl, daemon.token);
  const repeated = answerOf(await second.call("delegate_task", request));
  tell.say(repeated.say);
  tell.say(`task ${repeated.taskId}  thread ${repeated.childThreadId}  node ${repeated.nodeId}`);
  tell.check("it is a replay, not a second task", repeated.created === "replayed" && handle.includes(repeated.taskId));
  await until(() => askChildren(child).starts.length === 1);
  tell.check("one child was started", askChildren(child).starts.length === 1);

  tell.step("Kill the daemon in the middle of a wait (SIGKILL), and start it again");
  const broken = second.call("task_wait", { taskIds: [repeated.taskId] });
  await until(() => askChildren(child).beats > 3);
  daemon.kill();
  tell.say(
    `The wait ended without an answer: ${(await broken).kind === "failed" ? "yes" : "no"}. The task is kept on disk.`,
  );
  await second[Symbol.asyncDispose]();
  await daemon.gone;
  daemon = stack.use(await startDemoDaemon({ folder, child, port: daemon.port, env: io.env }));
  tell.say(
    `A new daemon (process ${daemon.pid}) finds the task, makes sure that the old child is gone, and runs the program again.`,
  );

  tell.step("Wait for the end, in slices");
  const third = stack.use(await connect(daemon.mcpUrl, daemon.token));
  const settled = await waitForEnd(third, repeated.taskId, tell);
  tell.say(settled.say);
  tell.say(`the child's report: ${settled.text}`);
  judge(settled, repeated, child, tell);
  tell.step("Stop the daemon");
  await daemon.stop();
  tell.say("Now with agents of your own: delegate-mcp serve says what it needs.");
}

async function waitForEnd(client: Awaited<ReturnType<typeof connect>>, taskId: string, tell: Teller): Promise<Answer> {
  let args: Readonly<Record<string, unknown>> = { taskIds: [taskId], waitMs: 2_000 };
  for (let slice = 1; slice <= WAITS_MAX; slice += 1) {
    const answer = answerOf(await client.call("task_wait", args));
    if (answer.phase === "settled") return answer;
    tell.say(`slice ${slice}: ${answer.say}`);
    args = { ...answer.nextArguments, waitMs: 2_000 };
  }
  throw new Error("the task did not end");
}

function judge(settled: Answer, accepted: Answer, child: DemoChild, tell: Teller): void {
  const { starts, overlaps, commits } = askChildren(child);
  tell.step("What the processes left behind");
  tell.check(
    "one set of ids from the first answer to the last",
    settled.taskId === accepted.taskId &&
      settled.nodeId === accepted.nodeId &&
      settled.childThreadId === accepted.childThreadId,
  );
  tell.check("the task is completed", settled.status === "completed");
  tell.check(
    `two children in all (before and after the kill), never two alive at once`,
    starts.length === 2 && !overlaps,
  );
  tell.check("one result: one commit in the repository", commits === 1);
}

function answerOf(outcome: Awaited<ReturnType<Awaited<ReturnType<typeof connect>>["call"]>>): Answer {
  if (outcome.kind === "failed") throw new Error(outcome.message);
  return outcome.answer;
}

/** Waits for what a process of its own does; polling is the only way to see that. */
async function until(condition: () => boolean): Promise<void> {
  for (let tries = 0; tries < 400 && !condition(); tries += 1) await new Promise((resolve) => setTimeout(resolve, 25));
}

function teller(io: Io, claims: { failed: number }): Teller {
  let steps = 0;
  const print = (text: string): void => void io.stdout.write(`${text}\n`);
  return {
    step(title) {
      steps += 1;
      print(`\n${steps}. ${title}`);
    },
    say: (text) => print(`   ${text}`),
    check(claim, holds) {
      if (!holds) claims.failed += 1;
      print(`   ${holds ? "ok    " : "FAILED"} ${claim}`);
    },
  };
}
