/**
 * The small pure rules: back-off, `after`, excerpts, fingerprints, claims, ids.
 */

import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { packAfter, quietSlicesOf, readAfter, toldOf } from "../../src/core/after.ts";
import { excerpt, headOf } from "../../src/core/excerpt.ts";
import {
  attemptIdOf,
  markOf,
  nodeIdOf,
  parseId,
  questionIdOf,
  runIdOf,
  taskIdFrom,
  threadIdFrom,
} from "../../src/core/ids.ts";
import { canonical, differingFields, fingerprintFields, type Json } from "../../src/core/receipt.ts";
import { backoffMs } from "../../src/core/retry.ts";
import { isAtOrBelow, overlaps } from "../../src/core/workspace-claim.ts";
import { aHandle } from "../support/given.ts";

const CROCKFORD = "0123456789ABCDEFGHJKMNPQRSTVWXYZ".split("");
const ulids = fc
  .array(fc.constantFrom(...CROCKFORD), { minLength: 26, maxLength: 26 })
  .map((letters) => letters.join(""));
const taskIds = ulids.map(taskIdFrom);

describe("the back-off", () => {
  const attempts = fc.tuple(taskIds, fc.integer({ min: 1, max: 1_000 })).map(([id, epoch]) => attemptIdOf(id, epoch));
  const faults = fc.integer({ min: 1, max: 100_000 });

  it("is between half and all of what doubles with every fault, up to the longest (P6)", () => {
    fc.assert(
      fc.property(attempts, faults, fc.integer({ min: 1, max: 3_600_000 }), (attemptId, fault, maxMs) => {
        const delayMs = backoffMs(attemptId, fault, maxMs, null);
        const fullMs = Math.min(maxMs, 1_000 * 2 ** Math.min(fault - 1, 30));
        expect(delayMs).toBeGreaterThanOrEqual(Math.floor(fullMs / 2));
        expect(delayMs).toBeLessThanOrEqual(fullMs);
        expect(Number.isSafeInteger(delayMs)).toBe(true);
      }),
    );
  });

  it("is the same for the same attempt and spread over different ones", () => {
    const of = (epoch: number): number => backoffMs(attemptIdOf(aHandle().taskId, epoch), 7, 60_000, null);
    expect(of(7)).toBe(of(7));
    const spread = new Set(Array.from({ length: 50 }, (_, epoch) => of(epoch)));
    expect(spread.size).toBeGreaterThan(40);
  });

  it("is never shorter than the provider asks, longest or not (F11)", () => {
    const attemptId = attemptIdOf(aHandle().taskId, 1);
    expect(backoffMs(attemptId, 1, 60_000, 90_000)).toBe(90_000);
    expect(backoffMs(attemptId, 20, 60_000, 1)).toBeGreaterThanOrEqual(30_000);
    expect(backoffMs(attemptId, 1, 60_000, 0)).toBe(backoffMs(attemptId, 1, 60_000, null));
  });
});

describe("after", () => {
  const counters = fc.nat({ max: 999_999_999 });
  const seen = fc.uniqueArray(fc.record({ taskId: taskIds, news: counters, steps: counters }), {
    selector: ({ taskId }) => taskId.slice(-8),
    maxLength: 50,
  });
  const nonces = fc.stringMatching(/^[0-9a-z]{1,12}$/);

  it("reads back what was packed, task by task (P9, L2)", () => {
    fc.assert(
      fc.property(seen, nonces, (told, nonce) => {
        const after = readAfter(packAfter(told, nonce));
        expect(after?.size).toBe(told.length);
        for (const { taskId, news, steps } of told) expect(toldOf(after, taskId)).toEqual({ news, steps });
      }),
    );
  });

  it("counts the waits in a row without news, up to a limit, beside what was told (P7)", () => {
    fc.assert(
      fc.property(seen, nonces, fc.nat({ max: 20_000 }), (told, nonce, quiet) => {
        const text = packAfter(told, nonce, quiet);
        expect(quietSlicesOf(text)).toBe(Math.min(quiet, 9_999));
        expect(readAfter(text)).toEqual(readAfter(packAfter(told, nonce)));
      }),
    );
  });

  it.each([
    ["a1:ABCDEFGH.1.1", 0],
    ["a1:", 0],
    ["a1-7:ABCDEFGH.1.1", 7],
    ["a1-7:", 7],
    ["a1-7:ABCDEFGH.1", 0],
    ["a1--7:", 0],
    ["a1-:", 0],
    ["a1-12345:", 0],
    ["-7:", 0],
    ["14", 0],
    ["", 0],
  ])("of a form that is older or not ours counts none: %j", (text, quiet) => {
    expect(quietSlicesOf(text)).toBe(quiet);
  });

  it("of the form without a count is still read", () => {
    const { taskId } = aHandle();
    const older = `mqpwg:${taskId.slice(-8)}.3.12`;
    expect(toldOf(readAfter(older), taskId)).toEqual({ news: 3, steps: 12 });
    expect(packAfter([{ taskId, news: 3, steps: 12 }], "mqpwg")).toBe(older);
  });

  it("says nothing of a task that it does not name", () => {
    const other = aHandle(2).taskId;
    expect(toldOf(readAfter(packAfter([{ taskId: aHandle(1).taskId, news: 3, steps: 1 }], "a1")), other)).toBeNull();
    expect(toldOf(null, other)).toBeNull();
  });

  it("differs with every nonce although nothing else has changed", () => {
    const told = [{ taskId: aHandle().taskId, news: 3, steps: 1 }];
    expect(packAfter(told, "a1")).not.toBe(packAfter(told, "a2"));
    fc.assert(
      fc.property(seen, nonces, nonces, (same, one, other) => {
        fc.pre(one !== other);
        expect(packAfter(same, one)).not.toBe(packAfter(same, other));
      }),
    );
  });

  it.each([
    "",
    ":",
    "1",
    "14",
    "a1",
    "A1:",
    "a1:ABCDEFGH",
    "a1:ABCDEFGH.1",
    "a1:ABCDEFGH.1.x",
    "a1:ABCDEFG.1.1",
    "a1:ABCDEFGH.1234567890.1",
    "a1:ABCDEFGH.-1.1",
    "a1-:ABCDEFGH.1.1",
    "a1-12345:ABCDEFGH.1.1",
    "a1-1-1:ABCDEFGH.1.1",
    "a1:ABCDEFGH.1.1;",
    " a1:ABCDEFGH.1.1",
    "a1:ABCDEFGH.1.1\n",
    "__proto__",
  ])("that is not ours reads as nothing told: %j", (text) => {
    expect(readAfter(text)).toBeNull();
  });

  it("never throws and never invents, whatever is sent", () => {
    fc.assert(
      fc.property(
        fc.oneof(fc.string({ unit: "binary" }), fc.stringMatching(/^[0-9a-z]{0,13}(-[0-9]{0,5})?:[0-9A-Z._]{0,40}$/)),
        (text) => {
          const after = readAfter(text);
          for (const [short, told] of after ?? []) {
            expect(short).toMatch(/^[0-9A-Z]{8}$/);
            expect(text).toContain(`${short}.`);
            expect(Number.isSafeInteger(told.news) && Number.isSafeInteger(told.steps)).toBe(true);
          }
        },
      ),
    );
  });

  it("of something enormous is answered at once", () => {
    const text = `a1:${"ABCDEFGH.1.1_".repeat(100_000)}x`;
    expect(readAfter(text)).toBeNull();
  });
});

describe("an excerpt", () => {
  const texts = fc.oneof(
    fc.string({ unit: "binary", maxLength: 300 }),
    fc.string({ unit: "grapheme", maxLength: 300 }),
  );

  it("is never longer than its budget, and is the text itself where that fits (P15, F33, S1)", () => {
    fc.assert(
      fc.property(texts, fc.nat({ max: 400 }), (text, max) => {
        const cut = excerpt(text, max);
        expect(cut.length).toBeLessThanOrEqual(max);
        if (text.length <= max) expect(cut).toBe(text);
      }),
    );
  });

  it("never tears a character that was whole (S3)", () => {
    fc.assert(
      fc.property(texts, fc.nat({ max: 400 }), (text, max) => {
        fc.pre(text.isWellFormed());
        expect(excerpt(text, max).isWellFormed()).toBe(true);
        expect(headOf(text, max).isWellFormed()).toBe(true);
      }),
    );
    expect(excerpt("😀".repeat(100), 51).isWellFormed()).toBe(true);
    expect(headOf("a😀", 2)).toBe("a");
    expect(headOf("a😀", 3)).toBe("a😀");
  });

  it("keeps head and tail and says in between how much is missing (S1)", () => {
    const text = `${"h".repeat(500)}${"t".repeat(500)}`;
    const cut = excerpt(text, 200);
    expect(cut.length).toBe(200);
    expect(cut).toMatch(/^h+\n… 800 or more characters left out …\nt+$/);
  });

  it("understates no gap", () => {
    fc.assert(
      fc.property(fc.integer({ min: 100, max: 5_000 }), fc.integer({ min: 60, max: 5_000 }), (length, max) => {
        fc.pre(length > max);
        const cut = excerpt("x".repeat(length), max);
        const named = Number(/… (\d+) or more/.exec(cut)?.[1]);
        expect(length - cut.split("x").length + 1).toBeGreaterThanOrEqual(named);
      }),
    );
  });

  it.each([-1, 0, 1, 2, 10, 40])("of a budget of %i is still one", (max) => {
    expect(excerpt("y".repeat(1_000), max).length).toBe(Math.max(0, max));
  });
});

describe("a fingerprint", () => {
  const values: fc.Arbitrary<Json> = fc.letrec<{ json: Json }>((tie) => ({
    json: fc.oneof(
      { depthSize: "small" },
      fc.constant(null),
      fc.boolean(),
      fc.integer(),
      fc.string(),
      fc.array(tie("json"), { maxLength: 3 }),
      fc.dictionary(fc.string(), tie("json"), { maxKeys: 3 }),
    ),
  })).json;
  const calls = fc.dictionary(fc.string({ minLength: 1 }), values, { maxKeys: 6 });

  it("does not depend on the order of fields, at any depth (P3)", () => {
    fc.assert(
      fc.property(calls, (call) => {
        expect(fingerprintFields(backwards(call))).toEqual(fingerprintFields(call));
      }),
    );
  });

  it("depends on every field that counts, and on nothing else (P3, F6)", () => {
    fc.assert(
      fc.property(calls, fc.string({ minLength: 1 }), values, (call, name, value) => {
        const before = fingerprintFields(call);
        const after = fingerprintFields({ ...call, ...Object.fromEntries([[name, value]]) });
        const counts = !LEFT_OUT.includes(name);
        const differs = differingFields(before, after);
        const old = Object.hasOwn(call, name) ? call[name] : undefined;
        const same = old !== undefined && canonical(old) === canonical(value);
        expect(differs).toEqual(counts && !same ? [name] : []);
      }),
    );
  });

  it("tells an absent field from its default and from null (D5)", () => {
    const sent = fingerprintFields({ task: "t", role: "general" });
    expect(differingFields(sent, fingerprintFields({ task: "t" }))).toEqual(["role"]);
    expect(differingFields(sent, fingerprintFields({ task: "t", role: null }))).toEqual(["role"]);
    expect(differingFields(sent, fingerprintFields({ task: "t", role: "general", cwd: undefined }))).toEqual([]);
  });

  it("leaves out what only says how long to wait, how to show it or what to do about a collision", () => {
    const call = { task: "t" };
    for (const name of LEFT_OUT) {
      expect(differingFields(fingerprintFields(call), fingerprintFields({ ...call, [name]: "x" })), name).toEqual([]);
    }
  });

  it("names every field that differs, sorted (F6)", () => {
    const one = fingerprintFields({ task: "a", cwd: "/a", role: "test" });
    const other = fingerprintFields({ task: "b", cwd: "/a", agent: "pi" });
    expect(differingFields(one, other)).toEqual(["agent", "role", "task"]);
    expect(Object.keys(one)).toEqual(["cwd", "role", "task"]);
  });

  it("tells apart what looks alike", () => {
    const alike: readonly Json[] = [
      1,
      "1",
      [1],
      ["1"],
      { a: 1 },
      [{ a: 1 }],
      "",
      null,
      false,
      0,
      [],
      {},
      "null",
      [null],
    ];
    expect(new Set(alike.map(canonical)).size).toBe(alike.length);
    expect(canonical({ a: [1, 2] })).not.toBe(canonical({ a: [2, 1] }));
  });

  it("covers also a field with a strange name", () => {
    const strange = Object.fromEntries([["__proto__", "x"]]);
    expect(differingFields(fingerprintFields(strange), fingerprintFields({}))).toEqual(["__proto__"]);
    expect(differingFields(fingerprintFields({ constructor: "x" }), fingerprintFields({}))).toEqual(["constructor"]);
  });
});

describe("two claims on directories", () => {
  it.each([
    ["/a", "/a", true],
    ["/a", "/a/b", true],
    ["/a/b/c", "/a", true],
    ["/", "/a", true],
    ["/a", "/ab", false],
    ["/ab", "/a", false],
    ["/a/b", "/a/c", false],
    ["/a/b", "/a/bc", false],
    ["/a", "/A", false],
    ["/a/", "/a", true],
  ])("on %s and %s collide: %s (P10, K2, F26)", (one, other, collide) => {
    expect(overlaps(one, other)).toBe(collide);
    expect(overlaps(other, one)).toBe(collide);
  });

  it("collide if and only if one path lies at or below the other", () => {
    const paths = fc
      .array(fc.constantFrom("a", "ab", "b", "a b"), { maxLength: 4 })
      .map((parts) => `/${parts.join("/")}`);
    fc.assert(
      fc.property(paths, paths, (one, other) => {
        const parts = (path: string): readonly string[] => path.split("/").filter((part) => part !== "");
        const starts = (long: readonly string[], short: readonly string[]): boolean =>
          short.every((part, index) => long[index] === part);
        expect(isAtOrBelow(one, other)).toBe(starts(parts(one), parts(other)));
        expect(overlaps(one, other)).toBe(isAtOrBelow(one, other) || isAtOrBelow(other, one));
      }),
    );
  });
});

describe("ids", () => {
  it("derive from the task's own and from small numbers, so that none is ever issued twice (P2)", () => {
    const { taskId } = aHandle();
    expect(nodeIdOf(taskId)).toBe(`node:delegated-task:${taskId}`);
    expect(runIdOf(taskId, 2)).toBe(`${taskId}.r2`);
    expect(markOf("d1", attemptIdOf(taskId, 3))).toBe(`d1.${taskId}.a3`);
    expect(questionIdOf(4)).toBe("q_4");
  });

  it("are recognised in any of a task's three forms", () => {
    fc.assert(
      fc.property(ulids, (ulid) => {
        const taskId = taskIdFrom(ulid);
        expect(parseId(taskId)).toEqual({ kind: "task", taskId });
        expect(parseId(nodeIdOf(taskId))).toEqual({ kind: "task", taskId });
        expect(parseId(threadIdFrom(ulid))).toEqual({ kind: "thread", threadId: threadIdFrom(ulid) });
      }),
    );
  });

  it.each([
    "",
    "4711",
    "dt_",
    `dt_${"0".repeat(25)}`,
    `dt_${"0".repeat(27)}`,
    `dt_${"I".repeat(26)}`,
    `dt_${"0".repeat(26)}\n`,
    ` dt_${"0".repeat(26)}`,
    `dt_${"a".repeat(26)}`,
    `node:delegated-task:th_${"0".repeat(26)}`,
    `node:delegated-task:node:delegated-task:dt_${"0".repeat(26)}`,
    `node:other:dt_${"0".repeat(26)}`,
  ])("of other kinds are foreign, whatever they look like: %j (P16, F28)", (text) => {
    expect(parseId(text)).toEqual({ kind: "foreign" });
  });
});

const LEFT_OUT = [
  "clientRequestId",
  "mode",
  "waitMs",
  "timeoutMs",
  "maxActiveMs",
  "title",
  "labels",
  "onDuplicate",
  "onBusy",
];

/** The same fields, each record's in reverse order. */
function backwards(value: { readonly [field: string]: Json | undefined }): { [field: string]: Json | undefined } {
  return Object.fromEntries(
    Object.entries(value)
      .toReversed()
      .map(([name, field]) => [name, field === undefined ? field : turned(field)]),
  );
}

function turned(value: Json): Json {
  if (value === null || typeof value !== "object") return value;
  if (isList(value)) return value.map(turned);
  return backwards(value);
}

function isList(value: object): value is readonly Json[] {
  return Array.isArray(value);
}
