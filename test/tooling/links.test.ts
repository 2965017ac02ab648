/**
 * Links between the pages of the project: every relative one names a file that is there, and every anchor a heading of it.
 */

import { existsSync, globSync, readFileSync } from "node:fs";
import path from "node:path";
import { describe, expect, it } from "vitest";
import { ROOT, scratch } from "./scratch.ts";

/** What is said of the links in all pages below `root` that lead nowhere. */
function brokenLinks(root: string): readonly string[] {
  const pages = globSync("**/*.md", { cwd: root, exclude: (name) => IGNORED.has(path.basename(name)) });
  return pages.toSorted().flatMap((page) => {
    const links = linksIn(readFileSync(path.join(root, page), "utf8"));
    return links.filter((link) => !leadsSomewhere(root, page, link)).map((link) => `${page}: ${link}`);
  });
}

const IGNORED = new Set(["node_modules", "dist", ".cache", ".git"]);

function leadsSomewhere(root: string, page: string, link: string): boolean {
  const [file = "", anchor] = link.split("#", 2);
  const target = path.join(root, file === "" ? page : path.join(path.dirname(page), decodeURI(file)));
  if (!existsSync(target)) return false;
  return anchor === undefined || anchorsIn(readFileSync(target, "utf8")).has(anchor);
}

/** Targets of links and images, without those that name another place; code is no text. */
function linksIn(page: string): readonly string[] {
  const found = withoutCode(page).matchAll(/\]\(<?([^)\s>]+)>?(?: "[^"]*")?\)|^\[[^\]]+\]: +(\S+)/gm);
  return Array.from(found, ([, inline, named]) => inline ?? named ?? "").filter((link) => !/^[a-z]+:/.test(link));
}

function withoutCode(page: string): string {
  return page.replace(/^(`{3,}).*?^\1$/gms, "").replace(/`[^`\n]*`/g, "");
}

/** Anchors as hosts of repositories make them: lower case, without marks, blanks as dashes, repeats numbered. */
function anchorsIn(page: string): ReadonlySet<string> {
  const anchors = new Set<string>();
  for (const [, heading = ""] of page.replace(/^(`{3,}).*?^\1$/gms, "").matchAll(/^#{1,6} +(.+)$/gm)) {
    const plain = heading
      .toLowerCase()
      .replace(/[^\p{L}\p{N}_ -]/gu, "")
      .replaceAll(" ", "-");
    let anchor = plain;
    for (let repeat = 1; anchors.has(anchor); repeat++) anchor = `${plain}-${repeat}`;
    anchors.add(anchor);
  }
  return anchors;
}

describe("links between pages", () => {
  it("all lead to a file and a heading that are there", () => {
    expect(brokenLinks(ROOT)).toEqual([]);
  });

  it("that lead nowhere are found, wherever they stand, and code is left alone", () => {
    using tree = scratch({
      "README.md": [
        "# Top",
        "## A `b`, c",
        "[gone](docs/gone.md) [here](#a-b-c) [far](https://example.org/x) `[code](nowhere.md)`",
        "```\n[code](nowhere.md)\n# no-heading\n```",
        "[no](#no-heading) [page](docs/page.md#second-1)",
      ].join("\n"),
      "docs/page.md": "# One\n## Second\n## Second\n[up](../README.md#missing)\n[named]: ./other.md\n",
    });
    expect(brokenLinks(tree.dir)).toEqual([
      "README.md: docs/gone.md",
      "README.md: #no-heading",
      "docs/page.md: ../README.md#missing",
      "docs/page.md: ./other.md",
    ]);
  });
});
