/**
 * Files of the repository that are made from code, and how each is made.
 *
 * Invariant: `make` depends on the sources alone (no time, no environment), so that two runs give the same bytes.
 */

export type GeneratedFile = {
  /** Path from the top of the repository. */
  readonly path: string;
  /** The whole text of the file, with its last line end. */
  readonly make: () => string | Promise<string>;
};

export const GENERATED: readonly GeneratedFile[] = [];
