import { spawn } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { createPinoLog, type LogLevel } from "../../src/telemetry/pino-log.ts";
import { createSecrets } from "../../src/telemetry/secrets.ts";

const SECRET = "dmcp_very-secret-value-0123456789";

function capture(options: { readonly level?: LogLevel; readonly terminal?: boolean; readonly stuck?: () => boolean }) {
  const lines: string[] = [];
  const secrets = createSecrets([]);
  const log = createPinoLog({
    mask: secrets.mask,
    level: options.level ?? "debug",
    terminal: options.terminal ?? false,
    stream: {
      write: (text) => lines.push(text),
      get writableLength() {
        return options.stuck?.() === true ? 2 * 1024 * 1024 : 0;
      },
    },
  });
  return { log, secrets, lines, parsed: () => lines.map((line): unknown => JSON.parse(line)) };
}

describe("log", () => {
  it("writes one JSON object a line with level, time, event and fields", () => {
    const { log, parsed } = capture({});
    log.info("driver_failed", { taskId: "dt_1", tries: 2, healed: false, cause: null, absent: undefined });
    expect(parsed()).toEqual([
      {
        level: "info",
        time: expect.stringMatching(/^\d{4}-\d\d-\d\dT[\d:.]+Z$/),
        event: "driver_failed",
        taskId: "dt_1",
        tries: 2,
        healed: false,
        cause: null,
      },
    ]);
  });

  it("writes nothing below its level", () => {
    const { log, parsed } = capture({ level: "warn" });
    log.debug("store_opened");
    log.info("guard_started");
    log.warn("survivors");
    log.error("call_failed");
    expect(parsed()).toMatchObject([{ event: "survivors" }, { event: "call_failed" }]);
  });

  it.each([true, false])(
    "masks known secrets and secret fields wherever they appear, terminal: %s (X3, X4)",
    (terminal) => {
      const { log, secrets, lines } = capture({ terminal });
      secrets.add(SECRET);
      secrets.add("x");
      log.debug("guard_started", {
        complaint: `started_with_${SECRET}`,
        header: `Bearer ${SECRET}`,
        token: "another",
        prompt: "the task",
        note: "xxx",
      });
      log.error("call_failed", { text: `a ${SECRET} b ${SECRET}`, authorization: "Basic abc" });
      const all = lines.join("");
      for (const leaked of [SECRET, "another", "the task", "Basic abc"]) expect(all).not.toContain(leaked);
      expect(all).toContain("xxx");
      expect(all.match(/\[secret\]/g)).toHaveLength(7);
    },
  );

  it("masks what a field's name says, at any depth and however it is spelt, and no counts (X4)", () => {
    const { log, lines, parsed } = capture({});
    const leak = "plain-enough";
    const nested = { headers: { "Set-Cookie": leak, list: [{ api_key: leak }] }, tokens: 12, tokenName: "ci" };
    const fields: Readonly<Record<string, string>> = {
      apiKey: leak,
      PASSWORD: leak,
      childToken: leak,
      client_secret: leak,
      session_key: leak,
      "X-Api-Key": leak,
      "Proxy-Authorization": leak,
    };
    // Types keep fields flat; this one comes past them.
    Object.defineProperty(fields, "request", { value: nested, enumerable: true });
    log.info("call_failed", fields);
    log.warn("call_failed", {
      error: "Error: 401, sent Authorization: Bearer plain-enough and basic cGxhaW4tZW5vdWdo",
    });
    expect(lines.join("")).not.toMatch(/plain-enough|cGxhaW4t/);
    expect(parsed()[0]).toMatchObject({
      apiKey: "[secret]",
      "Proxy-Authorization": "[secret]",
      request: {
        headers: { "Set-Cookie": "[secret]", list: [{ api_key: "[secret]" }] },
        tokens: 12,
        tokenName: "ci",
      },
    });
    expect(parsed()[1]).toMatchObject({ error: "Error: 401, sent Authorization: Bearer [secret] and basic [secret]" });
  });

  it("writes short lines for a terminal, in which no value can move the cursor (P17)", () => {
    const { log, lines } = capture({ terminal: true });
    log.warn("guard_ended", { taskId: "dt_1", text: "a\u001b[2Jb\u202ec\nd\u009b1m", tries: 3 });
    expect(lines).toHaveLength(1);
    expect(lines[0]).toMatch(/^\d\d:\d\d:\d\d warn {2}guard_ended taskId=dt_1 text="a/);
    expect(lines[0]).toMatch(/ tries=3\n$/);
    expect(lines[0]?.slice(0, -1)).not.toMatch(/[\p{Cc}\p{Cf}]/u);
  });

  it("drops lines while nobody reads, and says how many (P15)", () => {
    let stuck = false;
    const { log, parsed } = capture({ stuck: () => stuck });
    log.info("guard_started");
    stuck = true;
    for (let line = 0; line < 5; line++) log.info("machine_slept");
    stuck = false;
    log.info("guard_ended");
    expect(parsed()).toMatchObject([
      { event: "guard_started" },
      { event: "log_lines_dropped", count: 5 },
      { event: "guard_ended" },
    ]);
  });

  it("cuts a value that is too long", () => {
    const { log, lines } = capture({});
    log.info("guard_ended", { text: "x".repeat(100_000) });
    expect(lines[0]?.length).toBeLessThan(5_000);
  });

  it("keeps the process alive and lets it end when nobody reads its standard error (P15)", async () => {
    const folder = mkdtempSync(join(tmpdir(), "pino-log-"));
    const program = join(folder, "program.ts");
    writeFileSync(
      program,
      `import { createPinoLog } from ${JSON.stringify(join(import.meta.dirname, "../../src/telemetry/pino-log.ts"))};
       const log = createPinoLog({ level: "info", stream: process.stderr, terminal: false, mask: (text) => text });
       for (let line = 0; line < 5000; line++) log.info("guard_ended", { text: "x".repeat(1000) });
       setImmediate(() => process.stdout.write("alive " + process.stderr.writableLength + "\\n", () => process.exit(0)));`,
    );
    const child = spawn(process.execPath, ["--no-warnings", program], { stdio: ["ignore", "pipe", "pipe"] });
    const kill = setTimeout(() => child.kill("SIGKILL"), 10_000);
    let output = "";
    child.stdout.on("data", (chunk: Buffer) => (output += chunk.toString()));
    child.stderr.pause();
    const code = await new Promise((resolve) => child.once("exit", resolve));
    clearTimeout(kill);
    child.stderr.destroy();
    rmSync(folder, { recursive: true });
    expect(code).toBe(0);
    const buffered = Number(/^alive (\d+)/.exec(output)?.[1]);
    expect(buffered).toBeGreaterThan(500_000);
    expect(buffered).toBeLessThan(1_200_000);
  });
});
