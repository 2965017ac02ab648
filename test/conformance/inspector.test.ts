/**
 * The Inspector's command line, a client that is not ours, in its three ways to choose a protocol era: it sends the token
 * itself, judges the tool list by its strict rules, and calls tools.
 */

import { mkdirSync, writeFileSync } from "node:fs";
import path from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { JsonSchema } from "../../src/mcp/tool.ts";
import { CONFORMANCE_TOOLS } from "../support/conformance-tools.ts";
import { type DaemonProcess, startDaemonProcess } from "../support/daemon-process.ts";
import { at, listAt, parsed, textAt } from "../support/json.ts";
import {
  installProtocolTool,
  PROTOCOL_TOOL_INSTALL_MS,
  type ProtocolToolRun,
  runProtocolTool,
} from "../support/protocol-tools.ts";
import { fakeWork } from "../support/test-daemon.ts";
import { startWireServer, TOKEN } from "../support/wire-server.ts";

/** Exit status for a schema that some client could stumble over. */
const NOT_PORTABLE = 6;
const TOOLS = [
  "delegate_task",
  "task_wait",
  "task_status",
  "task_list",
  "task_continue",
  "task_answer",
  "task_cancel",
  "task_ack",
  "thread_read",
  "list_agents",
];

let daemon: DaemonProcess;
let folder: string;
beforeAll(async () => {
  await installProtocolTool("inspector");
  daemon = await startDaemonProcess();
  folder = path.join(daemon.folder, "inspector");
  mkdirSync(folder);
  writeServer("delegate", daemon.mcpUrl, daemon.token);
}, PROTOCOL_TOOL_INSTALL_MS);
afterAll(() => daemon[Symbol.asyncDispose]());

/** In a file, so that the token stands in no argument list. */
function writeServer(name: string, url: string, token: string): void {
  const server = { type: "streamable-http", url, headers: { Authorization: `Bearer ${token}` } };
  const servers = JSON.stringify({ mcpServers: { [name]: server } });
  writeFileSync(path.join(folder, `${name}.json`), servers, { mode: 0o600 });
}

function inspect(server: string, era: string, ...args: readonly string[]): Promise<ProtocolToolRun> {
  const connection = ["--cli", "--config", `${server}.json`, "--server", server, "--protocol-era", era];
  return runProtocolTool("inspector", [...connection, "--format", "json", "--quiet", ...args], folder);
}

/** Calls a tool of the product; the answer as the Inspector shows it. */
async function call(era: string, tool: string, args: object): Promise<unknown> {
  const asked = ["--method", "tools/call", "--tool-name", tool, "--tool-args-json", JSON.stringify(args)];
  const run = await inspect("delegate", era, ...asked);
  expect(run.code, `${tool} ended with:\n${run.stdout}\n${run.stderr}`).toBe(0);
  return at(parsed(run.stdout), "result");
}

describe.each(["legacy", "auto", "modern"])("era %s", (era) => {
  it("lists every tool, and strict mode has nothing to say about their schemas", async () => {
    const run = await inspect("delegate", era, "--method", "tools/list", "--strict");

    expect(run.code, `${run.stdout}\n${run.stderr}`).toBe(0);
    expect(run.stderr).toBe("");
    expect(listAt(parsed(run.stdout), "result", "tools").map((tool) => textAt(tool, "name"))).toEqual(TOOLS);
  });

  it("delegates, and finds the working task by peeking, by its id and in the list (P1)", async () => {
    const hold = [{ waitFile: path.join(daemon.work, "never") }];
    const delegated = await call(era, "delegate_task", fakeWork(`inspector-${era}`, hold, { title: `In era ${era}` }));
    const taskId = textAt(delegated, "structuredContent", "taskId");
    const peeked = await call(era, "task_wait", { taskIds: [taskId], waitMs: 0 });
    const status = await call(era, "task_status", { taskId });
    const list = await call(era, "task_list", {});

    expect(taskId).toMatch(/^dt_/);
    const working = { structuredContent: { taskId, status: "working" } };
    expect([delegated, peeked, status]).toMatchObject([working, working, working]);
    expect(listAt(list, "structuredContent", "tasks").map((task) => textAt(task, "taskId"))).toContain(taskId);
    // Only the modern era names the server in every answer.
    const serverInfo = at(list, "_meta", "io.modelcontextprotocol/serverInfo", "name");
    expect(serverInfo).toBe(era === "legacy" ? undefined : "delegate-mcp");
  });
});

it("strict mode does complain about a schema that is not portable", async () => {
  const inputSchema: JsonSchema = { type: "object", properties: { anything: true } };
  const tools = CONFORMANCE_TOOLS.map((tool) => ({ ...tool, inputSchema }));
  await using server = await startWireServer({ mcp: { tools, instructions: "" } });
  writeServer("fixture", server.mcpUrl, TOKEN);

  const run = await inspect("fixture", "modern", "--method", "tools/list", "--strict");

  expect(run.stderr).toContain("test_simple_text");
  expect(run.code, run.stderr).toBe(NOT_PORTABLE);
});
