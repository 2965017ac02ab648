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
};

export type ResolvedWorkspace =
  | { readonly kind: "resolved"; readonly path: string }
  | {
      readonly kind: "refused";
      readonly code: "workspace_not_allowed" | "workspace_failed";
      readonly reason: WorkspaceReason;
    };

export type WorkspaceReason = "outside_roots" | "missing" | "not_a_directory" | "choose_one" | "no_root";
