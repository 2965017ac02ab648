/**
 * Real harnesses against the wire: what their model is shown, how soon they call, and what a broken stream or a restart
 * does to a held call of theirs. They run headless against a scripted model; they are installed on demand.
 */

import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type HarnessName, INSTALL_TEST_MS, installHarness } from "../support/harness/install.ts";
import { type Harness, type HarnessRun, makeHarness } from "../support/harness.ts";
import { type Models, startModels } from "../support/models.ts";
import { startTcpFaultProxy } from "../support/tcp-fault-proxy.ts";
import { startWireServer, TOKEN, type WireServer } from "../support/wire-server.ts";

const HARNESSES: readonly (readonly [name: HarnessName, clientName: string])[] = [
  ["claude", "claude-code"],
  ["opencode", "opencode"],
  ["codex", "codex-mcp-client"],
  ["gemini", "gemini-cli-mcp-client"],
];
const FIRST_CALL_MAX_MS = 10_000;
const RUN_MAX_MS = 150_000;
const TEST_MAX_MS = 180_000;
/** A client needs this long to read an event that the proxy has passed on; a reset sooner would destroy it unread. */
const READ_MS = 300;
/** Longer than one try of a client with `retry: 3000`, shorter than two, and shorter than the one of Claude Code. */
const DOWN_MS = 4_000;

let models: Models;
beforeAll(async () => {
  models = await startModels();
});
afterAll(() => models[Symbol.asyncDispose]());

function makeClient(name: HarnessName, url: string): Promise<Harness> {
  return makeHarness(name, { models: models.url, mcp: { url, token: TOKEN } });
}

/** What is waited for, unless the harness ends first: then its output is the failure. */
async function unlessOver<T>(awaited: Promise<T>, running: Promise<HarnessRun>): Promise<T> {
  const over = running.then((run) =>
    Promise.reject(new Error(`the harness ended early: ${run.stdout}\n${run.stderr}`)),
  );
  return Promise.race([awaited, over]);
}

function calls(server: WireServer, tool: string) {
  return server.requests.filter((request) => request.method === "tools/call" && request.tool === tool);
}

describe.each(HARNESSES)("%s", (name, clientName) => {
  beforeAll(() => installHarness(name), INSTALL_TEST_MS);

  it(
    "calls a tool without delay, shows its model both answers, and says its name in every call",
    async () => {
      await using server = await startWireServer();
      const plan = {
        id: `wire-${name}`,
        steps: [
          { mcp: "echo", args: { text: "ECHOED-TEXT" } },
          { mcp: "hold", args: { name: "h", waitMs: 1_500 } },
          { text: "all done" },
        ],
      };
      const harness = await makeClient(name, server.mcpUrl);
      const run = await harness.run(`Do it. ${models.add(plan)}`, { timeoutMs: RUN_MAX_MS });
      expect(run.final, run.stderr).toContain("all done");
      const [echoed, held] = models.seen(plan.id).shown;
      expect(echoed).toContain("ECHOED-TEXT");
      expect(held).toContain("nothing yet");
      expect(calls(server, "echo").length).toBe(1);
      expect(calls(server, "hold").length).toBe(1);
      const firstRequestMs = server.requests[0]?.atMs ?? Number.NaN;
      const firstCallMs = calls(server, "echo")[0]?.atMs ?? Number.NaN;
      expect(firstCallMs - firstRequestMs).toBeLessThan(FIRST_CALL_MAX_MS);
      for (const { context } of server.wire.calls)
        expect(context).toMatchObject({ era: "legacy", client: { name: clientName } });
    },
    TEST_MAX_MS,
  );

  it(
    "gets the answer of a held call whose stream is cut once, and its model notices nothing (H1, P7)",
    async () => {
      await using server = await startWireServer();
      await using proxy = await startTcpFaultProxy(server.port);
      const plan = { id: `cut-${name}`, steps: [{ mcp: "hold", args: { name: "cut" } }, { text: "all done" }] };
      const harness = await makeClient(name, proxy.through(server.mcpUrl));
      const running = harness.run(`Do it. ${models.add(plan)}`, { timeoutMs: RUN_MAX_MS });
      const first = await unlessOver(server.wire.arrived("cut"), running);
      const connection = await proxy.streamStarted();
      await sleep(READ_MS);
      connection.cut();
      expect(await first.over).toBe("closed");
      const resumed = await unlessOver(server.wire.arrived("cut"), running);
      expect(resumed.context).toMatchObject({ resumed: true, client: { name: clientName } });
      resumed.release("AFTER-THE-CUT");
      const run = await running;
      expect(run.final, run.stderr).toContain("all done");
      expect(models.seen(plan.id).shown.length).toBe(1);
      expect(models.seen(plan.id).shown[0]).toContain("AFTER-THE-CUT");
      expect(calls(server, "hold").length).toBe(1);
      expect(server.requests.filter((request) => request.resumes).length).toBe(1);
    },
    TEST_MAX_MS,
  );

  it(
    "gets the answer from the next process when the daemon is down for four seconds in mid-wait (R4, P7)",
    async () => {
      await using first = await startWireServer();
      await using second = await startWireServer();
      await using proxy = await startTcpFaultProxy(first.port);
      const plan = { id: `restart-${name}`, steps: [{ mcp: "hold", args: { name: "r" } }, { text: "all done" }] };
      const harness = await makeClient(name, proxy.through(first.mcpUrl));
      const running = harness.run(`Do it. ${models.add(plan)}`, { timeoutMs: RUN_MAX_MS });
      await unlessOver(first.wire.arrived("r"), running);
      await proxy.streamStarted();
      await sleep(READ_MS);
      proxy.set({ kind: "refuse" });
      for (const connection of proxy.connections) connection.cut();
      await sleep(DOWN_MS);
      proxy.retarget(second.port);
      proxy.set({ kind: "none" });
      const resumed = await unlessOver(second.wire.arrived("r"), running);
      expect(resumed.context).toMatchObject({ resumed: true, client: { name: clientName } });
      resumed.release("FROM-THE-NEXT-PROCESS");
      const run = await running;
      expect(run.final, run.stderr).toContain("all done");
      expect(models.seen(plan.id).shown).toHaveLength(1);
      expect(models.seen(plan.id).shown[0]).toContain("FROM-THE-NEXT-PROCESS");
    },
    TEST_MAX_MS,
  );
});
