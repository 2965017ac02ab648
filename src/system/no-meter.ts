/** A meter that measures nothing, for tests and tools. */

import type { Meter } from "../ports/meter.ts";

const nothing = (): void => undefined;

export const noMeter: Meter = {
  queueWaited: nothing,
  sliceEnded: nothing,
  replayed: nothing,
  conflicted: nothing,
  joined: nothing,
  refused: nothing,
  accepted: nothing,
  settled: nothing,
  healed: nothing,
  recovered: nothing,
  survivorsFound: nothing,
  stoodStill: nothing,
  asked: nothing,
  storeTook: nothing,
  notified: nothing,
};
