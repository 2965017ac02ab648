/** Which directories children may work in, on a real file system. */

import { mkdirSync, realpathSync, renameSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { createLocalWorkspace } from "../../src/workspace/local-workspace.ts";
import { createStepClock } from "../support/step-clock.ts";
import { createTempDirectory, type TempDirectory } from "../support/test-store.ts";

let directory: TempDirectory;
let base = "";
beforeEach(() => {
  directory = createTempDirectory();
  base = realpathSync(directory.path);
  for (const name of ["root/inner", "other", "outside"]) mkdirSync(join(base, name), { recursive: true });
  writeFileSync(join(base, "root/file"), "");
  symlinkSync(join(base, "root/inner"), join(base, "root/link"));
  symlinkSync(join(base, "outside"), join(base, "root/escape"));
  symlinkSync(join(base, "root"), join(base, "linked-root"));
});
afterEach(() => directory[Symbol.dispose]());

const resolved = (name: string) => ({ kind: "resolved", path: join(base, name) });
const refused = (code: string, reason: string) => ({ kind: "refused", code, reason });

function workspace(...roots: readonly string[]) {
  return createLocalWorkspace({ roots: roots.map((root) => join(base, root)), map: [], clock: createStepClock() });
}

describe("a directory for a child", () => {
  it("is named by its real path, so that two names of one directory make one claim (P10)", async () => {
    const { resolve } = workspace("root");
    expect(await resolve(join(base, "root/inner"))).toEqual(resolved("root/inner"));
    expect(await resolve(join(base, "root/link"))).toEqual(resolved("root/inner"));
    expect(await resolve("inner")).toEqual(resolved("root/inner"));
    expect(await workspace("linked-root").resolve(null)).toEqual(resolved("root"));
    expect(await workspace("linked-root").resolve(join(base, "root/inner"))).toEqual(resolved("root/inner"));
  });

  it("lies below a root as the file system is now, also where a link leads out of it (P18)", async () => {
    const { resolve } = workspace("root", "missing-root", "other");
    expect(await resolve(join(base, "other"))).toEqual(resolved("other"));
    expect(await resolve(join(base, "outside"))).toEqual(refused("workspace_not_allowed", "outside_roots"));
    expect(await resolve(join(base, "root/escape"))).toEqual(refused("workspace_not_allowed", "outside_roots"));
    expect(await resolve(join(base, "root/inner/../../outside"))).toEqual(
      refused("workspace_not_allowed", "outside_roots"),
    );
    rmSync(join(base, "root/link"));
    renameSync(join(base, "root/escape"), join(base, "root/link"));
    expect(await resolve(join(base, "root/link"))).toEqual(refused("workspace_not_allowed", "outside_roots"));
  });

  it("has to be a directory that is there, and one that was named where there are several", async () => {
    expect(await workspace("root").resolve(join(base, "root/file"))).toEqual(
      refused("workspace_failed", "not_a_directory"),
    );
    expect(await workspace("root").resolve(join(base, "root/gone"))).toEqual(refused("workspace_failed", "missing"));
    expect(await workspace("gone").resolve(null)).toEqual(refused("workspace_failed", "missing"));
    expect(await workspace("root", "other").resolve(null)).toEqual(refused("workspace_not_allowed", "choose_one"));
    expect(await workspace().resolve(null)).toEqual(refused("workspace_not_allowed", "no_root"));
  });
});
