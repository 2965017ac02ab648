/**
 * Files of the repository that are made from code, and how each is made.
 *
 * Invariant: `make` depends on the sources alone (no time, no environment), so that two runs give the same bytes.
 */

import { makeConfigurationTable, makeEnvExample } from "../src/config/env-example.ts";
import { makeFailureCatalogue } from "./failure-catalogue.ts";
import { makeObservability } from "./observability.ts";
import { makeToolsPage } from "./tools-page.ts";

export type GeneratedFile = {
  /** Path from the top of the repository. */
  readonly path: string;
  /** The whole text of the file, with its last line end. */
  readonly make: () => string | Promise<string>;
};

export const GENERATED: readonly GeneratedFile[] = [
  { path: ".env.example", make: makeEnvExample },
  { path: "docs/configuration.md", make: makeConfigurationTable },
  { path: "docs/failure-catalogue.md", make: makeFailureCatalogue },
  { path: "docs/observability.md", make: makeObservability },
  { path: "docs/tools.md", make: makeToolsPage },
];
