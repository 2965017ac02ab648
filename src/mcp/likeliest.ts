/**
 * Which known name was probably meant by an unknown one: other capitals or separators, the plural, a slip of the finger.
 */

/** Null if none is near. */
export function likeliest(name: string, known: readonly string[]): string | null {
  const plain = plainOf(name);
  if (plain.length > NAME_CHARACTERS_MAX) return null;
  let nearest: string | null = null;
  let least = Math.min(SLIPS_MAX, Math.floor(plain.length / 3)) + 1;
  for (const candidate of known) {
    const distance = distanceOf(plain, plainOf(candidate));
    if (distance >= least) continue;
    nearest = candidate;
    least = distance;
  }
  return nearest;
}

const NAME_CHARACTERS_MAX = 40;
const SLIPS_MAX = 2;

function plainOf(name: string): string {
  return name.toLowerCase().replaceAll(/[^a-z0-9]/g, "");
}

/** Insertions, deletions and replacements that lead from one to the other. */
function distanceOf(one: string, other: string): number {
  let row = Array.from({ length: other.length + 1 }, (_, index) => index);
  for (let at = 0; at < one.length; at += 1) {
    const next = [at + 1];
    for (let index = 0; index < other.length; index += 1) {
      const replaced = (row[index] ?? 0) + (one[at] === other[index] ? 0 : 1);
      next.push(Math.min(replaced, (row[index + 1] ?? 0) + 1, (next[index] ?? 0) + 1));
    }
    row = next;
  }
  return row[other.length] ?? 0;
}
