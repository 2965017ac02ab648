/** What is masked, in which forms, at what cost, and what is left as it is. */

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import fc from "fast-check";
import { afterAll, describe, expect, it } from "vitest";
import { CHILD_TOKEN_PATTERN, CHILD_TOKEN_SHAPE, createChildCredentials } from "../../src/config/child-credentials.ts";
import { administerTokens, CALLER_TOKEN_PATTERN, CALLER_TOKEN_SHAPE } from "../../src/config/tokens.ts";
import { attemptIdOf, taskIdFrom } from "../../src/core/ids.ts";
import { base64Shape, createSecrets, MASK } from "../../src/telemetry/secrets.ts";

const SECRET = 'Zoë/"7+&= (kühl\\k~*';

/** As the daemon has them. */
const SHAPES = [CALLER_TOKEN_PATTERN, CHILD_TOKEN_PATTERN, ...[CALLER_TOKEN_SHAPE, CHILD_TOKEN_SHAPE].map(base64Shape)];

/** How programs write a value down, made here without a look at the code under test. */
const FORMS: Readonly<Record<string, (secret: string) => string>> = {
  "as it is": (secret) => secret,
  JSON: (secret) => JSON.stringify(secret),
  "JSON in JSON": (secret) => JSON.stringify(JSON.stringify({ key: secret })),
  "JSON with escaped slashes": (secret) => JSON.stringify(secret).replaceAll("/", "\\/"),
  "JSON in ASCII": (secret) =>
    JSON.stringify(secret).replace(/[^ -~]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`),
  "JSON in ASCII with capitals": (secret) =>
    JSON.stringify(secret).replace(/[^ -~]/g, (unit) => {
      return `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0").toUpperCase()}`;
    }),
  "JSON safe for HTML": (secret) =>
    JSON.stringify(secret).replace(/[<>&]/g, (unit) => `\\u00${unit.charCodeAt(0).toString(16)}`),
  "URL component": (secret) => encodeURIComponent(secret),
  "URL component in small letters": (secret) =>
    encodeURIComponent(secret).replace(/%../g, (digits) => digits.toLowerCase()),
  "URL component by the strict rule": (secret) =>
    encodeURIComponent(secret).replace(/[!'()*]/g, (sign) => `%${sign.charCodeAt(0).toString(16).toUpperCase()}`),
  "form field": (secret) => new URLSearchParams({ key: secret }).toString(),
  URL: (secret) => encodeURI(`http://127.0.0.1/${secret}`),
};

describe("a known secret", () => {
  it.each(Object.keys(FORMS))("is masked when written as %s, and what stands around it stays (X2, X4)", (name) => {
    const secrets = createSecrets(SHAPES);
    secrets.add(SECRET);
    const written = FORMS[name]?.(SECRET) ?? "";
    const masked = secrets.mask(`before ${written} after ${written}`);
    expect(masked).toMatch(/^before .* after /);
    expect(masked.split(MASK)).toHaveLength(3);
    expect(masked).not.toMatch(/Zo|kühl|k%C3|hl\\+k/);
  });

  it.each([0, 1, 2, 3, 4])("is masked in base64 behind %i other bytes (X2)", (before) => {
    const secret = "~~>?»ÿ~~>?»ÿ";
    const secrets = createSecrets(SHAPES);
    secrets.add(secret);
    expect(Buffer.from(secret).toString("base64")).toMatch(/[+/]/);
    for (const encoding of ["base64", "base64url"] as const) {
      const written = Buffer.from(`${"u".repeat(before)}${secret}:tail`).toString(encoding);
      const masked = secrets.mask(written);
      expect(masked).toContain(MASK);
      const left = masked.split(MASK).join("").replaceAll("=", "");
      // What is around it, and at each end a character that it shares with the secret.
      expect(left.length).toBeLessThanOrEqual(Math.ceil(((before + 5) * 8) / 6) + 2);
    }
  });

  it("survives in no form, whatever it is and wherever it stands (X2, X4)", () => {
    const secret = fc
      .string({ unit: "grapheme", minLength: 6, maxLength: 60 })
      .filter((text) => text.trim().length >= 6 && !MASK.includes(text.trim()));
    const noise = fc.string({ unit: "grapheme", maxLength: 30 });
    const form = fc.constantFrom(...Object.values(FORMS));
    fc.assert(
      fc.property(fc.array(secret, { minLength: 1, maxLength: 5 }), fc.array(fc.tuple(noise, form)), (all, places) => {
        const secrets = createSecrets(SHAPES);
        for (const one of all) secrets.add(one);
        const pieces = places.flatMap(([text, write], at) => [text, write(all[at % all.length] ?? "")]);
        const masked = secrets.mask(pieces.join(""));
        for (const one of all)
          for (const write of Object.values(FORMS)) expect(masked).not.toContain(write(one.trim()));
        for (const one of all) expect(masked).not.toContain(one.trim());
      }),
      { numRuns: 500 },
    );
  });

  it("is masked whole where it overlaps another one or contains it (X4)", () => {
    const secrets = createSecrets(SHAPES);
    for (const secret of ["abcdefgh", "efghijkl", "abcdefghijklmnop", "mnopqr"]) secrets.add(secret);
    expect(secrets.mask("<abcdefghijkl>")).toBe(`<${MASK}>`);
    expect(secrets.mask("<abcdefghijklmnopqr>")).toBe(`<${MASK}>`);
    expect(secrets.mask("<abcdefgh-abcdefgh>")).toBe(`<${MASK}-${MASK}>`);
    expect(secrets.mask("<abcdefghabcdefgh>")).toBe(`<${MASK}${MASK}>`);
    expect(secrets.mask("<abcdefg>")).toBe("<abcdefg>");
    expect(secrets.mask("mnopqr mnopqr")).toBe(`${MASK} ${MASK}`);
  });

  it("is masked without the line end that its file had, and is not masked at all under six characters", () => {
    const secrets = createSecrets(SHAPES);
    secrets.add("from-a-file\n");
    secrets.add("short");
    secrets.add("      ");
    expect(secrets.mask("from-a-file, short,        ")).toBe(`${MASK}, short,        `);
  });
});

describe("a token of our own shape", () => {
  const dataDir = mkdtempSync(path.join(tmpdir(), "secrets-"));
  afterAll(() => rmSync(dataDir, { recursive: true }));

  it("is masked though nobody named it: callers' as they are made, and children's (X2, X4)", async () => {
    const opened = administerTokens(dataDir);
    if (opened.kind === "refused") throw new Error(opened.message);
    const added = await opened.tokens.add("somebody", ["read"]);
    if (added.kind === "refused") throw new Error(added.message);
    const attempt = attemptIdOf(taskIdFrom("01ARZ3NDEKTSV4RRFFQ69G5FAV"), 12);
    const child = createChildCredentials(Buffer.alloc(32, 7)).tokenOf(attempt);
    const secrets = createSecrets(SHAPES);
    for (const token of [added.token, child]) {
      for (const encoding of ["base64", "base64url"] as const) {
        for (const before of [0, 1, 2, 3, 4]) {
          const written = Buffer.from(`${"u".repeat(before)}${token}`).toString(encoding);
          const left = secrets.mask(written).split(MASK);
          expect(left).toHaveLength(2);
          expect(left.join("").replaceAll("=", "").length).toBeLessThanOrEqual(Math.ceil((before * 8) / 6) + 1);
        }
      }
      expect(secrets.mask(`TOKEN=${token}\nHOME=/`)).toBe(`TOKEN=${MASK}\nHOME=/`);
      expect(secrets.mask(JSON.stringify({ out: `\n${token}.` }))).toBe(JSON.stringify({ out: `\n${MASK}.` }));
    }
  });

  it("is left to be read where no shapes were given", () => {
    const text = `dmcp_${"a".repeat(43)}`;
    expect(createSecrets([]).mask(text)).toBe(text);
  });

  it("is not confused with what only looks alike", () => {
    const secrets = createSecrets(SHAPES);
    const text =
      "dmcp_ dmcp_short dct_dt_01ARZ3NDEKTSV4RRFFQ69G5FAV.a1 dt_01ARZ3NDEKTSV4RRFFQ69G5FAV.a1.zzzzzzzzzzzzzzzzzz";
    expect(secrets.mask(text)).toBe(text);
  });
});

describe("masking", () => {
  const known = Array.from({ length: 50 }, (_, at) => `key-${at}-${"q1W2e3R4t5Z6".repeat(4)}"é`);

  it("takes under 100 ms for a megabyte and 50 secrets, with hits and without (P15)", () => {
    const secrets = createSecrets(SHAPES);
    for (const secret of known) secrets.add(secret);
    const clean = "All went well. dmcp_ or dct_dt_ alone is nothing; key-1 neither. ".repeat(16_000);
    const dirty = known.map((secret) => `${"lorem ipsum ".repeat(1_600)} ${secret}`).join("\n");
    for (const text of [clean, dirty]) {
      expect(text.length).toBeGreaterThan(950_000);
      const times = [1, 2, 3].map(() => {
        const startedMs = performance.now();
        expect(secrets.mask(text) === text).toBe(text === clean);
        return performance.now() - startedMs;
      });
      expect(Math.min(...times)).toBeLessThan(100);
    }
    expect(secrets.mask(dirty).split(MASK)).toHaveLength(known.length + 1);
  });

  it("takes a time that grows with the text and no faster, also for one made to mislead it (P15)", () => {
    const secrets = createSecrets(SHAPES);
    for (const secret of known) secrets.add(secret);
    for (const bait of [
      "dct_",
      "dmcp_",
      "ZG1jcF8",
      "ZGN0X2R0X",
      `dct_dt_${"0".repeat(26)}.a1.`,
      "key-1-q1W2e3",
      "key-",
    ]) {
      const text = bait.repeat(1_000_000 / bait.length);
      const startedMs = performance.now();
      secrets.mask(text);
      expect(performance.now() - startedMs).toBeLessThan(2_000);
    }
  });
});
