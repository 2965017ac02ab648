/** Which variables of agents are masked: what is secret by name or by looks, and nothing that children report about. */

import { describe, expect, it } from "vitest";
import { secretsIn } from "../../src/config/known-secrets.ts";

describe("a variable that an agent is given", () => {
  it.each([
    "OPENAI_API_KEY",
    "ANTHROPIC_AUTH_TOKEN",
    "GH_TOKEN",
    "GITHUBTOKEN",
    "githubToken",
    "DbPassword",
    "MYSQL_PWD",
    "KEY_PASSPHRASE",
    "AWS_SECRET_ACCESS_KEY",
    "SESSION_COOKIE",
    "PRIVATE_PEM",
    "SENTRY_DSN",
    "AZURE_STORAGE_CONNECTION_STRING",
    "REDIS_CONN_STR",
    "proxy-credentials",
    "BASIC_AUTH",
  ])("is secret by its name: %s (X2, X4)", (name) => {
    expect(secretsIn(name, "plain words")).toEqual(["plain words"]);
  });

  it.each([
    "MODEL",
    "ANTHROPIC_MODEL",
    "MONKEY",
    "KEYBOARD_LAYOUT",
    "AUTHOR",
    "COMPASS",
    "PASSENGERS",
    "TOKENIZERS_PARALLELISM",
    "GOOGLE_APPLICATION_CREDENTIALS_FILE",
    "SSH_AUTH_SOCK",
    "SECRETARY",
    "DSNAME",
  ])("is not secret by a name that only sounds like it: %s", (name) => {
    expect(secretsIn(name, "/home/me/work")).toEqual([]);
  });

  it.each([
    ["a random text", "q8Zr2LmX0vTn5KcJ7wBd", []],
    ["hexadecimal digits", "9f86d081884c7d659a2feaa0c55ad015", []],
    ["a token with a prefix", "sk-live_q8Zr2LmX0vTn5KcJ7wBd", []],
    ["an address with a password", "postgres://me:hunter2%21x@db.test:5432/shop", ["hunter2%21x", "hunter2!x"]],
    ["an address with nothing but a password", "redis://:hunter22@127.0.0.1:6379", ["hunter22", "hunter22"]],
    ["a list of settings", "host=db.test user=me password=hunter22", ["hunter22", "hunter22"]],
    ["an address with a token", "https://hook.test/x?token=hunter22&y=1", ["hunter22", "hunter22"]],
  ])("is secret by its looks: %s (X2, X4)", (_what, value, parts) => {
    expect(secretsIn("VALUE", value)).toEqual([value, ...parts]);
  });

  it.each([
    "claude-sonnet-4-20250514-thinking",
    "gpt-5.1-codex-max-high-2026",
    "/usr/local/lib/node_modules/tool9/bin",
    "https://api.example.test/v1/models/2",
    "http://127.0.0.1:4517",
    "user@host.example.test",
    "production-eu-central-1",
    "2026-12-01T12:00:00.000Z",
    "--max-old-space-size=4096",
    "a text of some words with 12 numbers 34 in it",
    "true",
    "",
  ])("is not secret when it looks like this: %s", (value) => {
    expect(secretsIn("VALUE", value)).toEqual([]);
  });

  it("is judged in a time that grows with it and no faster (P15)", () => {
    for (const bait of ["a1", "password=", "x://:", "aA1_", "@:"]) {
      const startedMs = performance.now();
      secretsIn(`${"Ab_".repeat(60)}X`, bait.repeat(200_000));
      expect(performance.now() - startedMs).toBeLessThan(2_000);
    }
  });
});
