/** opencode, headless. */

import { textAt } from "../json.ts";
import { type HarnessSetUp, SERVER_NAME, type SetUpInput, writeConfig } from "./setup.ts";

export function setUpOpencode({ program, home, models, mcp, headers, ask }: SetUpInput): HarnessSetUp {
  const model = { name: "fake-model", tool_call: true, limit: { context: 128_000, output: 4_096 } };
  const limit = mcp?.limitMs === undefined ? {} : { timeout: mcp.limitMs };
  const server =
    mcp === null
      ? {}
      : { [SERVER_NAME]: { type: "remote", url: mcp.url, enabled: true, oauth: false, headers, ...limit } };
  writeConfig(`${home}/.config/opencode/opencode.json`, {
    autoupdate: false,
    share: "disabled",
    permission: ask ? { bash: "ask", edit: "ask" } : "allow",
    model: "fake/fake-model",
    small_model: "fake/fake-model",
    enabled_providers: ["fake"],
    provider: {
      fake: {
        npm: "@ai-sdk/openai-compatible",
        name: "Fake",
        options: { baseURL: `${models}/v1`, apiKey: "dummy" },
        models: { "fake-model": model },
      },
    },
    mcp: server,
  });
  return {
    base: [program],
    env: {
      OPENCODE_DISABLE_AUTOUPDATE: "1",
      OPENCODE_DISABLE_MODELS_FETCH: "1",
      OPENCODE_DISABLE_LSP_DOWNLOAD: "1",
      OPENCODE_DISABLE_DEFAULT_PLUGINS: "1",
      OPENCODE_DISABLE_SHARE: "1",
    },
    clientArgs: (prompt) => ["run", "--format", "json", prompt],
    finalText: (lines) =>
      textAt(
        lines.findLast((line) => textAt(line, "type") === "text"),
        "part",
        "text",
      ),
    childArgs: ["acp"],
    driver: "acp",
  };
}
