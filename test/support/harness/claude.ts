/** Claude Code, headless. */

import { textAt } from "../json.ts";
import { type HarnessSetUp, SERVER_NAME, type SetUpInput, writeConfig } from "./setup.ts";

export function setUpClaude({ program, dir, home, models, mcp, headers }: SetUpInput): HarnessSetUp {
  writeConfig(`${home}/.claude/settings.json`, {});
  const mcpFile = `${dir}/mcp.json`;
  if (mcp !== null) {
    const limit = mcp.limitMs === undefined ? {} : { timeout: mcp.limitMs };
    writeConfig(mcpFile, { mcpServers: { [SERVER_NAME]: { type: "http", url: mcp.url, headers, ...limit } } });
  }
  const mcpArgs = mcp === null ? [] : ["--mcp-config", mcpFile, "--strict-mcp-config"];
  return {
    base: [program],
    env: {
      CLAUDE_CONFIG_DIR: `${home}/.claude`,
      ANTHROPIC_BASE_URL: models,
      ANTHROPIC_API_KEY: "sk-ant-dummy",
      IS_SANDBOX: "1",
      CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: "1",
      DISABLE_TELEMETRY: "1",
      DISABLE_AUTOUPDATER: "1",
      DISABLE_ERROR_REPORTING: "1",
      ...(mcp?.limitMs === undefined ? {} : { MCP_TOOL_TIMEOUT: String(mcp.limitMs) }),
    },
    clientArgs: (prompt) => [...runArgs(prompt), ...mcpArgs, "--allowedTools", `mcp__${SERVER_NAME}`, "Bash"],
    finalText: (lines) =>
      textAt(
        lines.findLast((line) => textAt(line, "type") === "result"),
        "result",
      ),
    childArgs: [],
    driver: "claude",
  };
}

function runArgs(prompt: string): readonly string[] {
  return ["-p", prompt, "--output-format", "stream-json", "--verbose", "--model", "claude-sonnet-4-5"];
}
