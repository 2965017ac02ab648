/** Codex CLI, headless. */

import { textAt } from "../json.ts";
import { type HarnessSetUp, SERVER_NAME, type SetUpInput, writeConfig } from "./setup.ts";

export function setUpCodex(input: SetUpInput): HarnessSetUp {
  const { program, home, models, ask } = input;
  writeConfig(
    `${home}/.codex/config.toml`,
    [
      'model = "gpt-5-codex"',
      'model_provider = "fake"',
      `approval_policy = ${ask ? '"on-request"' : '"never"'}`,
      `sandbox_mode = ${ask ? '"workspace-write"' : '"danger-full-access"'}`,
      "check_for_update_on_startup = false",
      "[analytics]",
      "enabled = false",
      "[otel]",
      'exporter = "none"',
      "[model_providers.fake]",
      'name = "fake"',
      `base_url = "${models}/v1"`,
      'wire_api = "responses"',
      'env_key = "FAKE_KEY"',
      ...mcpLines(input),
      "",
    ].join("\n"),
  );
  return {
    base: [program],
    env: {
      CODEX_HOME: `${home}/.codex`,
      FAKE_KEY: "dummy",
      OPENAI_API_KEY: "dummy",
      CODEX_API_KEY: "dummy",
      RUST_LOG: "error",
    },
    clientArgs: (prompt) => ["exec", "--json", "--skip-git-repo-check", prompt],
    finalText: (lines) => textAt(lines.findLast(isAgentMessage), "item", "text"),
    childArgs: [],
    driver: "codex",
  };
}

function mcpLines({ mcp, headers }: SetUpInput): readonly string[] {
  if (mcp === null) return [];
  return [
    `[mcp_servers.${SERVER_NAME}]`,
    `url = "${mcp.url}"`,
    'default_tools_approval_mode = "approve"',
    ...(mcp.limitMs === undefined ? [] : [`tool_timeout_sec = ${Math.round(mcp.limitMs / 1_000)}`]),
    `[mcp_servers.${SERVER_NAME}.http_headers]`,
    ...Object.entries(headers).map(([name, value]) => `"${name}" = "${value}"`),
  ];
}

function isAgentMessage(line: unknown): boolean {
  return textAt(line, "type") === "item.completed" && textAt(line, "item", "type") === "agent_message";
}
