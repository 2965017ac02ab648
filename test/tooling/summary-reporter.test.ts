/**
 * The closing line of a test run, read from real runs of vitest over small test files.
 */

import { symlinkSync } from "node:fs";
import path from "node:path";
import { describe, expect, it } from "vitest";
import { ROOT, type Ran, runNode, scratch } from "./scratch.ts";

const IMPORT = 'import { beforeAll, describe, expect, it } from "vitest";\n';
const PASSES = `${IMPORT}it("a", () => expect(1).toBe(1));\nit("b", () => expect(1).toBe(1));\n`;

describe("the last line of a test run", () => {
  it("counts what passed, failed and was skipped", async () => {
    const ran = await run({
      "passes.test.ts": PASSES,
      "mixed.test.ts": `${IMPORT}it("c", () => expect(1).toBe(2));\nit.skip("d", () => undefined);\n`,
    });
    expect(lastLine(ran)).toBe("2 passed, 1 failed, 1 skipped");
    expect(ran.code).not.toBe(0);
  });

  it("says nothing of skipped tests where there are none", async () => {
    const ran = await run({ "passes.test.ts": PASSES });
    expect(lastLine(ran)).toBe("2 passed, 0 failed");
    expect(ran.code).toBe(0);
  });

  it("counts a file that does not load, a failing hook and a stray rejection as failures", async () => {
    const ran = await run({
      "broken.test.ts": 'import "./nowhere.ts";\n',
      "hook.test.ts": `${IMPORT}describe("s", () => {\n  beforeAll(() => { throw new Error("hook"); });\n  it("e", () => undefined);\n});\n`,
      "stray.test.ts": `${IMPORT}it("f", () => { void Promise.reject(new Error("stray")); });\n`,
    });
    expect(lastLine(ran)).toBe("1 passed, 3 failed, 1 skipped");
    expect(ran.code).not.toBe(0);
  });
});

async function run(files: Record<string, string>): Promise<Ran> {
  using tree = scratch(files);
  symlinkSync(path.join(ROOT, "node_modules"), path.join(tree.dir, "node_modules"));
  const reporter = JSON.stringify(path.join(ROOT, "test", "support", "summary-reporter.ts"));
  tree.write({
    "package.json": '{ "type": "module" }',
    "vitest.config.ts": `import { createSummaryReporter } from ${reporter};\nexport default { test: { reporters: ["default", createSummaryReporter()] } };\n`,
  });
  return await runNode([path.join(ROOT, "node_modules", "vitest", "vitest.mjs"), "run"], tree.dir, { NO_COLOR: "1" });
}

function lastLine(ran: Ran): string | undefined {
  return ran.stdout.trimEnd().split("\n").at(-1);
}
