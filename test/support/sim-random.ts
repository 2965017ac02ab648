/**
 * Chance out of one number: every draw of a simulated world comes from its seed.
 *
 * Invariant: the same seed and the same draws give the same values, on every machine.
 * Invariant: a fork draws from its own stream, so that one actor's draws never shift another's.
 */

import type { IdSource } from "../../src/ports/id-source.ts";

export type Random = {
  /** In [0, 1). */
  fraction(): number;
  /** A whole number from `min` to `max`, both included. */
  int(min: number, max: number): number;
  chance(probability: number): boolean;
  pick<T>(items: readonly T[]): T;
  /** Picks by weight; weights of 0 are never picked, at least one must be above. */
  weighted<T>(rows: readonly (readonly [weight: number, item: T])[]): T;
  /** A stream of its own, named so that it does not depend on how much was drawn here before. */
  fork(label: string): Random;
};

export function createRandom(seed: number | string): Random {
  const name = String(seed);
  let state = hashOf(name);

  function fraction(): number {
    // Mulberry32: 32 bits of state, enough for a world and quick.
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 0x1_0000_0000;
  }

  const random: Random = {
    fraction,
    int: (min, max) => min + Math.floor(fraction() * (max - min + 1)),
    chance: (probability) => fraction() < probability,
    pick(items) {
      const item = items[Math.floor(fraction() * items.length)];
      if (item === undefined) throw new Error("nothing to pick from");
      return item;
    },
    weighted(rows) {
      const total = rows.reduce((sum, [weight]) => sum + weight, 0);
      let left = fraction() * total;
      for (const [weight, item] of rows) {
        left -= weight;
        if (weight > 0 && left < 0) return item;
      }
      const last = rows.findLast(([weight]) => weight > 0);
      if (last === undefined) throw new Error("nothing to pick from");
      return last[1];
    },
    fork: (label) => createRandom(`${name}/${label}`),
  };
  return random;
}

const CROCKFORD = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";
const BASE_36 = "0123456789abcdefghijklmnopqrstuvwxyz";

/** Ids in the order in which they are asked for, also where the wall clock is set back. */
export function createSimIds(random: Random, wallMs: () => number): IdSource {
  let lastMs = 0;
  return {
    ulid() {
      lastMs = Math.max(wallMs(), lastMs + 1);
      let time = "";
      for (let rest = lastMs; time.length < 10; rest = Math.floor(rest / 32)) time = CROCKFORD.charAt(rest % 32) + time;
      return time + lettersOf(CROCKFORD, 16);
    },
    nonce: (length) => lettersOf(BASE_36, length),
  };

  function lettersOf(alphabet: string, length: number): string {
    return Array.from({ length }, () => alphabet.charAt(random.int(0, alphabet.length - 1))).join("");
  }
}

/** FNV-1a, then mixed so that neighbouring seeds do not begin alike. */
function hashOf(text: string): number {
  let hash = 0x811c9dc5;
  for (let index = 0; index < text.length; index += 1) {
    hash = Math.imul(hash ^ text.charCodeAt(index), 0x01000193) >>> 0;
  }
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b) >>> 0;
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35) >>> 0;
  return (hash ^ (hash >>> 16)) >>> 0;
}
