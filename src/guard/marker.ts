/**
 * The two environment variables by which processes are recognised after everything else about them is forgotten.
 *
 * Invariant: every descendant of a child inherits `DELEGATE_CHILD_MARK` unless it clears its environment on purpose.
 * Invariant: a guard is orphaned exactly when its parent is not the daemon that its own variable names.
 */

import type { Mark } from "../core/ids.ts";

/** `<daemonId>.<attemptId>`, in the environment of a child and of all its descendants. */
export const MARK_VARIABLE = "DELEGATE_CHILD_MARK";
/** `<daemonId>:<pid of the daemon>`, in the environment of a guard. */
export const GUARD_VARIABLE = "DELEGATE_GUARD_OF";

export type GuardOwner = { readonly daemonId: string; readonly daemonPid: number };

/** The daemon that gave out a mark. */
export function daemonIdOf(mark: Mark): string {
  const attempt = mark.lastIndexOf(".dt_");
  return mark.slice(0, attempt >= 0 ? attempt : Math.max(0, mark.indexOf(".")));
}

/** The environment of a child: exactly `env`, and the mark, which nothing in `env` can replace. */
export function markedEnvironment(env: Readonly<Record<string, string>>, mark: Mark): Record<string, string> {
  const rest = Object.fromEntries(Object.entries(env).filter(([name]) => name !== MARK_VARIABLE));
  return { [MARK_VARIABLE]: mark, ...rest };
}

export function guardOwnerText(owner: GuardOwner): string {
  return `${owner.daemonId}:${owner.daemonPid}`;
}

export function parseGuardOwner(text: string | null): GuardOwner | null {
  const parts = text === null ? null : /^(.*):(\d+)$/.exec(text);
  const [, daemonId, daemonPid] = parts ?? [];
  return daemonId === undefined || daemonPid === undefined ? null : { daemonId, daemonPid: Number(daemonPid) };
}

/** Value of a variable in an environment block (entries that end in NUL), or null. The first entry counts, as for libc. */
export function variableIn(block: Buffer, name: string): string | null {
  const key = `${name}=`;
  for (let at = block.indexOf(key); at >= 0; at = block.indexOf(key, at + 1)) {
    if (at > 0 && block[at - 1] !== 0) continue;
    const end = block.indexOf(0, at);
    return block.toString("utf8", at + key.length, end < 0 ? block.length : end);
  }
  return null;
}
