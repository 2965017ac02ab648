/**
 * Secrets planted in every place where a real daemon meets some, and looked for in every place where it leaves something
 * (X2, X4). Linux only where command lines are read.
 */

import { once } from "node:events";
import { existsSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import path from "node:path";
import { describe, expect, it } from "vitest";
import { type Shown, callShown, waitUntilEnded } from "../support/answers.ts";
import { type DaemonProcess, runCommand, startDaemonProcess } from "../support/daemon-process.ts";
import type { TestClient } from "../support/mcp-clients.ts";
import { eventually } from "../support/processes.ts";

/** Known to the daemon: nobody may find them anywhere. */
const KNOWN = {
  agentKey: "planted agent key, with words and a 'quote' é",
  agentPassword: "hunter22-of-the-shop",
  agentRandom: "q8Zr2LmX0vTn5KcJ7wBdPlanted",
  ownToken: "planted-token-of-the-environment-77",
  webhook: "planted webhook secret of 30 characters",
} as const;
/** Sent by somebody and nobody's business: not in the log, not in the data, not in an answer. */
const SENT = {
  bearer: "planted-bearer-of-a-stranger-1234567890",
  cookie: "planted-cookie-1234567890",
  apiKey: "planted-x-api-key-1234567890",
  query: "planted-query-token-1234567890",
  badJson: "planted-in-bad-json-1234567890",
  path: "planted-path-1234567890",
} as const;
/** The caller's own words: kept and shown, but not in the log. */
const TOLD = "planted task text 1234567890";
/** Given to the agent, and no secret: it must come through. */
const HARMLESS = { model: "claude-sonnet-4-20250514", folder: "/opt/planted-harmless/lib" } as const;

/** Writes all that it can find to its output, to standard error, and for the test to a file. */
const LEAKY = `
  const fs = require("node:fs");
  const task = fs.readFileSync(0, "utf8");
  const asked = JSON.parse(task.slice(task.indexOf("{"), task.lastIndexOf("}") + 1));
  const token = asked.tokenFile ? fs.readFileSync(asked.tokenFile, "utf8") : "";
  fs.writeFileSync(asked.seen, JSON.stringify({ env: process.env, argv: process.argv, token }));
  const all = { env: process.env, token };
  const text = [
    JSON.stringify(all, null, 1),
    ...Object.entries(process.env).map(([name, value]) => name + "=" + value),
    JSON.stringify(JSON.stringify(all)),
    token,
    ...[...Object.values(process.env), token.trim()].map((value) => Buffer.from(value).toString("base64")),
    ...[...Object.values(process.env), token.trim()].map(encodeURIComponent),
  ].join("\\n");
  process.stderr.write(text);
  process.stdout.write("REPORT " + text);
  process.exitCode = asked.exit;
`;

type World = {
  readonly daemon: DaemonProcess;
  readonly client: TestClient;
  readonly delegate: (key: string, asked: object) => Promise<Shown>;
  readonly seen: (name: string) => { readonly env: Record<string, string>; readonly token: string };
  readonly made: { readonly childTokens: string[]; added: string };
};

function seenFile(daemon: DaemonProcess, name: string): string {
  return path.join(daemon.work, `${name}.json`);
}

async function startWorld(hookUrl: string): Promise<World & AsyncDisposable> {
  const daemon = await startDaemonProcess({
    agents: {
      leaky: {
        driver: "command",
        command: [process.execPath, "-e", LEAKY],
        default: true,
        env: ["SHOP_API_KEY", "DATABASE_URL", "EXTRA_VALUE", "MODEL_NAME", "LIB_FOLDER"],
      },
    },
    settings: {
      DELEGATE_MCP_LOG_LEVEL: "debug",
      DELEGATE_MCP_LIMITS_DEPTH_MAX: "2",
      DELEGATE_MCP_NOTIFY: JSON.stringify([{ webhook: hookUrl, secretEnv: "HOOK_SIGNING" }]),
    },
    env: {
      SHOP_API_KEY: KNOWN.agentKey,
      DATABASE_URL: `postgres://shop:${KNOWN.agentPassword}@db.test/shop`,
      EXTRA_VALUE: KNOWN.agentRandom,
      MODEL_NAME: HARMLESS.model,
      LIB_FOLDER: HARMLESS.folder,
      HOOK_SIGNING: KNOWN.webhook,
      DELEGATE_MCP_TOKEN: KNOWN.ownToken,
    },
  });
  const client = await daemon.client("secrets-test");
  return {
    daemon,
    client,
    made: { childTokens: [], added: "" },
    delegate: (key, asked) =>
      callShown(client, "delegate_task", {
        clientRequestId: key,
        title: "Look around",
        task: `${TOLD} ${JSON.stringify({ seen: seenFile(daemon, key), exit: 0, ...asked })}`,
        access: "read",
      }),
    seen: (name) => JSON.parse(readFileSync(seenFile(daemon, name), "utf8")),
    [Symbol.asyncDispose]: () => daemon[Symbol.asyncDispose](),
  };
}

/** How a text may stand somewhere: as it is, in JSON, in a URL, in base64 (at each of its three places). */
function formsOf(secret: string): readonly string[] {
  const inside = [0, 1, 2].map((before) => {
    const text = Buffer.concat([Buffer.alloc(before), Buffer.from(secret)]).toString("base64");
    return text.slice(before === 0 ? 0 : 4, -4);
  });
  return [secret, JSON.stringify(secret).slice(1, -1), encodeURIComponent(secret), ...inside];
}

/** Where one of the secrets is found; names of secrets and of places, never the secrets. */
function findings(
  places: ReadonlyMap<string, Buffer | string>,
  secrets: Readonly<Record<string, string>>,
): readonly string[] {
  return [...places].flatMap(([place, content]) =>
    Object.entries(secrets)
      .filter(([, secret]) => formsOf(secret).some((form) => content.includes(form)))
      .map(([name]) => `${name} in ${place}`),
  );
}

/** Everything below the data directory but for the file whose whole purpose is to hold the first token. */
function filesOf(dataDir: string): ReadonlyMap<string, Buffer> {
  const files = new Map<string, Buffer>();
  for (const entry of readdirSync(dataDir, { recursive: true, encoding: "utf8" })) {
    const file = path.join(dataDir, entry);
    if (entry !== "token" && existsSync(file) && statSync(file).isFile()) files.set(entry, readFileSync(file));
  }
  return files;
}

/** Command lines of a process and of all below it. */
function commandLines(pid: number): ReadonlyMap<string, string> {
  const lines = new Map<string, string>();
  const parents = new Map<number, number>();
  for (const name of readdirSync("/proc").filter((one) => /^\d+$/.test(one))) {
    const stat = contents(`/proc/${name}/stat`);
    parents.set(Number(name), Number(stat.slice(stat.lastIndexOf(")") + 2).split(" ")[1]));
  }
  const isBelow = (one: number): boolean => one === pid || (one > 1 && isBelow(parents.get(one) ?? 0));
  for (const one of parents.keys()) if (isBelow(one)) lines.set(`argv of ${one}`, contents(`/proc/${one}/cmdline`));
  return lines;
}

function contents(file: string): string {
  try {
    return readFileSync(file, "utf8");
  } catch {
    return "";
  }
}

async function receiver() {
  const bodies: string[] = [];
  const server = createServer((request, response) => {
    let body = "";
    request.on("data", (chunk: Buffer) => {
      body += chunk.toString();
    });
    request.on("end", () => {
      bodies.push(`${JSON.stringify(request.headers)}\n${body}`);
      response.writeHead(204).end();
    });
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const address = server.address();
  const port = typeof address === "object" && address !== null ? address.port : 0;
  return { bodies, url: `http://127.0.0.1:${port}/hook`, [Symbol.dispose]: () => void server.close() };
}

/** Requests that carry what nobody should write down. */
async function sendStrangeRequests({ daemon }: World): Promise<void> {
  const { origin, mcpUrl, token } = daemon;
  const json = { "content-type": "application/json", accept: "application/json, text/event-stream" };
  const list = JSON.stringify({ jsonrpc: "2.0", id: 1, method: "tools/list" });
  const status = async (url: string, init: RequestInit): Promise<number> => (await fetch(url, init)).status;
  const carried = { cookie: `session=${SENT.cookie}`, "x-api-key": SENT.apiKey };
  const own = { ...json, ...carried, authorization: `Bearer ${token}` };
  const strange = { ...json, ...carried, authorization: `Bearer ${SENT.bearer}` };
  expect(await status(mcpUrl, { method: "POST", headers: strange, body: list })).toBe(401);
  expect(await status(mcpUrl, { method: "POST", headers: { ...json, authorization: SENT.bearer }, body: list })).toBe(
    401,
  );
  expect(await status(mcpUrl, { method: "POST", headers: own, body: list })).toBe(200);
  for (const name of ["token", "access_token", "api_key"]) {
    expect(await status(`${mcpUrl}?${name}=${SENT.query}`, { method: "POST", headers: own, body: list })).toBe(400);
  }
  expect(await status(mcpUrl, { method: "POST", headers: own, body: `{"x": "${SENT.badJson}` })).toBe(400);
  expect(await status(`${origin}/${SENT.path}`, { headers: own })).toBe(404);
  expect(await status(`${origin}/api/tasks/${SENT.path}`, { headers: own })).toBe(404);
  expect(
    await status(mcpUrl, { method: "POST", headers: { ...own, origin: `http://${SENT.path}.test` }, body: list }),
  ).toBe(403);
}

/** Every way to read of a task. */
async function readEverywhere({ daemon, client }: World, taskId: string): Promise<ReadonlyMap<string, string>> {
  const places = new Map<string, string>();
  const headers = { authorization: `Bearer ${daemon.token}` };
  for (const view of ["messages", "result", "changes", "events"]) {
    let cursor: unknown;
    for (let page = 0; page < 50; page += 1) {
      const { structured, text } = await client.call("thread_read", { taskId, view, cursor });
      places.set(`${view} ${page} of ${taskId}`, `${JSON.stringify(structured)}\n${text}`);
      cursor = structured["nextCursor"];
      if (cursor === undefined) break;
    }
  }
  for (const [tool, args] of [
    ["task_status", { taskId }],
    ["task_wait", { taskIds: [taskId], waitMs: 0 }],
    ["task_list", {}],
    ["list_agents", {}],
  ] as const) {
    const { structured, text } = await client.call(tool, args);
    places.set(`${tool} of ${taskId}`, `${JSON.stringify(structured)}\n${text}`);
  }
  for (const route of [`/api/tasks/${taskId}`, `/api/tasks/${taskId}/export`, "/metrics", "/api/host", "/api/agents"]) {
    const response = await fetch(`${daemon.origin}${route}`, { headers });
    expect(response.status, route).toBe(200);
    places.set(route, await response.text());
  }
  return places;
}

describe.runIf(process.platform === "linux")("secrets that are planted everywhere", () => {
  it("are found in no log line, command line, file, answer, export or notice (X2, X4)", async () => {
    using hook = await receiver();
    await using world = await startWorld(hook.url);
    const { daemon, client, delegate, seen } = world;
    const env = { DELEGATE_MCP_DATA_DIR: daemon.dataDir };
    const added = await runCommand(["token", "add", "somebody", "--json"], env);
    const { token: addedToken } = JSON.parse(added.stdout);
    const tokenFile = path.join(daemon.dataDir, "token");
    await sendStrangeRequests(world);

    const told = await delegate("leak-and-succeed-1", { tokenFile });
    const failed = await delegate("leak-and-fail-1", { exit: 3, tokenFile });
    writeFileSync(path.join(daemon.work, "stolen"), String(addedToken), { mode: 0o600 });
    const stolen = await delegate("leak-a-stolen-one-1", { tokenFile: path.join(daemon.work, "stolen") });
    const argv = commandLines(daemon.pid);
    expect((await waitUntilEnded(client, told.taskId)).status).toBe("completed");
    expect((await waitUntilEnded(client, failed.taskId)).status).toBe("failed");
    expect((await waitUntilEnded(client, stolen.taskId)).status).toBe("completed");
    await eventually("the receiver was told", () => hook.bodies.length >= 3, 15_000);

    // The agent did see what it was given, or this test would say nothing.
    const saw = seen("leak-and-succeed-1");
    expect(saw.env["SHOP_API_KEY"]).toBe(KNOWN.agentKey);
    expect(saw.token.trim()).toBe(daemon.token);
    expect(saw.env["DELEGATE_CHILD_TOKEN"]).toMatch(/^dct_/);
    // And never what is not its business (X2).
    expect(
      findings(new Map([["the child", JSON.stringify(saw.env)]]), { first: daemon.token, own: KNOWN.ownToken }),
    ).toEqual([]);
    expect(findings(new Map([["the child", JSON.stringify(saw.env)]]), { webhook: KNOWN.webhook })).toEqual([]);

    const secrets = {
      ...KNOWN,
      ...SENT,
      first: daemon.token,
      added: String(addedToken),
      childOne: saw.env["DELEGATE_CHILD_TOKEN"] ?? "",
      childTwo: seen("leak-and-fail-1").env["DELEGATE_CHILD_TOKEN"] ?? "",
    };
    const doctor = await runCommand(["doctor", "--json", "--data-dir", daemon.dataDir], env);
    const config = await runCommand(["config", "show", "--origin"], { ...env, DELEGATE_MCP_TOKEN: KNOWN.ownToken });
    const answers = new Map([
      ...(await readEverywhere(world, told.taskId)),
      ...(await readEverywhere(world, failed.taskId)),
      ...(await readEverywhere(world, stolen.taskId)),
      ["doctor", doctor.stdout + doctor.stderr],
      ["config show", config.stdout + config.stderr],
      ["what the receiver got", hook.bodies.join("\n")],
    ]);
    const whileRunning = filesOf(daemon.dataDir);
    expect(
      [...whileRunning.keys()].some((name) => name.endsWith("-wal")),
      "the WAL is among them",
    ).toBe(true);
    // What asked for it is found in its own place, so that the search itself is known to find.
    const all = [...answers.values()].join("\n");
    expect(all).toContain("REPORT");
    expect(all).toContain("[secret]");
    expect(all).toContain(TOLD);
    for (const value of Object.values(HARMLESS)) expect(all, "no secret, so not masked").toContain(value);

    daemon.signal("SIGTERM");
    expect(await daemon.ended()).toBe(0);
    const log = new Map([["the log", daemon.stderr()]]);
    expect(daemon.stderr()).toContain("request_refused");
    const files = new Map([...prefixed("running: ", whileRunning), ...prefixed("stopped: ", filesOf(daemon.dataDir))]);
    expect(findings(files, { task: TOLD }).length, "the task itself is kept").toBeGreaterThan(0);
    const everywhere = new Map<string, Buffer | string>([...log, ...argv, ...files, ...answers]);
    expect(findings(everywhere, secrets)).toEqual([]);
    expect(findings(new Map([...log, ...argv]), { task: TOLD })).toEqual([]);
    expect(daemon.stderr(), "no output of a child").not.toContain("REPORT");
  });
});

function prefixed<Value>(prefix: string, map: ReadonlyMap<string, Value>): readonly (readonly [string, Value])[] {
  return [...map].map(([name, value]) => [`${prefix}${name}`, value]);
}
