/**
 * Holds the manifest and the tests to each other: what tests cite exists, and what counts as covered is cited.
 */

import { globSync, readFileSync } from "node:fs";
import path from "node:path";
import { describe, expect, it } from "vitest";
import { CLAIMED, MANIFEST, OPEN } from "./promises.ts";

const ID = "(?:P|H|W|D|L|R|C|G|K|PE|S|X|M|E|U|F)[1-9]\\d?";
const CITATION = new RegExp(`\\((${ID}(?:(?:, | and )${ID})*)\\)`, "g");
const NOT_SCANNED = new Set(["promises.ts", "promises.test.ts"]);

type Citation = { readonly id: string; readonly file: string };

describe("the manifest of promises", () => {
  const citations = globSync("**/*.ts", { cwd: import.meta.dirname })
    .filter((file) => !NOT_SCANNED.has(file) && !file.includes("node_modules"))
    .flatMap((file) => citationsIn(readFileSync(path.join(import.meta.dirname, file), "utf8"), file));

  it("holds 18 promises, 75 scenarios and 38 faults, each with a sentence of its own", () => {
    const ids = [...MANIFEST.keys()];
    expect(ids.filter((id) => /^P\d+$/.test(id))).toHaveLength(18);
    expect(ids.filter((id) => /^F\d+$/.test(id))).toHaveLength(38);
    expect(ids).toHaveLength(18 + 75 + 38);
    expect(new Set([...MANIFEST.values()].map((entry) => entry.says)).size).toBe(ids.length);
    expect(ids.filter((id) => !new RegExp(`^${ID}$`).test(id))).toEqual([]);
  });

  it("sorts every id into claimed or open, and calls nothing covered that is not claimed", () => {
    expect([...CLAIMED, ...OPEN].toSorted()).toEqual([...MANIFEST.keys()].toSorted());
    const covered = [...MANIFEST].filter(([, entry]) => entry.state === "covered").map(([id]) => id);
    expect(covered.filter((id) => !CLAIMED.has(id))).toEqual([]);
  });

  it("knows every id that a test cites", () => {
    expect(citations.filter(({ id }) => !MANIFEST.has(id))).toEqual([]);
  });

  it("calls covered only what a test file cites", () => {
    const cited = new Set(citations.filter(({ file }) => file.endsWith(".test.ts")).map(({ id }) => id));
    const uncited = [...MANIFEST].filter(([id, entry]) => entry.state === "covered" && !cited.has(id));
    expect(uncited).toEqual([]);
  });
});

describe("a citation", () => {
  it("is a bracketed list of ids and nothing else", () => {
    const text = 'it("answers (P3, D2, F7)"); // (PE1 and P1)\nf(P3x); g(aP3); "(P3 or so)" "(P10)" "(P100)" "P5"';
    expect(citationsIn(text, "x").map(({ id }) => id)).toEqual(["P3", "D2", "F7", "PE1", "P1", "P10"]);
  });

  it("of an id that does not exist is found", () => {
    const [citation] = citationsIn('it("answers (P99)")', "x");
    expect(MANIFEST.has(citation?.id ?? "")).toBe(false);
    expect(citation?.id).toBe("P99");
  });
});

function citationsIn(text: string, file: string): readonly Citation[] {
  return [...text.matchAll(CITATION)].flatMap(([, list = ""]) => list.split(/, | and /).map((id) => ({ id, file })));
}
