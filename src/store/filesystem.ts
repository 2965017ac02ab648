/**
 * What the store looks up about the directory that it lies in: this system's mounts, and real paths. Which mounts are
 * refused is said in `core/mount`.
 */

import { readFileSync, realpathSync } from "node:fs";
import { dirname } from "node:path";

/** This system's mount table, or "" where there is none. */
export function readMountTable(): string {
  try {
    return readFileSync("/proc/self/mountinfo", "utf8");
  } catch {
    return "";
  }
}

/** The real path of the nearest directory that exists at or above `path`. */
export function nearestExisting(path: string): string {
  for (let candidate = path; ; candidate = dirname(candidate)) {
    try {
      return realpathSync(candidate);
    } catch {
      if (dirname(candidate) === candidate) return candidate;
    }
  }
}
