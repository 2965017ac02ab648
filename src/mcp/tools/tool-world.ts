/** What every tool needs. */

import type { Engine } from "../../ports/engine.ts";

export type ToolWorld = {
  readonly engine: Engine;
  /** `length` random lower-case characters, for `after` and fence marks. */
  readonly nonce: (length: number) => string;
};
