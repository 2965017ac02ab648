/**
 * Children's tokens: ours are recognised over restarts, everything else is not, and all of ours can be found in a text.
 */

import { createHmac, randomBytes } from "node:crypto";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { CHILD_TOKEN_PATTERN, createChildCredentials } from "../../src/config/child-credentials.ts";
import { openSessionKey } from "../../src/config/daemon-files.ts";
import { administerTokens, CALLER_TOKEN_PATTERN } from "../../src/config/tokens.ts";
import { type AttemptId, attemptIdOf, taskIdFrom } from "../../src/core/ids.ts";
import { scratch } from "../tooling/scratch.ts";

const KEY = Buffer.alloc(32, 7);
const credentials = createChildCredentials(KEY);
const ATTEMPT = attemptIdOf(taskIdFrom("01JZ0000000000000000000000"), 3);

const ulids = fc.string({
  unit: fc.constantFrom(..."0123456789ABCDEFGHJKMNPQRSTVWXYZ".split("")),
  minLength: 26,
  maxLength: 26,
});
const attempts: fc.Arbitrary<AttemptId> = fc
  .tuple(ulids, fc.integer({ min: 1, max: 999_999_999 }))
  .map(([ulid, epoch]) => attemptIdOf(taskIdFrom(ulid), epoch));

describe("a child's token", () => {
  it("names its attempt, and only that", () => {
    fc.assert(
      fc.property(attempts, (attempt) => {
        expect(credentials.attemptOf(credentials.tokenOf(attempt))).toBe(attempt);
      }),
    );
    expect(credentials.tokenOf(ATTEMPT)).toMatch(/^dct_dt_01JZ0{22}\.a3\.[A-Za-z0-9_-]{43}$/);
  });

  it("holds over a restart with the same data directory, and in no other", () => {
    using folder = scratch();
    using elsewhere = scratch();
    const open = (dataDir: string) => {
      const opened = openSessionKey(dataDir);
      return opened.kind === "opened" ? createChildCredentials(opened.key) : expect.unreachable(opened.message);
    };
    const token = open(folder.dir).tokenOf(ATTEMPT);
    expect(open(folder.dir).attemptOf(token)).toBe(ATTEMPT);
    expect(open(elsewhere.dir).attemptOf(token)).toBeNull();
  });

  it("is not made with the session key itself, so nothing that it signs is a token", () => {
    const signed = createHmac("sha256", KEY).update(`delegate-mcp child\n${ATTEMPT}`).digest("base64url");
    expect(credentials.attemptOf(`dct_${ATTEMPT}.${signed}`)).toBeNull();
  });

  it("does not count for another attempt or epoch", () => {
    const mac = credentials.tokenOf(ATTEMPT).slice(-43);
    expect(credentials.attemptOf(`dct_${ATTEMPT}.${mac}`)).toBe(ATTEMPT);
    expect(credentials.attemptOf(`dct_${ATTEMPT.replace(".a3", ".a4")}.${mac}`)).toBeNull();
    expect(credentials.attemptOf(`dct_${ATTEMPT.replace("01JZ", "01JX")}.${mac}`)).toBeNull();
  });

  it("is not one after any change of a character, any cut and any addition", () => {
    const token = credentials.tokenOf(ATTEMPT);
    for (let at = 0; at < token.length; at++) {
      expect(credentials.attemptOf(token.slice(0, at))).toBeNull();
      for (const other of ["A", "b", "_", ".", "\n", "é"]) {
        const changed = `${token.slice(0, at)}${other}${token.slice(at + 1)}`;
        if (changed !== token) expect(credentials.attemptOf(changed)).toBeNull();
      }
    }
    for (const more of ["\n", " ", "=", "A", "\0"]) {
      expect([credentials.attemptOf(token + more), credentials.attemptOf(more + token)]).toEqual([null, null]);
    }
  });

  it("has one spelling: what base64 reads as the same bytes is another text", () => {
    const token = credentials.tokenOf(ATTEMPT);
    const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    const accepted = alphabet.split("").filter((last) => credentials.attemptOf(token.slice(0, -1) + last) !== null);
    expect(accepted).toEqual([token.at(-1)]);
  });

  it("is nothing for any other text, and no text makes it throw", () => {
    const nearly = fc
      .tuple(fc.constantFrom("dct_", "dct", "dmcp_", ""), fc.oneof(attempts, fc.string()), fc.base64String())
      .map(([prefix, attempt, mac]) => `${prefix}${attempt}.${mac.replace(/=/g, "").slice(0, 43)}`);
    const text = fc.oneof(fc.string({ unit: "binary" }), fc.string({ unit: "grapheme" }), nearly);
    fc.assert(
      fc.property(text, (token) => {
        expect(credentials.attemptOf(token)).toBeNull();
      }),
      { numRuns: 2_000 },
    );
    expect(credentials.attemptOf("dct_".repeat(1_000_000))).toBeNull();
    expect(credentials.attemptOf("\ud800".repeat(100))).toBeNull();
  });
});

describe("masking", () => {
  const masked = (text: string): string =>
    text.replace(new RegExp(`${CHILD_TOKEN_PATTERN}|${CALLER_TOKEN_PATTERN}`, "g"), "[secret]");

  it("finds every child's token anywhere in a text (X4)", () => {
    const around = fc.string({ unit: fc.constantFrom(" ", '"', ":", "=", "\n", ".", "/", "x", "_") });
    fc.assert(
      fc.property(attempts, fc.uint8Array({ minLength: 32, maxLength: 32 }), around, (attempt, key, text) => {
        const token = createChildCredentials(key).tokenOf(attempt);
        expect(masked(`${text}${token}${text}`)).toBe(`${text}[secret]${text}`);
      }),
    );
  });

  it("finds every caller's token, as it is made (X4)", async () => {
    using folder = scratch();
    const opened = administerTokens(folder.dir);
    if (opened.kind === "refused") expect.unreachable(opened.message);
    for (let made = 0; made < 5; made++) {
      const added = await opened.tokens.add(`name-${made}`, ["read"]);
      if (added.kind === "refused") expect.unreachable(added.message);
      expect(masked(`Authorization: Bearer ${added.token}, x`)).toBe("Authorization: Bearer [secret], x");
    }
  });

  it("finds a token of which the end was cut off, as long as the rest could be guessed (X4)", () => {
    const child = credentials.tokenOf(ATTEMPT);
    const caller = `dmcp_${randomBytes(32).toString("base64url")}`;
    for (let cut = 1; cut <= 23; cut++) {
      expect(masked(`${child.slice(0, -cut)} ${caller.slice(0, -cut)}`)).toBe("[secret] [secret]");
    }
  });

  it("leaves ids and plain words alone", () => {
    const text = `${ATTEMPT} dct_${ATTEMPT} dmcp_token dct_ dmcp_`;
    expect(masked(text)).toBe(text);
  });
});
