/**
 * The example environment file and the table of settings, as text, from the schema.
 *
 * Invariant: both depend on the schema alone, so that two runs give the same bytes on every machine.
 * Invariant: every line of the example is a comment, so that a copy of it changes nothing; with its `#` taken away a line
 * sets the default.
 */

import { z } from "zod";
import { expectationOf } from "./problem.ts";
import { ENTRY_FIELDS } from "./entry-schemas.ts";
import { FOUND_AT_START, SETTINGS, type Setting } from "./schema.ts";

const LINE_WIDTH = 100;
const UNITS: readonly (readonly [suffix: RegExp, steps: readonly (readonly [size: number, name: string])[]])[] = [
  [
    /Ms$/,
    [
      [86_400_000, "d"],
      [3_600_000, "h"],
      [60_000, "min"],
      [1_000, "s"],
    ],
  ],
  [
    /(Bytes|BytesMax|MaxBytes)$/,
    [
      [1_048_576, "MiB"],
      [1_024, "KiB"],
    ],
  ],
];

/** Text of `.env.example`. */
export function makeEnvExample(): string {
  const head = [
    "# Settings of delegate-mcp for `serve --env-file FILE`. Made from the schema: `npm run generate`.",
    "# Flags come before variables, variables before the configuration file, the file before the",
    "# defaults shown here. Lists and records are JSON. An empty variable counts as not set. Variables",
    "# that `agents.<name>.env` names (API keys of the agents) can stand in the same file.",
  ];
  const clients = [
    "# Where the other commands find a daemon that runs elsewhere, and the token that they show it.",
    "#DELEGATE_MCP_URL=",
    "#DELEGATE_MCP_TOKEN=",
    "",
    "# Configuration file, if not config.json in the platform's folder for configuration.",
    "#DELEGATE_MCP_CONFIG=",
  ];
  const settings = SETTINGS.flatMap((setting) => [
    "",
    ...commented(exampleText(setting)),
    `#${setting.env[0]}=${environmentText(setting)}`,
  ]);
  return [...head, ...settings, "", ...clients, ""].join("\n");
}

/** Text of the settings' page of the documentation. */
export function makeConfigurationTable(): string {
  return [
    "# Configuration",
    "",
    "Made from the schema (`src/config/schema.ts`) by `npm run generate`.",
    "",
    "A setting is taken from the first of: a flag of `serve`, its `DELEGATE_MCP_*` variable, the configuration file, the",
    "default. The file is JSON (`--config FILE`, else `DELEGATE_MCP_CONFIG`, else `config.json` in the platform's folder for",
    "configuration: `~/.config/delegate-mcp` on Linux, `~/Library/Preferences/delegate-mcp` on macOS). Numbers are plain",
    "numbers in the unit that the name ends in. In the environment lists and records are JSON, and an empty variable counts as",
    "not set. Unknown names are errors, all mistakes are told at once, and nothing is changed silently.",
    "`delegate-mcp config show --origin` tells which value is in force and where it comes from. An environment file is read",
    "only if `--env-file` names it; it never overrides the real environment.",
    "",
    ...table(["Setting", "Variable", "Default", "Meaning"], SETTINGS.map(settingRow)),
    "",
    "## `agents.<name>`",
    "",
    "```json",
    '{ "agents": { "mine": { "driver": "command", "command": ["my-agent", "--quiet"], "env": ["MY_AGENT_KEY"], "default": true } } }',
    "```",
    "",
    ...table(["Field", "Expected", "Meaning"], fieldRows(ENTRY_FIELDS.agents)),
    "",
    "## `clients.<name>`",
    "",
    ...table(["Field", "Expected", "Meaning"], fieldRows(ENTRY_FIELDS.clients)),
    "",
    "## `notify`",
    "",
    'A list of `{"webhook": "https://…", "secretEnv": "NAME"}` (the variable NAME holds the secret that signs the message) and',
    '`{"command": ["program", "argument"]}`. What they are told: [notifications.md](notifications.md).',
    "",
    "## Variables of the other commands",
    "",
    "| Variable | Meaning |",
    "|---|---|",
    "| `DELEGATE_MCP_URL` | Where the daemon is, if not on this machine: its address or its MCP URL |",
    "| `DELEGATE_MCP_TOKEN` | The token to show it |",
    "| `DELEGATE_MCP_CONFIG` | The configuration file |",
    "",
  ].join("\n");
}

function settingRow(setting: Setting): readonly string[] {
  return [
    `\`${setting.key}\``,
    setting.env.map((name) => `\`${name}\``).join(", "),
    defaultText(setting),
    setting.docs,
  ];
}

function fieldRows(entry: z.ZodObject): readonly (readonly string[])[] {
  return Object.entries(entry.shape).map(([name, field]) => {
    return field instanceof z.ZodType ? [`\`${name}\``, expectationOf(field), field.description ?? ""] : [name, "", ""];
  });
}

function table(head: readonly string[], rows: readonly (readonly string[])[]): readonly string[] {
  const line = (cells: readonly string[]): string =>
    `| ${cells.map((cell) => cell.replaceAll("|", "\\|")).join(" | ")} |`;
  return [line(head), `|${"---|".repeat(head.length)}`, ...rows.map(line)];
}

function exampleText(setting: Setting): string {
  const value = setting.fallback === undefined ? ` Default: ${FOUND_AT_START[setting.key]}.` : "";
  const readable = readableAmount(setting.key, setting.fallback);
  return `${setting.key}: ${setting.docs}${value}${readable === null ? "" : ` (${readable})`}`;
}

/** The default as the environment writes it; nothing where it is found out at start. */
function environmentText(setting: Setting): string {
  if (setting.fallback === undefined) return "";
  return typeof setting.fallback === "string" ? setting.fallback : JSON.stringify(setting.fallback);
}

function defaultText(setting: Setting): string {
  if (setting.fallback === undefined) return FOUND_AT_START[setting.key] ?? "";
  const readable = readableAmount(setting.key, setting.fallback);
  return `\`${environmentText(setting)}\`${readable === null ? "" : ` (${readable})`}`;
}

/** `4 h`, `16 MiB`; null where the number itself reads as well. */
function readableAmount(key: string, value: unknown): string | null {
  if (typeof value !== "number") return null;
  const steps = UNITS.find(([suffix]) => suffix.test(key))?.[1] ?? [];
  const step = steps.find(([size]) => value >= size && value % size === 0);
  return step === undefined ? null : `${value / step[0]} ${step[1]}`;
}

/** Comment lines of at most `LINE_WIDTH` characters. */
function commented(text: string): readonly string[] {
  const lines: string[] = [];
  let line = "#";
  for (const word of text.split(" ")) {
    if (line.length + word.length + 1 > LINE_WIDTH) {
      lines.push(line);
      line = "#";
    }
    line += ` ${word}`;
  }
  return [...lines, line];
}
