/**
 * Time as the daemon may use it. Wall time orders and is stored; monotonic time measures. A gap between them is machine
 * sleep (contract §13).
 */

export type Clock = {
  /** Milliseconds since the Unix epoch. */
  wallMs(): number;
  /** Milliseconds of running time since an arbitrary start; stands still while the machine sleeps. */
  monotonicMs(): number;
  /** Calls `fire` once after `delayMs` of running time unless cancelled. Never keeps the process alive by itself. */
  after(delayMs: number, fire: () => void): Timer;
};

/** Disposing cancels the timer; disposing twice is harmless. */
export type Timer = Disposable;
