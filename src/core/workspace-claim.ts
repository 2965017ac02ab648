/**
 * One writer per checkout (P10): which claims collide.
 *
 * Absent on purpose: resolving links. Paths come in as real paths.
 */

/** True if writing under one path may write under the other: equal, above or below. */
export function overlaps(onePath: string, otherPath: string): boolean {
  return isAtOrBelow(onePath, otherPath) || isAtOrBelow(otherPath, onePath);
}

export function isAtOrBelow(path: string, ancestor: string): boolean {
  const root = ancestor.endsWith("/") ? ancestor : `${ancestor}/`;
  return path === ancestor || path.startsWith(root);
}
