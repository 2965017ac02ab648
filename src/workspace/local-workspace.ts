/**
 * Directories on this machine: real paths below the operator's roots.
 *
 * Invariant: what is handed out is a real path below a root as it is now; a link that leads outside is outside.
 * Absent on purpose: worktrees. Children work in the directory itself.
 */

import { realpath, stat } from "node:fs/promises";
import { isAbsolute, join } from "node:path";

import { isAtOrBelow } from "../core/workspace-claim.ts";
import type { Clock } from "../ports/clock.ts";
import type { ResolvedWorkspace, Workspace, WorkspaceReason } from "../ports/workspace.ts";
import { createGitChanges } from "./git-changes.ts";

export type LocalWorkspaceOptions = {
  /** Absolute paths; each is resolved anew per request, so that a root may be a link or appear later. */
  readonly roots: readonly string[];
  /** Callers' paths that mean another path here (containers). The first match counts. */
  readonly map: readonly { readonly from: string; readonly to: string }[];
  readonly clock: Clock;
  /** Where `git` is looked for, as in `PATH`; without it, in the usual folders. */
  readonly searchPath?: string | undefined;
};

export function createLocalWorkspace({ roots, map, clock, searchPath }: LocalWorkspaceOptions): Workspace {
  return {
    roots,
    ...createGitChanges({ roots, clock, searchPath: searchPath ?? null }),
    async resolve(wanted) {
      const path = wanted === null ? onlyRoot(roots) : mapped(wanted, map);
      if (typeof path !== "string") return path;
      const asked = isAbsolute(path) ? path : join(roots[0] ?? "/", path);
      // Together, and each path once: most calls name the only root.
      const [real, realRoots] = await Promise.all([
        realDirectory(asked),
        realPaths(roots.filter((root) => root !== asked)),
      ]);
      if (typeof real !== "string") return real;
      const inside = roots.includes(asked) || realRoots.some((root) => isAtOrBelow(real, root));
      return inside ? { kind: "resolved", path: real } : refused("workspace_not_allowed", "outside_roots");
    },
  };
}

function onlyRoot(roots: readonly string[]): string | ResolvedWorkspace {
  const [root, ...more] = roots;
  if (root === undefined) return refused("workspace_not_allowed", "no_root");
  return more.length === 0 ? root : refused("workspace_not_allowed", "choose_one");
}

function mapped(path: string, map: LocalWorkspaceOptions["map"]): string {
  const rule = map.find(({ from }) => isAtOrBelow(path, from));
  return rule === undefined ? path : rule.to + path.slice(rule.from.length);
}

/** Of those that exist. */
async function realPaths(paths: readonly string[]): Promise<readonly string[]> {
  const found = await Promise.all(paths.map((path) => realpath(path).catch(() => null)));
  return found.filter((path) => path !== null);
}

async function realDirectory(path: string): Promise<string | ResolvedWorkspace> {
  try {
    const [real, found] = await Promise.all([realpath(path), stat(path)]);
    return found.isDirectory() ? real : refused("workspace_failed", "not_a_directory");
  } catch {
    return refused("workspace_failed", "missing");
  }
}

function refused(code: "workspace_not_allowed" | "workspace_failed", reason: WorkspaceReason): ResolvedWorkspace {
  return { kind: "refused", code, reason };
}
