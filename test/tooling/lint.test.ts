/**
 * The lint rules that carry a promise of the code's style are on, and off only where they are meant to be.
 */

import { copyFileSync } from "node:fs";
import path from "node:path";
import { describe, expect, it } from "vitest";
import { ROOT, type Ran, runNode, scratch } from "./scratch.ts";

const BREACHES: readonly (readonly [rule: string, file: string, text: string])[] = [
  [
    "typescript(no-floating-promises)",
    "src/engine/float.ts",
    "async function go(): Promise<void> {}\ngo();\nexport { go };\n",
  ],
  [
    "typescript(switch-exhaustiveness-check)",
    "src/core/switch.ts",
    'export function f(x: "a" | "b"): number {\n  switch (x) {\n    case "a":\n      return 1;\n  }\n  return 2;\n}\n',
  ],
  ["typescript(no-explicit-any)", "src/core/any.ts", "export function f(x: any): unknown {\n  return x;\n}\n"],
  ["typescript(no-unsafe-member-access)", "src/core/reach.ts", 'export const x: unknown = JSON.parse("{}").a;\n'],
  ["typescript(consistent-type-assertions)", "src/mcp/as.ts", 'export const x = JSON.parse("1") as number;\n'],
  ["typescript(no-non-null-assertion)", "src/mcp/bang.ts", "export const f = (x?: number): number => x!;\n"],
  ["typescript(ban-ts-comment)", "src/mcp/hush.ts", "// @ts-ignore because\nexport const x: number = 1;\n"],
  ["import(no-default-export)", "src/mcp/default.ts", "export default 1;\n"],
  ["oxc(no-barrel-file)", "src/mcp/index.ts", 'export * from "./as.ts";\n'],
  ["unicorn(filename-case)", "src/mcp/camelCase.ts", "export const x = 1;\n"],
  ["eslint(no-restricted-properties)", "src/core/now.ts", "export const now = Date.now();\n"],
  ["eslint(no-restricted-properties)", "src/engine/dice.ts", "export const dice = Math.random();\n"],
  ["eslint(no-restricted-globals)", "src/engine/timer.ts", "setTimeout(() => undefined, 1);\nexport const x = 1;\n"],
  ["eslint(no-restricted-globals)", "src/http/env.ts", 'export const home = process.env["HOME"];\n'],
  [
    "eslint(no-restricted-imports)",
    "src/engine/sleep.ts",
    'import { setTimeout } from "node:timers/promises";\nexport const sleep = setTimeout;\n',
  ],
  ["eslint(no-console)", "src/cli/log.ts", 'console.log("hello");\nexport const x = 1;\n'],
  ["vitest(no-focused-tests)", "test/focus.test.ts", 'import { it } from "vitest";\nit.only("x", () => undefined);\n'],
  ["vitest(no-disabled-tests)", "test/skip.test.ts", 'import { it } from "vitest";\nit.skip("x", () => undefined);\n'],
];

const ALLOWED: Record<string, string> = {
  "src/process.d.ts":
    "declare const process: { env: Record<string, string>; stdout: { write(text: string): void } };\n",
  "src/system/wall-clock.ts": "export const now = (): number => Date.now() + performance.now();\n",
  "src/guard/beat.ts": "export const beat = (): unknown => setInterval(() => undefined, 1);\n",
  "src/config/load.ts": 'export const level = process.env["LEVEL"];\n',
  "src/cli/out.ts": 'process.stdout.write("x");\nexport const x = 1;\n',
  "src/core/ids.ts": "export const x = JSON.parse('1') as number;\n",
  "src/store/codec.ts": "export const x = JSON.parse('1') as number;\n",
  "src/mcp/constant.ts": 'export const KINDS = ["a", "b"] as const;\n',
  "scripts/tool.ts": "console.log(Date.now());\nexport const x = 1;\n",
  "vitest.config.ts": "export default {};\n",
};

describe("the lint rules", () => {
  it("name every kind of breach", async () => {
    const ran = await lint(Object.fromEntries(BREACHES.map(([, file, text]) => [file, text])));
    expect(ran.code).toBe(1);
    const found = ran.stdout.split("\n");
    const missed = BREACHES.filter(
      ([rule, file]) => !found.some((l) => l.startsWith(`${file}:`) && l.includes(`/${rule}]`)),
    );
    expect(missed).toEqual([]);
  });

  it("let time, randomness, the process and assertions be where they belong", async () => {
    expect(await lint(ALLOWED)).toEqual({ code: 0, stdout: "", stderr: "" });
  });
});

async function lint(files: Record<string, string>): Promise<Ran> {
  using tree = scratch({ ...files, "package.json": '{ "type": "module" }' });
  tree.write({
    "tsconfig.json": JSON.stringify({
      compilerOptions: {
        strict: true,
        module: "nodenext",
        target: "es2024",
        noEmit: true,
        types: [],
        allowImportingTsExtensions: true,
      },
      include: ["src", "test", "scripts"],
    }),
  });
  copyFileSync(path.join(ROOT, ".oxlintrc.json"), path.join(tree.dir, ".oxlintrc.json"));
  return await runNode([path.join(ROOT, "node_modules", "oxlint", "bin", "oxlint"), "--format=unix"], tree.dir);
}
