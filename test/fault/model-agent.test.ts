/**
 * A real daemon whose agent is a bare model: through a refusal and a continuation, and with a provider that gives away the key
 * that it was shown.
 */

import { readdirSync, readFileSync } from "node:fs";
import { createServer } from "node:http";
import path from "node:path";
import { expect, it } from "vitest";
import { callShown, waitUntilEnded } from "../support/answers.ts";
import { type DaemonProcess, startDaemonProcess } from "../support/daemon-process.ts";
import { startModels } from "../support/models.ts";

const KEY = "planted-model-key";

function start(baseUrl: string): Promise<DaemonProcess> {
  const bare = { driver: "model", api: "openai", baseUrl, apiKeyEnv: "MODEL_KEY", model: "fake-model", default: true };
  return startDaemonProcess({
    agents: { bare },
    env: { MODEL_KEY: KEY },
    settings: { DELEGATE_MCP_LOG_LEVEL: "debug", DELEGATE_MCP_RETRY_BACKOFF_MAX_MS: "50" },
  });
}

it("heals a passing refusal, completes with evidence, and goes on in the same task (W1, P2, P13)", async () => {
  await using models = await startModels();
  const plan = {
    id: "model-e2e",
    toolless: true,
    steps: [{ text: "first 日本" }, { text: "second" }],
    faults: [{ kind: "cf403" as const, first: 1 }],
  };
  await using daemon = await start(`${models.url}/v1`);
  await using client = await daemon.client();
  const task = `Say it. ${models.add(plan)}`;
  const refused = await callShown(client, "delegate_task", { clientRequestId: "say-it-0", task, access: "write" });
  expect(refused.code).toBe("permission_limit");
  const { taskId } = await callShown(client, "delegate_task", { clientRequestId: "say-it-1", task, role: "research" });
  const ended = await waitUntilEnded(client, taskId);
  expect(ended.raw).toMatchObject({
    status: "completed",
    outcome: { evidence: "explicit" },
    stop: { proof: "none_started" },
  });
  expect(ended.text).toContain("first 日本");
  await callShown(client, "task_continue", { clientRequestId: "say-it-2", taskId, message: "And?" });
  const more = await waitUntilEnded(client, taskId);
  expect(more.text).toContain("second");
  expect(models.seen("model-e2e").userTexts).toEqual([task, "And?"]);
  expect(models.of("model-e2e")).toHaveLength(3);
});

it("a key that its provider repeats is found in no answer, log line or file (X2, X4)", async () => {
  const server = createServer((req, res) => {
    const shown = String(req.headers.authorization);
    const said = JSON.stringify({ choices: [{ delta: { content: `You sent ${shown}.` }, finish_reason: "stop" }] });
    req.resume();
    if (req.url === "/refuses/chat/completions")
      res.writeHead(401).end(JSON.stringify({ error: { message: `Incorrect API key provided: ${shown}` } }));
    else res.writeHead(200, { "content-type": "text/event-stream" }).end(`data: ${said}\n\ndata: [DONE]\n\n`);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const address = server.address();
  if (address === null || typeof address === "string") throw new Error("the server has no port");
  try {
    for (const [route, status] of [
      ["refuses", "failed"],
      ["answers", "completed"],
    ]) {
      await using daemon = await start(`http://127.0.0.1:${address.port}/${route}`);
      await using client = await daemon.client();
      const order = { clientRequestId: "ask-it-1", task: "Ask.", access: "read" };
      const { taskId } = await callShown(client, "delegate_task", order);
      const ended = await waitUntilEnded(client, taskId);
      expect(ended.status).toBe(status);
      const thread = await client.call("thread_read", { taskId, view: "messages" });
      const told = `${JSON.stringify(ended.raw)}${ended.text}${JSON.stringify(thread)}`;
      if (status === "completed") expect(told).toContain("You sent Bearer [secret].");
      const files = readdirSync(daemon.dataDir, { recursive: true, withFileTypes: true }).filter((file) =>
        file.isFile(),
      );
      const kept = files.map((file) => readFileSync(path.join(file.parentPath, file.name), "latin1")).join("\n");
      expect(kept.length).toBeGreaterThan(0);
      for (const place of [told, kept, daemon.stderr()]) expect(place).not.toContain(KEY);
    }
  } finally {
    server.closeAllConnections();
    server.close();
  }
});
