/**
 * Feeding parsers with what nobody would send on purpose: a fixed corpus in every check, and on demand
 * (`FUZZ_RUNS=100000 npx vitest run test/fuzz`) that many inputs for each parser, made from the corpus and from nothing.
 *
 * Invariant: no input may take longer than `INPUT_MS`, whatever else the machine does: far more than any needs, far less than
 * anything that grows faster than its input.
 */

import fc from "fast-check";
import { expect, it } from "vitest";

/** Inputs of each parser. */
const FUZZ_RUNS = Number(process.env["FUZZ_RUNS"] ?? 150);
const ON_DEMAND = process.env["FUZZ_RUNS"] !== undefined;
const INPUT_MS = 1_000;
const TURNS = 3;
/** An input that is never answered is a find too. */
const ANSWER_MS = 10_000;
const WITHIN_MS = 20_000 + FUZZ_RUNS * 40;
const LONG_CHARACTERS = ON_DEMAND ? 400_000 : 40_000;
const BEGINNINGS = ON_DEMAND ? 100 : 3;

const unit = fc.oneof(
  fc.string({ unit: "binary", maxLength: 8 }),
  fc.constantFrom(
    "\u0000",
    "\n",
    "\r",
    " ",
    ".",
    ":",
    "/",
    "-",
    "_",
    "=",
    '"',
    "\\",
    "{",
    "}",
    "[",
    "]",
    "%",
    "\ud800",
    "é",
  ),
  fc.string({ unit: fc.constantFrom(...Array.from("0123456789ABCDEFGHJKMNPQRSTVWXYZabcdefghij._-:")), maxLength: 12 }),
);

/** Texts of the corpus, such texts with a few slips, halves of two of them, and texts made from nothing. */
export function nearby(corpus: readonly string[]): fc.Arbitrary<string> {
  const known = fc.constantFrom(...corpus);
  const slip = fc.record({ at: fc.nat(), drop: fc.nat(6), put: unit });
  const slipped = fc.tuple(known, fc.array(slip, { minLength: 1, maxLength: 4 })).map(([text, slips]) =>
    slips.reduce((now, { at, drop, put }) => {
      const place = at % (now.length + 1);
      return now.slice(0, place) + put + now.slice(place + drop);
    }, text),
  );
  const spliced = fc
    .tuple(known, known, fc.nat(), fc.nat())
    .map(([one, other, a, b]) => one.slice(0, a % (one.length + 1)) + other.slice(b % (other.length + 1)));
  return fc.oneof(
    { weight: 1, arbitrary: known },
    { weight: 4, arbitrary: slipped },
    { weight: 2, arbitrary: spliced },
    { weight: 2, arbitrary: fc.string({ unit: "binary", maxLength: 60 }) },
  );
}

/**
 * Holds a parser to its promises for each text of the corpus, and for as many others as are asked for. `checkShare`: the share
 * of them that a check can afford.
 */
export function fuzz<Input>(
  title: string,
  inputs: fc.Arbitrary<Input>,
  check: (input: Input) => void | Promise<void>,
  corpus: readonly Input[] = [],
  checkShare = 1,
): void {
  const numRuns = ON_DEMAND ? FUZZ_RUNS : Math.ceil(FUZZ_RUNS * checkShare);
  // oxlint-disable-next-line vitest/expect-expect -- `timed` and whoever calls this assert
  it(
    // oxlint-disable-next-line vitest/valid-title -- a text of whoever calls this
    title,
    async () => {
      const [first] = corpus;
      // What is loaded and compiled at the first call is not the input's to answer for.
      if (first !== undefined) await check(first);
      for (const input of corpus) await timed(input, check);
      const startedMs = performance.now();
      await fc.assert(
        fc.asyncProperty(inputs, (input) => timed(input, check)),
        { numRuns, endOnFailure: ON_DEMAND, plugins: [fc.timeout(ANSWER_MS)] },
      );
      const seconds = ((performance.now() - startedMs) / 1_000).toFixed(1);
      if (ON_DEMAND) process.stdout.write(`fuzz: ${title}: ${FUZZ_RUNS} inputs in ${seconds} s\n`);
    },
    WITHIN_MS,
  );
}

/** The same for texts of great length, each the repetition of a short one, alone and behind a beginning that is right. */
export function fuzzLong(
  title: string,
  baits: readonly string[],
  beginnings: readonly string[],
  check: (text: string) => void,
): void {
  // oxlint-disable-next-line vitest/expect-expect -- `timed` and whoever calls this assert
  it(`${title} (P15)`, async () => {
    for (const beginning of ["", ...beginnings.slice(0, BEGINNINGS)])
      for (const bait of baits) await timed(beginning + bait.repeat(Math.ceil(LONG_CHARACTERS / bait.length)), check);
  });
}

/** Again where it took too long: a busy machine stands still now and then, but not each time at the same input. */
async function timed<Input>(input: Input, check: (input: Input) => void | Promise<void>): Promise<void> {
  let least = Number.POSITIVE_INFINITY;
  for (let turn = 0; turn < TURNS && least >= INPUT_MS; turn += 1) {
    const startedMs = performance.now();
    await check(input);
    least = Math.min(least, performance.now() - startedMs);
  }
  expect(least, "ms for one input").toBeLessThan(INPUT_MS);
}
