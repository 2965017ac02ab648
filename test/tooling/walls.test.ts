/**
 * Each wall of `.dependency-cruiser.cjs` stands: a tree that breaks it is refused by the name of the rule.
 */

import path from "node:path";
import { describe, expect, it } from "vitest";
import { ROOT, runNode, scratch } from "./scratch.ts";

const SOUND: Record<string, string> = {
  "tsconfig.json":
    '{ "compilerOptions": { "module": "nodenext", "allowImportingTsExtensions": true, "noEmit": true } }',
  "package.json": JSON.stringify({
    type: "module",
    dependencies: { kysely: "1.0.0", zod: "1.0.0", stray: "1.0.0" },
    devDependencies: { vitest: "1.0.0" },
  }),
  ...fakePackage("kysely"),
  ...fakePackage("zod"),
  ...fakePackage("stray"),
  ...fakePackage("vitest"),
  "src/core/task.ts": "export type Task = { id: string };\nexport const task = 1;\n",
  "src/core/plan.ts": 'import { task } from "./task.ts";\nexport const plan = task;\n',
  "src/ports/store.ts": 'import type { Task } from "../core/task.ts";\nexport type Store = { get(): Task };\n',
  "src/store/sql-store.ts":
    'import { readFileSync } from "node:fs";\nimport { value } from "kysely";\nimport "kysely/deep";\nimport type { Store } from "../ports/store.ts";\nexport const store: [Store?] = [];\nexport const used = [readFileSync, value];\n',
  "src/config/schema.ts": 'import { value } from "zod";\nexport const schema = value;\n',
  "src/main.ts": 'import "./store/sql-store.ts";\nimport "./config/schema.ts";\nimport "kysely";\n',
  "src/cli/run.ts": 'import "../main.ts";\nimport "../config/schema.ts";\n',
};

const BREACHES: readonly (readonly [rule: string, file: string, text: string])[] = [
  [
    "no-cycles",
    "src/core/task.ts",
    'import type { plan } from "./plan.ts";\nexport type T = typeof plan;\nexport const task = 1;\n',
  ],
  ["everything-resolves", "src/store/lost.ts", 'import "./nowhere.ts";\n'],
  ["core-is-pure", "src/core/impure.ts", 'import "node:fs";\n'],
  ["core-is-pure", "src/core/wide.ts", 'import type { Store } from "../ports/store.ts";\nexport type S = Store;\n'],
  ["core-is-pure", "src/core/packaged.ts", 'import "zod";\n'],
  ["ports-know-core-and-ports", "src/ports/fs.ts", 'import type { Stats } from "node:fs";\nexport type S = Stats;\n'],
  ["ports-import-types", "src/ports/value.ts", 'import { task } from "../core/task.ts";\nexport const t = task;\n'],
  ["ports-hold-types", "src/store/value.ts", 'import { x } from "../ports/store.ts";\nexport const y = x;\n'],
  [
    "own-folder-core-ports",
    "src/mcp/peek.ts",
    'import type { store } from "../store/sql-store.ts";\nexport type S = typeof store;\n',
  ],
  ["own-folder-core-ports", "src/http/peek.ts", 'import "../main.ts";\n'],
  ["cli-may-see-main-and-config", "src/cli/peek.ts", 'import "../store/sql-store.ts";\n'],
  ["only-main-stands-at-the-top", "src/other.ts", 'import "./store/sql-store.ts";\n'],
  ["src-stands-alone", "src/store/tested.ts", 'import "../../test/help.ts";\n'],
  ["packages-have-owners", "src/store/stray.ts", 'import "stray";\n'],
  ["no-development-packages", "src/store/dev.ts", 'import "vitest";\n'],
  [
    "(kysely|pg) belongs to store",
    "src/engine/sql.ts",
    'import type { Value } from "kysely";\nexport type V = Value;\n',
  ],
  ["zod belongs to mcp|http|config|cli", "src/engine/parse.ts", 'import "zod";\n'],
];

describe("the layer walls", () => {
  it("let a sound tree pass and count its modules", async () => {
    using tree = scratch(SOUND);
    const ran = await walls(tree.dir);
    expect(ran).toMatchObject({ code: 0, stderr: "" });
    expect(ran.stdout).toBe("7 modules, 0 problems\n");
  });

  it("name the rule for every kind of breach, type imports included", async () => {
    using tree = scratch({ ...SOUND, "test/help.ts": "export {};\n" });
    tree.write(Object.fromEntries(BREACHES.map(([, file, text]) => [file, text])));
    const ran = await walls(tree.dir);
    expect(ran.code).toBe(1);
    const found = ran.stderr.split("\n");
    const missed = BREACHES.filter(
      ([rule, file]) => !found.some((line) => line.startsWith(`${rule}: `) && line.includes(file)),
    );
    expect(missed).toEqual([]);
  });

  it("fail when they see nothing to guard", async () => {
    using tree = scratch({
      "tsconfig.json": "{}",
      "package.json": "{}",
      "src/notes.md": "",
      "lib/core/task.ts": "export {};\n",
    });
    const ran = await walls(tree.dir);
    expect(ran.code).toBe(1);
    expect(ran.stderr).toContain("no module seen under src/core/");
  });
});

function walls(cwd: string): ReturnType<typeof runNode> {
  return runNode([path.join(ROOT, "scripts", "walls.ts")], cwd);
}

function fakePackage(name: string): Record<string, string> {
  const exports = { ".": "./dist/index.js", "./deep": { types: "./dist/index.d.ts", import: "./dist/index.js" } };
  return {
    [`node_modules/${name}/package.json`]: JSON.stringify({ name, version: "1.0.0", exports }),
    [`node_modules/${name}/dist/index.js`]: "exports.value = 1;\n",
    [`node_modules/${name}/dist/index.d.ts`]: "export type Value = 1;\nexport const value: Value;\n",
  };
}
