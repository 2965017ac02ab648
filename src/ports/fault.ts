/**
 * Named places in the code where a test can stop time, fail or kill. In production nothing is ever armed.
 */

export type FaultPoint =
  | "before_commit"
  | "after_commit"
  | "before_spawn"
  | "before_bind"
  | "before_finish"
  | "before_settle"
  | "before_answer";

export type Faults = {
  /** Passes through a point; resolves at once unless a test has armed it. */
  at(point: FaultPoint): Promise<void>;
};
