/**
 * Which function of the product is wrong at the moment. `mutants.test.ts` puts wrong twins of these functions in the place of
 * the right ones; a twin acts wrongly only while its switch is on.
 */

export const SWITCHES = [
  "keyPerConversation",
  "lostWakes",
  "neverHangsUp",
  "noEpochFence",
  "settlementReused",
  "sleepForgotten",
] as const;
export type Switch = (typeof SWITCHES)[number];

export const switches: Record<Switch, boolean> = {
  keyPerConversation: false,
  lostWakes: false,
  neverHangsUp: false,
  noEpochFence: false,
  settlementReused: false,
  sleepForgotten: false,
};
