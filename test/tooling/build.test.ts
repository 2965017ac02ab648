/**
 * The build does its work once, again when anything changed, and never leaves a half or stale `dist`.
 */

import { existsSync, readFileSync, rmSync, statSync, utimesSync, writeFileSync } from "node:fs";
import path from "node:path";
import { describe, expect, it } from "vitest";
import { ROOT, type Ran, runNode, type Scratch, scratch } from "./scratch.ts";

const FILES = {
  "package.json": '{ "type": "module" }',
  "tsconfig.json": JSON.stringify({
    compilerOptions: {
      module: "nodenext",
      target: "es2024",
      lib: ["es5"],
      skipLibCheck: true,
      types: [],
      strict: true,
      rewriteRelativeImportExtensions: true,
    },
  }),
  "tsconfig.build.json":
    '{ "extends": "./tsconfig.json", "compilerOptions": { "rootDir": "src" }, "include": ["src"] }',
  "src/cli/run.ts": 'import { name } from "../name.ts";\nexport const greeting: string = "hello " + name;\n',
  "src/name.ts": 'export const name = "one";\n',
  "src/spare.ts": "export const spare = 1;\n",
};
const UP_TO_DATE = "dist is up to date\n";

describe("npm run build", () => {
  it("compiles, then finds dist up to date, whatever the times of the files say", async () => {
    using tree = scratch(FILES);
    expect(await build(tree)).toEqual({ code: 0, stdout: "", stderr: "" });
    expect(read(tree, "dist/cli/run.js")).toContain('from "../name.js"');
    utimesSync(path.join(tree.dir, "src/name.ts"), new Date(), new Date(Date.now() + 3_600_000));
    const before = statSync(path.join(tree.dir, "dist")).ino;
    expect(await build(tree)).toMatchObject({ code: 0, stdout: UP_TO_DATE });
    expect(statSync(path.join(tree.dir, "dist")).ino).toBe(before);
  });

  it("compiles again after a source changed or went away, and after dist was touched", async () => {
    using tree = scratch(FILES);
    await build(tree);
    tree.write({ "src/name.ts": 'export const name = "two";\n' });
    rmSync(path.join(tree.dir, "src/spare.ts"));
    expect(await build(tree)).toMatchObject({ code: 0, stdout: "" });
    expect(read(tree, "dist/name.js")).toContain("two");
    expect(existsSync(path.join(tree.dir, "dist/spare.js"))).toBe(false);
    writeFileSync(path.join(tree.dir, "dist/name.js"), "broken");
    expect(await build(tree)).toMatchObject({ code: 0, stdout: "" });
    expect(read(tree, "dist/name.js")).toContain("two");
  });

  it("fails with the compiler's words and keeps the last good dist", async () => {
    using tree = scratch(FILES);
    await build(tree);
    tree.write({ "src/name.ts": "export const name: string = 1;\n" });
    const ran = await build(tree);
    expect(ran.code).not.toBe(0);
    expect(ran.stdout).toContain("src/name.ts");
    expect(read(tree, "dist/name.js")).toContain("one");
    expect((await build(tree)).code).not.toBe(0);
  });

  it("may run twice at once", async () => {
    using tree = scratch(FILES);
    const [one, other] = await Promise.all([build(tree), build(tree)]);
    expect([one.code, other.code]).toEqual([0, 0]);
    expect(read(tree, "dist/name.js")).toContain("one");
  });
});

function build(tree: Scratch): Promise<Ran> {
  return runNode([path.join(ROOT, "scripts", "build.ts")], tree.dir);
}

function read(tree: Scratch, name: string): string {
  return readFileSync(path.join(tree.dir, name), "utf8");
}
