/** Pi, headless. */

import { listAt, textAt } from "../json.ts";
import { type HarnessSetUp, SERVER_NAME, type SetUpInput, writeConfig } from "./setup.ts";

/** Pi asks nobody by itself; this extension makes it ask before a shell command. */
const GATE = `export default function (pi: any) {
  pi.on('tool_call', async (event: any, ctx: any) => {
    if (event.toolName !== 'bash') return;
    const ok = await ctx.ui.confirm('Allow this command?', String(event.input.command));
    if (!ok) return { block: true, reason: 'not allowed by the user' };
  });
}
`;

export function setUpPi({ program, node, home, models, mcp, headers, ask }: SetUpInput): HarnessSetUp {
  const model = { id: "fake-model", contextWindow: 128_000, maxTokens: 4_096 };
  const provider = { baseUrl: `${models}/v1`, apiKey: "dummy", api: "openai-completions", models: [model] };
  writeConfig(`${home}/agent/models.json`, { providers: { fake: provider } });
  writeConfig(`${home}/agent/settings.json`, {
    enableInstallTelemetry: false,
    defaultProvider: "fake",
    defaultModel: "fake-model",
    quietStartup: true,
  });
  if (mcp !== null) {
    const limit = mcp.limitMs === undefined ? {} : { timeout: Math.round(mcp.limitMs / 1_000) };
    const server = { url: mcp.url, exposure: "direct", headers, ...limit };
    writeConfig(`${home}/agent/mcp.json`, { mcpServers: { [SERVER_NAME]: server } });
  }
  if (ask) writeConfig(`${home}/agent/extensions/gate.ts`, GATE);
  return {
    base: [node, program],
    env: { PI_CODING_AGENT_DIR: `${home}/agent`, PI_OFFLINE: "1", PI_SKIP_VERSION_CHECK: "1", PI_TELEMETRY: "0" },
    clientArgs: (prompt) => ["--provider", "fake", "--model", "fake-model", "--mode", "json", prompt],
    finalText: (lines) =>
      listAt(lines.findLast(isAnswer), "message", "content")
        .map((part) => textAt(part, "text"))
        .join(""),
    childArgs: [],
    driver: "pi",
  };
}

function isAnswer(line: unknown): boolean {
  return textAt(line, "type") === "message_end" && textAt(line, "message", "role") === "assistant";
}
