/**
 * Generated files are compared byte for byte, and written only when asked to.
 */

import { readFileSync } from "node:fs";
import path from "node:path";
import { describe, expect, it } from "vitest";
import { GENERATED } from "../../scripts/generated.ts";
import { syncGenerated } from "../../scripts/generate.ts";
import { ROOT, scratch } from "./scratch.ts";

const FILES = [
  { path: "same.md", make: () => "same\n" },
  { path: "old.md", make: () => "new\n" },
  { path: "docs/absent.md", make: async () => "made\n" },
];

describe("generated files", () => {
  it("names missing and differing files and writes nothing when checking", async () => {
    using tree = scratch({ "same.md": "same\n", "old.md": "old\n" });
    expect(await syncGenerated(FILES, tree.dir, true)).toEqual(["old.md", "docs/absent.md"]);
    expect(readFileSync(path.join(tree.dir, "old.md"), "utf8")).toBe("old\n");
  });

  it("writes what differs, and then finds nothing to do", async () => {
    using tree = scratch({ "old.md": "old\n" });
    expect(await syncGenerated(FILES, tree.dir, false)).toEqual(["same.md", "old.md", "docs/absent.md"]);
    expect(readFileSync(path.join(tree.dir, "docs/absent.md"), "utf8")).toBe("made\n");
    expect(await syncGenerated(FILES, tree.dir, true)).toEqual([]);
  });

  it("are made the same way twice and stand in the repository as made", async () => {
    for (const file of GENERATED) expect(await file.make()).toBe(await file.make());
    expect(await syncGenerated(GENERATED, ROOT, true)).toEqual([]);
  });
});
