/**
 * Broken invariants. An expected failure is a value with `code` and `next`; only a programming error ends up here.
 */

/** Throws when an invariant of ours does not hold; `what` names the invariant. */
export function assert(condition: boolean, what: string): asserts condition {
  if (!condition) throw new Error(`invariant broken: ${what}`);
}

/** Ends a switch over a closed union: a new member makes the compiler point here. */
export function assertNever(value: never): never {
  throw new Error(`invariant broken: unexpected ${JSON.stringify(value)}`);
}
