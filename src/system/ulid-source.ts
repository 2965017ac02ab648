/**
 * New identifiers from the operating system's random source.
 *
 * Invariant: two ulids of one source are strictly ordered, also within a millisecond and when the wall clock is set back.
 * Invariant: each ulid has 80 fresh random bits. The usual way to order ids of one millisecond (count the random part up)
 * would let the holder of one id name its neighbour, which may be another caller's (P16); the time part moves instead.
 */

import { randomInt } from "node:crypto";
import { ulid } from "ulid";
import type { Clock } from "../ports/clock.ts";
import type { IdSource } from "../ports/id-source.ts";

const BASE_36 = "0123456789abcdefghijklmnopqrstuvwxyz";
/** The package asks for a fraction per character and multiplies it by its 32 characters. */
const CROCKFORD_CHARACTERS = 32;

export function createUlidSource(clock: Clock): IdSource {
  let lastMs = 0;
  return {
    ulid() {
      lastMs = Math.max(clock.wallMs(), lastMs + 1);
      return ulid(lastMs, randomFraction);
    },
    nonce: (length) => Array.from({ length }, () => BASE_36.charAt(randomInt(BASE_36.length))).join(""),
  };
}

function randomFraction(): number {
  return randomInt(CROCKFORD_CHARACTERS) / CROCKFORD_CHARACTERS;
}
