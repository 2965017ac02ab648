/**
 * One finding of `doctor`.
 */

export type Check = {
  readonly name: string;
  readonly state: "ok" | "warn" | "fail";
  /** What is so. */
  readonly found: string;
  readonly details?: readonly string[];
  /** What to do; null where nothing is to be done. */
  readonly fix: string | null;
  /** Exit code of the command, if this is the first check that fails. */
  readonly exitCode: number;
};

export function ok(name: string, found: string): Check {
  return { name, state: "ok", found, fix: null, exitCode: 0 };
}

export function warn(name: string, found: string, fix: string | null): Check {
  return { name, state: "warn", found, fix, exitCode: 0 };
}

export function failed(name: string, found: string, fix: string | null, exitCode: number): Check {
  return { name, state: "fail", found, fix, exitCode };
}
