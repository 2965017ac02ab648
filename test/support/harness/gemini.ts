/** Gemini CLI, headless. */

import { textAt } from "../json.ts";
import { type HarnessSetUp, SERVER_NAME, type SetUpInput, writeConfig } from "./setup.ts";

const FIXED_ARGS = ["-m", "gemini-2.5-pro", "--approval-mode", "yolo", "--skip-trust", "-o", "stream-json"];

export function setUpGemini({ program, node, home, models, mcp, headers }: SetUpInput): HarnessSetUp {
  const limit = mcp?.limitMs === undefined ? {} : { timeout: mcp.limitMs };
  writeConfig(`${home}/.gemini/settings.json`, {
    security: { auth: { selectedType: "gemini-api-key" } },
    telemetry: { enabled: false },
    privacy: { usageStatisticsEnabled: false },
    general: {
      disableAutoUpdate: true,
      enableAutoUpdate: false,
      enableAutoUpdateNotification: false,
      disableUpdateNag: true,
    },
    mcpServers: mcp === null ? {} : { [SERVER_NAME]: { httpUrl: mcp.url, trust: true, headers, ...limit } },
  });
  return {
    base: [node, program],
    env: {
      GEMINI_API_KEY: "dummy",
      GOOGLE_GEMINI_BASE_URL: models,
      GEMINI_CLI_TRUST_WORKSPACE: "true",
      GEMINI_MODEL: "gemini-2.5-pro",
    },
    clientArgs: (prompt) => [...FIXED_ARGS, "-p", prompt],
    finalText: (lines) =>
      lines
        .filter((line) => textAt(line, "type") === "message" && textAt(line, "role") === "assistant")
        .map((line) => textAt(line, "content"))
        .join(""),
    childArgs: ["--acp"],
    driver: "acp",
  };
}
