/**
 * End to end: a real harness delegates to a real child that commits to a real git repository. The response is cut once, the
 * daemon is killed once; what counts is what the harness's model was shown.
 */

import { execFileSync } from "node:child_process";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import path from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, it } from "vitest";

import { type DaemonProcess, startDaemonProcess } from "../support/daemon-process.ts";
import { type HarnessName, INSTALL_TEST_MS, installHarness } from "../support/harness/install.ts";
import { harnessScratch, makeHarness } from "../support/harness.ts";
import { handleOf } from "../support/models/shown.ts";
import { type Models, startModels } from "../support/models.ts";
import { eventually } from "../support/processes.ts";
import { startTcpFaultProxy, type TcpFaultProxy } from "../support/tcp-fault-proxy.ts";

const HARNESSES: readonly HarnessName[] = ["claude", "opencode"];
const TEST_MAX_MS = 150_000;
const RUN_MAX_MS = 120_000;
/** A client needs this long to read what the proxy has passed on; a reset sooner would destroy it unread. */
const READ_MS = 300;

/** Notes its start, works until the gate opens, commits. Finds and finishes what an earlier run of it left. */
const CHILD = `
cat > task.txt
echo "$$" >> "$LOG"
while [ ! -e "$GATE" ]; do sleep 0.1; done
echo done > greeting.txt
git add -A && git -c user.name=child -c user.email=child@localhost commit -q -m "Write a greeting"
echo "COMMITTED the greeting, as asked"
`;

let models: Models;
beforeAll(async () => {
  models = await startModels();
});
afterAll(() => models[Symbol.asyncDispose]());

describe.each(HARNESSES)("%s delegates to a child that commits", (name) => {
  beforeAll(() => installHarness(name), INSTALL_TEST_MS);

  it(
    "and its model is shown the handle, the next step and the result, though the response is cut and the daemon killed (P1, P2, P3, P7, H1, H2, R1)",
    async () => {
      const first = await startRepository();
      const proxy = await startTcpFaultProxy(first.daemon.port);
      const plan = {
        id: `delegation-${name}`,
        steps: [
          {
            mcp: "delegate_task",
            args: {
              clientRequestId: `greeting-${name}-7f3k9q`,
              task: "Write a greeting and commit it.",
              title: "Greeting",
            },
          },
          { mcp: "task_wait", args: { taskIds: ["$taskId"] }, follow: true, until: "settled", gapMs: 200 },
          { text: "all done" },
        ],
      };
      const harness = await makeHarness(name, {
        models: models.url,
        mcp: { url: proxy.through(first.daemon.mcpUrl), token: first.daemon.token },
      });
      const running = harness.run(`Do it. ${models.add(plan)}`, { timeoutMs: RUN_MAX_MS });

      await cutFirstHeldAnswer(proxy);
      await eventually("the child has started", () => startsIn(first.log).length === 1, 20_000);
      await first.daemon.kill();
      await using second = await first.daemon.restart();
      await eventually("a second child has started", () => startsIn(first.log).length === 2, 30_000);
      writeFileSync(first.gate, "");

      const run = await running;
      await proxy[Symbol.asyncDispose]();
      expect(run.final, run.stderr).toContain("all done");
      expectShown(models.seen(plan.id).shown);
      expect(commitsIn(second.work)).toBe(1);
      expect(startsIn(first.log)).toHaveLength(2);
    },
    TEST_MAX_MS,
  );
});

/** The first answer has the handle and names the wait; the last has the result; all of them are about one task. */
function expectShown(shown: readonly string[]): void {
  const handles = shown.map(handleOf).filter((handle) => handle !== null);
  const [accepted] = handles;
  expect(accepted?.taskId).toMatch(/^dt_/);
  expect(accepted?.childThreadId).toMatch(/^th_/);
  expect(shown[0]).toContain("ACCEPTED");
  expect(shown[0]).toContain("task_wait");
  expect(new Set(handles.map((handle) => handle.taskId)).size).toBe(1);
  const last = shown.at(-1) ?? "";
  expect(last).toContain("COMPLETED");
  expect(last).toContain("COMMITTED the greeting");
  expect(last).toContain(accepted?.nodeId ?? "no node id");
}

async function cutFirstHeldAnswer(proxy: TcpFaultProxy): Promise<void> {
  const connection = await proxy.streamStarted();
  await sleep(READ_MS);
  connection.cut();
}

type Repository = { readonly daemon: DaemonProcess; readonly log: string; readonly gate: string };

async function startRepository(): Promise<Repository> {
  const env = { LOG: "", GATE: "" };
  const agents = {
    child: {
      driver: "command",
      command: ["/bin/sh", "-c", CHILD],
      onLoss: "rerun",
      default: true,
      env: Object.keys(env),
    },
  };
  const files = path.join(harnessScratch("child"), "child");
  const log = `${files}.log`;
  const gate = `${files}.gate`;
  const daemon = await startDaemonProcess({ agents, env: { LOG: log, GATE: gate } });
  execFileSync("git", ["init", "-q", daemon.work]);
  return { daemon, log, gate };
}

function startsIn(log: string): readonly string[] {
  return existsSync(log)
    ? readFileSync(log, "utf8")
        .split("\n")
        .filter((line) => line !== "")
    : [];
}

function commitsIn(repository: string): number {
  return Number(execFileSync("git", ["-C", repository, "rev-list", "--count", "HEAD"]).toString());
}
