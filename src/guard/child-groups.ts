/**
 * Control groups (cgroup v2): one for each child where the system lets us make them, which no session, double fork or
 * cleared environment leaves. The strongest evidence of a stop, used only after it was tried.
 *
 * Invariant: nothing here is ever required; each failure means "no group" and the other evidence decides.
 * Invariant: a group is killed only while the guard is known to be outside it.
 * Absent on purpose: controllers and limits; a group here only holds processes together. Also pid namespaces: they need
 * either privileges or user namespaces, and change what the child sees.
 */

import { existsSync, mkdirSync, readdirSync, readFileSync, rmdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";

export type ChildGroups = {
  /** Runs `start` while this process is inside the group of that name (a mark), so that what it starts is born there. */
  within<Result>(name: string, start: () => Result): Result;
  /** The group of that name, if there is one. */
  of(name: string): ChildGroup | null;
  /** Every process that is directly in one of the groups, with the group's name. */
  members(): readonly { readonly name: string; readonly pid: number }[];
  /** False once this process could not leave a group; nothing is made or found then. */
  usable(): boolean;
};

export type ChildGroup = {
  /** True while any process of the group, or of a group below it, lives; true also if that cannot be read. */
  populated(): boolean;
  /** Processes directly in the group. */
  pids(): readonly number[];
  kill(): void;
  /** Removes the empty group. */
  remove(): void;
};

/** Tries the whole thing once with this process; null if any step fails. */
export function probeChildGroups(): ChildGroups | null {
  const groups = findChildGroups();
  if (groups === null) return null;
  const name = `probe-${process.pid}`;
  try {
    groups.within(name, () => undefined);
    const group = groups.of(name);
    if (group === null || group.populated()) return null;
    group.remove();
    return groups.usable() ? groups : null;
  } catch {
    return null;
  }
}

/** The groups below this process's own group, without a trial: enough to find what another guard made. */
export function findChildGroups(): ChildGroups | null {
  const base = ownGroup();
  if (base === null) return null;
  const pathOf = (name: string): string => join(base, `${PREFIX}${name.replaceAll(/[^\w.-]/g, "_")}`);
  let stuck = false;
  const move = (group: string): void => writeFileSync(join(group, "cgroup.procs"), String(process.pid));
  return {
    usable: () => !stuck,
    within(name, start) {
      if (stuck || !enter(pathOf(name), move)) return start();
      try {
        return start();
      } finally {
        stuck = !succeeds(() => move(base));
      }
    },
    members() {
      const names = foldersIn(base).flatMap((folder) =>
        folder.startsWith(PREFIX) ? [folder.slice(PREFIX.length)] : [],
      );
      return names.flatMap((name) =>
        groupAt(pathOf(name))
          .pids()
          .map((pid) => ({ name, pid })),
      );
    },
    of: (name) => (stuck || !existsSync(join(pathOf(name), "cgroup.kill")) ? null : groupAt(pathOf(name))),
  };
}

/** What the folder of a child's group begins with; the rest is its mark. */
const PREFIX = "delegate-mcp.";

function foldersIn(path: string): readonly string[] {
  try {
    return readdirSync(path);
  } catch {
    return [];
  }
}

/** Leaves no empty group behind that a later look could take for evidence. */
function enter(path: string, move: (group: string) => void): boolean {
  succeeds(() => mkdirSync(path));
  if (succeeds(() => move(path))) return true;
  succeeds(() => rmdirSync(path));
  return false;
}

function groupAt(path: string): ChildGroup {
  return {
    populated() {
      try {
        return !readFileSync(join(path, "cgroup.events"), "utf8").includes("populated 0");
      } catch {
        return existsSync(path);
      }
    },
    pids() {
      try {
        return readFileSync(join(path, "cgroup.procs"), "utf8").split("\n").filter(Boolean).map(Number);
      } catch {
        return [];
      }
    },
    kill: () => void succeeds(() => writeFileSync(join(path, "cgroup.kill"), "1")),
    remove: () => void succeeds(() => rmdirSync(path)),
  };
}

/** The folder of this process's own group in the unified hierarchy. */
function ownGroup(): string | null {
  try {
    const path = /^0::(.*)$/m.exec(readFileSync("/proc/self/cgroup", "utf8"))?.[1];
    const mount = readFileSync("/proc/self/mountinfo", "utf8")
      .split("\n")
      .find((line) => line.includes(" - cgroup2 "));
    const [, , , root, point] = mount?.split(" ") ?? [];
    if (path === undefined || root === undefined || point === undefined) return null;
    return join(point, root === "/" ? path : path.slice(root.length));
  } catch {
    return null;
  }
}

function succeeds(work: () => unknown): boolean {
  try {
    work();
    return true;
  } catch {
    return false;
  }
}
