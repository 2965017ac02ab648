import { spawn } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { createPinoLog, type LogLevel } from "../../src/telemetry/pino-log.ts";

const SECRET = "dmcp_very-secret-value-0123456789";

function capture(options: { readonly level?: LogLevel; readonly terminal?: boolean; readonly stuck?: () => boolean }) {
  const lines: string[] = [];
  const log = createPinoLog({
    level: options.level ?? "debug",
    terminal: options.terminal ?? false,
    stream: {
      write: (text) => lines.push(text),
      get writableLength() {
        return options.stuck?.() === true ? 2 * 1024 * 1024 : 0;
      },
    },
  });
  return { log, lines, parsed: () => lines.map((line): unknown => JSON.parse(line)) };
}

describe("log", () => {
  it("writes one JSON object a line with level, time, event and fields", () => {
    const { log, parsed } = capture({});
    log.info("attempt_failed", { taskId: "dt_1", tries: 2, healed: false, cause: null, absent: undefined });
    expect(parsed()).toEqual([
      {
        level: "info",
        time: expect.stringMatching(/^\d{4}-\d\d-\d\dT[\d:.]+Z$/),
        event: "attempt_failed",
        taskId: "dt_1",
        tries: 2,
        healed: false,
        cause: null,
      },
    ]);
  });

  it("writes nothing below its level", () => {
    const { log, parsed } = capture({ level: "warn" });
    log.debug("a");
    log.info("b");
    log.warn("c");
    log.error("d");
    expect(parsed()).toMatchObject([{ event: "c" }, { event: "d" }]);
  });

  it.each([true, false])(
    "masks known secrets and secret fields wherever they appear, terminal: %s (X3, X4)",
    (terminal) => {
      const { log, lines } = capture({ terminal });
      log.addSecret(SECRET);
      log.addSecret("x");
      log.debug(`started_with_${SECRET}`, {
        header: `Bearer ${SECRET}`,
        token: "another",
        prompt: "the task",
        note: "xxx",
      });
      log.error("failed", { text: `a ${SECRET} b ${SECRET}`, authorization: "Basic abc" });
      const all = lines.join("");
      for (const leaked of [SECRET, "another", "the task", "Basic abc"]) expect(all).not.toContain(leaked);
      expect(all).toContain("xxx");
      expect(all.match(/\[secret\]/g)).toHaveLength(7);
    },
  );

  it("writes short lines for a terminal, in which no value can move the cursor (P17)", () => {
    const { log, lines } = capture({ terminal: true });
    log.warn("child_line", { taskId: "dt_1", text: "a\u001b[2Jb\u202ec\nd\u009b1m", tries: 3 });
    expect(lines).toHaveLength(1);
    expect(lines[0]).toMatch(/^\d\d:\d\d:\d\d warn {2}child_line taskId=dt_1 text="a/);
    expect(lines[0]).toMatch(/ tries=3\n$/);
    expect(lines[0]?.slice(0, -1)).not.toMatch(/[\p{Cc}\p{Cf}]/u);
  });

  it("drops lines while nobody reads, and says how many (P15)", () => {
    let stuck = false;
    const { log, parsed } = capture({ stuck: () => stuck });
    log.info("one");
    stuck = true;
    for (let line = 0; line < 5; line++) log.info("lost");
    stuck = false;
    log.info("two");
    expect(parsed()).toMatchObject([{ event: "one" }, { event: "log_lines_dropped", count: 5 }, { event: "two" }]);
  });

  it("cuts a value that is too long", () => {
    const { log, lines } = capture({});
    log.info("long", { text: "x".repeat(100_000) });
    expect(lines[0]?.length).toBeLessThan(5_000);
  });

  it("keeps the process alive and lets it end when nobody reads its standard error (P15)", async () => {
    const folder = mkdtempSync(join(tmpdir(), "pino-log-"));
    const program = join(folder, "program.ts");
    writeFileSync(
      program,
      `import { createPinoLog } from ${JSON.stringify(join(import.meta.dirname, "../../src/telemetry/pino-log.ts"))};
       const log = createPinoLog({ level: "info", stream: process.stderr, terminal: false });
       for (let line = 0; line < 5000; line++) log.info("much", { text: "x".repeat(1000) });
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
