/**
 * Where a child may work.
 */

export type Workspace = {
  /**
   * The real path for a wanted directory (null: the only root), after the operator's path map. A path outside every root,
   * also by a link, is refused; so is a missing one or a file.
   */
  resolve(wanted: string | null): Promise<ResolvedWorkspace>;
  readonly roots: readonly string[];
  /** The commit that a directory stands at; null outside of git, without a commit, or without git. Within 5 s, never rejects. */
  head(cwd: string): Promise<string | null>;
  /** What has changed below `cwd` since commit `since`, committed or not, new files included. Changes nothing, runs no hooks. */
  changes(cwd: string, since: string): Promise<Changes>;
};

export type Changes =
  /** `patch`: a unified diff, bounded; `truncated` where it was longer. `files`: every changed path below `cwd`. */
  | { readonly kind: "changes"; readonly patch: string; readonly truncated: boolean; readonly files: readonly string[] }
  | { readonly kind: "none"; readonly reason: "not_a_repository" | "missing" | "unknown_commit" | "git_failed" };

export type ResolvedWorkspace =
  | { readonly kind: "resolved"; readonly path: string }
  | {
      readonly kind: "refused";
      readonly code: "workspace_not_allowed" | "workspace_failed";
      readonly reason: WorkspaceReason;
    };

export type WorkspaceReason = "outside_roots" | "missing" | "not_a_directory" | "choose_one" | "no_root";
