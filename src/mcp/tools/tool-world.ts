/** What every tool needs. */

import type { Engine } from "../../ports/engine.ts";
import type { Meter } from "../../ports/meter.ts";

export type ToolWorld = {
  readonly engine: Engine;
  readonly meter: Meter;
  readonly contractVersion: number;
  /** `length` random lower-case characters, for `after` and fence marks. */
  readonly nonce: (length: number) => string;
};
