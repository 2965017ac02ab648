/** docs/observability.md: how the daemon is watched, with every event of the log and every metric, made from their tables. */

import { LOG_EVENTS } from "../src/core/log-events.ts";
import { METRICS } from "../src/telemetry/metric-table.ts";

export function makeObservability(): string {
  return [
    "# Observability",
    "",
    "Made from the code by `npm run generate`; `npm run check` compares.",
    "",
    "## Log",
    "",
    "One JSON object a line on standard error (short lines on a terminal): `level`, `time`, `event` and the event's fields.",
    "`log.level` says from which level on. Known secrets, tokens of the daemon and fields named like a secret are masked as",
    "`[secret]` at every level; prompts and output of children are not logged. While nobody reads, lines are left out and",
    "counted, never waited for.",
    "",
    "| event | what it means |",
    "|---|---|",
    ...Object.entries(LOG_EVENTS).map(([name, says]) => `| \`${name}\` | ${says} |`),
    "",
    "## Metrics",
    "",
    "`GET /metrics` in the text format of Prometheus, with a token that has the scope `read`. A label value that is not known",
    "beforehand says `other`. Counters begin at zero with each start. Metrics of the process and of Node (`process_…`,",
    "`nodejs_…`) stand beside these.",
    "",
    "```yaml",
    "scrape_configs:",
    "  - job_name: delegate-mcp",
    "    authorization: { credentials_file: /run/secrets/delegate-mcp-token }",
    '    static_configs: [{ targets: ["127.0.0.1:4517"] }]',
    "```",
    "",
    "| metric | kind | labels | what it says |",
    "|---|---|---|---|",
    ...Object.values(METRICS).map(
      ({ name, kind, labels, help }) =>
        `| \`${name}\` | ${kind} | ${labels.map((label) => `\`${label}\``).join(", ")} | ${help} |`,
    ),
    "",
  ].join("\n");
}
